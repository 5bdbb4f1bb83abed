"""The pipeline on a machine without a GPU: the right result, and the right order, on three kinds of lanes."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from brrr.core.errors import ArgumentError, DeviceMemoryError, UnavailableError
from brrr.running import pipeline as module
from brrr.running.lanes import Lane, ThreadLane
from brrr.running.pipeline import Pipeline, default_chunks
from brrr_course.lessons.exercises.lesson_02b import ISSUE, Trial, best
from brrr_course.lessons.pretend import LANES, Host, Queue
from tests.refusals import refused, values

DEVICES = ("cpu", "cpu-queue")


def squared(chunk: torch.Tensor) -> None:
    """In place, on one thread."""
    array = chunk.numpy()
    np.multiply(array, array, out=array)


def arrays(elements: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(elements), torch.full((elements,), float("nan"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("buffers", [1, 2, 3, 5])
@pytest.mark.parametrize(("elements", "chunks"), [(1, 1), (10, 3), (10, 10), (1000, 7), (10_007, 2), (100_003, 13)])
def test_every_element_passes_once(device: Any, buffers: int, elements: int, chunks: int) -> None:
    pipeline = Pipeline(squared, elements, chunks=chunks, buffers=buffers, device=device)
    x, out = arrays(elements)
    try:
        pipeline(x, out)
        pipeline.synchronize()
        assert torch.equal(out, x * x)
        assert pipeline.chunks <= chunks
    finally:
        pipeline.close()


@pytest.mark.parametrize("device", DEVICES)
def test_calls_may_follow_each_other_without_waiting(device: Any) -> None:
    """Each call has its own arrays; with a chunk more than there are buffers, each call begins at another buffer."""
    pipeline = Pipeline(squared, 40_000, chunks=4, buffers=3, device=device)
    calls = [arrays(40_000) for _ in range(12)]
    for x, out in calls:
        pipeline(x, out)
    pipeline.synchronize()
    pipeline.close()
    assert all(torch.equal(out, x * x) for x, out in calls)


def test_a_call_returns_before_its_work_is_done() -> None:
    gate = threading.Event()
    pipeline = Pipeline(lambda chunk: gate.wait(10), 4, chunks=2, device="cpu-queue")
    x, out = arrays(4)
    pipeline(x, out)
    assert bool(out.isnan().all()), "compute is held, so nothing can have come back"
    gate.set()
    pipeline.synchronize()
    pipeline.close()
    assert torch.equal(out, x)


def test_what_compute_raises_comes_out_of_synchronize() -> None:
    def fails(chunk: torch.Tensor) -> None:
        raise ValueError("no")

    pipeline = Pipeline(fails, 4, chunks=2, device="cpu-queue")
    pipeline(*arrays(4))
    with pytest.raises(ValueError, match="no"):
        pipeline.synchronize()
    pipeline.close()


def test_the_defaults_are_chunks_of_a_good_size() -> None:
    assert default_chunks(1) == 1
    for nbytes in (2**20, 2**22, 2**24 + 4, 10**8, 2**30, 2**34):
        size = nbytes / default_chunks(nbytes)
        assert size <= module.CHUNK_BYTES
        assert default_chunks(nbytes) == 1 or size >= module.SMALLEST_CHUNK_BYTES
    pipeline = Pipeline(squared, 30_000_001, device="cpu")
    assert pipeline.chunk_elements % module.ALIGNED == 0
    assert pipeline.chunk_elements * pipeline.chunks >= 30_000_001
    assert pipeline.device_bytes == pipeline.buffers * pipeline.chunk_elements * 4


# ---- the schedule, on the machine on paper ----


class PaperLane(Lane):
    """A simulated lane as the pipeline wants it; a copy and a call are both one piece of work."""

    def __init__(self, lane: Queue, place: Callable[[Any], tuple[int, int]]) -> None:
        self.lane, self.place = lane, place
        vars(self).update(record=lane.record, wait=lane.wait, synchronize=lane.synchronize)

    def copy(self, target: Any, source: Any) -> None:
        self.lane.submit(*self.place(target if self.lane.name == "upload" else source))

    def run(self, call: Any, *args: Any) -> None:
        self.lane.submit(*self.place(args[0]))


def on_paper(trial: Trial) -> Host:
    """What the course's own pipeline does on the machine on paper; buffers are told apart by their addresses."""
    machine = Host(ISSUE)
    buffers: dict[int, int] = {}

    def place(buffer: torch.Tensor) -> tuple[int, int]:
        number = buffers.setdefault(buffer.data_ptr(), len(buffers))
        return sum(ran.buffer == number for ran in machine.ran) // 3, number

    lanes = map(partial(Queue, machine), LANES, trial.durations)
    up, work, down = (PaperLane(lane, place) for lane in lanes)
    pipeline = Pipeline(
        squared, trial.chunks, chunks=trial.chunks, buffers=trial.buffers, device="cpu", lanes=(up, work, down)
    )
    pipeline(*arrays(trial.chunks))
    pipeline.synchronize()
    return machine


@pytest.mark.parametrize("durations", [(1.0, 1.0, 1.0), (1.0, 1.0, 3.0), (1.0, 3.0, 1.0), (3.0, 1.0, 1.0)])
@pytest.mark.parametrize("buffers", [1, 2, 3, 4])
def test_the_schedule_is_the_best_one_and_no_buffer_is_overwritten(
    buffers: int, durations: tuple[float, float, float]
) -> None:
    trial = Trial(9, buffers, durations)
    machine = on_paper(trial)
    assert machine.end == pytest.approx(trial.run(best).end, rel=0.01)
    by_buffer: dict[int, list[Any]] = {}
    for ran in machine.ran:
        by_buffer.setdefault(ran.buffer, []).append(ran)
    assert len(by_buffer) == buffers
    for rans in by_buffer.values():
        times = [time for ran in rans for time in (ran.start, ran.end)]
        assert times == sorted(times), "in its buffer, one thing follows the other"
    if buffers >= 3 and durations == (1.0, 1.0, 1.0):
        assert machine.end == pytest.approx(trial.chunks + 2, rel=0.05)


# ---- errors ----


WRONG = {"elements": [0, True, 2.5], "chunks": [0, 11], "buffers": [0], "device": ["tpu"], "compute": [3]}


@pytest.mark.parametrize(("argument", "value"), values(WRONG))
def test_what_cannot_be_used_is_refused(argument: str, value: Any) -> None:
    given: dict[str, Any] = {"compute": squared, "elements": 10, "device": "cpu", argument: value}
    with refused(argument, value):
        Pipeline(given.pop("compute"), given.pop("elements"), **given)


@pytest.mark.parametrize(
    "wrong",
    [torch.zeros(9), torch.zeros(10, dtype=torch.float64), torch.zeros(20)[::2], torch.zeros(2, 5), np.zeros(10)],
    ids=["length", "type", "strides", "shape", "numpy"],
)
@pytest.mark.parametrize("name", ["x", "out"])
def test_arrays_that_do_not_fit_are_refused(name: str, wrong: Any) -> None:
    pipeline = Pipeline(squared, 10, device="cpu")
    given = {"x": torch.zeros(10), "out": torch.zeros(10), name: wrong}
    with pytest.raises(ArgumentError, match=f"Pipeline: {name} is .*expected a contiguous tensor of 10 elements"):
        pipeline(given["x"], given["out"])


def test_pageable_memory_is_refused_where_pinned_was_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline(squared, 10, device="cpu")
    pipeline.pinned = True  # as on a GPU
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: False)
    with pytest.raises(ArgumentError, match=r"x is 'pageable memory'.*host_array.*pinned=False"):
        pipeline(*arrays(10))


def test_buffers_that_do_not_fit_are_refused_before_anything_is_allocated() -> None:
    with pytest.raises(DeviceMemoryError, match=r"the buffers need .*B and .* is free on the CPU; use more chunks"):
        Pipeline(squared, 2**45, chunks=1, device="cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so() -> None:
    with pytest.raises(UnavailableError, match=r"device is 'cuda', but .*'cpu-queue'"):
        Pipeline(squared, 10, device="cuda")
    assert Pipeline(squared, 10).device == "cpu"


def test_the_link_of_a_thread_lane_takes_its_time_and_no_work_is_counted_as_waiting() -> None:
    lane, other = ThreadLane(link_bytes_per_s=1e6), ThreadLane()
    x, out = arrays(2500)
    other.wait(None)  # holds nothing
    lane.copy(out, x)
    other.wait(lane.record())
    other.run(lambda: None)
    other.synchronize()
    for each in (lane, other):
        each.close()
    assert torch.equal(out, x)
    assert lane.worked_s[0] >= 0.0099, "10 kB at 1 MB/s"
    assert sum(other.worked_s) < lane.worked_s[0]
