"""Fewer bits: each way against float64, what is stored and counted, what is refused, wrong results that are found."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from brrr.core.errors import DeviceMemoryError, UnavailableError
from brrr_course.experiments import experiment
from brrr_course.experiments.bits import IMPLEMENTATIONS, ORDINARY, OUTLIERS, LayerInputs, fours, run_of, scaled, whole
from brrr_course.experiments.working_set import energy_launched

BITS = experiment("bits")
ERRORS = {"float32": 1e-6, "bf16": 5e-3, "fp8": 0.05, "fp8-cast": 0.05, "fp8-rows": 0.05, "int8": 0.015,
          "fp8-rows-cast": 0.05, "int8-widened": 0.015, "int8-both": 0.03, "int4": 0.14}  # fmt: skip


def point(tokens: int, width: int = 8192, inputs: str = ORDINARY) -> dict[str, Any]:
    return {"tokens": tokens, "width": width, "inputs": inputs}


@pytest.fixture(scope="module")
def given() -> LayerInputs:
    torch.manual_seed(1)
    return LayerInputs(32, 1024, ORDINARY, "cpu")


def error(way: str, given: LayerInputs) -> float:
    found = run_of(way, given, "cpu")()
    return given.error(found, found.dtype)


@pytest.mark.parametrize("way", ERRORS)
def test_each_way_is_the_layer(way: str, given: LayerInputs) -> None:
    assert ERRORS[way] / 30 < error(way, given) < ERRORS[way]


def test_one_token_fused_is_the_layer() -> None:
    one = LayerInputs(1, 1024, ORDINARY, "cpu")
    made = IMPLEMENTATIONS["int8-fused"]
    assert one.error(made.call(made.activations(one.x), made.weights(one.w)), torch.bfloat16) < 0.015


def test_outliers_spoil_int8_activations_and_not_fp8() -> None:
    torch.manual_seed(1)
    ordinary, outliers = (LayerInputs(32, 1024, each, "cpu") for each in (ORDINARY, OUTLIERS))
    assert error("int8-both", outliers) > 5 * error("int8-both", ordinary)
    assert error("fp8", outliers) < 1.5 * error("fp8", ordinary)


def test_numbers_come_back_from_their_scales() -> None:
    x = torch.randn(8, 256) * torch.logspace(-3, 3, 8)[:, None]
    for rows in (False, True):
        numbers, scale = scaled(x, rows)
        assert numbers.float().abs().max() == 448 and numbers.float().isfinite().all()
        if rows:
            torch.testing.assert_close(numbers.float() * scale, x, rtol=0.07, atol=0.01 * float(x.abs().max()))
    codes, step = whole(x, 1)
    assert (codes * step - x).abs().max() <= 0.51 * step.max()
    fours_codes, ends = fours(x)
    steps, middles = ends.float().transpose(0, 1).repeat_interleave(128, 1).unbind(-1)
    assert ((fours_codes - 8) * steps + middles - x).abs().max() <= 0.6 * steps.max()


def test_what_cannot_run_says_why(monkeypatch: pytest.MonkeyPatch, given: LayerInputs) -> None:
    def none(x: Any, w: Any) -> Any:
        raise NotImplementedError("no such kernel\nand much more")

    monkeypatch.setattr(IMPLEMENTATIONS["fp8"], "call", none)
    with pytest.raises(UnavailableError, match=r"CPU, fp8 has no kernel here: no such kernel$"):
        BITS.workload("cpu-fp8", point(1, 1024))
    with pytest.raises(DeviceMemoryError, match="a layer of 1048576 x 1048576 for 1 tokens needs"):
        BITS.workload("cpu-bf16", point(1, 2**20))


def test_energy_is_power_times_time(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, clock = iter([10.0, 110.0, None, None]), iter(range(99))
    own, ran = "brrr_course.experiments.working_set", list[int]()
    monkeypatch.setattr(f"{own}.energy_j", lambda: next(counts))
    monkeypatch.setattr(f"{own}.time", SimpleNamespace(perf_counter=lambda: next(clock) / 4))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    found = energy_launched(lambda: ran.append(1))
    assert len(ran) == 16 * (1 + 3), "a round to settle, three that count"
    assert found.power_w == 100 / 1.25 and found.period_s is not None and found.period_s.median == 1.25 / 16 / 3
    with pytest.raises(UnavailableError, match="counts no joules"):
        energy_launched(lambda: None)
