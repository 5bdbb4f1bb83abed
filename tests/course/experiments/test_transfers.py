"""The copies: byte-exact workloads, their cost, and the exercise about trips."""

from pathlib import Path
from typing import Any

import made_up
import numpy as np
import pytest
import torch
from formulas import Formula, Made

from brrr.core.errors import NotRecordedError, WrongResultError
from brrr_course.experiments import experiment
from brrr_course.experiments.transfers import (
    random_bytes,
    spoilt,
    wrong_share,
)
from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises.lesson_02 import cost_of
from brrr_course.lessons.pretend import Gpu
from brrr_course.nouns.source import Evidence
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.timers import measure_point

TRANSFERS = experiment("transfers")
KB, GB = 2**10, 2**30
SIZES = (KB, 2**12, 2**14, 2**17, 2**20, 2**24, GB)


def moving(bytes_per_s: float, floor_s: float, issued_s: float | None = None) -> dict[str, Formula]:
    """A copy with a floor and a bandwidth; it returns after `issued_s`, or when all is done."""
    whole: Formula = lambda size: floor_s + size / bytes_per_s  # noqa: E731
    return {
        "period_s": lambda size: size / bytes_per_s,
        "latency_s": whole,
        "host_s": whole if issued_s is None else lambda size: issued_s,
    }


GOOD = {
    "h2d-pageable": moving(12e9, 9e-6),
    "h2d-pinned": moving(55e9, 8e-6, issued_s=4e-6),
    "d2h-pageable": moving(10e9, 9e-6),
    "d2h-pinned": moving(55e9, 8e-6, issued_s=4e-6),
    "both-pinned": {"period_s": lambda size: size / 50e9},
    "device": {"period_s": lambda size: 2 * size / 4.2e12},
}


# ---- the workloads ----


@pytest.mark.parametrize("size", [1, 1003, 2**20 + 5, 9 * 2**20])
def test_copies_on_this_machine_are_exact(size: int) -> None:
    found = measure_point(TRANSFERS, ["cpu", "queue-pageable", "queue-pinned"], {"nbytes": size}, budget_s=0.01)
    for run in found.values():
        assert not isinstance(run, Exception), run
        assert run.error == 0.0
        assert run.measurement.latency_s is not None


@pytest.mark.parametrize("variant", ["cpu", "queue-pageable", "queue-pinned"])
def test_a_copy_that_does_nothing_is_found_out(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = TRANSFERS.workload(variant, {"nbytes": 5 * 2**20})
    try:
        assert workload.check() == 0.0
        monkeypatch.setattr(torch.Tensor, "copy_", lambda self, *_, **__: self)
        lazy = TRANSFERS.workload(variant, {"nbytes": 5 * 2**20})
        with pytest.raises(WrongResultError, match="relative error is 1"):
            lazy.check()
        lazy.close()
    finally:
        workload.close()


def test_one_wrong_byte_is_one_wrong_byte() -> None:
    source = random_bytes(1003, "cpu")
    copy = source.clone()
    assert wrong_share((source, copy))(None) == 0.0
    copy[-1] ^= 1
    assert wrong_share((source, copy))(None) == 1 / 1003
    assert wrong_share((source, spoilt(source, "cpu")))(None) == 1.0
    assert random_bytes(64, "cpu").tolist() != random_bytes(64, "cpu").tolist()


# ---- exercise 02-trips ----


@pytest.fixture
def _no_recording(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, only_recordings: Any) -> None:
    only_recordings(tmp_path)
    monkeypatch.setenv("BRRR_SOURCE", "recorded:h200")


def mended(parts: list[Any], gpu: Gpu) -> list[Any]:
    there = gpu.send(np.concatenate(parts))
    for _ in range(4):
        there = gpu.sin(there)
    return np.split(gpu.fetch(there), np.cumsum([len(part) for part in parts])[:-1])


@pytest.mark.usefixtures("_no_recording")
def test_one_trip_each_way_is_right_without_any_recording() -> None:
    mark = check("02-trips", process=mended)
    assert mark.right, mark
    assert "2 transfers with 48 kB in place of 64 transfers" in mark.text
    assert "of transfers in place" not in mark.text


def test_what_the_trips_are_worth_comes_from_measurements() -> None:
    way_s = cost_of(Evidence(TRANSFERS, Made(GOOD, SIZES)))  # type: ignore[arg-type]
    assert way_s(0) == pytest.approx(9e-6, rel=0.02)
    assert way_s(1e9) == pytest.approx(1e9 / 12e9, rel=0.01)
    with pytest.raises(NotRecordedError):
        cost_of(Evidence(TRANSFERS, Made(GOOD, (KB,))))  # type: ignore[arg-type]
    with pytest.raises(NotRecordedError):
        cost_of(Evidence(TRANSFERS, Made({}, SIZES)))  # type: ignore[arg-type]


def test_there_cannot_be_read_in_the_gpu() -> None:
    assert "fetch them" in repr(Gpu().send(np.zeros(5)))
    assert Gpu().fetch(Gpu().send([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_the_recording_keeps_what_was_copied_and_what_it_cost(tmp_path: Path) -> None:
    """The axis is not called `bytes`: the recording has a column of that name already, for the cost."""
    made_up.record(tmp_path, made_up.GPU, names=("transfers",))
    rows = Recorded("h200", tmp_path).rows(TRANSFERS, "both-pinned")
    assert {point: row.cost.bytes for point, row in rows.items()} == {
        (size,): 2 * size for size in TRANSFERS.axis("nbytes").values
    }
