"""The products of blocks, each as a function of no arguments: by the library or kernel that its name says.

>>> out = torch.empty(1, 2, 2)
>>> _ = product_step(INNERS["sgemm"], torch.ones(1, 2, 8), torch.ones(1, 2, 8), out, right_transposed=True)()
>>> out[0, 0, 0]
tensor(8.)
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import torch

from brrr.core.errors import UnavailableError
from brrr.gpu.precision import float32_products
from brrr.strassen.passes.steps import Step
from brrr.strassen.products import How, prepared_batched
from brrr.strassen.ways import INNERS as INNERS
from brrr.strassen.ways import Inner

HOW: dict[str, tuple[How, ...]] = {
    "sgemm": ("cublas", "torch"), "tf32": ("cublas", "torch"), "ffma": ("cuda", "triton"),
    "fp16": ("cublas", "torch"), "bf16": ("cublas", "torch"), "fp64": ("torch",),
}  # fmt: skip
"""Whose product it is on a GPU; the second where the first is not here."""


def product_step(
    inner: Inner, left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, *, right_transposed: bool
) -> Step:
    """All block products, [count, m, k] by [count, k, n] or [count, n, k], into `out`, [count, m, n]."""
    hows: tuple[How, ...] = HOW[inner.name] if left.is_cuda else ("torch",)
    tf32 = inner.name == "tf32"
    for how in hows[:-1]:
        with suppress(UnavailableError):
            return prepared_batched(left, right, out, right_transposed=right_transposed, how=how, tf32=tf32)
    return prepared_batched(left, right, out, right_transposed=right_transposed, how=hows[-1], tf32=tf32)


def matrix_step(inner: Inner, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, *, right_transposed: bool) -> Step:
    """One classical product of matrices as they lie: (m, k) by (k, n), or (n, k) where `right_transposed`."""
    whole = a.is_contiguous() and b.is_contiguous() and out.is_contiguous()
    if whole and a.is_cuda:
        return product_step(inner, a[None], b[None], out[None], right_transposed=right_transposed)
    # what lies otherwise is the library's: it takes strides, and "ffma" is as exact
    return partial(_torch_product, a, b.t() if right_transposed else b, out, inner.name == "tf32")


def _torch_product(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, tf32: bool) -> None:
    with float32_products(tf32):
        torch.mm(a, b, out=out)
