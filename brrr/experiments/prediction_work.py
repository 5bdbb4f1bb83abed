"""What the `prediction` experiment runs: each case as a call, a graph, in compiled form, or its twin.

Inputs are cut from one pool of random numbers for each data type, so that hundreds of cases do not draw anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar

import torch

from brrr.counting.cost import Cost
from brrr.errors import UnavailableError
from brrr.experiment import Point, Variant, Workload
from brrr.experiments.fusion_check import compiled
from brrr.experiments.matmul_work import refuse_too_large
from brrr.experiments.prediction import role, run_case
from brrr.experiments.prediction_calls import Tensor, cost_of, dtype_of, function_of, shapes, surroundings
from brrr.experiments.prediction_cases import Case
from brrr.experiments.prediction_check import error_of, tolerance
from brrr.experiments.pseudo_linear_work import compile_now
from brrr.graphs import capture

ALIGNED = 256
"""Inputs begin at multiples of so many elements, as a fresh allocation would."""


class Pool:
    """Normal random numbers of one data type on one device; grows to what the largest case needs."""

    _pools: ClassVar[dict[tuple[str, torch.dtype], Pool]] = {}

    def __init__(self, device: str, dtype: torch.dtype) -> None:
        self._device, self._dtype = device, dtype
        self._numbers = torch.empty(0, device=device, dtype=dtype)

    @classmethod
    def of(cls, device: str, dtype: torch.dtype) -> Pool:
        """The pool of a device and a data type, made once."""
        return cls._pools.setdefault((device, dtype), cls(device, dtype))

    def cut(self, *wanted: tuple[int, ...]) -> list[Tensor]:
        """Tensors of these shapes, none overlapping another; drawn anew where there are too few numbers."""
        sizes = [math.prod(shape) for shape in wanted]
        steps = [ALIGNED * math.ceil(size / ALIGNED) for size in sizes]
        if sum(steps) > self._numbers.numel():
            self._numbers = torch.empty(0, device=self._device, dtype=self._dtype)  # the old ones go first
            self._numbers = torch.randn(sum(steps), device=self._device, dtype=self._dtype)
        starts = [sum(steps[:place]) for place in range(len(steps))]
        return [
            self._numbers[start : start + size].view(shape)
            for start, size, shape in zip(starts, sizes, wanted, strict=True)
        ]


def inputs_of(case: Case, device: str) -> dict[str, Tensor]:
    """A case's inputs: normal numbers, a chain's matrix scaled so that its products keep their size."""
    described = shapes(case)
    refuse_too_large(int(2.5 * case.nbytes / case.length), device, case.name)
    cut = Pool.of(device, dtype_of(case)).cut(*described.values())
    found = dict(zip(described, cut, strict=True))
    if "w" in found:
        found["w"] = found["w"] / math.sqrt(found["w"].shape[0])
    return found


def call_of(case: Case, inputs: dict[str, Tensor]) -> Callable[[], Tensor]:
    """The call of a case on its inputs."""
    return partial(function_of(case), *inputs.values())


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's case, checked against float64; UnavailableError where the variant does not exist."""
    case, device = run_case(variant, point), "cuda" if variant.device == "cuda" else "cpu"
    if case is None:
        raise UnavailableError(f"prediction: there is no {variant.label} of {point['case']}")
    if role(variant) == "torch":
        return _estimate(case)
    if role(variant) == "reference":
        return _reference(case)
    inputs = inputs_of(case, device)
    with surroundings(case) if device == "cuda" else nullcontext():  # on a CPU the timer calls it as it is
        run = _run(case, inputs, role(variant))
    counted = cost_of(case)
    amounts = Cost(counted.flop, counted.bytes, counted.eager_bytes)
    check = partial(error_of, case, inputs)
    if device == "cpu":
        return Workload(run, amounts, check, tolerance(case))
    from brrr.experiments.prediction_times import measured

    recorded = role(variant) in ("eager", "twin")
    return Workload(
        partial(_in_its_surroundings, case, run), amounts, check, tolerance(case), synchronize=torch.cuda.synchronize,
        others={"measured": lambda: measured(run, case, kernels=recorded)},
    )  # fmt: skip


def _in_its_surroundings(case: Case, run: Callable[[], Any]) -> Any:
    with surroundings(case):
        return run()


def _run(case: Case, inputs: dict[str, Tensor], how: str) -> Callable[[], Any]:
    if how == "graph":
        return capture(function_of(case), *inputs.values()).replay
    if how != "compiled":
        return call_of(case, inputs)
    run = partial(compiled(function_of(case)), *inputs.values())
    compile_now(run)
    return run


def _reference(case: Case) -> Workload:
    """How fast the host was while the case was measured: taken then, and only handed over here."""
    from brrr.experiments.prediction_times import reference

    return Workload(lambda: None, Cost(0.0, 0.0), lambda _: 0.0, 0.0, others={"measured": lambda: reference(case)})


def _estimate(case: Case) -> Workload:
    """What torch's own estimator says of the case, as a measurement: nothing runs."""
    from brrr.experiments.prediction_torch import estimated

    amounts = cost_of(case)
    return Workload(
        lambda: None, Cost(amounts.flop, amounts.bytes), lambda _: 0.0, 0.0,
        others={"measured": lambda: estimated(case, "cuda")},
    )  # fmt: skip
