"""The memory experiments on a GPU: every way is right at odd sizes, and what does nothing is found."""

from functools import partial

import pytest
import torch

from brrr.core.errors import BrrrError, WrongResultError
from brrr.kernels import repeat as repeat_launch
from brrr.kernels.repeat import repeat_multiply
from brrr_course.experiments import experiment
from brrr_course.experiments.repeat import TOLERANCE, fused_error
from tests.gpu.measuring import timed

REPEAT, STRIDES, OCCUPANCY = map(experiment, ("repeat", "strides", "occupancy"))


runs = partial(timed, lacks=("PyCUDA",))
"""Every variant of the GPU at a point, none failed (but for PyCUDA, where there is none)."""


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("addend", [None, 2**-7])
@pytest.mark.parametrize("count", [1, 7, 2048, 2049, 1_000_003])
def test_the_kernels_against_float64(count: int, addend: float | None, dtype: str) -> None:
    # positive: a sum that cancels has no relative precision
    x = (torch.rand(count, device="cuda") + 0.5).to(getattr(torch, dtype))
    for repeat in (0, 1, 15, 16, 17, 512):
        error, factor = fused_error(x, 1 + 2**-7, addend, repeat), 1 + 2**-7
        assert error(repeat_multiply(x, repeat, factor, addend)) <= TOLERANCE[dtype], "Triton"
        # room behind the end, to see that nothing is written there
        room = torch.full((count + 64,), float("nan"), device="cuda", dtype=x.dtype)
        repeat_launch.by_bindings(x, room[:count], repeat, factor, addend)()
        assert error(room[:count]) <= TOLERANCE[dtype]
        assert bool(room[count:].isnan().all()), "it wrote behind the end"


def test_more_than_two_to_the_31_elements() -> None:
    if torch.cuda.mem_get_info()[0] < 20 * 2**30:
        pytest.skip("needs 20 GB of GPU memory")
    x = torch.ones(2**31 + 5, device="cuda", dtype=torch.bfloat16)
    x[-1] = 3
    out = torch.zeros_like(x)
    for run in (lambda: repeat_multiply(x, 2, 2.0, None, out), repeat_launch.by_bindings(x, out, 2, 2.0)):
        out.zero_()
        run()
        assert bool((out[:-1] == 4).all()) and float(out[-1]) == 12


def test_an_address_that_16_does_not_divide_is_refused() -> None:
    x = torch.ones(100, device="cuda")
    with pytest.raises(BrrrError, match="16 divides"):
        repeat_launch.by_bindings(x[1:], x[1:], 1, 2.0)


@pytest.mark.parametrize("name", ["read", "write"])
def test_a_strided_kernel_that_does_nothing_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brrr.kernels.strides.prepared", lambda *which: lambda: None)
    with pytest.raises(WrongResultError):
        STRIDES.workload(name, {"stride": 1, "offset": 0, "numbers": 10_000}).check()


@pytest.mark.parametrize("loads", [1, 2, 4, 8])
@pytest.mark.parametrize("blocks", [1, 7, 1057])
def test_every_block_reads_its_own_words(blocks: int, loads: int) -> None:
    made = OCCUPANCY.workload(f"loads-{loads}", {"blocks": blocks})
    assert made.check() == 0.0
    with pytest.raises(WrongResultError):
        made.verified(made.run() + 1)


def test_blocks_are_measured_on_a_cold_cache() -> None:
    found = runs(OCCUPANCY, {"blocks": 33})
    assert all(each.measurement.busy_s and each.measurement.cache == "cold" for each in found.values())
