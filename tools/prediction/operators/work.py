"""What `operators` runs: each case as a call, as a CUDA Graph, or its twin, its result held against float64."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from brrr.core.errors import TraceError, UnavailableError
from brrr.core.measurement import Measurement, Point
from brrr.counting.cost import Cost
from brrr.roofline.calibrate.host_cost import reference_call
from brrr.running.graphs import capture
from brrr.timing import measure_together
from brrr_course.nouns.experiment import Variant, Workload
from tools.prediction.operators.calls import OPERATORS, STEPS, cost_of, floating, made, measured_call, surroundings
from tools.prediction.operators.cases import OperatorCase
from tools.prediction.operators.experiment import run_case

BUDGET_S = 0.1
"""Each call is measured for so long, the reference beside it too."""
TOLERANCE = {"float32": 1e-4, "tf32": 5e-3, "float16": 1e-2, "bfloat16": 5e-2}
"""Above what each type rounds to over a block, and for float32 below what TF32 would."""
KINKED, KINK = ("basic_block",), 1e-2
"""What is next to nothing passes a ReLU in one type and not in the other, and its gradient is there or is not."""

_beside: dict[str, Measurement] = {}


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's case, checked against float64; UnavailableError where the variant does not exist."""
    case = run_case(variant.name, point)
    if case is None:
        raise UnavailableError(f"operators: {point['case']} has no variant {variant.name}")
    if variant.name == "reference":
        return Workload(lambda: None, Cost(0.0, 0.0), lambda _: 0.0, 0.0, others={"measured": lambda: _reference(case)})
    call = call_of(case, "cuda", variant.name == "graph")

    def run() -> Any:
        with surroundings(case):
            return call()

    return Workload(
        run, amounts(case), partial(error_of, case, "cuda"), tolerance(case), synchronize=torch.cuda.synchronize,
        others={"measured": lambda: _measured(case, call, beside=variant.name == "eager")},
    )  # fmt: skip


def tolerance(case: OperatorCase) -> float:
    """The relative error that is still right."""
    kinked = case.what in KINKED and case.direction == "backward"
    return max(TOLERANCE[case.dtype], KINK if kinked else 0.0)


def call_of(case: OperatorCase, device: str, graph: bool = False) -> Callable[[], Any]:
    """The call on inputs of its own, or the replay of a graph of it."""
    with surroundings(case):
        call = measured_call(case, made(case, device))
        return capture(call).replay if graph else call


def amounts(case: OperatorCase) -> Cost:
    """FLOP and bytes; nothing where a call cannot be counted without running it."""
    try:
        counted = cost_of(case)
    except TraceError:
        return Cost(0.0, 0.0)
    return Cost(counted.flop, counted.bytes)


def _measured(case: OperatorCase, call: Callable[[], Any], *, beside: bool) -> Measurement:
    """All times of a call; with `beside` by turns with the reference, which is kept for its own variant."""
    together = [call, reference_call("cuda")] if beside else [call]
    with surroundings(case):
        found = measure_together(together, device="cuda", budget_s=BUDGET_S)
    if beside:
        _beside[case.name] = found[1]
    return found[0]


def _reference(case: OperatorCase) -> Measurement:
    """How fast the host was beside the case; UnavailableError where it was not measured in this process."""
    if case.name not in _beside:
        raise UnavailableError(f"operators: {case.name} was measured earlier, and the host's speed of then is unknown")
    return _beside.pop(case.name)


def error_of(case: OperatorCase, device: str, found: Any) -> float:
    """The worst ||found - reference|| / ||reference|| of all results; NaN where one is not finite, or of other shape.

    The reference is the same call in float64 on the same numbers. An optimizer's result depends on the steps before:
    of it, what a step of a fresh one changes is compared.
    """
    given = floating(found)
    if not all(bool(each.isfinite().all()) for each in given):
        return math.nan
    expected: Any
    with surroundings(case):
        here, wide = made(case, device), made(case, device, wide=True)
        if case.what in STEPS:
            given, expected = _moved(here.call), _moved(wide.call)
        else:
            expected = measured_call(case, wide)()
    seen = OPERATORS[case.what].seen
    if seen is not None:  # of a result whose gradients follow what was drawn, the result alone
        given = floating(seen(_first(found), *here.inputs))
        expected = seen(_first(expected), *wide.inputs)
    wanted = floating(expected)
    if [each.shape for each in given] != [each.shape for each in wanted] or not given:
        return math.nan
    return max(_relative(one.detach(), other.detach()) for one, other in zip(given, wanted, strict=True))


def _moved(step: Any) -> list[torch.Tensor]:
    before = [each.clone() for each in step.parameters]
    return [now - then for now, then in zip(step(), before, strict=True)]


def _first(found: Any) -> Any:
    while isinstance(found, list | tuple):
        found = found[0]
    return found


def _relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    wrong, right = float((found.double() - expected).norm()), float(expected.norm())
    return wrong / right if right else (math.nan if wrong else 0.0)
