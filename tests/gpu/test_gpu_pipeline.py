"""The pipeline on a GPU: right for odd sizes, with many calls in flight and buffers reused; and it does overlap."""

import time
from collections.abc import Callable

import pytest
import torch

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.running.pipeline import Pipeline, host_array


def arrays(elements: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    x, out = host_array(elements, dtype), host_array(elements, dtype)
    x.copy_(torch.randn(elements))
    out.fill_(float("nan"))
    return x, out


def sines(count: int) -> Callable[[torch.Tensor], None]:
    def compute(chunk: torch.Tensor) -> None:
        for _ in range(count):
            chunk.sin_()

    return compute


def error(x: torch.Tensor, out: torch.Tensor, count: int) -> float:
    true = x.double()
    for _ in range(count):
        true = true.sin()
    return float((out.double() - true).norm() / true.norm())


@pytest.mark.parametrize("buffers", [1, 3])
@pytest.mark.parametrize(
    ("elements", "chunks"), [(1, 1), (7, 7), (1000, 3), (1_000_003, 5), (3_000_017, 17), (4_194_304, None)]
)
def test_every_element_passes_once(elements: int, chunks: int | None, buffers: int) -> None:
    pipeline = Pipeline(sines(3), elements, chunks=chunks, buffers=buffers)
    x, out = arrays(elements)
    pipeline(x, out)
    pipeline.synchronize()
    assert error(x, out, 3) < 1e-5


@pytest.mark.parametrize("buffers", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 60])
def test_many_calls_in_flight_do_not_spoil_each_other(count: int, buffers: int) -> None:
    """Transfers slower than computing, and the other way round: a forgotten event would let a buffer be overwritten."""
    pipeline = Pipeline(sines(count), 1_000_003, chunks=7, buffers=buffers)
    calls = [arrays(1_000_003) for _ in range(10)]
    torch.cuda.synchronize()
    for x, out in calls:
        pipeline(x, out)
    pipeline.synchronize()
    assert max(error(x, out, count) for x, out in calls) < 1e-5


def test_waiting_for_the_current_stream_is_enough() -> None:
    pipeline = Pipeline(sines(200), 4_000_037, chunks=5)
    x, out = arrays(4_000_037)
    pipeline(x, out)
    torch.cuda.current_stream().synchronize()
    assert error(x, out, 200) < 1e-5


def test_the_buffers_are_not_handed_out_while_a_lane_uses_them() -> None:
    """The pipeline is dropped with work in flight; whoever gets its memory next must not disturb it."""
    x, out = arrays(8_000_009)
    pipeline = Pipeline(sines(300), 8_000_009, chunks=4)
    torch.cuda.synchronize()
    pipeline(x, out)
    size, lanes = pipeline.chunk_elements, pipeline.lanes
    del pipeline
    spoilers = [torch.full((size,), 7.0, device="cuda") for _ in range(6)]
    for lane in lanes:
        lane.synchronize()
    assert error(x, out, 300) < 1e-5
    assert all(bool((each == 7.0).all()) for each in spoilers)


def test_a_call_does_not_wait() -> None:
    pipeline = Pipeline(sines(100), 64_000_000, chunks=8)
    x, out = arrays(64_000_000)
    pipeline(x, out)
    pipeline.synchronize()
    start = time.perf_counter()
    pipeline(x, out)
    returned = time.perf_counter() - start
    assert not torch.cuda.current_stream().query()
    pipeline.synchronize()
    print(f"returned after {returned * 1e3:.2f} ms, done after {(time.perf_counter() - start) * 1e3:.2f} ms")


def test_nothing_is_allocated_by_a_call() -> None:
    pipeline = Pipeline(sines(4), 1_000_003, chunks=7)
    x, out = arrays(1_000_003)
    pipeline(x, out)
    pipeline.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(5):
        pipeline(x, out)
    pipeline.synchronize()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def test_copies_and_kernels_overlap() -> None:
    from brrr.tracing.tracer import trace

    elements = 32_000_000
    pipeline = Pipeline(sines(40), elements, chunks=8)
    x, out = arrays(elements)
    there = torch.empty(elements, device="cuda")

    def serial() -> None:
        there.copy_(x, non_blocking=True)
        sines(40)(there)
        out.copy_(there, non_blocking=True)

    in_turn = trace(serial, calls=3).overlap_share
    # A busy host may issue the chunks so late that none meets another; one try in which it does not will do.
    shares = [trace(lambda: pipeline(x, out), calls=3).overlap_share for _ in range(5)]
    print(f"overlap: serial {in_turn:.0%}, pipeline {', '.join(f'{share:.0%}' for share in shares)}")
    assert in_turn < 0.02 < 0.1 < max(shares)


def test_pageable_memory_is_refused_and_works_when_asked_for() -> None:
    x, out = torch.randn(1003), torch.empty(1003)
    with pytest.raises(ArgumentError, match="x is 'pageable memory'"):
        Pipeline(sines(1), 1003, chunks=3)(x, out)
    pipeline = Pipeline(sines(1), 1003, chunks=3, pinned=False)
    pipeline(x, out)
    pipeline.synchronize()
    assert error(x, out, 1) < 1e-5


def test_more_pinned_memory_than_there_is_is_refused() -> None:
    with pytest.raises(UnavailableError, match="pinned memory were refused"):
        host_array(2**46)
