"""Peaks: what a figure may be, curves between their points, and that measured, promised and assumed never mix."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peaks_made_up import curve, gpu_peaks, peak

from brrr.cli.calibrate import main
from brrr.core.errors import ArgumentError, WrongResultError
from brrr.core.measurement import Estimate
from brrr.gpu.datasheet import hardware
from brrr.roofline.calibrate import calibrate
from brrr.roofline.calibrate.part import Findings, Part, run_parts
from brrr.roofline.peak import Curve, Peak, sizes_between, through
from brrr.roofline.peaks import MissingPeakError, Peaks, datasheet_peaks
from tests.refusals import refused

# ---------------------------------------------------------------- one figure


@pytest.mark.parametrize(
    ("argument", "changed"),
    [
        ("value", {"value": float("nan")}), ("value", {"value": 4.2, "low": 4.1, "high": 4.3}),
        ("low and high", {"low": 1.1e12}), ("low and high", {"high": float("inf")}), ("unit", {"unit": "ms"}),
        ("kind", {"kind": "guessed"}),
    ],
)  # fmt: skip
def test_an_impossible_figure_is_refused(argument: str, changed: dict[str, Any]) -> None:
    with refused(argument):
        Peak(**{"value": 1e12, "low": 0.9e12, "high": 1.1e12, "unit": "B/s", "kind": "measured", **changed})


def test_a_rate_turns_the_interval_of_its_time_round() -> None:
    rate = Peak.rate(8e9, Estimate(2.0, 1.0, 4.0, 9), "B/s", blocks=132)
    assert (rate.low, rate.value, rate.high) == (2e9, 4e9, 8e9)
    assert rate.conditions == {"blocks": 132, "n": 9} and rate.kind == "measured"


# ---------------------------------------------------------------- curves


@given(st.lists(st.floats(1e6, 1e14), min_size=2, max_size=8), st.floats(1e3, 1e12))
def test_a_curve_stays_between_its_neighbours_and_meets_its_points(values: list[float], x: float) -> None:
    points = [(10.0 ** (4 + place), value) for place, value in enumerate(values)]
    found = through(points, x)
    assert min(values) * (1 - 1e-9) <= found <= max(values) * (1 + 1e-9)
    assert [through(points, place) for place, _ in points] == values


def test_between_two_points_a_curve_is_straight_in_log_log() -> None:
    bandwidth = curve({1e6: 8e12, 1e8: 2e12})
    assert bandwidth.at(1e7) == pytest.approx(4e12)
    assert (bandwidth.at(1.0), bandwidth.at(1e15)) == (8e12, 2e12)


def test_sizes_are_dense_only_about_the_cache() -> None:
    sizes = sizes_between(2**16, 2**26, 2, fine=(2**20, 2**22))
    assert sizes[0] == 2**16 and sizes[-1] == 2**26 and sizes == sorted(set(sizes))
    assert len(sizes) == 11 + 2


# ---------------------------------------------------------------- all of them


def test_figures_of_other_kinds_do_not_stand_for_each_other_and_a_curve_rises() -> None:
    assert peak(3e12).share_of(peak(4e12)) == pytest.approx(0.75)
    for call in (
        lambda: peak(3e12).share_of(peak(3e12, "FLOP/s")), lambda: gpu_peaks().bandwidth(1e6, "matmul.bf16"),
        lambda: Curve("size", ((1.0, peak(1e9)), (2.0, peak(1e9, "FLOP/s")))),
        *(lambda places=places: Curve("size", tuple((place, peak(1e9)) for place in places))
          for places in ((), (2.0, 1.0), (1.0, 1.0), (0.0, 1.0))),
    ):  # fmt: skip
        with pytest.raises(ArgumentError):
            call()


def test_data_types_go_by_either_name() -> None:
    peaks = gpu_peaks()
    assert peaks.matmul("bfloat16") == peaks.matmul("bf16") == peaks.matmul("torch.bfloat16")
    assert peaks.arithmetic("float32", fma=False).value < peaks.arithmetic().value
    assert peaks.host_s("pointwise").unit == "s"
    for wrong in (0, -1, float("nan"), float("inf")):
        with refused("working_set_bytes"):
            peaks.bandwidth(wrong)
    for missing in (lambda: peaks.matmul("fp4"), lambda: peaks.host_s("compiled")):
        with pytest.raises(MissingPeakError):
            missing()


def test_the_text_shows_measured_beside_promised_and_doubts_what_is_more() -> None:
    lines = {line.split()[0]: line for line in str(gpu_peaks()).splitlines() if line}
    fma = lines["arithmetic.fp32.fma"]
    assert all(each in fma for each in ("60 TFLOP/s", "66.9 TFLOP/s", "89.7 %", "1.98 GHz"))
    assert "more than promised" in lines["matmul.bf16"] and "power-cap" in lines["matmul.bf16"]
    assert "89.7 %" not in str(replace(gpu_peaks(), device="a GPU that nobody built"))


def test_measured_promised_and_assumed_never_mix() -> None:
    promised = datasheet_peaks(hardware("h200"))
    assert all(one.kind == "datasheet" and one.conditions["source"] for one in promised.values())
    for wrong in (promised["copy"], Peak.stated(1e-6, "s", "assumed")):
        with pytest.raises(ArgumentError, match="expected a measured figure"):
            Peaks("NVIDIA H200", "cuda", "2000-01-01", measured={"copy": wrong})
        with pytest.raises(ArgumentError, match="expected a measured figure"):
            Peaks("NVIDIA H200", "cuda", "2000-01-01", curves={"copy": Curve("size", ((1.0, wrong),))})
    with pytest.raises(ArgumentError, match="expected an assumed figure"):
        Peaks("NVIDIA H200", "cuda", "2000-01-01", assumed={"kernel.floor": peak(1e-6, "s")})


def test_the_datasheet_has_the_same_names() -> None:
    promised = gpu_peaks().datasheet
    assert promised["matmul.bf16"].value > promised["matmul.tf32"].value > promised["arithmetic.fp32.fma"].value
    assert promised["matmul.fp32"].value == promised["arithmetic.fp32.fma"].value
    assert datasheet_peaks(None) == {}


# ---------------------------------------------------------------- how they are measured


def test_a_part_that_fails_or_does_not_fit_the_budget_costs_only_itself_but_a_wrong_result_ends_all() -> None:
    def fails(error: Exception) -> Callable[[Findings], None]:
        def run(found: Findings) -> None:
            raise error

        return run

    def works(found: Findings) -> None:
        found.measured["gap.stream"] = peak(1e-6, "s")

    found, told = Findings(until_s=time.perf_counter() + 10), []
    slow, broken = Part("slow", fails(AssertionError()), needs_s=20.0), Part("broken", fails(ImportError("no fast")))
    run_parts([slow, broken, Part("works", works)], found, told.append)
    assert told[-2:] == ["broken", "works"] and "gap.stream" in found.measured
    assert "slow: left out: it may need 20 s" in found.notes[0]
    assert found.notes[1:] == ["broken: not measured: ImportError: no fast"]
    with pytest.raises(WrongResultError):
        run_parts([Part("first", fails(WrongResultError("wrong")))], Findings(until_s=1e18), lambda part: None)


@pytest.mark.parametrize("budget", [0, -1, float("nan"), float("inf"), True, "60"])
def test_a_budget_is_a_number_of_seconds(budget: object) -> None:
    with refused("budget_s"):
        calibrate("cpu", budget_s=budget)  # type: ignore[arg-type]


def test_a_device_is_cuda_or_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    with refused("device", "tpu"):
        calibrate("tpu")
    assert main(["--device", "tpu"]) == 2 and "device is 'tpu'; expected 'cuda'" in capsys.readouterr().err
