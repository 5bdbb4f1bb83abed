"""The classical products that the others are compared with: float8, and the rivals of the split product.

>>> a, b, out = torch.randn(20, 32), torch.randn(32, 10), torch.empty(20, 10)
>>> run_all = [step() for step in rival_steps(Way("bf16x6"), a, Right.of(b), out)]
>>> torch.allclose(out, a @ b, atol=1e-4)
True

They are library calls, and their memory is torch's own: it is not taken from an arena.
"""

from __future__ import annotations

from functools import partial

import torch

from brrr.errors import ArgumentError
from brrr.strassen.operands import Right
from brrr.strassen.sums import Step
from brrr.strassen.ways import Way

LARGEST = 448.0
"""The largest number of float8 e4m3."""

FLOAT8_MULTIPLE = 16
"""What cuBLASLt's float8 products want of depth and columns."""


def rival_steps(way: Way, a: torch.Tensor, right: Right, out: torch.Tensor) -> list[Step]:
    """The product as one function; b's terms are made in it, prepared or not."""
    if way.inner == "fp8":
        if right.k % FLOAT8_MULTIPLE or right.n % FLOAT8_MULTIPLE:
            raise ArgumentError("matmul", "inner", way.inner, f"depth {right.k} and columns {right.n} multiples of 16")
        return [partial(_float8, a, right.matrix, out)]
    return [partial(_rival, way.inner, a, right.matrix.t(), out)]


def _rival(inner: str, a: torch.Tensor, w: torch.Tensor, out: torch.Tensor) -> None:
    from brrr.kernels.split_rivals import bf16_product, tf32_product

    if inner == "tf32x3":
        out.copy_(tf32_product(a.contiguous(), w.contiguous()))
    else:
        out.copy_(bf16_product(a, w, terms=3 if inner == "bf16x6" else 2))


def _float8(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Both operands scaled by their largest number, as float8; torch's product scales back."""
    (left, left_scale), (below, below_scale) = _as_float8(a), _as_float8(b.t())
    product = torch._scaled_mm(
        left, below.t(), scale_a=left_scale, scale_b=below_scale, out_dtype=torch.bfloat16, use_fast_accum=True
    )
    out.copy_(product)


def _as_float8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x in float8, row by row in memory, and what its numbers must be multiplied with."""
    scale = (x.abs().amax().float() / LARGEST).clamp_min(torch.finfo(torch.float32).tiny)
    return (x / scale).to(torch.float8_e4m3fn).contiguous(), scale
