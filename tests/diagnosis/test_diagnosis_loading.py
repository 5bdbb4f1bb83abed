"""Loaders that starve a step, told by their own frames and settings, beside steps that wait for no data."""

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

from brrr.diagnosis.diagnosing import diagnose
from brrr.diagnosis.loading import loading
from brrr.diagnosis.split import Split
from brrr.tracing.events import Event
from brrr.tracing.loaders import loaders_told

Step = Callable[[], Any]
LAYER, ROWS = torch.nn.Linear(64, 64), TensorDataset(torch.ones(4096, 64))
SLEEP_S = 0.02


@pytest.fixture(autouse=True)
def signals_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.utils.data._utils.signal_handling._set_SIGCHLD_handler", lambda: None)


class Slow(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, at: int) -> torch.Tensor:
        return torch.from_numpy(read())


def read() -> np.ndarray[Any, Any]:
    time.sleep(SLEEP_S)
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
    time.sleep(SLEEP_S)
    return y


def exported() -> np.ndarray[Any, Any]:
    """Makes an array behind its model: nothing that it waits for."""
    y = LAYER(torch.ones(64)).detach()
    numbers = read()
    return numbers * y.numpy()


def loader(workers: int, **more: Any) -> Iterator[Any]:
    return iter(DataLoader(Slow(), 2, num_workers=workers, **more))


STARVED: dict[str, tuple[Callable[[], Step], str]] = {
    "alone": (lambda: fed(loader(0)), ") in place of 0 "),
    "one worker": (lambda: fed(loader(1, persistent_workers=True)), ") in place of 1 "),
    "generator": (lambda: fed(torch.from_numpy(read()) for _ in range(10**6)), "in a Dataset, and DataLoader(..., "),
    "plain": (lambda: plain, "in a Dataset, and DataLoader(..., "),
}
HEALTHY: dict[str, Callable[[], Step]] = {"logged": lambda: logged, "exported": lambda: exported}


@pytest.mark.parametrize("name", [*STARVED, *HEALTHY])
@pytest.mark.usefixtures("one_thread")
def test_a_step_that_starves_is_told_what_to_change(name: str) -> None:
    build, how = STARVED.get(name) or (HEALTHY[name], "")
    found = diagnose(build(), device="cpu", budget_s=0.05)
    whys = [each.why for each in found.remedies if each.name == "load in the background"]
    assert [how in each and "num_workers=0" not in each for each in whys] == [True] * (name in STARVED), found.details()
    assert ("waiting for data" in found.shares.overhead_s) == (name in STARVED)


@pytest.mark.parametrize("whole", [False, True])
def test_samples_that_lie_in_memory_are_taken_at_once(whole: bool) -> None:
    many = RandomSampler(ROWS, True, 10**6)
    how = (None, False, BatchSampler(many, 512, False)) if whole else (512, False, many)
    rows = iter(DataLoader(ROWS, *how))
    found = diagnose(lambda: LAYER(*next(rows)), device="cpu", budget_s=0.02)
    whys = [each.why for each in (*found.remedies, *found.dropped) if each.name == "load in the background"]
    assert ["picked one by one: DataLoader(dataset, batch_size=None" in each for each in whys] == [not whole]


def test_a_loader_tells_what_it_may_hold_ready_and_is_left_as_it_was() -> None:
    was = DataLoader.__iter__
    with loaders_told() as ahead:
        assert len([*DataLoader(ROWS, 1024, num_workers=1, prefetch_factor=3)]) == 4
    assert ahead == {0, 3} and DataLoader.__iter__ is was


@pytest.mark.parametrize(("gpu", "flags", "told", "workers", "step_s"), [
    (False, {}, None, 1, 0.334), (False, {"cores": 1, "threads": 1}, None, 1, 0.419), (True, {}, None, 1, 0.334),
    (False, {"cores": 2, "threads": 2}, None, 2, 0.252), (False, {"cores": 9, "threads": 4}, None, 4, 0.0852),
    (True, {"cores": 2, "threads": 2}, None, 2, 0.167), (False, {"cores": 2, "computed_s": 0.1}, None, 4, 0.0852),
    (True, {"cores": 9}, "num_workers=1", 5, 0.085), (True, {"cores": 9}, "num_workers=3", 9, 1.257 / 9),
    (True, {"cores": 2, "computed_s": 0.4}, "num_workers=3", 7, 0.2), (True, {}, "", 2, 0.2095),
])  # fmt: skip
def test_workers_share_loading_as_cores_allow(
    gpu: bool, flags: dict[str, float], told: str | None, workers: int, step_s: float
) -> None:
    """Of a step of 419 ms 334 are waiting. On 2 cores, with 2 workers, such a step took 224 ms, and with one 384."""
    times, lines = {"waiting for data": 0.334}, {"waiting for data": {"a.py:7": 9, "a.py:8": 1}}
    split = Split(0.419, 0.085, 0.0, times, times, lines=lines)
    name = (
        f"enumerate(DataLoader).__next__ {told}"
        if told
        else "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    )
    known = SimpleNamespace(wall_s=0.419, device_s=0.085, host_s=0.334, steps=1, split=split, gpu=gpu, flags=flags,
                            events=[Event(name, "annotation", 0, 334)] * (told is not None))  # fmt: skip
    assert (found := loading(known)) is not None and found.gain == pytest.approx(0.419 / step_s)
    assert found.why.startswith("First make a.py:7 faster: in 79.7 %")
    how = f"num_workers={workers}) in place of {told[-1]} " if told else f"num_workers={workers}), "
    assert (how if told != "" else "With twice as many workers ") in found.why
    assert ("cores here" in found.why) == (step_s in (0.167, 0.2, 0.252, 0.419))
