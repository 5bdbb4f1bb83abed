"""Peaks: what a figure may be, curves between their points, and that measured, promised and assumed never mix."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peaks_made_up import curve, gpu_peaks, peak

from brrr.cli.calibrate import main
from brrr.core.errors import ArgumentError, WrongResultError
from brrr.core.measurement import Estimate
from brrr.roofline.calibrate import calibrate
from brrr.roofline.calibrate.part import Findings, Part, run_parts
from brrr.roofline.peak import Curve, Peak, sizes_between, through
from brrr.roofline.peaks import MissingPeakError, Peaks, datasheet_peaks
from tests.refusals import refused

# ---------------------------------------------------------------- one figure


@pytest.mark.parametrize(
    ("value", "low", "high", "unit", "kind", "said"),
    [
        (float("nan"), 1e9, 1e9, "B/s", "measured", "value is nan"),
        (4.2, 4.1, 4.3, "B/s", "measured", "value is 4.2; expected 1e\\+06 to 1e\\+15 B/s. Another unit?"),
        (1e12, 1.1e12, 1.2e12, "B/s", "measured", "low and high"),
        (1e12, 0.9e12, float("inf"), "FLOP/s", "measured", "low and high"),
        (1e-6, 1e-6, 1e-6, "ms", "measured", "unit is 'ms'"),
        (1e-6, 1e-6, 1e-6, "s", "guessed", "kind is 'guessed'"),
    ],
)
def test_an_impossible_figure_is_refused(
    value: float, low: float, high: float, unit: str, kind: str, said: str
) -> None:
    with pytest.raises(ArgumentError, match=said):
        Peak(value, low, high, unit, kind)  # type: ignore[arg-type]


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


@pytest.mark.parametrize("places", [(), (2.0, 1.0), (1.0, 1.0), (0.0, 1.0)])
def test_a_curve_needs_rising_places(places: tuple[float, ...]) -> None:
    with pytest.raises(ArgumentError, match="above zero and rising"):
        Curve("size", tuple((place, peak(1e9)) for place in places))


def test_sizes_are_dense_only_about_the_cache() -> None:
    sizes = sizes_between(2**16, 2**26, 2, fine=(2**20, 2**22))
    assert sizes[0] == 2**16 and sizes[-1] == 2**26 and sizes == sorted(set(sizes))
    assert len(sizes) == 11 + 2


# ---------------------------------------------------------------- all of them


@pytest.mark.parametrize("size", [0, -1, float("nan"), float("inf")])
def test_a_working_set_is_a_number_of_bytes(size: float) -> None:
    with refused("working_set_bytes"):
        gpu_peaks().bandwidth(size)


def test_figures_of_other_kinds_do_not_stand_for_each_other() -> None:
    assert peak(3e12).share_of(peak(4e12)) == pytest.approx(0.75)
    for call in (
        lambda: peak(3e12).share_of(peak(3e12, "FLOP/s")), lambda: gpu_peaks().bandwidth(1e6, "matmul.bf16"),
        lambda: Curve("size", ((1.0, peak(1e9)), (2.0, peak(1e9, "FLOP/s")))),
    ):  # fmt: skip
        with pytest.raises(ArgumentError):
            call()


def test_data_types_go_by_either_name() -> None:
    peaks = gpu_peaks()
    assert peaks.matmul("bfloat16") == peaks.matmul("bf16") == peaks.matmul("torch.bfloat16")
    assert peaks.arithmetic("float32", fma=False).value < peaks.arithmetic().value
    assert peaks.host_s("pointwise").unit == "s"


def test_what_is_missing_is_named_with_what_to_run() -> None:
    with pytest.raises(
        MissingPeakError, match=r"'matmul.fp4' was not measured on .*there is .*matmul.bf16.*brrr calib"
    ):
        gpu_peaks().matmul("fp4")
    with pytest.raises(MissingPeakError, match=r"host.compiled: left out"):
        gpu_peaks().host_s("compiled")


def test_measured_promised_and_assumed_never_mix() -> None:
    promised = datasheet_peaks("NVIDIA H200")
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
    assert datasheet_peaks("a GPU that nobody built") == {}


def test_the_text_shows_measured_beside_promised() -> None:
    text = str(gpu_peaks())
    assert "Peaks of NVIDIA H200 (driver 580.1" in text and "measured 2000-01-01" in text
    row = next(line for line in text.splitlines() if line.startswith("arithmetic.fp32.fma"))
    assert "60 TFLOP/s" in row and "66.9 TFLOP/s" in row and "89.7 %" in row and "1.98 GHz" in row
    over = next(line for line in text.splitlines() if line.startswith("matmul.bf16"))
    assert "more than promised" in over and "power-cap" in over
    assert "assumed: kernel.floor" in text and "note: host.compiled: left out" in text
    assert any(line.startswith("working set  read") for line in text.splitlines())


def test_without_a_datasheet_no_column_is_empty() -> None:
    head = str(replace(gpu_peaks(), device="a GPU that nobody built")).splitlines()[2]
    assert head.split() == ["measured", "value", "95", "%", "interval", "at"]


# ---------------------------------------------------------------- how they are measured


def test_a_part_that_fails_costs_only_itself() -> None:
    def breaks(found: Findings) -> None:
        raise ImportError("no module named fast")

    def works(found: Findings) -> None:
        found.measured["gap.stream"] = peak(1e-6, "s")

    found, told = Findings(until_s=1e18), []
    run_parts([Part("first", breaks), Part("second", works)], found, told.append)
    assert told == ["first", "second"] and "gap.stream" in found.measured
    assert found.notes == ["first: not measured: ImportError: no module named fast"]


def test_a_wrong_result_is_not_passed_over() -> None:
    def wrong(found: Findings) -> None:
        raise WrongResultError("wrong")

    with pytest.raises(WrongResultError):
        run_parts([Part("first", wrong)], Findings(until_s=1e18), lambda part: None)


def test_what_does_not_fit_the_budget_is_left_out() -> None:
    def never(found: Findings) -> None:
        raise AssertionError

    found = Findings(until_s=0.0)
    run_parts([Part("slow", never, needs_s=20.0)], found, lambda part: None)
    assert "slow: left out: it may need 20 s" in found.notes[0]


@pytest.mark.parametrize("budget", [0, -1, float("nan"), float("inf"), True, "60"])
def test_a_budget_is_a_number_of_seconds(budget: object) -> None:
    with refused("budget_s"):
        calibrate("cpu", budget_s=budget)  # type: ignore[arg-type]


def test_a_device_is_cuda_or_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    with refused("device", "tpu"):
        calibrate("tpu")
    with pytest.raises(SystemExit):
        main(["--device", "tpu"])
    assert "invalid choice" in capsys.readouterr().err
