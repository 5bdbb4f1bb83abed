"""Which way is chosen, and why: the frontier, accuracy, levels, memory, and the constants."""

import math
from itertools import pairwise
from typing import Any

import pytest
import torch

from brrr.roofline.device_model import model_of
from brrr.roofline.peaks import MissingPeakError
from brrr.strassen import IMPLEMENTATIONS, Implementation, cost, plan, planner
from brrr.strassen.accuracy import NAMED, accuracy_limit, predicted_error
from brrr.strassen.cost import PASSES, Pass, buffers_of, issuing_s, launches, passes, seconds
from brrr.strassen.implementations import INNERS, Problem
from brrr.strassen.planner import GAIN, _planned
from brrr.strassen.request import Limits, Request
from brrr_course.experiments.strassen_errors import random_inputs, relative_error
from brrr_course.lessons.drawings.strassen_errors import summed_product
from tests.refusals import refused, values

# --- ways -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "value"), values({"inner": ["ffma", "fp8"], "level": [5, True], "form": ["other", None]})
)
def test_what_is_no_way(argument: str, value: Any) -> None:
    with refused(argument, value):
        Implementation(**{"inner": "sgemm", "level": 1, "form": "strassen", argument: value})
    with refused("level", 1):
        Implementation("tf32", 1, "strassen")


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["strassen", "winograd"])
def test_the_model_is_near_what_sums_in_a_row_give(form: str) -> None:
    """float32 with a known order of summing, level by level."""
    a, b = random_inputs("normal", inner=512, size=64, seed=1)
    for level in range(3):
        seen = relative_error(summed_product(a, b, form, level), a.double() @ b.double())
        assert seen == pytest.approx(predicted_error(Implementation("sgemm", level, form), 512), rel=0.35)


def test_errors_of_wrong_results_are_seen() -> None:
    wanted = torch.ones(2, 2, dtype=torch.float64)
    assert relative_error(torch.zeros(2, 2), wanted) == 1.0 and math.isnan(relative_error(wanted * math.nan, wanted))
    assert relative_error(wanted, wanted * 0) == math.inf and relative_error(wanted * 0, wanted * 0) == 0.0


@pytest.mark.parametrize("inner", ["sgemm", "bf16", "fp16x3"])
@pytest.mark.parametrize(("form", "most"), [("strassen", 1.6), ("winograd", 1.9)])
def test_a_level_costs_accuracy_and_no_more_than_is_promised(inner: str, form: str, most: float) -> None:
    errors = [
        predicted_error(Implementation(inner, level, form), 8192) for level in range(4 if inner == "sgemm" else 3)
    ]
    growths = [after / before for before, after in pairwise(errors)]
    assert min(growths) > 1 and (inner != "sgemm" or max(growths) <= most)


def test_named_accuracies_are_those_of_classical_products() -> None:
    for name, inner in NAMED.items():
        if "float32" in INNERS[inner].operands:
            assert predicted_error(IMPLEMENTATIONS[inner], 4096) <= accuracy_limit(name, 4096)
    assert accuracy_limit("fp32", 4096) < accuracy_limit("tf32", 4096) < accuracy_limit("bf16", 4096)
    assert accuracy_limit(None, 4096, "bfloat16") == accuracy_limit("bf16", 4096, "bfloat16")


# --- times and memory -------------------------------------------------------------------------------------------------


def test_a_pass_reads_and_writes_each_number_once() -> None:
    left, right, behind = passes(Problem(IMPLEMENTATIONS["sgemm-strassen-2"], 512, 512, 512))
    assert left == right == Pass(4 * 512**2, 49 * 4 * 128**2)
    assert behind == Pass(49 * 4 * 128**2, 4 * 512**2)
    assert passes(Problem(IMPLEMENTATIONS["sgemm-strassen-2-prepared"], 512, 512, 512))[1] == Pass()
    assert passes(Problem(IMPLEMENTATIONS["sgemm"], 512, 512, 512)) == [Pass()] * 3


def test_off_a_gpu_each_block_that_is_added_is_a_pass() -> None:
    """Twelve blocks a side and twelve behind: the first of each sum is copied, the others are added to it."""
    block = 4 * 512**2
    found = passes(Problem(IMPLEMENTATIONS["sgemm-strassen-1"], 1024, 1024, 1024), gpu=False)
    assert found == [Pass(17 * block, 12 * block)] * 2 + [Pass(20 * block, 12 * block)]


def test_levels_pay_on_large_matrices_and_not_on_small_ones() -> None:
    def predicted_s(way: Implementation, n: int) -> float:
        return seconds(Problem(way, n, n, n), model_of("h200"))

    times = {n: [predicted_s(Implementation("sgemm", level, "strassen"), n) for level in range(3)] for n in (512, 8192)}
    assert times[512][0] < times[512][1] and times[8192][0] > times[8192][1] > times[8192][2]
    assert predicted_s(IMPLEMENTATIONS["sgemm-strassen-1-prepared"], 8192) < times[8192][1]


def test_the_buffers_of_a_split_product_are_as_large_as_float32s() -> None:
    split, plain = (
        buffers_of(Problem(IMPLEMENTATIONS[f"{inner}-strassen-1"], 1024, 1024, 1024)) for inner in ("fp16x3", "sgemm")
    )
    assert split.left == plain.left + 4 * 512 and split.products == plain.products
    assert split.right == split.left + 4 * 1024**2, "a right operand that lies as (k, n) is turned"


# --- the plan ---------------------------------------------------------------------------------------------------------


def every(n: int, **options: Any) -> list[Any]:
    """The plan of each way by itself, on an H200."""
    ways = [how for how in IMPLEMENTATIONS.values() if how.here("float32", "cuda") and not how.prepared]
    return [plan(n, n, n, inner=how.inner, level=how.level, form=how.form, device="h200", **options) for how in ways]


@pytest.mark.parametrize("accuracy", ["fp32", "tf32", "bf16", "fp8", 1e-5, 3e-6, 1e-2])
@pytest.mark.parametrize("n", [200, 1000, 4096, 16384])
def test_the_fastest_that_is_exact_enough(n: int, accuracy: Any) -> None:
    made, limit = plan(n, n, n, accuracy=accuracy, device="h200"), accuracy_limit(accuracy, n)
    assert made.predicted_error <= limit
    allowed = [each.predicted_s for each in every(n) if each.predicted_error <= limit]
    assert made.predicted_s is not None and made.predicted_s <= GAIN * min(allowed)
    assert made.implementation.label in str(made) and made.why.endswith(".")


def test_the_classical_product_where_levels_gain_less_than_predictions_err() -> None:
    for n in (128, 512, 1024, 2048, 4096, 8192):
        made = plan(n, n, n, inner="sgemm", accuracy=1e-5, device="h200")
        classical = plan(n, n, n, inner="sgemm", level=0, device="h200").predicted_s
        assert made.implementation.classical or made.predicted_s * GAIN <= classical  # type: ignore[operator]
    assert made.implementation.level == 3 and "the fastest classical product is" in made.why


def test_what_is_asked_for_is_taken() -> None:
    made = plan(65, 65, 65, level=1, form="winograd", inner="sgemm", device="h200")
    assert (
        made.implementation == Implementation("sgemm", 1, "winograd")
        and "does not pay" in made.why
        and "rounding up" in made.why
    )
    assert "it pays" in plan(16384, 16384, 16384, level=2, inner="sgemm", device="h200").why
    assert plan(4096, 4096, 4096, level=1, device="h200").implementation.inner in ("sgemm", "fp16x3")
    assert plan(4096, 4096, 4096, inner="bf16", device="h200").implementation.name == "bf16"
    assert plan(
        4096, 4096, 4096, level=1, form="strassen", inner="sgemm", device="h200", prepared=True
    ).implementation.prepared


def test_memory_decides_too() -> None:
    n, matrix = 16384, 4 * 16384**2
    free, tight = (plan(n, n, n, inner="sgemm", accuracy=1e-5, device="h200", workspace_bytes=limit)
                   for limit in (None, 6 * matrix))  # fmt: skip
    assert (
        free.implementation.level > tight.implementation.level > 0
        and tight.workspace_bytes <= 6 * matrix < free.workspace_bytes
    )
    with refused("workspace_bytes", 1024):
        plan(n, n, n, level=3, form="strassen", inner="sgemm", device="h200", workspace_bytes=1024)


def test_without_peaks_the_librarys_own_product(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(kind: str) -> None:
        raise MissingPeakError("none")

    monkeypatch.setattr(planner, "known_here", missing)
    planner._planned.cache_clear()
    try:
        for dtype, inner in (("float32", "sgemm"), ("float64", "fp64"), ("bfloat16", "bf16"), ("float16", "fp16")):
            made = plan(2048, 2048, 2048, dtype=dtype, device="cpu")
            assert made.implementation.name == inner and made.predicted_s is None
            assert made.why.startswith("Nothing is predicted")
        assert "not known" in plan(64, 64, 64, level=1, inner="sgemm", device="cpu").why
    finally:
        planner._planned.cache_clear()


# --- constants --------------------------------------------------------------------------------------------------------


def test_where_the_host_issues_each_launch_they_count() -> None:
    """What is not torch's own costs the host more than its launches; levels are several, and wait for it."""

    def asked(n: int, accuracy: str) -> Request:
        return Request(n, n, n, limits=Limits(accuracy), eager=True)

    def taken(n: int, accuracy: str) -> str:
        return _planned(asked(n, accuracy), "cuda", "h200").implementation.name

    assert taken(1024, "tf32") == "tf32" and taken(2048, "fp32") == "fp16x3" and taken(1024, "fp32") == "sgemm"
    wide = Request(128, 4096, 1024, eager=True)
    assert _planned(wide, "cuda", "h200").implementation.name == "sgemm", "the GPU is done before the host"
    names = ("sgemm", "fp16x3", "sgemm-strassen-1", "fp16x3-strassen-1")
    times = [issuing_s(asked(1024, "fp32").problem(IMPLEMENTATIONS[name])) for name in names]
    assert times == sorted(times) and times[1] > 3 * times[0]
    odd, even = (launches(Problem(IMPLEMENTATIONS["sgemm-strassen-2"], n, n, n)) for n in (4097, 4096))
    assert even == 4 and odd > even
    assert launches(Problem(IMPLEMENTATIONS["bf16"], 4097, 4097, 4097, "bfloat16")) == 4


def test_each_pass_goes_at_its_own_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classical split product turns its right side: half that rate takes that pass twice as long, no other."""
    problem, model = Problem(IMPLEMENTATIONS["fp16x3"], 4096, 4096, 4096), model_of("h200")
    before = seconds(problem, model)
    monkeypatch.setitem(cost.PASSES, "casts", PASSES["casts"] / 2)
    assert seconds(problem, model) == before
    monkeypatch.setitem(cost.PASSES, "turned", PASSES["turned"] / 2)
    assert seconds(problem, model) > before
