"""The copies and the nested sine on a GPU: right results, a check that can fail, and times that fit together."""

import pytest
import torch

from brrr.core.errors import WrongResultError
from brrr_course.experiments import experiment
from tests.gpu.measuring import timed

TRANSFERS, SINE = experiment("transfers"), experiment("nested_sine")
COPIES = [v.name for v in TRANSFERS.variants if v.device == "cuda"]


@pytest.mark.parametrize("variant", COPIES)
def test_a_copy_that_does_nothing_is_found_out(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = TRANSFERS.workload(variant, {"nbytes": 2**20})
    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, "copy_", lambda self, *_, **__: self)
        with pytest.raises(WrongResultError, match="relative error is 1"):
            workload.check()
    assert workload.check() == 0.0


@pytest.mark.parametrize("elements", [1, 1024, 2**20])
def test_every_way_to_the_sines_is_right(elements: int) -> None:
    found = timed(SINE, {"elements": elements})
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
