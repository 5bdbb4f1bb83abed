"""Loaders that starve a step, told by their own frames and settings, beside steps that wait for no data."""

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, TensorDataset

from brrr.diagnosis.diagnosing import diagnose
from brrr.diagnosis.evidence import Remedy
from brrr.diagnosis.loading import loading
from brrr.diagnosis.split import Split
from brrr.tracing.events import Event
from brrr.tracing.loaders import loaders_told, settings_in

Step = Callable[[], Any]
LAYER, ROWS = torch.nn.Linear(64, 64), TensorDataset(torch.ones(4096, 64))


@pytest.fixture(autouse=True)
def signals_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.utils.data._utils.signal_handling._set_SIGCHLD_handler", lambda: None)


class Slow(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield torch.from_numpy(read())


def read() -> np.ndarray[Any, Any]:
    time.sleep(0.02)
    return np.ones(64, np.float32)


def fed(batches: Iterator[Any]) -> Step:
    def step() -> torch.Tensor:
        x = next(batches)
        return LAYER(x)

    return step


def plain() -> torch.Tensor:
    numbers = read()
    return LAYER(torch.from_numpy(numbers))


def logged() -> torch.Tensor:
    y = LAYER(torch.ones(64))
    time.sleep(0.02)
    return y


def exported() -> np.ndarray[Any, Any]:
    """Makes an array behind its model: nothing that it waits for."""
    y = LAYER(torch.ones(64)).detach()
    numbers = read()
    return numbers * y.numpy()


def loader(workers: int, **more: Any) -> Iterator[Any]:
    return iter(DataLoader(Slow(), 2, num_workers=workers, **more))


STARVED = {
    "alone": (lambda: fed(loader(0)), ") in place of 0 "),
    "one worker": (lambda: fed(loader(1, persistent_workers=True)), ") in place of 1 "),
    "generator": (lambda: fed(torch.from_numpy(read()) for _ in range(10**6)), "in a Dataset, and DataLoader(..., "),
    "plain": (lambda: plain, "in a Dataset, and DataLoader(..., "),
}
HEALTHY = {"logged": lambda: logged, "exported": lambda: exported}


@pytest.mark.parametrize("name", [*STARVED, *HEALTHY])
@pytest.mark.usefixtures("one_thread")
def test_a_step_that_starves_is_told_what_to_change(name: str) -> None:
    build, how = STARVED.get(name) or (HEALTHY[name], "")
    found = diagnose(build(), device="cpu", budget_s=0.05)
    whys = [each.why for each in found.remedies if each.name == "load in the background"]
    assert [how in each and "num_workers=0" not in each for each in whys] == [True] * (name in STARVED), found.details()
    assert ("waiting for data" in found.shares.overhead_s) == (name in STARVED)


def test_samples_that_lie_in_memory_are_taken_at_once() -> None:
    rows = iter(DataLoader(ROWS, 512, sampler=RandomSampler(ROWS, True, 10**6)))
    found = diagnose(lambda: LAYER(*next(rows)), device="cpu", budget_s=0.02)
    whys = [each.why for each in (*found.remedies, *found.dropped) if each.name == "batch at once"]
    assert ["one by one. DataLoader(dataset, batch_size=None" in each for each in whys] == [True], found.details()


def test_a_loader_tells_what_it_may_hold_ready_and_is_left_as_it_was() -> None:
    was = DataLoader.__iter__
    with loaders_told() as ahead, torch.profiler.profile() as spans:
        assert len([*DataLoader(ROWS, 1024, num_workers=1, prefetch_factor=3)]) == 4
    assert ahead == {0, 3} and DataLoader.__iter__ is was
    assert [settings_in(each.name)["bytes"] for each in spans.events() if "__next__ num" in each.name][:2] == [0, 2**18]


def of_trace(gpu: bool, flags: dict[str, float], *spans: tuple[str, int, int]) -> Remedy:
    """Of a step of 419 ms 334 are waiting. On 2 cores, with 2 workers, such a step took 224 ms, and with one 384."""
    times, lines = {"waiting for data": 0.334}, {"waiting for data": {"a.py:7": 9, "a.py:8": 1}}
    split = Split(0.419, 0.085, 0.0, times, times, lines=lines)
    known = SimpleNamespace(wall_s=0.419, device_s=0.085, host_s=0.334, steps=1, split=split, gpu=gpu, flags=flags)
    known.events = [Event(f"enumerate(DataLoader){name}", "annotation", start, end) for name, start, end in spans]
    found = loading(known)
    assert found is not None and found.why.startswith("First make a.py:7 faster: in 79.7 %")
    return found


@pytest.mark.parametrize(("gpu", "flags", "told", "workers", "step_s"), [
    (False, {}, None, 1, 0.3355), (False, {"cores": 1, "threads": 1}, None, 1, 0.419), (True, {}, None, 1, 0.3355),
    (False, {"cores": 2, "threads": 2}, None, 2, 0.25275), (False, {"cores": 9, "threads": 4}, None, 4, 0.0865),
    (True, {"cores": 2, "threads": 2}, None, 2, 0.16775), (False, {"cores": 2, "computed_s": 0.1}, None, 4, 0.0865),
    (True, {"cores": 9}, "bytes=400000000 num_workers=0", 5, 0.1015),
    (True, {"cores": 9}, "num_workers=1", 5, 0.085), (True, {"cores": 9}, "num_workers=3", 9, 1.257 / 9),
    (True, {"cores": 2, "computed_s": 0.4}, "num_workers=3", 7, 0.2), (True, {}, "", 2, 0.2095),
])  # fmt: skip
def test_workers_share_it(gpu: bool, flags: dict[str, float], told: str | None, workers: int, step_s: float) -> None:
    name = f".__next__ {told}" if told else "#_MultiProcessingDataLoaderIter.__next__"
    found = of_trace(gpu, flags, *[(name, 0, 334)] * (told is not None))
    assert found.gain == pytest.approx(0.419 / step_s)
    how = f"num_workers={workers}) in place of {told[-1]} " if told else f"num_workers={workers}), "
    assert (how if told != "" else "With twice as many workers ") in found.why
    assert ("cores here" in found.why) == (step_s in (0.16775, 0.2, 0.25275, 0.419))


@pytest.mark.parametrize("persistent", [0, 1])
def test_workers_that_begin_anew_in_each_epoch_are_kept(persistent: int) -> None:
    told = f"num_workers=2 persistent_workers={persistent}"
    found = of_trace(True, {"cores": 9}, (f".__iter__ {told}", 0, 200), (f".__next__ {told}", 200, 334))
    assert ("num_workers=2, persistent_workers=True) in place of 2" in found.why) == (not persistent)
    assert persistent or found.gain == pytest.approx(0.419 / 0.219)


class Odd:
    def nbytes(self) -> int:
        raise AssertionError("nobody asks what is no tensor")


@pytest.mark.parametrize("batch", [Odd(), {"x": torch.eye(2).to_sparse()}, [Odd(), torch.ones(2)]])
def test_what_a_loader_gives_may_be_anything(batch: Any) -> None:
    with loaders_told():
        assert len([*DataLoader(range(2), collate_fn=lambda _: batch)]) == 2
