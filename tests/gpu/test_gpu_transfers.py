"""The copies and the nested sine on a GPU: right results, a check that can fail, and times that fit together."""

import pytest
import torch

from brrr.core.errors import WrongResultError
from brrr_course.experiments import experiment
from brrr_course.sources.rows import Timed
from brrr_course.sources.timers import measure_point

TRANSFERS, SINE = experiment("transfers"), experiment("nested_sine")
COPIES = [v.name for v in TRANSFERS.variants if v.device == "cuda"]
SINES = [v.name for v in SINE.variants if v.device == "cuda"]


def runs(found: dict[str, Timed | Exception]) -> dict[str, Timed]:
    """All of them, none failed."""
    assert {name: run for name, run in found.items() if not isinstance(run, Timed)} == {}
    return {name: run for name, run in found.items() if isinstance(run, Timed)}


@pytest.mark.parametrize("nbytes", [1, 1000, 1_000_003, 2**24])
def test_every_copy_is_exact(nbytes: int) -> None:
    found = runs(measure_point(TRANSFERS, COPIES, {"nbytes": nbytes}, budget_s=0.05))
    assert {run.error for run in found.values()} == {0.0}
    for name, run in found.items():
        print(name, nbytes, run.measurement)


@pytest.mark.parametrize("variant", COPIES)
def test_a_copy_that_does_nothing_is_found_out(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = TRANSFERS.workload(variant, {"nbytes": 2**20})
    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, "copy_", lambda self, *_, **__: self)
        with pytest.raises(WrongResultError, match="relative error is 1"):
            workload.check()
    assert workload.check() == 0.0


def test_both_ways_are_busy_at_once() -> None:
    found = runs(measure_point(TRANSFERS, ["h2d-pinned", "d2h-pinned", "both-pinned"], {"nbytes": 2**26}, budget_s=0.2))
    times = {name: run.measurement.period_s for name, run in found.items()}
    print({name: str(time) for name, time in times.items()})
    one, other, both = (time.median for time in times.values() if time is not None)
    assert both < 5 * (one + other)


@pytest.mark.parametrize("elements", [1, 1024, 2**20])
def test_every_way_to_the_sines_is_right(elements: int) -> None:
    found = runs(measure_point(SINE, SINES, {"elements": elements}, budget_s=0.05))
    for name, run in found.items():
        print(name, elements, run.error, run.measurement, run.measurement.flags)
        assert run.error < 2e-6, name
        assert "single-call" not in run.measurement.flags, name  # compiling must not pass for a slow call
    assert found["gpu"].measurement.kernels == 4
    assert found["gpu-compiled"].measurement.kernels == 1


def test_without_the_extra_wait_the_result_is_right_every_time() -> None:
    workload = SINE.workload("gpu-transfers", {"elements": 2**24})
    for _ in range(5):
        assert workload.check() < 2e-6
