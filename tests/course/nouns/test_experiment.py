"""Experiments, their points and workloads; what claims judge by; sources and errors by name."""

import dataclasses
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from formulas import Kept
from hypothesis import given
from hypothesis import strategies as st

from brrr.core import errors
from brrr.core.errors import ArgumentError, NotRecordedError, WrongResultError
from brrr.core.measurement import (
    Estimate,
    Measurement,
    Point,
)
from brrr.counting.cost import Cost
from brrr_course.experiments import NAMES, experiment
from brrr_course.nouns.claim import Status, Verdict, band_verdict
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant, Workload
from brrr_course.nouns.source import Evidence
from brrr_course.sources import source
from tests.refusals import refused, values

MATMUL = experiment("matmul")
SIZE = Axis("size", (1, 2, 4, 100, 1024))
SHARE = Axis("share", (0.25, 0.5, 0.75), scale="linear", integer=False)
KIND = Axis("kind", ("zeta", "alpha"), scale="category")


def supports_small(variant: Variant, point: Point) -> bool:
    return variant.name == "a" or int(point["size"]) < 100


def build(variant: Variant, point: Point) -> Workload:
    return Workload(lambda: variant.name, lambda result: 0.0, 1e-6, Cost(2.0, 3.0))


THREE = Experiment(
    name="three",
    title="Three axes",
    question="Does every kind of axis work?",
    axes=(SIZE, SHARE, KIND),
    variants=(Variant("a", "A", "cuda"), Variant("b", "B", "cpu")),
    lines=(Line("a", "a", "latency_s", "A"), Line("lie", "a", "host_s", "A, not waited for")),
    package="three",
    supports=supports_small,
)


# ---------------------------------------------------------------- axes and points


NO_VALUES = {
    "size": [0, -1, -0.0, 1.5, math.nan, math.inf, -math.inf, "4", None, True, [4]],
    "share": [0, -0.5, math.nan, math.inf, "half", False], "kind": ["Zeta", "", 0, None],
}  # fmt: skip


@pytest.mark.parametrize(("axis", "value"), values(NO_VALUES))
def test_a_size_is_whole_a_share_above_zero_and_a_category_one_of_its_values(axis: str, value: Any) -> None:
    with refused(axis, value):
        THREE.point(**{"size": 1, "share": 0.5, "kind": "zeta", axis: value})


def test_a_whole_float_is_a_size() -> None:
    point = THREE.point(size=4.0, share=0.5, kind="zeta")
    assert point == {"size": 4, "share": 0.5, "kind": "zeta"}
    assert isinstance(point["size"], int)


def test_a_point_names_every_axis_and_no_other() -> None:
    with pytest.raises(ArgumentError, match=r"three\.point: share is None; expected a value, as 0\.25"):
        THREE.point(size=1, kind="zeta")
    with pytest.raises(ArgumentError, match="axis is 'width'; expected one of size, share, kind"):
        THREE.point(size=1, share=0.5, kind="zeta", width=3)


@given(st.integers(1, 10**9))
def test_snapping_gives_the_recorded_value_with_the_smallest_ratio(asked: int) -> None:
    found = float(SIZE.nearest(asked))
    ratios = [max(asked / float(v), float(v) / asked) for v in SIZE.values]
    assert max(asked / found, found / asked) == min(ratios)


def test_a_linear_axis_snaps_by_difference() -> None:
    assert [SHARE.nearest(x) for x in (1e-6, 0.37, 0.38, 0.6, 99)] == [0.25, 0.25, 0.5, 0.5, 0.75]


def test_a_category_does_not_snap() -> None:
    assert KIND.nearest("alpha") == "alpha"
    for axis, value in ((KIND, "beta"), (SIZE, 1.5)):
        with refused(axis.name, value):
            axis.nearest(value)


def test_the_grid_is_every_combination_in_order() -> None:
    points = list(THREE.points())
    assert len(points) == 5 * 3 * 2
    assert points[0] == {"size": 1, "share": 0.25, "kind": "zeta"}
    assert points[-1] == {"size": 1024, "share": 0.75, "kind": "alpha"}


def test_the_quick_grid_is_the_small_one_where_there_is_one() -> None:
    assert [point["size"] for point in MATMUL.points(quick=True)] == list(MATMUL.axis("size").quick)
    assert len(list(THREE.points(quick=True))) == 30


@pytest.mark.parametrize(("what", "among"), [("axis", "size, share, kind"), ("variant", "a, b"), ("line", "a, lie")])
def test_an_unknown_name_names_those_there_are(what: str, among: str) -> None:
    with pytest.raises(ArgumentError, match=f"experiment 'three': {what} is 'nothing'; expected one of {among}"):
        getattr(THREE, what)("nothing")


def test_a_variant_ends_where_an_axis_says_so_of_its_kind_of_device() -> None:
    ended = dataclasses.replace(THREE, axes=(dataclasses.replace(SIZE, most={"cpu": 2}), SHARE, KIND))
    there = {name: [size for size in SIZE.values if ended.has(name, {"size": size, "share": 0.5, "kind": "zeta"})]
             for name in ("a", "b")}  # fmt: skip
    assert there == {"a": [*SIZE.values], "b": [1, 2]}


def test_what_a_workload_does_not_tell_the_experiment_does(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    monkeypatch.setattr("brrr_course.nouns.experiment.waiting", lambda device: lambda: waited.append("wait"))
    told = [Workload(lambda: waited.append("run"), lambda found: 0.0, 1.0, warm=True)]
    monkeypatch.setitem(sys.modules, "three", SimpleNamespace(workload=lambda variant, point: told[0]))
    counted = dataclasses.replace(THREE, cost=lambda variant, point: Cost(2.0, 3.0))
    on_gpu, on_cpu, in_queue = (counted.made(Variant("c", "C", device), {}) for device in ("cuda", "cpu", "cpu-queue"))
    assert waited == ["run", "wait"], "a GPU's first call, and no other"
    assert [each.cost for each in (on_gpu, on_cpu, in_queue)] == [Cost(2.0, 3.0)] * 3
    assert on_gpu.check() == 0.0 and waited[2:] == ["run", "wait"]
    assert on_cpu.synchronize is None and in_queue.queue is not None
    in_queue.close()
    told[0] = dataclasses.replace(told[0], cost=Cost(5.0, 7.0), warm=False)
    assert counted.made(Variant("c", "C", "cuda"), {}).cost == Cost(5.0, 7.0) and len(waited) == 4


def test_what_an_experiment_is_given_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "three", SimpleNamespace(workload=build))
    assert THREE.has("a", {"size": 1024})
    assert THREE.has("b", {"size": 4})
    assert not THREE.has("b", {"size": 1024})
    assert THREE.workload("b", {"size": 1, "share": 0.5, "kind": "zeta"}).run() == "b"
    assert THREE.cost_at("a", {"size": 1}) is None
    assert dataclasses.replace(THREE, supports=None).has("b", {"size": 1024})
    with pytest.raises(ArgumentError, match="variant is 'c'"):
        THREE.has("c", {"size": 1})


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_of_the_course_is_sound(name: str) -> None:
    found = experiment(name)
    assert found.name == name
    assert len(found.axes) >= 1
    for axis in found.axes:
        assert len(set(axis.values)) == len(axis.values)
        assert set(axis.quick) <= {axis.nearest(value) for value in axis.quick} | set(axis.quick)
        assert all(axis.checked("test", value) == value for value in (*axis.values, *axis.quick))
    for names in ([v.name for v in found.variants], [x.name for x in found.lines], [c.name for c in found.claims]):
        assert len(set(names)) == len(names)
    assert {line.variant for line in found.lines} <= {variant.name for variant in found.variants}
    assert all(claim.text and claim.source and (claim.decides or claim.entry.not_here) for claim in found.claims)
    assert all(found.point(**anchor) for anchor in found.anchors)


@pytest.mark.parametrize("device", ["cuda", "cpu", "cpu-queue"])
@pytest.mark.parametrize("name", NAMES)
def test_the_quick_grid_has_a_point_for_each_device_that_the_whole_one_has_one_for(name: str, device: str) -> None:
    found = experiment(name)
    variants = [variant.name for variant in found.variants if variant.device == device]

    def reached(*, quick: bool) -> bool:
        return any(found.has(variant, point) for point in found.points(quick=quick) for variant in variants)

    assert reached(quick=True) == reached(quick=False)


def test_an_unknown_experiment_and_an_unknown_field_of_a_line_are_refused() -> None:
    with refused("name", "matmull"):
        experiment("matmull")
    with refused("field", "wall_s"):
        Line("x", "a", "wall_s", "x")  # type: ignore[arg-type]


# ---------------------------------------------------------------- workloads


@pytest.mark.parametrize("error", [math.nan, math.inf, 1.001e-6, 1.0])
def test_a_wrong_result_is_refused_and_nan_is_wrong(error: float) -> None:
    with pytest.raises(WrongResultError, match=r"expected at most 1e-06\. No time is shown"):
        Workload(lambda: 1, lambda result: error, 1e-6).check()


def test_a_right_result_gives_its_error_after_waiting_for_it() -> None:
    order: list[str] = []
    workload = Workload(
        lambda: order.append("run"), lambda result: len(order) * 1e-7, 1e-6, synchronize=lambda: order.append("wait")
    )
    assert workload.check() == 2e-7
    assert order == ["run", "wait"]


# ---------------------------------------------------------------- claims


JUST_BELOW = math.nextafter(2.0, 0)
BANDS: dict[tuple[float, float], dict[Status, list[tuple[float, float]]]] = {
    (2.0, math.inf): {"holds": [(2.0, 2.0), (2.0, 9.0)], "undecided": [(JUST_BELOW, 9.0), (1.0, 2.0)],
                      "fails": [(1.0, JUST_BELOW)]},
    (0.4, 0.6): {"holds": [(0.4, 0.6), (0.5, 0.5)], "fails": [(0.1, 0.39), (0.61, 0.7)],
                 "undecided": [(0.39, 0.6), (0.4, 0.61), (0.1, 0.9), (0.1, 0.4), (0.6, 0.7)]},
}  # fmt: skip


@pytest.mark.parametrize("band", BANDS)
def test_a_band_is_judged_at_its_borders(band: tuple[float, float]) -> None:
    for status, intervals in BANDS[band].items():
        for low, high in intervals:
            found = band_verdict(Estimate((low + high) / 2, low, high, 9), *band, "text")
            assert found == Verdict(status, "text"), (low, high)


def at(latency: float | None) -> Measurement:
    return Measurement(latency_s=None if latency is None else Estimate(latency, latency, latency, 9))


KNOWN = {
    (1024, 0.5, "alpha"): at(3.0), (2, 0.5, "alpha"): at(1.0), (4, 0.5, "zeta"): at(9.0),
    (100, 0.5, "alpha"): at(None), (2, 0.5, "zeta"): at(2.0),
}  # fmt: skip
EVIDENCE = Evidence(THREE, Kept({"a": KNOWN}))


def test_a_claim_sees_one_time_at_a_point() -> None:
    assert EVIDENCE.get("a", size=2, share=0.5, kind="alpha").median == 1.0


@pytest.mark.parametrize(("line", "size"), [("a", 1), ("a", 100), ("lie", 2)])
def test_what_was_not_measured_is_said(line: str, size: int) -> None:
    with pytest.raises(NotRecordedError, match=rf"{line} at size {size}, share 0\.5, kind alpha was not measured"):
        EVIDENCE.get(line, size=size, share=0.5, kind="alpha")


def test_a_curve_holds_the_other_axes_and_is_in_order() -> None:
    curve = EVIDENCE.curve("a", "size", share=0.5, kind="alpha")
    assert [(size, e.median) for size, e in curve.items()] == [(2, 1.0), (1024, 3.0)]
    with pytest.raises(NotRecordedError, match="no point of a was measured"):
        EVIDENCE.curve("a", "size", share=0.25, kind="alpha")


def test_a_curve_along_names_is_in_the_axis_order() -> None:
    assert list(EVIDENCE.curve("a", "kind", size=2, share=0.5)) == ["zeta", "alpha"]


# ---------------------------------------------------------------- sources, errors


@pytest.mark.parametrize("name", ["tpu", "cuda:1", "cpu:", "h200", "Recorded:h200"])
def test_an_unknown_source_names_those_there_are(
    name: str, synthetic_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRRR_RECORDINGS", str(synthetic_root))
    expected = (
        r"expected recorded:DEVICE, an accelerator \(.*'mps'.*\), cpu or remote:URL\. Recordings here: .*recorded:cpu, "
    )
    with pytest.raises(ArgumentError, match=expected):
        source(name)


def test_the_environment_names_the_source(synthetic_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_RECORDINGS", str(synthetic_root))
    monkeypatch.setenv("BRRR_SOURCE", "recorded:cpu")
    assert source().name == "recorded:cpu"
    assert source("recorded:h200").name == "recorded:h200"


def test_every_error_is_a_brrr_error() -> None:
    found = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)]
    assert len(found) >= 7
    assert all(issubclass(error, errors.BrrrError) for error in found)
    assert str(ArgumentError("call", "x", 1, "two", "Do this")) == "call: x is 1; expected two. Do this"
