"""How wrong a product by Strassen's algorithm is: by level, on kind and on nasty inputs.

The error is the Frobenius norm's, relative, against float64; on badly scaled inputs that of the worst row or column,
for the norm of the whole hides what happens to the small ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from brrr.core.callables import giving
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu.precision import float32_products
from brrr.strassen.implementations import Implementation
from brrr_course.experiments.checked import PointInputs, must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.nouns.experiment import Axis, Experiment, Variant, Workload

LEVELS = (0, 1, 2, 3)
INPUTS = ("normal", "uniform", "symmetric", "integer", "badly scaled rows", "badly scaled inside")
HARD = ("graded inside", "masked", "outlier channel", "sparse", "uneven rows", "contrary rows")
"""Kinds of inputs, and those that try whether a product notices what it would lose (`inputs.py`)."""

PLAIN, BADLY = ("normal", "uniform"), "badly scaled"
SIZES = (256, 1024, 4096, 8192, 12288)
LARGEST = 4096
"""With levels that are asked for; a default call is measured at all sizes."""
GPU_SMALLEST = 1024

DEFAULT = ("default", "library")


def supports(variant: Variant, point: Point) -> bool:
    """A default call and the library's product on all inputs, levels that are asked for on those that they can hold."""
    n, inputs = int(point["size"]), str(point["inputs"])
    if variant.implementation in DEFAULT:
        return point["level"] == 0
    if inputs in HARD or n > LARGEST:
        return False
    return not variant.on_gpu or n >= GPU_SMALLEST


def cost(variant: Variant, point: Point) -> Cost:
    """The textbook's product."""
    n = int(point["size"])
    return matmul_cost(n, n, n, 4)


EXPERIMENT = Experiment(
    title="Errors of Strassen's algorithm",
    question="How much accuracy does each level cost?",
    axes=(
        Axis("level", LEVELS, label="levels", scale="category", quick=(0, 1, 2)),
        Axis("inputs", (*INPUTS, *HARD), label="inputs", scale="category"),
        Axis("size", SIZES, label="matrix size n", quick=(256, GPU_SMALLEST), most={"cpu": 1024}),
    ),
    variants=(
        Variant("strassen", "Strassen's form, float32"),
        Variant("default", "matmul as it chooses by itself, float32"),
        Variant("library", "the library's product, float32"),
        Variant.twin("strassen", "cpu", "CPU, Strassen's form, float32"),
    ),
    field="span_s",
    package=__name__,
    needs="CUDA",
)


# ---------------------------------------------------------------------------------------------------------------------
# Kind and nasty inputs of a product, and the errors that are measured on them, against float64.

if TYPE_CHECKING:
    Pair = tuple[torch.Tensor, torch.Tensor]


def random_inputs(inputs: str, inner: int, size: int, seed: int | None = None) -> Pair:
    """A (size, inner) and B (inner, size) of a kind in INPUTS or in HARD, float32; without a seed always others."""
    if inputs not in (*INPUTS, *HARD):
        raise ArgumentError("random_inputs", "inputs", inputs, f"one of {', '.join((*INPUTS, *HARD))}")
    draw = torch.Generator()
    draw.manual_seed(seed) if seed is not None else draw.seed()
    return _spoilt(inputs, _drawn(inputs, (size, inner), draw), _drawn(inputs, (inner, size), draw), draw)


def _drawn(inputs: str, shape: tuple[int, int], draw: torch.Generator) -> torch.Tensor:
    """Uniform from 0 to 1 or from -1 to 1, whole from -8 to 8, else normal."""
    if inputs == "integer":
        return torch.randint(-8, 9, shape, generator=draw).float()
    if inputs in ("uniform", "symmetric"):
        low = -1.0 if inputs == "symmetric" else 0.0
        return low + (1 - low) * torch.rand(shape, generator=draw)
    return torch.randn(shape, generator=draw)


def _spoilt(inputs: str, a: torch.Tensor, b: torch.Tensor, draw: torch.Generator) -> Pair:
    """Numbers of very different size, where the kind of inputs has them."""
    size, inner = a.shape
    match inputs:
        case "badly scaled rows":  # blocks of very different size in one sum
            spread = torch.logspace(0, 20, size, base=2)
            return a * spread[:, None], b * spread.flip(0)
        case "badly scaled inside":  # products of one size from unlike factors
            spread = torch.logspace(0, 20, inner, base=2)
            return a * spread, b / spread[:, None]
        case "graded inside":
            spread = torch.logspace(-12, 12, inner)
            return a * spread, b / spread[:, None]
        case "masked":  # large numbers that meet rows of zeros
            a[:, ::8], b[::8] = -1e9, 0.0
        case "outlier channel":  # one large column that meets weights of zero
            a[:, inner // 2] *= 1e8
            b[inner // 2] = 0.0
        case "sparse":
            return torch.where(torch.rand(a.shape, generator=draw) < 0.01, a, 0.0), b
        case "uneven rows":
            return a * torch.logspace(0, 3, size)[torch.randperm(size, generator=draw), None], b
        case "contrary rows":  # half of A's rows are largest where B is smallest, the others not: no scaling helps both
            a[: size // 2, ::2] /= 2.0**30
            a[size // 2 :, 1::2] /= 2.0**30
            b[::2] *= 2.0**30
    return a, b


def relative_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """||found - wanted|| / ||wanted||, in float64; infinite where something should be 0."""
    away, size = (float(torch.linalg.norm(x)) for x in (found.double() - wanted, wanted))
    return away / size if size else (0.0 if away == 0 else float("inf"))


def row_error(found: torch.Tensor, wanted: torch.Tensor, columns: bool = True) -> float:
    """The largest relative error of a row or a column (or of rows alone), which a small row's error cannot hide in.

    >>> row_error(torch.tensor([[1e3, 1e3], [2.0, 1.0]]), torch.tensor([[1e3, 1e3], [1.0, 1.0]]))
    0.7...
    """
    away, size = (found.double() - wanted.double()).square(), wanted.double().square()
    tiny = torch.finfo(torch.float64).tiny
    parts = [(away.sum(d) / size.sum(d).clamp_min(tiny)).max() for d in ((0, 1) if columns else (1,))]
    return float(torch.stack(parts).max().sqrt())


# ---------------------------------------------------------------------------------------------------------------------
# What the experiment `strassen_errors` runs: a product of a few levels on inputs of a kind.

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
    from brrr.strassen.execution import prepared
    from brrr.strassen.multiply import matmul

    n, inputs, level = int(point["size"]), str(point["inputs"]), int(point["level"])
    must_fit(12 * 8 * n * n, variant.processor, f"{variant.label} of size {n}")
    given = ErrorInputs.of(inputs, n, variant.processor)
    measure, badly = relative_error, inputs.startswith(BADLY)
    if variant.implementation in DEFAULT:
        run: Callable[[], torch.Tensor] = partial(
            matmul if variant.implementation == "default" else library, given.a, given.b
        )
        measure, badly = partial(row_error, columns=False), True
    else:
        out = torch.full_like(given.a, math.nan)
        run = giving(out, prepared(Implementation("sgemm", level, "strassen"), given.a, given.b, out))
        measure = row_error if badly else relative_error
    return Workload(run, partial(given.error, measure), ALLOWED[badly])


@float32_products()
def library(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch's product in full precision."""
    return a @ b
