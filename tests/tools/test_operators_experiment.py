"""The `operators` experiment: its cases and their halves, that each runs and is right, its rows, claims and table."""

import csv
import hashlib
import io
import math
from collections import Counter
from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest
import torch
from test_prediction_experiment import Made, exactly

from brrr.core.errors import TraceError, UnavailableError
from brrr.core.measurement import Measurement
from brrr.core.recordings import own_root
from brrr.gpu.precision import float32_products, float32_recurrence
from brrr.roofline.calibrate.host_cost import reference_call
from brrr.roofline.peaks import read_peaks
from brrr.roofline.predicting import predict
from brrr.timing import measure_together
from brrr_course.nouns.source import Evidence
from brrr_course.sources.claimed import claimed_points
from brrr_course.sources.plan import DurationEstimator, steps
from brrr_course.sources.rows import Timed
from brrr_course.sources.timers import measure_point
from tools.prediction import __main__ as command
from tools.prediction.operators import work
from tools.prediction.operators.calls import OPERATORS as CALLS
from tools.prediction.operators.calls import STEPS, cost_of, surroundings
from tools.prediction.operators.cases import SEED, OperatorCase, by_name, cases, drawn, half_of, split, twin
from tools.prediction.operators.experiment import EXPERIMENT as OPERATORS
from tools.prediction.operators.rows import operator_rows
from tools.prediction.rows import rows_of

# ---- the cases ----


@pytest.mark.parametrize(
    ("group", "apart"), [(("kind",), 1), (("what",), 1), (("kind", "dtype"), 9), (("kind", "direction"), 9)]
)
def test_the_halves_are_equal_and_share_what_there_are_two_of(group: tuple[str, ...], apart: int) -> None:
    assert Counter(map(half_of, cases())) == {"learn": 60, "report": 60}
    groups: dict[tuple[str, ...], list[str]] = {}
    for each in cases():
        groups.setdefault(attrgetter(*group, "name")(each)[:-1], []).append(half_of(each))
    for found in groups.values():
        assert len(found) < 2 or {*found} == {"learn", "report"}
        assert abs(found.count("learn") - found.count("report")) <= apart


def test_the_split_depends_on_cases_and_seed_alone() -> None:
    assert split(reversed(cases())) == split(cases(), SEED)
    assert split(cases(), "another seed") != split(cases())
    report = ", ".join(sorted(each.name for each in cases() if half_of(each) == "report"))
    assert hashlib.sha256(report.encode()).hexdigest()[:16] == "ece8ef8f56dbbba1", "the reported half is fixed for good"


def test_drawn_cases_are_the_tables_operators_in_its_types_and_no_case_is_drawn_twice() -> None:
    ways = {(each.what, each.dtype, each.direction) for each in cases()}
    assert {(each.what, each.dtype, each.direction) for each in drawn()} <= ways
    assert {each.what for each in drawn()} == set(CALLS) and {half_of(each) for each in drawn()} == {"drawn"}
    assert {each.name for each in drawn("another seed")}.isdisjoint(each.name for each in cases())
    names = hashlib.sha256(", ".join(each.name for each in drawn()).encode()).hexdigest()[:16]
    assert names == "74acd9e43cbbd8a3", "what was recorded was drawn from this seed"


@pytest.mark.parametrize("what", [what for what in CALLS if what != "adam"])  # which needs values to be counted
@pytest.mark.parametrize("seed", ["1", "2"])
def test_what_is_drawn_can_be_called(what: str, seed: str) -> None:
    assert cost_of(next(each for each in drawn(seed) if each.what == what)).bytes > 0


# ---- each runs, is right, and is found out where it is not ----

SMALL = {
    "group_norm": (2, 6, 5, 5, 3), "encoder_layer": (2, 5, 12, 3, 16), "decoder_block": (2, 5, 12, 3),
    "grouped3x3": (2, 8, 9, 9, 8), "grouped3x3_channels_last": (2, 8, 9, 9, 8),
}  # fmt: skip
SHRUNKEN = dict.fromkeys(
    replace(each, sizes=SMALL.get(each.what, tuple(min(size, 12) for size in each.sizes))) for each in cases()
)


@pytest.mark.parametrize("case", SHRUNKEN, ids=attrgetter("name"))
def test_a_case_is_right_on_a_cpu_and_a_wrong_result_is_found_out(case: OperatorCase) -> None:
    call = work.call_of(case, "cpu")
    with surroundings(case):
        found = call()
    assert work.error_of(case, "cpu", found) <= work.tolerance(case)
    if case.what not in ("argmax", *STEPS):  # places have another type; a fresh step is compared
        first = work._first(found)
        assert not work.error_of(case, "cpu", torch.full_like(first, math.nan)) <= work.tolerance(case)
        assert not work.error_of(case, "cpu", torch.zeros_like(first)) <= work.tolerance(case)


# ---- each is counted and predicted, on the recorded peaks of an H200 ----

UNKNOWN = {
    "sort": "aten.sort", "topk": "aten.topk", "interpolate": "aten.upsample_bilinear2d",
}  # fmt: skip


@pytest.fixture(scope="module")
def as_predicted() -> Made:
    """Every case measured just as it is predicted, a host as fast as calibrated."""
    peaks = read_peaks(own_root() / "h200")
    times: dict[str, dict[str, Measurement]] = {"eager": {}, "graph": {}, "reference": {}}
    for case in cases():
        try:
            eager, graph = (predict(cost_of(case), device=peaks, how=how, tf32=case.dtype == "tf32")
                            for how in ("eager", "graph"))  # fmt: skip
        except TraceError:
            assert case.what == "adam", "nothing else needs values"
            times["eager"][case.name] = Measurement(span_s=exactly(None), period_s=exactly(None))
            continue
        busy, period = exactly(eager.busy_s), exactly(eager.period_s)
        times["eager"][case.name] = Measurement(busy_s=busy, span_s=exactly(eager.span_s), period_s=period)
        times["graph"][case.name] = Measurement(span_s=exactly(graph.span_s), period_s=exactly(graph.period_s))
        times["reference"][case.name] = Measurement(host_s=exactly(peaks.get("host.relu").value))
    return Made(times)


@pytest.fixture(autouse=True)
def peaks_of_an_h200(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.prediction.rows.peaks_of", lambda source: read_peaks(own_root() / "h200"))


def verdicts(source: Made) -> dict[str, Any]:
    evidence: Any = Evidence(OPERATORS, source)  # type: ignore[arg-type]
    return {claim.name: claim.verdict(evidence) for claim in OPERATORS.claims}


def test_every_case_is_predicted_and_what_is_unknown_says_so(as_predicted: Made) -> None:
    rows = rows_of(OPERATORS, as_predicted, operator_rows)  # type: ignore[arg-type]
    assert len(rows) == 240 and all(abs(row.error) < 1e-9 for row in rows if not row.unknown)
    unknown = {row.case.name for row in rows if row.unknown}
    assert unknown == {each.name for each in cases() if each.what in UNKNOWN}
    for row in rows:
        assert not row.unknown or UNKNOWN[by_name()[row.case.name].what] in row.unknown


def test_claims_look_at_the_reported_half_alone(as_predicted: Made) -> None:
    found = verdicts(as_predicted)
    assert {name: found[name].status for name in ("device", "loops", "unknown")} == dict.fromkeys(
        ("device", "loops", "unknown"), "holds"
    )
    assert "of 60 cases are unknown" in found["unknown"].measured
    for half, status in (("learn", "holds"), ("report", "fails")):
        wrong = {name: replace(m, span_s=exactly(1.0)) if half_of(by_name()[name]) == half else m
                 for name, m in as_predicted.times["graph"].items()}  # fmt: skip
        assert verdicts(Made({**as_predicted.times, "graph": wrong}))["device"].status == status


def test_of_a_device_that_nobody_swept_all_cases_count(as_predicted: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an H200's figures under another name its own times are carried over; each half of the cases tells."""
    names = "carried-device", "carried-loops", "datasheet-device"
    swept = verdicts(as_predicted)
    assert {swept[name].status for name in names} == {"not measured"}
    own = read_peaks(own_root() / "h200")
    other = replace(own, device="NVIDIA H100 80GB HBM3", sweeps={}, reference="h200")
    monkeypatch.setattr("tools.prediction.rows.peaks_of", lambda source: other)
    found = verdicts(Made(as_predicted.times))
    assert {name: found[name].status for name in names} == dict.fromkeys(names, "holds")
    assert "median 0 %" in found["carried-device"].measured and "of 112 rows" in found["carried-device"].measured
    twice = {name: replace(m, span_s=exactly(2 * m.span_s.median)) if half_of(by_name()[name]) == "learn" and m.span_s
             else m for name, m in as_predicted.times["graph"].items()}  # fmt: skip
    assert verdicts(Made({**as_predicted.times, "graph": twice}))["carried-device"].status == "fails"


def test_predictions_go_by_the_recording_s_precision_and_not_by_torch_s(as_predicted: Made) -> None:
    only = {name: {each: m for each, m in those.items() if each.startswith(("conv3x3", "mm 67"))}
            for name, those in as_predicted.times.items()}  # fmt: skip
    with float32_products(tf32=True), float32_recurrence(tf32=True):
        rows = rows_of(OPERATORS, Made(only), operator_rows)  # type: ignore[arg-type]
    assert len(rows) > 6 and all(abs(row.error) < 1e-9 for row in rows)


def test_a_lower_bound_above_the_measured_time_is_none(as_predicted: Made) -> None:
    name = next(each.name for each in cases() if each.what == "topk" and half_of(each) == "report")
    less = {**as_predicted.times["graph"], name: Measurement(span_s=exactly(1e-9), period_s=exactly(1e-9))}
    found = verdicts(Made({**as_predicted.times, "graph": less}))["unknown"]
    assert found.status == "fails" and name in found.measured


def test_a_twin_tells_whether_the_bytes_are_the_limit(as_predicted: Made) -> None:
    case = by_name()["layer_norm 30011x640 bfloat16 backward"]
    eager, other = as_predicted.times["eager"][case.name], twin(case)
    assert other is not None and eager.busy_s is not None
    by = cost_of(other).eager_bytes / cost_of(case).eager_bytes
    twins = {case.name: Measurement(busy_s=exactly(eager.busy_s.median * by))}
    rows = rows_of(OPERATORS, Made({**as_predicted.times, "other-bytes": twins}), operator_rows)  # type: ignore[arg-type]
    (told,) = (row.truth for row in rows if row.case.name == case.name and row.field == "period_s")
    assert told is not None and told.bounds == {"memory"}


def test_the_table_has_each_case_and_the_errors_of_each_half(
    as_predicted: Made, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "source", lambda name=None: as_predicted)
    assert command.main(["rows", "operators"]) == 0
    printed = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(printed.out)))
    assert [row["case"] for row in rows] == [each.name for each in cases()]
    assert all((row["device_error"] == "") == bool(row["unknown"]) for row in rows)
    assert [line.split()[:3] for line in printed.err.splitlines() if " all " in line] == [
        ["learn", "all", "60"], ["report", "all", "60"],
    ]  # fmt: skip


# ---- the grid, and what is measured together ----


def test_the_grid_takes_a_few_minutes_and_planning_predicts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    every = steps([OPERATORS], "cuda")
    count = Counter(name for step in every for name in step.variants)
    assert count["eager"] == count["reference"] == 120 and count["graph"] == 118
    assert count["other-bytes"] == sum(twin(each) is not None for each in cases())
    assert sum(map(DurationEstimator().seconds, every)) < 300
    assert steps([OPERATORS], "cpu") == []
    monkeypatch.setattr("brrr.roofline.predicting.predict", None)
    assert claimed_points(OPERATORS) == []


def test_a_case_is_checked_and_measured_in_its_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the CPU in the GPU's place, and the call in its graph's."""
    here: dict[str, Any] = {"call_of": work.call_of, "error_of": work.error_of, "measure_together": measure_together}
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(work, "reference_call", lambda device: reference_call("cpu"))
    monkeypatch.setattr(work, "call_of", lambda case, device, graph: here["call_of"](case, "cpu"))
    monkeypatch.setattr(work, "error_of", lambda case, device, found: here["error_of"](case, "cpu", found))
    monkeypatch.setattr(
        work, "measure_together", lambda calls, **_: here["measure_together"](calls, device="cpu", budget_s=0.01)
    )
    for name in ("layer_norm 57x313 float32", "mlp_loss 61x127x255x11 float32 backward", "adam 10x129 float32"):
        wanted = [each.name for each in OPERATORS.variants if OPERATORS.has(each.name, {"case": name})]
        found = measure_point(OPERATORS, wanted, {"case": name})
        assert len(found) == {"layer_norm": 4, "mlp_loss": 3, "adam": 2}[name.split()[0]]
        for ran in found.values():
            assert isinstance(ran, Timed) and ran.measurement.period_s is not None, ran


def test_the_reference_is_measured_by_turns_with_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "reference_call", lambda device: lambda: None)
    monkeypatch.setattr(work, "measure_together", lambda calls, **_: [Measurement(kernels=len(calls))] * len(calls))
    case = cases()[0]
    assert work._measured(case, lambda: None, beside=False).kernels == 1
    with pytest.raises(UnavailableError, match="measured earlier"):
        work._reference(case)
    assert work._measured(case, lambda: None, beside=True) == work._reference(case)
    with pytest.raises(UnavailableError, match="adam 10x129 float32 has no variant graph"):
        OPERATORS.workload("graph", {"case": "adam 10x129 float32"})
