"""What holds of every experiment: its plan, its inputs, what is measured here, and what is too large for a machine."""

import gc
import math
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch

from brrr.core.errors import BrrrError, DeviceMemoryError, NotRecordedError
from brrr.core.measurement import Point, Value
from brrr.counting.tracing import cost
from brrr_course.experiments import NAMES, PLAYED, experiment
from brrr_course.experiments.block import LIMITS
from brrr_course.experiments.checked import PointInputs
from brrr_course.experiments.compiled import BLOCK, SHAPES
from brrr_course.experiments.predicted import ONE_KERNEL
from brrr_course.nouns.experiment import Experiment, PredictedRun, Variant, Workload
from brrr_course.sources.claimed import claimed_points
from brrr_course.sources.plan import DurationEstimator, steps
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.rows import Row, Timed
from brrr_course.sources.timers import measure_point

MINUTES = {"mlp": 45}
"""What a recording takes on a GPU; a few minutes otherwise."""
PLANNED_BESIDE = ("gemm", "strassen")
"""One takes long to plan; the other's rates are known once its anchor is measured."""


@pytest.mark.parametrize("name", NAMES)
def test_every_point_that_a_claim_or_a_timeline_asks_for_can_be_measured(name: str) -> None:
    found = experiment(name)
    asked = [found.point(**dict(zip((a.name for a in found.axes), key, strict=True))) for key in claimed_points(found)]
    assert [point for point in asked if not any(found.has(each.name, point) for each in found.variants)] == []
    assert [each for each, point in found.traces if not found.has(each, found.point(**point))] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name not in PLANNED_BESIDE])
def test_a_recording_takes_minutes_and_no_step_long(name: str) -> None:
    for kind, minutes in (("cuda", MINUTES.get(name, 12)), ("cpu", 5)):
        found, pace = steps([experiment(name)], kind), DurationEstimator(16)  # type: ignore[arg-type]
        taken_s = [pace.seconds(step) for step in found]
        assert sum(taken_s) < 60 * minutes and max(taken_s, default=0) < 4 * 60
        assert sum(len(step.variants) for step in found) <= 6000


def small(found: Experiment) -> Iterator[tuple[Variant, dict[str, Value]]]:
    """The variants without a GPU, each at the first of the points that it has."""
    for variant in found.variants:
        point = first_of(found, variant, quick=True)
        compiles = variant.implementation in ("compile", "script")  # for seconds, where there is a compiler at all
        if not variant.on_gpu and variant.timer == "measure" and point is not None and not compiles:
            yield variant, point


@pytest.mark.parametrize("name", [name for name in NAMES if name != "first_call"])  # a process for each of its parts
def test_here_the_cpu_is_measured_and_the_gpu_says_why_not(name: str) -> None:
    found = experiment(name)
    for variant, point in small(found):
        assert isinstance(run := measure_point(found, [variant.name], point, budget_s=0.01)[variant.name], Timed), run
    at, gpu = next(found.points(quick=True)), [each.name for each in found.variants if each.on_gpu]
    if not torch.cuda.is_available():
        missing = measure_point(found, [each for each in gpu if found.has(each, at)], at, budget_s=0.01)
        assert all(isinstance(run, BrrrError) for run in missing.values())


def test_a_function_of_its_folder_that_is_called_as_a_role_is_the_experiment_s_own() -> None:
    found = {name: experiment(name) for name in (*NAMES, *PLAYED)}
    assert [name for name, each in found.items() if each.name != name] == []
    assert {name for name, each in found.items() if each.settle} == {"gemm", "strassen", "mlp"}
    gemm = import_module(found["gemm"].package)
    assert (found["gemm"].supports, found["gemm"].cost) == (gemm.supports, gemm.cost)
    assert replace(found["gemm"], cost=len).cost is len, "what is passed counts"


@pytest.fixture(autouse=True, scope="module")
def what_is_there_stays() -> None:
    """Each point's inputs look for garbage first: that need not go through all that other tests have left."""
    gc.collect()
    gc.freeze()


NONE_HERE = {"timers", "overlap", "vocabulary", "block", "utilisation", "occupancy", "recompiles", "loader", "cheats",
             "collective", "data_parallel", "tensor_parallel", "schedule", "tiling", "clocks", "footprint"}  # fmt: skip
"""Experiments none of whose variants runs on a CPU alone, without a queue or a timer of its own, in a short time."""
MOST_FLOP = 2e8
"""What takes longer on a CPU is not run."""


SMALLER: dict[str, dict[str, Any]] = {
    "scaling": {"DIMENSION": 128}, "mystery": {"SCAN": (2, 2**12), "NORM": (64, 128), "LAYERS": (4, 8, 64)},
    "compiled": {"SHAPES": {key: (16, 64 * (1 + (key[0] == BLOCK))) for key in SHAPES}},
}  # fmt: skip
"""What is as large on a CPU as on a GPU, made small."""


@pytest.mark.parametrize("name", [name for name in (*NAMES, *PLAYED) if name not in ("first_call", "memory_swap")])
def test_each_way_does_what_is_counted_and_a_spoilt_result_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a variant is called; a GPU's ways run on the CPU where they can, and wait for no GPU."""
    found, made = experiment(name), 0
    for constant, value in SMALLER.get(name, {}).items():
        for module in (import_module(found.package),):
            monkeypatch.setattr(module, constant, value, raising=False)
    for variant, point in at_their_smallest(found):
        here = replace(variant, name="a name that says nothing", device="cpu" if variant.on_gpu else variant.device)
        try:
            workload = found.made(here, point)
            workload.others.get("prepare", lambda: None)()
            result = workload.run()
        except (BrrrError, AssertionError, RuntimeError, KeyError):
            assert variant.on_gpu, variant.name
            continue
        made += workload.queue is None
        at = variant.name, *point.values()
        assert workload.synchronize is None or workload.queue is not None, at
        (workload.synchronize or (lambda: None))()
        assert workload.verified(result) <= workload.tolerance
        assert [
            how
            for how, wrong in spoilt(result, workload.tolerance, name in LOOSE or "tf32" in at)
            if name not in SPARED.get(how, ()) and accepts(workload, wrong)
        ] == [], at
        if workload.queue is None and name not in UNTRACED and point == first_of(found, variant, quick=True):
            as_traced(name, variant, workload, found.predicts and found.predicts(here, point))
        run = found.predicts and found.predicts(here, point)
        if run and workload.queue is None and name in LISTED and (name, variant.implementation) not in OTHERWISE:
            as_listed(name, workload, run)
        workload.close()
    assert (made == 0) is (name in NONE_HERE), made


def at_their_smallest(found: Experiment) -> Iterator[tuple[Variant, Point]]:
    """The variants, each at the first of the points that it has, and with each value of a category at the first.

    Without compilers, which take seconds, and what searches for kernels.
    """
    categories = [(axis.name, value) for axis in found.axes if axis.scale == "category" and len(axis.values) <= FEW
                  for value in axis.values]  # fmt: skip
    for variant in found.variants:
        if (
            variant.timer != "measure"
            or variant.implementation == "script"
            or "compile" in variant.implementation
            or variant.isolated
        ):
            continue
        firsts = [first_of(found, variant, **{name: value}) for name, value in categories if not variant.prepare_s]
        every = (first_of(found, variant, quick=True), *firsts)
        for point in {repr(each): each for each in every if each is not None}.values():
            work = found.cost and found.cost(variant, point)
            if not variant.on_gpu or work is None or work.flop < MOST_FLOP:
                yield variant, point


def first_of(found: Experiment, variant: Variant, quick: bool = False, **at: Value) -> dict[str, Value] | None:
    """The first point that a variant has, of the small grid or of those with some values."""
    points = (each for each in found.points(quick=quick) if at.items() <= each.items())
    return next((each for each in points if found.has(variant.name, each)), None)


def spoilt(result: Any, tolerance: float, loose: bool) -> Iterator[tuple[str, Any]]:
    """Wrong results, where the right one is tensors: a bit off, of another sign, nothing, not finite in the end."""
    parts = result if isinstance(result, tuple | list) else (result,)
    if tolerance >= 1 or not all(
        isinstance(each, torch.Tensor) and each.dim() and each.is_floating_point() for each in parts
    ):
        return
    exact = not loose and all(each.dtype == torch.float32 for each in parts)
    for how, spoil in SPOILT.items():
        wrong = [spoil(each.detach(), TF32 if exact else max(10 * tolerance, ROUGH)) for each in parts]
        yield how, type(result)(wrong) if isinstance(result, tuple | list) else wrong[0]


TF32, ROUGH = 3e-4, 5e-2
"""As much as its rounding is off: what takes it for float32 is found out; and what shows in any other type."""
FEW = 5
"""Categories of more values, as a kind of inputs, have tests of their own."""
LOOSE = {"rnn", "bits", "strassen_errors"}
"""Some of their ways round to fewer bits, or to as many at other sizes."""
NUMBERS_ALONE = {"matmul", "timers", "pseudo_linear", "pseudo_linear_flaws", "adds", "scaling", "gemm_many"}
SPARED = {"another shape": NUMBERS_ALONE,
          "another type": {*NUMBERS_ALONE, "mlp", "strassen", "strassen_errors", "working_set", "strides"}}  # fmt: skip
"""Whose checks do not look at these."""
SPOILT: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "another type": lambda y, off: y.double() if y.dtype != torch.float64 else y.float(),
    "another shape": lambda y, off: torch.cat((y, y)),
    "a bit off": lambda y, off: y * (1 + off),
    "another sign": lambda y, off: -y,
    "nothing": lambda y, off: torch.zeros_like(y),
    "not finite at its end": lambda y, off: y.clone().index_fill_(0, torch.tensor([len(y) - 1]), math.nan),
}


def accepts(workload: Workload, wrong: Any) -> bool:
    return workload.error(wrong) <= workload.tolerance


OTHERWISE = {
    ("adds", "cpp"), ("nested_sine", "cpu-drawing"), ("fusion", "cuda"), ("remat", "checkpoint"),
    ("mlp", "strassen-one"), ("mystery", "eager"), ("transfers", "h2d"), ("transfers", "d2h"),
    *(("bits", each.implementation) for each in experiment("bits").variants),
}  # fmt: skip
"""What random numbers take, what a kernel leaves out, what is computed again, fewer multiplications, short types,
and what crosses no link on a CPU."""
PASSED_OVER = {"repeat", "cos_cos", "sines", "fusion", "remat"}
"""Their costs also tell what the operators one by one move."""
UNTRACED = {"strassen", "unary", "strides", "norms", "indexing"}
"""One looks at values, the last keeps its place in an epoch; the others count what an operator is for, whatever its
steps, and useful bytes alone."""


def as_traced(name: str, variant: Variant, workload: Workload, run: PredictedRun | None) -> None:
    """What is told of a workload, and what is predicted of it, is what `brrr.cost` finds."""
    traced = cost(workload.run)
    if not traced.operators:  # another library's
        return
    told = workload.cost
    if (name, variant.implementation) not in OTHERWISE:
        assert near(told.flop, traced.flop), variant.name
        assert any(near(told.bytes, each) for each in (traced.bytes, traced.eager_bytes)), variant.name
    if name in PASSED_OVER and variant.implementation == "eager":
        assert near(told.eager_bytes, traced.eager_bytes), variant.name
    apart = run is not None and not {each.kind for each in run.cost.operators} & {"fused", ONE_KERNEL}
    if run is not None and apart and run.cost.operators and (name, variant.implementation) not in OTHERWISE:
        assert near(run.cost.flop, traced.flop), variant.name
        assert near(run.cost.eager_bytes, traced.eager_bytes), variant.name


LISTED = {"matmul", "nested_sine", "run_ahead", "working_set", "pseudo_linear", "remat", "repeat", "unary"}
"""What is predicted of their operators has each as it is, forward and backward; of the others it adds up."""


def as_listed(name: str, workload: Workload, run: PredictedRun) -> None:
    """Each operator that is predicted is what `brrr.cost` finds, views left out; backward, torch's order is its own."""
    if {each.kind for each in run.cost.operators} & {"fused", ONE_KERNEL}:
        return
    traced = cost(workload.run)
    told, found = (
        sorted((o.name, o.kind, o.flop, o.read_bytes, o.written_bytes, o.dtype, str(o.form)) for o in each.operators
               if o.kind != "view") for each in (run.cost, traced)
    )  # fmt: skip
    assert told == found
    assert run.cost.matmuls == traced.matmuls
    assert name == "pseudo_linear" or near(run.cost.bytes, traced.bytes), "backward, it is what must move"


def near(told: float, traced: float) -> bool:
    return abs(told - traced) <= 0.04 * traced


# ---- against the rows that were recorded ----

RECORDED = {"cuda": (Recorded("h200"), Recorded("h100")), "cpu": (Recorded("cpu"),)}
MEASURED = {"timers", "memory_swap", "block", "data_parallel", "footprint"}
"""Their costs are found when they are recorded, or were counted with a first layer's gradient, or a pass less."""
NOT_RECORDED = {
    ("nested_sine", "cuda"): 31, ("nested_sine", "cpu"): 1, ("first_call", "cuda"): 6, ("repeat", "cuda"): 701,
    ("repeat", "cpu"): 171, ("sines", "cuda"): 4, ("gemm_many", "cuda"): 1, ("rnn_ladder", "cuda"): 26,
    ("decode", "cuda"): 2, ("attention", "cuda"): 11, ("rnn", "cuda"): 12, ("footprint", "cuda"): 14,
}  # fmt: skip
"""How many points of recorded variants have no row: what was added since, what did not fit, or no CPU was asked for.

A new recording lowers a number; a change of `supports` that is meant changes it. A variant without any row is new.
"""


@pytest.mark.parametrize("kind", RECORDED)
@pytest.mark.parametrize("name", NAMES)
def test_points_and_costs_are_those_of_the_rows_that_were_recorded(name: str, kind: str) -> None:
    found, without = experiment(name), 0
    axes = [axis.name for axis in found.axes]
    for variant in [each for each in found.variants if each.on_gpu == (kind == "cuda")]:
        rows = [row for source in RECORDED[kind] for row in recorded_rows(source, found, variant.name)]
        for key, row in rows:
            point = dict(zip(axes, key, strict=True))
            assert found.has(variant.name, point), (variant.name, point)
            told = found.cost_at(variant.name, point)
            if name not in MEASURED and variant.implementation not in LIMITS:
                assert told is not None, variant.name
                assert (told.flop, told.bytes) == (row.cost.flop, row.cost.bytes), (variant.name, point)
        here = {tuple(point.values()) for point in found.points() if found.has(variant.name, point)}
        without += len(here - {key for key, _ in rows}) if rows else 0
    assert without == NOT_RECORDED.get((name, kind), 0)


def recorded_rows(source: Recorded, found: Experiment, variant: str) -> list[tuple[tuple[Value, ...], Row]]:
    """None where the experiment was not recorded there."""
    try:
        return list(source.rows(found, variant).items())
    except NotRecordedError:
        return []


# ---- inputs ----


class Drawn(PointInputs):
    itself: Any = None

    def __init__(self, *key: Any) -> None:
        self.x = torch.randn(9)


class Others(Drawn):
    """Of another experiment."""


def test_inputs_are_shared_as_long_as_somebody_holds_them_and_then_drawn_anew() -> None:
    one = Drawn.of(9, "cpu")
    assert Drawn.of(9, "cpu") is one and Drawn.of(8, "cpu") is not one and Others.of(9, "cpu") is not one
    before = one.x.clone()
    del one
    assert not torch.equal(Drawn.of(9, "cpu").x, before)


def test_inputs_that_only_hold_themselves_are_gone_before_others_are_drawn() -> None:
    one = Drawn.of(9, "cpu")
    one.itself, held = one, weakref.ref(one)
    del one
    assert Drawn.of(8, "cpu") and held() is None


SHARING = ["nested_sine", "overlap", "pseudo_linear", "repeat", "unary", "cos_cos", "sines",
           "fusion", "remat", "mlp", "gemm", "gemm_many", "rnn_ladder", "rnn", "strassen", "attention",
           "bits"]  # fmt: skip


@pytest.mark.parametrize("name", SHARING)
def test_the_variants_of_a_point_share_its_inputs(name: str) -> None:
    found = experiment(name)
    first, at = next(small(found))
    here = [v for v, point in small(found) if point == at and v.device == first.device]
    works = [found.workload(v.name, at) for v in here]
    gc.collect()  # what other tests left in cycles
    assert len(PointInputs._alive) == 1, [*PointInputs._alive]
    for each in works:
        each.close()


LARGE = 2**22
TOO_LARGE: list[tuple[str, str, dict[str, Value], str]] = [
    ("matmul", "cpu", {"size": 10**7}, r"needs 1\.2 PB"),
    ("transfers", "cpu", {"nbytes": 2**50}, "choose a smaller size"),
    ("nested_sine", "cpu", {"elements": 2**45}, "nested sine of"),
    ("unary", "queue-relu", {"elements": 2**50, "dtype": "float32"}, "is free on the CPU"),
    ("working_set", "queue-once-copy", {"nbytes": 2**50}, "is free on the CPU"),
    ("strides", "queue-read", {"numbers": 2**50, "stride": 1, "offset": 0}, "is free on the CPU"),
    ("gemm", "cpu", {"columns": 2, "size": LARGE, "dtype": "float32"}, "a product of 4194304 x 4194304 by 2 columns"),
    ("gemm_many", "cpu-loop", {"count": 32, "size": 2**20, "dtype": "float32"}, "32 products of size 1048576"),
    ("rnn", "cpu", {"batch": 2, "hidden": LARGE, "steps": 64, "cell": "lstm", "dtype": "float32"},
     "a layer of 4194304, 64 steps of 2 samples"),
    ("rnn_ladder", "cpu-naive",
     {"batch": 3, "hidden": LARGE, "steps": 5, "layers": 2, "cell": "lstm", "dtype": "float32"},
     "a network of 2 x 4194304, 5 steps of 3 samples"),
    ("pseudo_linear", "queue-pseudo-eager", {"width": 2**20, "batch": LARGE, "direction": "forward"},
     r"pseudo of width 1048576, batch 4194304 needs 52\.8 TB"),
    ("pseudo_linear", "queue-linear-eager", {"width": 2**23, "batch": 1, "direction": "forward"}, "needs 281 TB"),
    ("decode", "cpu-eager", {"batch": 256, "context": 2**25},
     r"beside the model's weights, a step for 256 readers .* needs 17\.\d TB"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "variant", "point", "said"), TOO_LARGE, ids=[row[0] for row in TOO_LARGE])
def test_what_does_not_fit_is_refused_before_it_is_made(
    name: str, variant: str, point: dict[str, Value], said: str
) -> None:
    with pytest.raises(DeviceMemoryError, match=said):
        experiment(name).workload(variant, point)
