"""What the `unary` experiment runs: one operator on each element, checked against float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import torch

from brrr.core.values import Point
from brrr.course.experiments.checked import queued, refuse_too_large
from brrr.course.experiments.unary import ITEMSIZE, cost
from brrr.course.nouns.experiment import Variant, Workload

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 4e-3}
"""A few roundings of 2^-24; one of 2^-8 at the end."""

CHUNK = 2**24
Operator = Callable[[torch.Tensor], torch.Tensor]


class Input:
    """Normal numbers, drawn once for all variants of a point."""

    _alive: ClassVar[WeakValueDictionary[tuple[int, str, str], Input]] = WeakValueDictionary()

    def __init__(self, elements: int, dtype: str, device: str) -> None:
        self.x = torch.randn(elements, device=device, dtype=getattr(torch, dtype))

    @classmethod
    def of(cls, elements: int, dtype: str, device: str) -> Input:
        """The input of a point: what another of its variants holds, or a new one."""
        key = (elements, dtype, device)
        found = cls._alive.get(key)
        if found is None:
            found = cls._alive[key] = cls(*key)
        return found


OPERATORS: dict[str, Operator] = {
    "copy": torch.clone, "relu": torch.relu, "gelu": torch.nn.functional.gelu, "sigmoid": torch.sigmoid,
    "tanh": torch.tanh, "exp": torch.exp, "cos": torch.cos,
}  # fmt: skip


def workload(variant: Variant, point: Point) -> Workload:
    """The operator on fresh random numbers."""
    elements, dtype = int(point["elements"]), str(point["dtype"])
    device = "cuda" if variant.device == "cuda" else "cpu"
    needed = 3 * ITEMSIZE[dtype] * elements + 4 * 8 * min(elements, CHUNK)
    refuse_too_large(needed, device, f"{variant.label} of {elements} elements")
    operator, held = OPERATORS[variant.name.removeprefix("queue-")], Input.of(elements, dtype, device)
    error = error_of(operator, held.x)
    if device == "cuda":
        operator(held.x)  # loads the kernel: what happens once must not pass for a slow call
        torch.cuda.synchronize()
    wait = torch.cuda.synchronize if device == "cuda" else None
    made = Workload(lambda: operator(held.x), cost(variant, point), error, TOLERANCE[held.x.dtype], synchronize=wait)
    return made if device == "cuda" else queued(made)


def error_of(operator: Operator, x: torch.Tensor) -> Callable[[Any], float]:
    """||y - reference|| / ||reference||, the reference in float64, a part at a time; NaN for another shape or type.

    >>> error_of(torch.relu, torch.ones(3))(torch.ones(3))
    0.0
    """

    def error(y: Any) -> float:
        if not isinstance(y, torch.Tensor) or y.shape != x.shape or y.dtype != x.dtype:
            return math.nan
        wrong = right = 0.0
        for start in range(0, x.numel(), CHUNK):
            expected = operator(x[start : start + CHUNK].double())
            wrong += float((y[start : start + CHUNK].double() - expected).square().sum())
            right += float(expected.square().sum())
        return math.sqrt(wrong / right) if right else math.nan if wrong != 0 else 0.0

    return error
