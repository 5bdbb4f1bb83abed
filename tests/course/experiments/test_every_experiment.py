"""What holds of every experiment: its plan, its inputs, what is measured here, and what is too large for a machine."""

import gc
import weakref
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from test_names_are_labels import small

from brrr.core.errors import BrrrError, DeviceMemoryError
from brrr.core.measurement import Value
from brrr_course.experiments import NAMES, experiment
from brrr_course.experiments.checked import PointInputs
from brrr_course.sources.claimed import claimed_points
from brrr_course.sources.plan import DurationEstimator, steps
from brrr_course.sources.rows import Timed
from brrr_course.sources.timers import measure_point

MINUTES = {"mlp": 40}
"""What a recording takes on a GPU; a few minutes otherwise."""
PLANNED_BESIDE = ("gemm", "strassen")
"""One takes long to plan; the other's rates are known once its anchor is measured."""


@pytest.mark.parametrize("name", NAMES)
def test_every_point_that_a_claim_asks_for_can_be_measured(name: str) -> None:
    found = experiment(name)
    asked = [found.point(**dict(zip((a.name for a in found.axes), key, strict=True))) for key in claimed_points(found)]
    assert [point for point in asked if not any(found.has(each.name, point) for each in found.variants)] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name not in PLANNED_BESIDE])
def test_a_recording_takes_minutes_and_no_step_long(name: str) -> None:
    for kind, minutes in (("cuda", MINUTES.get(name, 12)), ("cpu", 5)):
        found, pace = steps([experiment(name)], kind), DurationEstimator(16)  # type: ignore[arg-type]
        taken_s = [pace.seconds(step) for step in found]
        assert sum(taken_s) < 60 * minutes and max(taken_s, default=0) < 4 * 60
        assert sum(len(step.variants) for step in found) <= 6000


@pytest.mark.parametrize("name", [name for name in NAMES if name != "first_call"])  # a process for each of its parts
def test_here_the_cpu_is_measured_and_the_gpu_says_why_not(name: str) -> None:
    found = experiment(name)
    for variant, point in small(found):
        assert isinstance(run := measure_point(found, [variant.name], point, budget_s=0.01)[variant.name], Timed), run
    at, gpu = next(found.points(quick=True)), [each.name for each in found.variants if each.on_gpu]
    if not torch.cuda.is_available():
        missing = measure_point(found, [each for each in gpu if found.has(each, at)], at, budget_s=0.01)
        assert all(isinstance(run, BrrrError) for run in missing.values())


GPU_S_ALONE = {"overlap", "occupancy", "utilisation"}
"""Experiments none of whose variants could run on a CPU without a queue."""


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("first_call", "recompiles", "compiled")])
def test_a_variant_on_the_cpu_without_a_queue_waits_for_no_gpu(name: str) -> None:
    """Each variant as if it were one: what needs a GPU says so before it is a workload."""
    found, work = experiment(name), import_module(f"brrr_course.experiments.{name}.work")
    made = 0
    for variant in found.variants:
        point = next((each for each in found.points(quick=True) if found.has(variant.name, each)), None)
        if point is None or "compile" in variant.way or variant.way == "script":  # which take seconds
            continue
        try:
            workload = work.workload(replace(variant, device="cpu"), point)
        except (BrrrError, AssertionError, RuntimeError, KeyError):  # a GPU's way, or a queue's
            continue
        made += 1
        assert workload.synchronize is None or workload.queue is not None, variant.name
        workload.close()
    assert (made == 0) is (name in GPU_S_ALONE)


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
]  # fmt: skip


@pytest.mark.parametrize(("name", "variant", "point", "said"), TOO_LARGE, ids=[row[0] for row in TOO_LARGE])
def test_what_does_not_fit_is_refused_before_it_is_made(
    name: str, variant: str, point: dict[str, Value], said: str
) -> None:
    with pytest.raises(DeviceMemoryError, match=said):
        experiment(name).workload(variant, point)
