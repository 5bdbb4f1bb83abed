"""What the experiment `strassen_errors` runs: a product of a few levels on inputs of a kind, scaled where asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.course.experiments.checked import Shared, refuse_too_large
from brrr.course.experiments.strassen_errors import BADLY, DEFAULT, cost
from brrr.course.experiments.strassen_errors.inputs import random_inputs, relative_error, row_error
from brrr.course.nouns.experiment import Variant, Workload
from brrr.gpu.precision import float32_products
from brrr.strassen.algebra.scaling import Scaling
from brrr.strassen.execution import prepared
from brrr.strassen.multiply import matmul
from brrr.strassen.ways import Way

ALLOWED = {False: 0.5, True: 10.0}
"""No error is a mistake here but a result that is none: the largest allowed, and on badly scaled inputs."""


class Given(Shared):
    """Two matrices of a kind and their product in float64, shared by the ways of a point."""

    def __init__(self, inputs: str, n: int, device: str) -> None:
        self.a, self.b = (x.to(device) for x in random_inputs(inputs, n, n))
        self.expected = self.a.double() @ self.b.double()
        self.measure = row_error if inputs.startswith(BADLY) else relative_error

    def error(self, found: Any) -> float:
        """The relative error of the whole, or of the worst row or column; NaN for what is no such matrix."""
        return self._by(self.measure, found)

    def of_rows(self, found: Any) -> float:
        """The relative error of the worst row."""
        return self._by(partial(row_error, columns=False), found)

    def _by(self, measure: Callable[[torch.Tensor, torch.Tensor], float], found: Any) -> float:
        if not isinstance(found, torch.Tensor) or found.shape != self.expected.shape:
            return math.nan
        return measure(found.to(self.expected.device), self.expected)


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's product at a point."""
    n, inputs = int(point["size"]), str(point["inputs"])
    device = variant.processor
    refuse_too_large(12 * 8 * n * n, device, f"{variant.label} of size {n}")
    given = Given.of(inputs, n, device)
    if variant.name in DEFAULT:
        ours = variant.name == "default"
        call = partial(matmul if ours else library, given.a, given.b)
        return Workload(call, cost(variant, point), given.of_rows, ALLOWED[True], torch.cuda.synchronize)
    run = _scaled(variant, point, given) if variant.name.endswith("-scaled") else _plain(variant, point, given)
    allowed = ALLOWED[inputs.startswith(BADLY)]
    if device == "cpu":
        return Workload(run, cost(variant, point), given.error, allowed)
    return Workload(run, cost(variant, point), given.error, allowed, torch.cuda.synchronize)


@float32_products()
def library(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch's product in full precision."""
    return a @ b


def way_of(variant: str, level: int) -> Way:
    """The way of a variant with so many levels.

    >>> way_of("cpu-winograd-scaled", 2).name, way_of("fp16x3", 1).name
    ('sgemm-winograd-2', 'fp16x3-strassen-1')
    """
    name = variant.removeprefix("cpu-").removesuffix("-scaled")
    form = name if name == "winograd" else "strassen"
    return Way("sgemm" if name == form else name, level, form)


def _plain(variant: Variant, point: Point, given: Given) -> Callable[[], torch.Tensor]:
    way = way_of(variant.name, int(point["level"]))
    dtype = torch.bfloat16 if way.inner == "bf16" else torch.float32
    a, b = given.a.to(dtype), given.b.to(dtype)
    out = torch.full_like(a, math.nan)
    multiply = prepared(way, a, b, out)

    def run() -> torch.Tensor:
        multiply()
        return out

    return run


def _scaled(variant: Variant, point: Point, given: Given) -> Callable[[], torch.Tensor]:
    """Both operands scaled by powers of two, the product, and its result scaled back: all of it in the time."""
    a, b = given.a, given.b
    left, right, out = torch.empty_like(a), torch.empty_like(b), torch.full_like(a, math.nan)
    multiply = prepared(way_of(variant.name, int(point["level"])), left, right, out)

    def run() -> torch.Tensor:
        scaling = Scaling.of(a, b, "outer-inner")
        for buffer, scaled in zip((left, right), scaling.apply(a, b), strict=True):
            buffer.copy_(scaled)
        multiply()
        return scaling.undo(out)

    return run
