"""Products of many blocks on a real GPU: every library right, both orientations, in a graph too."""

import importlib.util
import math
from typing import Any

import pytest
import torch

from brrr.strassen.block_products import by_cublas, by_torch
from tests.strassen_on_gpu import error

needs_nvmath = pytest.mark.skipif(importlib.util.find_spec("nvmath") is None, reason="needs nvmath-python")
HOWS = [by_torch, pytest.param(by_cublas, marks=needs_nvmath)]
SHAPES = [(1, 1, 1, 1), (3, 131, 257, 33), (49, 100, 96, 104), (2, 1, 515, 1000)]
"""Products, m, n, k."""


def operands(
    products: int, m: int, n: int, k: int, transposed: bool, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    shapes = (products, m, k), ((products, n, k) if transposed else (products, k, n))
    return tuple(torch.randn(shape, device="cuda").to(dtype) for shape in shapes)  # type: ignore[return-value]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_way_multiplies_float32(shape: tuple[int, int, int, int], transposed: bool, how: Any) -> None:
    left, right = operands(*shape, transposed)
    out = torch.full(shape[:3], math.nan, device="cuda")
    how(left, right, out, transposed, False)()
    assert error(out, left, right.mT if transposed else right) < 2e-6, "true float32, not TF32"


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(("dtype", "into", "tf32", "worst"), [
    (torch.float32, torch.float32, True, 2e-3),
    (torch.float16, torch.float16, False, 1e-3),
    (torch.float16, torch.float32, False, 1e-5),
    (torch.bfloat16, torch.bfloat16, False, 8e-3),
    (torch.bfloat16, torch.float32, False, 1e-5),
])  # fmt: skip
def test_the_libraries_multiply_every_type(
    dtype: torch.dtype, into: torch.dtype, tf32: bool, worst: float, how: Any
) -> None:
    before = torch.backends.cuda.matmul.fp32_precision
    left, right = operands(7, 72, 136, 264, True, dtype)
    out = torch.full((7, 72, 136), math.nan, dtype=into, device="cuda")
    how(left, right, out, True, tf32)()
    found = error(out, left, right.mT)
    assert found < worst and (not tf32 or found > 1e-5), "TF32 must be TF32"
    assert torch.backends.cuda.matmul.fp32_precision == before
