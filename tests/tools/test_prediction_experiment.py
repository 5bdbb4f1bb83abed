"""The `prediction` experiment: its cases, their twins, results and checks, the batches, the truth, rows and claims."""

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from today import drawn

from brrr.core.errors import BrrrError, UnavailableError
from brrr.core.measurement import FIELDS, Badge, Estimate, Measurement, Value
from brrr.roofline.peak import Peak
from brrr.roofline.peaks import Peaks
from brrr.timing.activity import Activity
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Evidence
from brrr_course.sources.claimed import claimed_points
from brrr_course.sources.plan import steps
from brrr_course.sources.timers import measure_point
from tools.prediction import __main__ as command
from tools.prediction import calls as prediction_calls
from tools.prediction import cases as prediction_cases
from tools.prediction import rows as prediction_rows
from tools.prediction import rows as prediction_torch
from tools.prediction import work
from tools.prediction.bounds import Amount, truth
from tools.prediction.calls import cost_of
from tools.prediction.cases import Case, case, cases, intervened, to_compile, twin
from tools.prediction.claims import ENOUGH
from tools.prediction.experiment import EXPERIMENT as PREDICTION
from tools.prediction.rows import datasheet_s


def of_kind(kind: str) -> list[Case]:
    return [each for each in cases() if each.kind == kind]


# ---- the cases ----


def test_there_are_as_many_cases_of_as_many_kinds_as_a_judgement_needs() -> None:
    streams, products, chains = map(of_kind, ("stream", "product", "chain"))
    assert len(streams) >= 160 and len({each.what for each in streams}) >= 20
    assert min(each.nbytes for each in streams) < 5e3 and max(each.nbytes for each in streams) > 5e8
    assert all(0.9e3 <= each.nbytes <= 1.1e9 for each in streams)
    assert len(products) >= 520 and all(each.nbytes <= 1e9 for each in products)
    assert set(Counter(each.dtype for each in products)) == {"bfloat16", "float16", "float32", "tf32", "float64"}
    assert len(chains) >= 45 and {2, 200} <= {each.length for each in chains}
    assert {each.what for each in streams} == set(prediction_calls.STREAMS)
    assert {each.what for each in chains} == set(prediction_calls.MIXES)


@pytest.mark.parametrize(
    ("what", "least", "is_so"),
    [
        ("odd", 100, lambda s: any(size % 2 for size in s[1:])),
        ("skinny", 80, lambda s: 1 < min(s[1:]) <= 64),
        ("vector", 20, lambda s: 1 in s[1:3]),
        ("batched", 30, lambda s: s[0] > 1),
        ("square", 20, lambda s: s[1] == s[2] == s[3]),
        ("powers of two", 40, lambda s: all(size & (size - 1) == 0 for size in s[1:])),
    ],
)
def test_products_have_every_shape(what: str, least: int, is_so: Callable[[tuple[int, ...]], bool]) -> None:
    assert sum(is_so(each.sizes) for each in of_kind("product")) >= least


def test_cases_are_the_same_each_time_and_no_name_stands_for_two() -> None:
    before = cases()
    prediction_cases.cases.cache_clear()
    try:
        assert cases() == before
    finally:
        prediction_cases.cases.cache_clear()
    names = [each.name for each in before]
    assert len(set(names)) == len(names)
    assert all("," not in name and "=" not in name for name in names), "`--only case=NAME` could not be told apart"
    assert [case(name) for name in names] == list(before)


def test_chains_start_with_memory_of_their_own() -> None:
    for each in of_kind("chain"):
        found = prediction_calls.steps(each)
        assert len(found) == each.length and not found[0].endswith("_")
        assert prediction_calls.steps(replace(each, dtype="float64")) == found


# ---- twins ----


def test_twins_change_what_they_should_and_hardly_anything_else() -> None:
    """A quarter of them, drawn anew each day."""
    for name in drawn(sorted(intervened()), len(intervened()) // 4):
        here = case(name)
        if here.nbytes / here.length > 1e8:
            continue
        mine, other = cost_of(here), twin(here, "bytes")
        if other is not None:
            theirs = cost_of(other)
            assert theirs.flop == pytest.approx(mine.flop, rel=0.02)
            assert theirs.eager_bytes != mine.eager_bytes
        less = twin(here, "flop")
        assert (less is not None) == (here.kind == "product")
        if less is not None:
            assert not 0.7 < cost_of(less).flop / mine.flop < 1.4


def test_a_product_that_is_cut_reads_another_operand_for_each_part() -> None:
    here = Case("product", "nt", (1, 64, 4096, 1024), "bfloat16")
    other = twin(here, "bytes")
    assert other == Case("product", "nt", (4, 64, 1024, 1024), "bfloat16")
    assert other.nbytes - here.nbytes == 3 * 2 * 64 * 1024
    assert twin(Case("product", "nn", (1, 8, 8, 8), "float32"), "bytes") is None
    assert twin(Case("chain", "mlp", (8, 8), "float32", 3), "bytes") is None
    assert twin(Case("product", "nn", (1, 1, 4096, 4096), "float32"), "flop") == Case(
        "product", "nn", (1, 2, 4096, 4096), "float32"
    )


# ---- results and their checks ----

SMALL = [each for each in cases() if each.nbytes <= 2e6 and each.flop <= 2e8]
SOME = [*drawn(SMALL, len(SMALL) // 9), *(each for each in SMALL if each.kind == "chain")]


@pytest.mark.parametrize("made", SOME, ids=lambda each: each.name)
def test_every_kind_of_case_is_right_on_a_cpu(made: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work.Pool, "_pools", {})
    torch.manual_seed(0)  # 60 norms in bfloat16 over one row blow some rows' rounding up: those are refused, rightly
    inputs = work.inputs_of(made, "cpu")
    kept = {name: each.clone() for name, each in inputs.items()}
    found = work.call_of(made, inputs)()
    assert work.error_of(made, inputs, found) <= work.tolerance(made)
    assert all(torch.equal(inputs[name], kept[name]) for name in kept), "a case must leave its inputs alone"


CHECKED = [
    Case("stream", "softmax", (65, 97), "float32"),
    Case("stream", "sum_columns", (65, 97), "bfloat16"),
    Case("stream", "transpose", (65, 97), "float32"),
    Case("stream", "sum", (65, 97), "float32"),
    Case("product", "nt", (1, 65, 97, 33), "bfloat16"),
    Case("product", "nn", (5, 65, 97, 33), "float32"),
    Case("chain", "norms", (65, 97), "float32", 4),
]


@pytest.mark.parametrize("made", CHECKED, ids=lambda each: each.name)
@pytest.mark.parametrize("spoilt", ["scaled", "NaN", "half", "shape", "nothing"])
def test_a_wrong_result_is_found_out(made: Case, spoilt: str) -> None:
    inputs = work.inputs_of(made, "cpu")
    found = work.call_of(made, inputs)()
    wrong: Any = {
        "scaled": found * 1.2,
        "NaN": torch.full_like(found, math.nan),
        "half": torch.where(torch.arange(found.numel()).view(found.shape) % 2 == 0, found, found + found.abs().max()),
        "shape": torch.stack([found, found]),
        "nothing": None,
    }[spoilt]
    if made.what == "sum" and spoilt in ("scaled", "half"):
        wrong = found + 10  # a sum may be near zero by chance
    assert not work.error_of(made, inputs, wrong) <= work.tolerance(made)


def test_a_product_wrong_at_its_last_column_only_is_found_out() -> None:
    made = Case("product", "nn", (1, 500, 501, 64), "float32")
    inputs = work.inputs_of(made, "cpu")
    found = work.call_of(made, inputs)()
    found[:, -1] = 0
    assert work.error_of(made, inputs, found) > work.tolerance(made)


def test_tf32_would_be_found_out_in_a_product_of_float32() -> None:
    made = Case("product", "nn", (1, 64, 64, 256), "float32")
    inputs = work.inputs_of(made, "cpu")
    cut = {name: (each.view(torch.int32) & ~0x1FFF).view(torch.float32) for name, each in inputs.items()}
    found = work.call_of(made, cut)()
    assert work.error_of(made, inputs, found) > work.tolerance(made)
    assert work.error_of(replace(made, dtype="tf32"), inputs, found) <= work.PRODUCT["tf32"]


def test_a_case_is_measured_on_a_cpu() -> None:
    for name in ("softmax", "matmul", "chain of 3"):
        first = next(p for p in PREDICTION.points(quick=True) if name in str(p["case"]) or name == "chain of 3")
        found = measure_point(PREDICTION, ["cpu-eager"], first, budget_s=0.01)["cpu-eager"]
        assert not isinstance(found, BrrrError)
        assert found.measurement.period_s is not None and found.measurement.busy_s is None
        assert found.cost.bytes == cost_of(case(first["case"])).bytes


# ---- quick times, with a made-up device ----


class MadeUp:
    """A profiler that sees one kernel for each call, as long as the case's rows; it may lose a session's last."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int = 10**9) -> None:
        self.most, self.sessions, self.seen = most, 0, []  # type: ignore[var-annotated]
        for name, made in {"synchronize": lambda: None, "current_device": lambda: 0}.items():
            monkeypatch.setattr(torch.cuda, name, made)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "made up")
        monkeypatch.setattr(work, "gate_of", lambda index: self)
        monkeypatch.setattr(work, "marker_kernel", lambda: self.seen.append(("brrr_marker", 1)))
        monkeypatch.setattr(work, "sm_clock_hz", lambda: 1.5e9)
        monkeypatch.setattr("brrr.timing.activity.record_activity", self.record)
        monkeypatch.setattr(work, "_known", {})
        monkeypatch.setattr(work, "inputs_of", lambda made, device: {"rows": made.sizes[-2]})
        monkeypatch.setattr(work, "call_of", self.call_of)

    def call_of(self, made: Case, inputs: Mapping[str, int]) -> Callable[[], None]:
        if made.kind == "product" and made.sizes[1] == 1:
            raise torch.OutOfMemoryError("made up")
        return lambda: self.seen.append(("kernel", inputs["rows"]))

    def run(self, issue: Callable[[], Any], timeout_s: float) -> bool:
        issue()
        return True

    def record(self, run: Callable[[], Any]) -> tuple[list[Activity], list[str]]:
        self.sessions, self.seen = self.sessions + 1, []
        run()
        start, found = 0, []
        for name, length in self.seen[: self.most]:
            found.append(Activity(name, start, start + length, 7))
            start += length + 1
        return found, []


def test_a_batch_of_cases_shares_a_session_and_each_gets_its_own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lost some is made again in halves; a case that cannot run leaves the others alone."""
    for count, most, sessions in ((100, 10**9, math.ceil(100 / work.BATCH)), (work.BATCH, 12 * work.BATCH + 5, 3)):
        device = MadeUp(monkeypatch, most=most)
        for made in cases()[:count]:
            calls = work.kernel_times(made)
            assert {call[0].end_ns - call[0].start_ns for call in calls} == {made.sizes[-2]}
            assert {len(call) for call in calls} == {1} and len(calls) >= work.FEWEST_CALLS
        assert device.sessions == sessions
    vector = next(each for each in of_kind("product") if each.sizes[1] == 1)
    beside = next(each for each in work._batch_of(vector) if each.sizes[1] != 1)
    assert work.kernel_times(vector) == [] and work.kernel_times(beside)


def test_quick_times_are_whole_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    MadeUp(monkeypatch)
    monkeypatch.setattr(work, "reference_call", lambda device: lambda: None)
    monkeypatch.setattr(work, "SLICE_S", 1e-4)
    made, twins = cases()[0], [t for name in intervened() if (t := twin(case(name), "bytes")) is not None]
    found = work.measured(lambda: None, made, kernels=True)
    assert found.busy_s is not None and found.busy_s.median == pytest.approx(made.sizes[0] * 1e-9)
    assert found.kernels == 1 and found.period_s is not None and found.period_s.n == work.ROUNDS
    beside = work.reference(made)
    assert beside.host_s is not None and beside.busy_s is None and beside.device == "made up"
    with pytest.raises(UnavailableError, match="measured earlier"):
        work.reference(made)
    assert work.measured(lambda: None, made, kernels=False).busy_s is None
    assert all(work.kernel_times(each) for each in twins[:3] if each.sizes[1] != 1)


# ---- torch's estimator ----


def asking() -> ModuleType:
    """The module of torch that asks for the device's figures: it moved between versions."""
    try:
        return import_module("torch.utils._runtime_estimation")
    except ImportError:
        return import_module("torch.distributed._tools.runtime_estimator")


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking(), "get_device_tflops", lambda dtype: 100.0)
    monkeypatch.setattr(asking(), "get_gpu_dram_gbps", lambda: 1000.0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(prediction_torch, "_clock_mhz", lambda: 1980)


@pytest.mark.parametrize(
    ("made", "seconds"),
    [
        (Case("product", "nn", (1, 1024, 1024, 4096), "bfloat16"), 1024 * 1024 * 4096 / 0.75e14),
        (Case("stream", "relu", (1000, 1000), "float32"), 8e6 / 1e12),
        (Case("chain", "in_place", (1000, 1000), "float32", 1), 8e6 / 1e12),
    ],
    ids=lambda each: each.name if isinstance(each, Case) else "",
)
def test_torchs_estimator_answers_by_its_formula(rates: None, made: Case, seconds: float) -> None:
    assert prediction_torch.estimate_s(made, "cpu") == pytest.approx(seconds, rel=1e-3)


def test_every_kind_of_case_has_an_estimate_and_a_failure_is_told(
    rates: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for made in (*drawn(of_kind("stream"), 25), *drawn(of_kind("chain"), 6), *drawn(of_kind("product"), 6)):
        found = prediction_torch.estimated(made, "cpu")
        assert found.estimated_s is not None and found.estimated_s >= prediction_torch.LEAST_S
        assert not any(found.get(name) for name in FIELDS), "no time is called measured"
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(asking(), "get_gpu_dram_gbps", lambda: 0)
    with pytest.raises(UnavailableError, match="ZeroDivisionError"):
        prediction_torch.estimated(of_kind("stream")[0], "cpu")


# ---- the truth by intervention ----

BUSY = 100e-6


@pytest.mark.parametrize(
    ("kind", "gain", "moving", "computing", "true"),
    [
        ("stream", 2.0, 0.0, 0.0, {"overhead"}),
        ("product", 1.5, 0.9, 0.1, {"overhead"}),
        ("stream", 1.3, 0.9, 0.0, set()),
        ("stream", 1.0, 0.95, 0.0, {"memory"}),
        ("chain", 1.0, 0.95, 0.0, {"memory"}),
        ("stream", 1.0, 0.5, 0.0, set()),
        ("stream", 1.0, 0.1, 0.0, {"overhead", "compute"}),
        ("product", 1.0, 0.95, 0.02, {"memory"}),
        ("product", 1.0, 0.02, 0.95, {"compute"}),
        ("product", 1.0, 0.45, 0.45, {"balanced"}),
        ("product", 1.0, 0.1, 0.1, {"overhead"}),
        ("product", 1.0, 0.25, 0.25, set()),
    ],
)
def test_the_truth_is_what_a_case_answers_to(
    kind: str, gain: float, moving: float, computing: float, true: set[str]
) -> None:
    """A case of which shares of the time are known by construction; its twins answer accordingly."""

    def amount(nbytes: float, flop: float) -> Amount:
        seconds = BUSY * ((1 - moving - computing) + moving * nbytes / 1e8 + computing * flop / 1e9)
        return Amount(seconds, nbytes, flop)

    twins = {"bytes": amount(2.5e8, 1e9)}
    if kind == "product":
        twins["flop"] = amount(0.7e8, 0.5e9)
    assert truth(kind, BUSY, BUSY / gain, amount(1e8, 1e9), twins).bounds == true


@pytest.mark.parametrize(("kind", "twins", "bounds"), [
    ("chain", {}, set()),
    ("product", {"flop": Amount(BUSY / 2, 0.5e8, 0.5e9)}, set()),
    ("product", {"flop": Amount(BUSY / 2, 1e8, 0.5e9)}, {"compute"}),
    ("product", {"flop": Amount(BUSY, 1e8, 2e9)}, {"memory", "overhead"}),
    *((kind, {twin: Amount(BUSY * (1 - share / 2), nbytes, 0.5e9)}, set())  # on another kernel, as the times show
      for share in (-0.3, 1.4) for kind, twin, nbytes in (("stream", "bytes", 0.5e8), ("product", "flop", 1e8))),
])  # fmt: skip
def test_without_a_clean_twin_there_is_no_truth(kind: str, twins: dict[str, Amount], bounds: set[str]) -> None:
    assert truth(kind, BUSY, BUSY, Amount(BUSY, 1e8, 1e9), twins).bounds == bounds


# ---- rows, claims, table ----


class Made:
    """A source of made-up measurements, by variant and case."""

    live, name = False, "made up"

    def __init__(self, times: Mapping[str, Mapping[str, Measurement]], kind: str = "RECORDED") -> None:
        self.times, self.kind = times, kind

    def badge(self, experiment: Experiment, shown: object = None) -> Badge:
        return Badge(self.kind, "NVIDIA H200", "2026-11-21", "torch 2.11")  # type: ignore[arg-type]

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        return tuple(self.times)

    def known(self, experiment: Experiment, variant: str) -> dict[tuple[Value, ...], Measurement]:
        return {(name,): measured for name, measured in self.times[variant].items()}


def exactly(seconds: float | None) -> Estimate:
    return Estimate(seconds or 1e-6, seconds or 1e-6, seconds or 1e-6, 9)


RELU_S = 5e-6
MADE_UP_PEAKS = Peaks("NVIDIA H200", "cuda", "2026-11-21", measured={"host.relu": Peak(RELU_S, RELU_S, RELU_S, "s")})


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every case is predicted at 100 µs on the device and 110 µs in a loop, memory-bound; the host sets the loop's."""

    class Predicted:
        busy_s, bound = 100e-6, "memory"

        def __init__(self, device: Peaks) -> None:
            self.period_s = 110e-6 * device.get("host.relu").value / RELU_S

    monkeypatch.setattr(prediction_rows, "peaks_of", lambda source: MADE_UP_PEAKS)
    monkeypatch.setattr("tools.prediction.rows.predict", lambda *args, device, **options: Predicted(device))


def made_up(off: Sequence[float]) -> Made:
    """Measured times so that predictions are wrong by `off` in turn; streams and products answer as memory-bound."""
    eager, graph, twins = {}, {}, {}
    for place, each in enumerate(cases()):
        wrong = 1 + off[place % len(off)]
        busy, period = 100e-6 / wrong, 110e-6 / wrong
        eager[each.name] = Measurement(busy_s=exactly(busy), period_s=exactly(period))
        if each.name in intervened():
            graph[each.name] = Measurement(period_s=exactly(period))
            other = twin(each, "bytes")
            if other is not None and each.kind != "product":
                ratio = cost_of(other).eager_bytes / cost_of(each).eager_bytes
                twins[each.name] = Measurement(busy_s=exactly(busy * (0.05 + 0.95 * ratio)))
    return Made({"eager": eager, "graph": graph, "other-bytes": twins, "torch": {}})


def verdicts(source: Made) -> dict[str, Any]:
    evidence: Any = Evidence(PREDICTION, source)  # type: ignore[arg-type]
    return {claim.name: claim.verdict(evidence) for claim in PREDICTION.claims}


def test_claims_hold_where_predictions_are_near(predicted: None) -> None:
    found = verdicts(made_up([0.01, -0.02, 0.03, -0.04]))
    for name in ("streams", "streams-in-a-loop", "products", "products-in-a-loop", "products-to-the-percent", "chains"):
        assert found[name].status == "holds", (name, found[name])
    assert "median 2" in found["products"].measured and "of 528 rows" in found["products"].measured
    assert found["bounds"].status == "undecided" and "right for 100 %" in found["bounds"].measured


def test_claims_fail_where_one_of_both_limits_is_passed(predicted: None) -> None:
    median_off = verdicts(made_up([0.13, -0.13]))
    assert [median_off[name].status for name in ("streams", "products", "chains")] == ["fails"] * 3
    tail_off = verdicts(made_up([0.01] * 4 + [0.5]))
    assert [tail_off[name].status for name in ("streams", "products", "chains")] == ["fails"] * 3
    assert "(+50%)" in tail_off["products"].measured


def test_a_reference_beside_a_case_takes_the_hosts_speed_out(predicted: None) -> None:
    """A host 1.5 times slower than when it was calibrated: wrong by a third without the reference, right with it."""
    source = made_up([-1 / 3])
    slower = {name: Measurement(host_s=exactly(1.5 * RELU_S)) for name in source.times["eager"]}
    without, found = verdicts(source), verdicts(Made({**source.times, "reference": slower}))
    for kind in ("streams", "products", "chains"):
        assert "no reference" in without[f"{kind}-at-the-hosts-speed"].measured
        assert found[f"{kind}-at-the-hosts-speed"].status == "holds"
        assert "without it median 33 %" in found[f"{kind}-at-the-hosts-speed"].measured
    assert found["chains"].status == "fails", "what was calibrated is judged as it is"


def test_too_few_rows_decide_nothing(predicted: None) -> None:
    whole = made_up([0.01])
    few = Made({"eager": dict(list(whole.times["eager"].items())[: ENOUGH["stream"] - 1])})
    found = verdicts(few)
    assert found["streams"].status == "undecided" and "a verdict needs 160 rows" in found["streams"].measured
    assert "was measured and predicted" in found["products"].measured
    assert "by intervention" in found["bounds"].measured


def test_made_up_times_are_refused_before_anything_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any, **options: Any) -> None:
        raise AssertionError("planning must not predict hundreds of cases")

    monkeypatch.setattr("tools.prediction.rows.predict", never)
    assert claimed_points(PREDICTION) == []
    assert "nobody measured" in verdicts(Made({"eager": {}}, kind="PREDICTED"))["streams"].measured


def test_what_calibration_has_timed_is_left_out(predicted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    product, stream = of_kind("product")[5], of_kind("stream")[9]
    batch, m, n, k = product.sizes
    (each,) = cost_of(stream).operators
    timed = {
        "products": [({"dtype": product.dtype, "m": m, "n": n, "k": k, "batch": batch}, 1e-6)],
        "operators": [
            ({"operator": each.name, "dtype": each.dtype, "read": each.read_bytes, "written": each.written_bytes}, 1e-6)
        ],
    }
    swept = replace(MADE_UP_PEAKS, sweeps=timed)  # type: ignore[arg-type]
    monkeypatch.setattr(prediction_rows, "peaks_of", lambda source: swept)
    rows = prediction_rows.rows_of(PREDICTION, made_up([0.1]))  # type: ignore[arg-type]
    names = {row.case.name for row in rows}
    assert {each.name for each in cases()} - names == {product.name, stream.name}


def test_the_datasheets_roofline_is_bytes_or_flop_and_a_kernels_floor() -> None:
    product = Case("product", "nn", (1, 4096, 4096, 4096), "bfloat16")
    found = datasheet_s(cost_of(product), "NVIDIA H200", "eager", "bfloat16")
    assert found == pytest.approx(1e-6 + 2 * 4096**3 / 989.4e12)
    relu = Case("stream", "relu", (4096, 4096), "float32")
    assert datasheet_s(cost_of(relu), "NVIDIA H200", "eager", "float32") == pytest.approx(1e-6 + 8 * 4096**2 / 4.8e12)
    assert datasheet_s(cost_of(relu), "a machine without one", "eager", "float32") is None
    chain = Case("chain", "pointwise", (4096, 4096), "float32", 4)
    eager, fused = (datasheet_s(cost_of(chain), "NVIDIA H200", how, "float32") for how in ("eager", "compiled"))
    assert eager is not None and fused is not None and fused < eager


def test_the_table_has_every_row(
    predicted: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "source", lambda name=None: made_up([0.1]))
    assert command.main(["rows"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 2 * 200 + 2 * 528 + 2 * 54
    assert [row["class"] for row in (rows[0], rows[-1])] == ["stream", "chain"]
    assert {row["field"]: round(float(row["error"]), 6) for row in rows} == {"busy_s": 0.1, "period_s": 0.1}
    monkeypatch.setattr(command, "source", lambda name=None: Made({}))
    assert command.main(["rows"]) == 2
    assert "no case of prediction was measured" in capsys.readouterr().err


@pytest.mark.usefixtures("own_environment")
def test_the_maintainers_command_judges_and_plans_this_experiment_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("brrr_course.lessons.claims_table.source_named", lambda name=None: Made({}))
    assert command.main(["claims", "--source", "recorded:h200"]) == 0
    assert capsys.readouterr().out.count("NOT MEASURED") == sum(len(each.claims) for each in command.EXPERIMENTS)
    assert command.main(["record", "--plan", "--device", "cpu", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("prediction ")
    assert command.main(["claims", "matmul"]) == 2 and "expected one of prediction" in capsys.readouterr().err
    assert command.main([]) == 2 and "python -m tools.prediction" in capsys.readouterr().err


# ---- the grid ----


def test_the_grid_has_what_the_judgement_needs_and_a_cpu_a_part_of_it() -> None:
    every = steps([PREDICTION], "cuda", only={"variant": [v.name for v in PREDICTION.variants if v.device == "cuda"]})
    count = Counter(name for step in every for name in step.variants)
    assert count["eager"] == len(cases()) and count["graph"] == len(intervened()) >= 100
    assert count["torch"] == len([each for each in cases() if each.dtype != "float64"])
    assert count["compiled"] == len(to_compile()) >= 10
    on_cpu = Counter(name for step in steps([PREDICTION], "cpu") for name in step.variants)
    assert set(on_cpu) == {"cpu-eager", "cpu-compiled"} and 100 <= on_cpu["cpu-eager"] <= 200
    quick = steps([PREDICTION], "cpu", quick=True)
    assert {case(step.point["case"]).kind for step in quick} == {"stream", "product", "chain"} and len(quick) <= 50
