"""The core: experiments, points, claims, the interval of a median, measurements, costs, sources, and light imports."""

import dataclasses
import math
import random
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import made_up
import numpy
import pytest
from formulas import Fake
from hypothesis import given
from hypothesis import strategies as st

from brrr.core import errors
from brrr.core.errors import ArgumentError, NotRecordedError, RecordingError, WrongResultError
from brrr.core.measurement import (
    CONFIDENCE,
    FIELDS,
    Badge,
    Estimate,
    Measurement,
    Point,
    Value,
    is_host_bound,
    median,
    median_interval,
)
from brrr.counting.cost import Cost, matmul_cost
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
    return Workload(lambda: variant.name, Cost(2.0, 3.0), lambda result: 0.0, 1e-6)


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


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [(1, 1), (3, 4), (7, 4), (20, 4), (21, 100), (300, 100), (400, 1024), (10**9, 1024)],
)
def test_a_log_axis_snaps_by_ratio(asked: float, nearest: int) -> None:
    assert SIZE.nearest(asked) == nearest


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


def test_what_an_experiment_is_given_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "three.work", SimpleNamespace(workload=build))
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
        Workload(lambda: 1, Cost(1, 1), lambda result: error, 1e-6).check()


def test_a_right_result_gives_its_error_after_waiting_for_it() -> None:
    order: list[str] = []
    workload = Workload(
        lambda: order.append("run"), Cost(1, 1), lambda result: len(order) * 1e-7, 1e-6, lambda: order.append("wait")
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


times = st.floats(1e-9, 1e4)


@given(st.tuples(times, times, times), st.tuples(times, times, times), st.floats(0.1, 10))
def test_a_ratio_is_judged_on_the_worst_and_the_best_case(
    over: tuple[float, ...], under: tuple[float, ...], at_least: float
) -> None:
    a, b = (Estimate(x[1], x[0], x[2], 9) for x in (sorted(over), sorted(under)))
    verdict = band_verdict(a / b, at_least, math.inf, "a over b")
    expected = "undecided"
    if a.low / b.high >= at_least:
        expected = "holds"
    elif a.high / b.low < at_least:
        expected = "fails"
    assert verdict.status == expected


class Fixed(Fake):
    """A source with the measurements it is given."""

    def __init__(self, known: Mapping[tuple[Value, ...], Measurement]) -> None:
        self._known = known

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        return ("a",)

    def known(self, experiment: Experiment, variant: str) -> Mapping[tuple[Value, ...], Measurement]:
        return self._known if variant == "a" else {}

    def measure(self, experiment: Experiment, variant: str, point: Point) -> Measurement:
        raise AssertionError("a claim measures nothing")


def at(latency: float | None) -> Measurement:
    return Measurement(latency_s=None if latency is None else Estimate(latency, latency, latency, 9))


EVIDENCE = Evidence(
    THREE,
    Fixed(
        {
            (1024, 0.5, "alpha"): at(3.0),
            (2, 0.5, "alpha"): at(1.0),
            (4, 0.5, "zeta"): at(9.0),
            (100, 0.5, "alpha"): at(None),
            (2, 0.5, "zeta"): at(2.0),
        }
    ),
)


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


def test_a_claim_without_its_points_is_not_measured() -> None:
    claim = made_up.claim(value=("host('a', size=1, share=0.5, kind='zeta')",))
    assert claim.verdict(Evidence(THREE, EVIDENCE.source)).status == "not measured"


def test_a_wrong_argument_in_a_claim_is_not_hidden() -> None:
    with pytest.raises(RecordingError, match="width"):
        made_up.claim(value=("host('a', width=1)",)).verdict(Evidence(THREE, EVIDENCE.source))


def test_there_are_five_verdicts() -> None:
    assert get_args(Status) == ("holds", "fails", "undecided", "not measured")


# ---------------------------------------------------------------- statistics


def miss_probability(n: int, rank: int) -> float:
    """How often the interval from the rank-th smallest to the rank-th largest of n (from 0) misses the median."""
    return 2 * sum(math.comb(n, k) for k in range(rank + 1)) / 2**n


@pytest.mark.parametrize("n", [*range(1, 61), 99, 100, 500, 999, 1000, 1001, 1002, 1003, 1004, 1500, 2001])
def test_the_interval_is_the_narrowest_that_reaches_95_percent(n: int) -> None:
    _, low, high = median_interval([float(k) for k in range(n)])
    rank = int(low)
    assert high == n - 1 - rank
    if n >= 6:
        assert miss_probability(n, rank) <= 1 - CONFIDENCE + 1e-12
    else:
        assert rank == 0
    one_narrower = 1 if n <= 1000 else 2  # the normal approximation may be a rank too wide
    if rank + one_narrower < n / 2:
        assert miss_probability(n, rank + one_narrower) > 1 - CONFIDENCE


@pytest.mark.parametrize("n", [6, 7, 15, 40, 101])
def test_95_of_100_intervals_hold_the_true_median(n: int) -> None:
    """Log-normal times, whose true median is 1, as skewed as real ones are; seeded, so it never flickers."""
    numbers = random.Random(20_000 + n)
    trials = 4000
    hits = 0
    for _ in range(trials):
        _, low, high = median_interval([numbers.lognormvariate(0.0, 1.0) for _ in range(n)])
        hits += low <= 1.0 <= high
    slack = 3 * math.sqrt(0.05 * 0.95 / trials)
    assert hits / trials >= 0.95 - slack
    rank = next(r for r in reversed(range(n // 2 + 1)) if miss_probability(n, r) <= 0.05 or r == 0)
    assert hits / trials == pytest.approx(1 - miss_probability(n, rank), abs=slack)


samples = st.lists(st.floats(1e-9, 1e4), min_size=1, max_size=60)


@given(samples, st.floats(0, 1))
def test_the_median_lies_in_its_interval_which_is_never_narrower_than_the_tick(
    values: list[float], tick: float
) -> None:
    middle, low, high = median_interval(values, tick)
    assert low <= middle <= high
    assert high - low >= tick * (1 - 1e-9) - 1e-9
    assert min(values) <= middle <= max(values)


@given(samples)
def test_the_median_is_numpys_and_order_does_not_matter(values: list[float]) -> None:
    assert median(values) == pytest.approx(float(numpy.median(values)), rel=1e-15)
    assert median_interval(values) == median_interval(values[::-1])


def test_an_outlier_moves_no_end_of_the_interval() -> None:
    steady = [1.0 + k / 1000 for k in range(40)]
    assert median_interval([*steady[:-1], 1e3]) == median_interval(steady)


def test_no_sample_has_no_median() -> None:
    for function in (median, median_interval):
        with pytest.raises(ValueError, match="values is empty"):
            function([])


# ---------------------------------------------------------------- measurements, costs


def test_an_estimate_comes_from_its_samples() -> None:
    e = Estimate.of([3e-6, 1e-6, 2e-6], tick=4e-6)
    assert (e.median, e.n) == (2e-6, 3)
    assert (e.low, e.high) == pytest.approx((0.0, 4e-6), abs=1e-18)
    assert e.relative_half_width == pytest.approx(1.0)
    assert Estimate(0.0, 0.0, 1.0, 1).relative_half_width == math.inf


def test_an_estimate_moves_and_stays_above_zero() -> None:
    e = Estimate(2.0, 1.0, 3.0, 5)
    assert e.shifted(-1.5) == Estimate(0.5, 0.0, 1.5, 5)


estimates = st.tuples(times, times, times).map(sorted).map(lambda t: Estimate(t[1], t[0], t[2], 9))


@given(estimates, estimates, st.data())
def test_an_interval_of_two_estimates_holds_what_both_may_be(
    one: Estimate, other: Estimate, data: st.DataObject
) -> None:
    a, b = (data.draw(st.floats(each.low, each.high)) for each in (one, other))
    for found, value in (
        (one / other, a / b),
        (one * other, a * b),
        (one - other, a - b),
        (1 - one / other, 1 - a / b),
    ):
        room = 1e-9 * max(abs(found.low), abs(found.high))
        assert found.low - room <= value <= found.high + room
        assert found.low <= found.median <= found.high


@given(estimates, times)
def test_with_a_number_an_estimate_is_only_scaled(one: Estimate, number: float) -> None:
    assert one * number == number * one == Estimate(one.median * number, one.low * number, one.high * number, 9)
    assert one / number == Estimate(one.median / number, one.low / number, one.high / number, 9)
    assert number / one == Estimate(number / one.median, number / one.high, number / one.low, 9, power=-1)
    assert (one - number).high == one.high - number


def test_a_ratio_over_what_may_be_nothing_has_no_upper_end() -> None:
    found = Estimate(4.0, 3.0, 5.0, 9) / Estimate(2.0, 0.0, 2.5, 7)
    assert (found.median, found.low, found.high, found.n) == (2.0, 1.2, math.inf, 7)
    assert f"{found}" == str(found) and f"{found:>40}" == str(found).rjust(40)


def exactly(seconds: float) -> Estimate:
    return Estimate(seconds, seconds, seconds, 9)


@pytest.mark.parametrize(
    ("host", "span", "period", "bound"),
    [
        (0.9 * 1.1, 1.0, 1.1, True),  # both at their border: 1.1 x span, 0.9 x period
        (0.98, 1.0, 1.1, False),
        (1.09, 1.0, 1.09, False),
        (10.0, 1.0, 10.0, True),
        (1.0, 10.0, 10.0, False),
    ],
)
def test_host_bound_is_its_formula(host: float, span: float, period: float, bound: bool) -> None:
    assert is_host_bound(exactly(host), exactly(span), exactly(period)) is bound


def test_host_bound_needs_its_three_times() -> None:
    assert is_host_bound(None, exactly(1), exactly(1)) is None
    assert is_host_bound(exactly(1), None, exactly(1)) is None
    assert is_host_bound(exactly(1), exactly(1), None) is None


@pytest.mark.parametrize(
    ("busy", "period", "share"),
    [(exactly(1), exactly(4), 0.75), (exactly(5), exactly(4), 0.0), (None, exactly(4), None), (exactly(1), None, None)],
)
def test_the_idle_share_is_its_formula(busy: Estimate | None, period: Estimate | None, share: float | None) -> None:
    assert Measurement(busy_s=busy, period_s=period).idle_share == share


def test_a_measurement_prints_as_a_sentence_and_in_detail() -> None:
    m = Measurement(host_s=exactly(11e-6), kernel_s=exactly(1e-6), span_s=exactly(1e-6), period_s=exactly(11e-6))
    assert str(m) == "11 µs on the host, 1 µs of GPU work: host-bound"
    assert str(Measurement()) == "nothing measured"
    assert str(Measurement(latency_s=exactly(1e-3), flags=("syncs",))) == "1 ms until the result is there: syncs"
    assert all(name in m.details() for name in FIELDS)
    assert re.search(r"not measured +a call alone, to its end +latency_s", m.details())


def test_an_unknown_time_is_refused() -> None:
    with pytest.raises(KeyError, match="name is 'wall_s'; expected one of host_s"):
        Measurement().get("wall_s")


def test_costs_add_up() -> None:
    cost = matmul_cost(2, 3, 4, itemsize=4)
    assert (cost.flop, cost.bytes) == (2 * 2 * 3 * 4, 4 * (6 + 12 + 8))
    assert cost.arithmetic_intensity == cost.flop / cost.bytes
    assert Cost(1.0, 0.0).arithmetic_intensity == math.inf


# ---------------------------------------------------------------- sources, errors


@pytest.mark.parametrize("name", ["tpu", "cuda:1", "cpu:", "h200", "Recorded:h200"])
def test_an_unknown_source_names_those_there_are(
    name: str, synthetic_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRRR_RECORDINGS", str(synthetic_root))
    expected = r"expected recorded:DEVICE, cuda, cpu or remote:URL\. Recordings here: .*recorded:cpu, "
    with pytest.raises(ArgumentError, match=expected):
        source(name)


def test_the_environment_names_the_source(synthetic_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_RECORDINGS", str(synthetic_root))
    monkeypatch.setenv("BRRR_SOURCE", "recorded:cpu")
    assert source().name == "recorded:cpu"
    assert source("recorded:h200").name == "recorded:h200"


def test_a_badge_leaves_out_what_is_not_known() -> None:
    assert str(Badge("LIVE", "a CPU", "2000-01-01", "")) == "LIVE · a CPU · 2000-01-01"


def test_every_error_is_a_brrr_error() -> None:
    found = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)]
    assert len(found) >= 7
    assert all(issubclass(error, errors.BrrrError) for error in found)
    assert str(ArgumentError("call", "x", 1, "two", "Do this")) == "call: x is 1; expected two. Do this"


# ---------------------------------------------------------------- light imports

HEAVY = ("torch", "triton", "pycuda", "matplotlib", "pandas", "numpy", "ipywidgets", "cupti", "pynvml")


def loaded_by(code: str) -> set[str]:
    """The heavy packages that a fresh Python has loaded after running the code."""
    asked = f"{code}\nimport sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, cwd=root)
    return set(done.stdout.split())


LIGHT = [
    "import brrr",
    "import brrr_course.sources.record, brrr_course.sources.recorded, brrr_course.lessons.claims_table",
    "import brrr_course.sources, brrr_course.sources.live",
    "from brrr_course.experiments import NAMES, experiment; [experiment(name) for name in NAMES]",
]


@pytest.mark.parametrize("code", LIGHT)
def test_importing_loads_nothing_heavy(code: str) -> None:
    assert loaded_by(code) == set()


def test_reading_a_recording_loads_nothing_heavy(synthetic_root: Path) -> None:
    code = f"""
from brrr_course.lessons.claims_table import claims
from brrr_course.experiments import experiment
from brrr_course.sources.recorded import Recorded
recorded = Recorded("h200", {str(synthetic_root)!r})
assert recorded.measure(experiment("matmul"), "gpu", {{"size": 64}}).kernel_s
assert claims("matmul", recorded).rows
"""
    assert loaded_by(code) == set()


@pytest.mark.parametrize("name", ["numpy", "torch", "matplotlib"])
def test_the_test_of_light_imports_can_fail(name: str) -> None:
    assert name in loaded_by(f"import brrr, {name}")


def test_the_time_of_the_import_is_printed() -> None:
    code = "import time; start = time.perf_counter(); import brrr; print(time.perf_counter() - start)"
    root = Path(__file__).parents[3]
    started = time.perf_counter()
    taken = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root).stdout)
        for _ in range(3)
    ]
    print(f"import brrr takes {min(taken):.3f} s (target 0.2 s; {time.perf_counter() - started:.1f} s for three)")
    assert min(taken) < 5 * 0.2
