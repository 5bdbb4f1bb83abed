"""What the `gemm` experiment runs: torch's product in each layout and type, on random numbers and on zeros."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.gpu.precision import float32_products
from brrr.kernels.padding import padded_matmul
from brrr.roofline.calibrate.part import product_error
from brrr_course.experiments.checked import PointInputs, refuse_too_large, warmed
from brrr_course.experiments.gemm import cost
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCES = {"float32": 1e-5, "tf32": 2e-3, "bfloat16": 1e-2, "float16": 2e-3}
"""Of sums of up to 8192 products; TF32 (about 3e-4) would be found out among float32's."""


class Operands(PointInputs):
    """A point's weights W (M, K) and mini-batch x (K, N), random and normal."""

    def __init__(self, size: int, columns: int, dtype: str, device: str) -> None:
        kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
        self.w = torch.randn(size, size, device=device).to(kind)
        self.x = torch.randn(size, columns, device=device).to(kind)


def workload(variant: Variant, point: Point) -> Workload:
    """The product in the variant's layout, its operands laid out beforehand; padding is part of what is timed."""
    size, columns, dtype = int(point["size"]), int(point["columns"]), str(point["dtype"])
    device, made = variant.processor, cost(variant, point)
    refuse_too_large(2 * int(made.bytes), device, f"a product of {size} x {size} by {columns} columns")
    run, error = MAKERS[variant.way](Operands.of(size, columns, dtype, device))
    if dtype == "tf32":
        run = float32_products(tf32=True)(run)
    return warmed(Workload(run, made, error, TOLERANCES[dtype]), device)


Made = tuple[Callable[[], Any], Callable[[Any], float]]


def _nn(given: Operands) -> Made:
    w, x = given.w, given.x
    return lambda: torch.mm(w, x), partial(_error, given)


def _nt(given: Operands) -> Made:
    w, stored = given.w, given.x.t().contiguous()
    return lambda: torch.mm(w, stored.t()), partial(_error, given)


def _tn(given: Operands) -> Made:
    stored, x = given.w.t().contiguous(), given.x
    return lambda: torch.mm(stored.t(), x), partial(_error, given)


def _linear(given: Operands) -> Made:
    """A row a sample: the result (N, M) is the transposed one."""
    w, rows = given.w, given.x.t().contiguous()
    return lambda: torch.mm(rows, w.t()), lambda found: _error(given, found.t())


def _zeros(given: Operands) -> Made:
    w, x = torch.zeros_like(given.w), torch.zeros_like(given.x)
    return lambda: torch.mm(w, x), lambda found: float(found.abs().max())


def _padded(given: Operands) -> Made:
    w, x = given.w, given.x
    return lambda: padded_matmul(w, x), partial(_error, given)


MAKERS: dict[str, Callable[[Operands], Made]] = {
    "nn": _nn, "cpu": _nn, "nt": _nt, "tn": _tn, "linear": _linear, "zeros": _zeros, "padded": _padded,
}  # fmt: skip


def _error(given: Operands, found: torch.Tensor) -> float:
    """The relative error by random probes; a result of another shape or type is no result."""
    if found.shape != given.x.shape or found.dtype != given.x.dtype:
        return float("nan")
    return product_error(given.w, given.x)(found)
