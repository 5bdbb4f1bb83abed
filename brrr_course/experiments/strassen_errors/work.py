"""What the experiment `strassen_errors` runs: a product of a few levels on inputs of a kind."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.gpu import waiting
from brrr.gpu.precision import float32_products
from brrr.strassen.execution import prepared
from brrr.strassen.multiply import matmul
from brrr.strassen.ways import Way
from brrr_course.experiments.checked import PointInputs, refuse_too_large
from brrr_course.experiments.strassen_errors import BADLY, DEFAULT, cost
from brrr_course.experiments.strassen_errors.inputs import random_inputs, relative_error, row_error
from brrr_course.nouns.experiment import Variant, Workload

ALLOWED = {False: 0.5, True: 10.0}
"""No error is a mistake here but a result that is none: the largest allowed, and on badly scaled inputs."""


class ErrorInputs(PointInputs):
    """Two matrices of a kind and their product in float64, shared by the ways of a point."""

    def __init__(self, inputs: str, n: int, device: str) -> None:
        self.a, self.b = (x.to(device) for x in random_inputs(inputs, n, n))
        self.expected = self.a.double() @ self.b.double()

    def error(self, measure: Callable[[torch.Tensor, torch.Tensor], float], found: Any) -> float:
        """The relative error of the whole, or of the worst row or column; NaN for what is no such matrix."""
        if not isinstance(found, torch.Tensor) or found.shape != self.expected.shape:
            return math.nan
        return measure(found.to(self.expected.device), self.expected)


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's product at a point."""
    n, inputs, level = int(point["size"]), str(point["inputs"]), int(point["level"])
    refuse_too_large(12 * 8 * n * n, variant.processor, f"{variant.label} of size {n}")
    given = ErrorInputs.of(inputs, n, variant.processor)
    measure, badly = relative_error, inputs.startswith(BADLY)
    if variant.way in DEFAULT:
        run: Callable[[], torch.Tensor] = partial(matmul if variant.way == "default" else library, given.a, given.b)
        measure, badly = partial(row_error, columns=False), True
    else:
        out = torch.full_like(given.a, math.nan)
        run = partial(_multiplied, prepared(Way("sgemm", level, "strassen"), given.a, given.b, out), out)
        measure = row_error if badly else relative_error
    error = partial(given.error, measure)
    return Workload(run, cost(variant, point), error, ALLOWED[badly], waiting(variant.processor))


@float32_products()
def library(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch's product in full precision."""
    return a @ b


def _multiplied(multiply: Callable[[], None], out: torch.Tensor) -> torch.Tensor:
    multiply()
    return out
