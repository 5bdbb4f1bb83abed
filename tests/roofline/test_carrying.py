"""The reference's sweep on other devices: what half the bandwidth makes of it, and what a device's own calls change."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from brrr.counting.cost import Form, Matmul, OperatorCost
from brrr.gpu.datasheet import hardware
from brrr.roofline.calibrate.reference_calls import COLUMNS, row_of
from brrr.roofline.corrections import SHRUNK, carried_s, kernel_time, operator_time
from brrr.roofline.device_model import DeviceModel, model_of
from brrr.roofline.figures import host_class
from brrr.roofline.gemm_families import operator_of
from brrr.roofline.peak import Curve, Peak, SweptCalls
from brrr.roofline.peaks import Peaks, recorded_peaks
from brrr.roofline.reference import issued_like_the_reference, rates_of, reference

OTHER = "NVIDIA H100 80GB HBM3"


def other(**changed: Any) -> Peaks:
    """A device that nobody swept, with the reference's own figures but for some."""
    return replace(reference(), device=OTHER, sweeps={}, reference="h200", notes=(), **changed)


CACHED = 1.3e8
"""Bytes that the reference's cache hardly holds."""


def scaled(by: float) -> Mapping[str, Curve]:
    """The reference's curves, with the memory's bandwidth times a number and its cache as it is."""

    def at(place: float, peak: Peak) -> Peak:
        here = by if place > CACHED else 1.0
        return replace(peak, value=peak.value * here, low=peak.low * here, high=peak.high * here)

    return {
        name: replace(curve, points=tuple((x, at(x, y)) for x, y in curve.points))
        if curve.axis == "working_set_bytes" else curve
        for name, curve in reference().curves.items()
    }  # fmt: skip


def seconds(each: OperatorCost, device: Peaks | str) -> float:
    found = kernel_time(each, model_of(device)).device_s
    assert found
    return found


def plain(elements: int, name: str = "aten.add", dtype: str = "float32") -> OperatorCost:
    """An addition of two vectors."""
    size = 4 if dtype == "float32" else 2
    return OperatorCost(name, float(elements), 2.0 * size * elements, 1.0 * size * elements, dtype, ((elements,),) * 2,
                        "pointwise", (), Form("", 1, elements))  # fmt: skip


def softmax(rows: int, columns: int) -> OperatorCost:
    """A softmax over dimension 0: on the reference many times longer than its bytes take."""
    nbytes = 4.0 * rows * columns
    return OperatorCost("aten._softmax", 5.0 * rows * columns, nbytes, nbytes, "float32", ((rows, columns),),
                        "softmax", (), Form("columns", columns, rows))  # fmt: skip


LARGE, PRODUCT = plain(71_234_567), operator_of(Matmul(4096, 4096, 4096, dtype="bfloat16"))


@pytest.mark.parametrize("each", [LARGE, plain(123_457), softmax(8000, 1000), PRODUCT])
def test_the_references_own_figures_give_its_own_times(each: OperatorCost) -> None:
    assert seconds(each, other()) == pytest.approx(seconds(each, "h200"), rel=1e-9)


def test_half_the_bandwidth_takes_twice_as_long_where_memory_limits() -> None:
    """On no point of the sweep; what the tensor cores limit, and what waits for neither, takes as long as before."""
    half = other(curves=scaled(0.5))
    assert seconds(LARGE, half) == pytest.approx(2 * seconds(LARGE, other()), rel=0.03)
    assert seconds(PRODUCT, half) == pytest.approx(seconds(PRODUCT, other()), rel=0.05)
    slow = softmax(30_000, 1000)
    gained = seconds(slow, half) / seconds(slow, other())
    bytes_alone = kernel_time(slow, model_of(half)).memory_s / kernel_time(slow, model_of(other())).memory_s
    assert bytes_alone == pytest.approx(2, rel=0.05) and 1 < gained < 1.3


def test_what_waits_for_neither_takes_as_many_cycles() -> None:
    """An A100 has fewer multiprocessors at a lower clock than the reference."""
    slow, there, here = softmax(8000, 1000), hardware("h200"), hardware("a100")
    assert there.sm_count and here.sm_count and there.boost_clock_hz and here.boost_clock_hz
    cycles = there.sm_count / here.sm_count * there.boost_clock_hz / here.boost_clock_hz
    memory = there.memory_bytes_per_s / here.memory_bytes_per_s
    ratio = seconds(slow, "datasheet:a100") / seconds(slow, "datasheet:h200")
    assert min(cycles, memory) * 0.95 < ratio < max(cycles, memory) * 1.05


def swept(took: float, *calls: OperatorCost) -> Peaks:
    """A device on which these calls took so many times what is carried over."""
    model, rows, times = model_of(other()), [], []
    for each in calls:
        carried = carried_s(each, model)
        assert carried
        rows.append((*row_of(each), round(carried * 1e9)))
        times.append(took * round(carried * 1e9) / 1e9)
    sweep = SweptCalls.of((*COLUMNS, "carried"), rows, times)
    return replace(other(), sweeps={"operators": sweep}, date=f"2000-01-01 {took} {len(calls)} {hash(calls)}")


def beyond(each: OperatorCost, device: Peaks) -> float:
    """How much longer it takes than what is carried over."""
    return seconds(each, device) / seconds(each, other())


def test_few_calls_correct_little_and_many_almost_all() -> None:
    """Those of the same name most, of the same group less, of another group least, none of a device without any."""
    sizes = [10_007 * 2**n for n in range(10)]
    one, many = swept(1.5, plain(sizes[0])), swept(1.5, *(plain(size + extra) for size in sizes for extra in range(20)))
    near, far = plain(3_000_001), softmax(512, 512)
    assert 1 < beyond(near, one) < 1.25
    assert 1.45 < beyond(near, many) < 1.5
    assert 1 < beyond(far, one) < beyond(plain(3_000_001, "aten.mul"), one) < beyond(near, one)
    assert beyond(near, other()) == 1


def test_a_correction_is_the_mean_held_to_the_level_above() -> None:
    residual, found = math.log(1.5), 0.0
    for held in SHRUNK:
        found = (residual + held * found) / (1 + held)
    assert beyond(plain(3_000_001), swept(1.5, plain(10_007))) == pytest.approx(math.exp(found), rel=1e-3)


def test_one_call_of_another_kernel_does_not_carry_a_group_away() -> None:
    assert beyond(LARGE, swept(40.0, plain(10_007))) == pytest.approx(beyond(LARGE, swept(2.0, plain(10_007))), rel=0.1)


def test_a_calibration_without_calls_is_the_datasheet_carried_over() -> None:
    """The same terms by the same figures, whether they were measured or follow from a datasheet."""
    figures, curves = rates_of(hardware("h100"))
    figures = {**issued_like_the_reference(), **figures}
    measured = {name: replace(peak, kind="measured") for name, peak in figures.items() if name not in curves}
    seen = {name: replace(curve, points=tuple((x, replace(y, kind="measured")) for x, y in curve.points))
            for name, curve in curves.items()}  # fmt: skip
    calibrated = other(measured={n: p for n, p in measured.items() if n != "copy" and "matmul" not in n}, curves=seen)
    for each in (LARGE, plain(123_457), softmax(8000, 1000), PRODUCT):
        assert seconds(each, calibrated) == pytest.approx(seconds(each, "datasheet:h100"), rel=1e-6)


def test_a_datasheet_reaches_the_references_shares() -> None:
    """The reference's own is as it was measured; roofs stay the datasheet's."""
    for each in (LARGE, PRODUCT):
        assert seconds(each, "datasheet:h200") == pytest.approx(seconds(each, "h200"), rel=1e-6)
    sheet = model_of("datasheet:h100")
    assert sheet.value("copy") == hardware("h100").memory_bytes_per_s
    notes = (kernel_time(LARGE, sheet), sheet.notes)[1]
    assert any("the shares that an NVIDIA H200 reaches" in note for note in notes)


def test_host_costs_are_the_references_at_this_hosts_speed() -> None:
    relu = reference().measured["host.relu"]
    twice = replace(relu, value=2 * relu.value, high=2 * relu.high)
    here = DeviceModel.measured(other(measured={"host.relu": twice, "host.view": relu}))
    theirs = reference().measured["host.attention"].value
    assert here.value("host.attention") == pytest.approx(2 * theirs)
    assert here.used["host.attention"].kind == "assumed"
    assert here.value("host.view") == relu.value and here.used["host.view"].kind == "measured"


def test_a_larger_cache_holds_larger_sets() -> None:
    known = hardware("h200")
    assert known.l2_bytes
    twice = replace(known, l2_bytes=2 * known.l2_bytes)
    (_, curves), (_, larger) = rates_of(known), rates_of(twice)
    place = 2.0 * known.l2_bytes
    assert larger["read"].at(place) > 1.3 * curves["read"].at(place)
    assert larger["read"].points[-1][1].value == curves["read"].points[-1][1].value


def test_a_cpu_goes_by_its_own_calls_with_their_hosts_part_and_no_others() -> None:
    """A call of the sweep takes what it took, alike ones the same share longer; Python around it comes on top."""
    bare = recorded_peaks("cpu")
    calls = [plain(elements, "aten.tanh") for elements in (1000, 10_000, 100_000)]
    terms = [kernel_time(each, model_of(bare)).device_s or 0.0 for each in calls]
    swept = SweptCalls.of(COLUMNS, [row_of(each) for each in calls], [3 * time_s for time_s in terms])
    product = operator_of(Matmul(64, 64, 64, dtype="float32"))
    columns = ("m", "n", "k", "batch", "layout", "dtype", "added")
    rows = [(64, 64, depth, 1, "nn", "float32", 0) for depth in (64, 65, 66)]
    peaks = replace(bare, sweeps={"operators": swept, "products": SweptCalls.of(columns, rows, [2e-5] * 3)})
    assert [seconds(each, peaks) for each in calls] == pytest.approx([3 * time_s for time_s in terms])
    near = plain(31_000, "aten.tanh")
    assert seconds(near, peaks) == pytest.approx(3 * seconds(near, bare), rel=0.2)
    assert seconds(product, peaks) == pytest.approx(2e-5)
    model = model_of(peaks)
    own_s = model.value(f"host.{host_class(calls[0], model)}")
    around = operator_time(calls[0], model, calls[0].bytes, host_s=own_s + 1e-5)
    assert around.device_s == pytest.approx(3 * terms[0] + 1e-5)
