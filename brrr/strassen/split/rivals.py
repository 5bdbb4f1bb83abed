"""Other ways to a product nearly as exact as float32's on the tensor cores, to compare `split_product` with.

>>> a, b = torch.randn(32, 64), torch.randn(48, 64)
>>> product = bf16_product(a, b, terms=3)
>>> bool((product - a @ b.T).norm() < 1e-5 * product.norm())
True

All multiply (batch, m, k) by (batch, n, k) along k, or matrices; a term's products are library calls, whose float32
results are added. What each loses is in its line.
"""

# Triton's decorator has no types, and neither has what it compiles.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

from brrr.core.errors import ArgumentError
from brrr.gpu.precision import float32_products
from brrr.strassen.split.splits import Terms, scaled


def library_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b^T of two batches of one 16-bit type, its sums and its result in float32."""
    if a.is_cuda:
        return torch.bmm(a, b.transpose(1, 2), out_dtype=torch.float32)
    return a.float() @ b.float().transpose(1, 2)


def fp16_product(left: Terms, right: Terms, chunk: int | None = None) -> torch.Tensor:
    """Three library products of `split`'s terms; with a chunk, of as much of k at a time, added up outside.

    Without one, the tensor core's truncation shows: an error in proportion to k.
    """
    width, total = left.hi.shape[2], None
    step = width if chunk is None else chunk
    for start in range(0, max(width, 1), max(step, 1)):
        along = slice(start, start + step)
        a_hi, a_lo, b_hi, b_lo = (each[:, :, along] for each in (left.hi, left.lo, right.hi, right.lo))
        part = library_product(a_hi, b_lo)
        part += library_product(a_lo, b_hi)
        part += library_product(a_hi, b_hi)
        total = part if total is None else total.add_(part)
    assert total is not None
    result = scaled(total, left.exponents.unsqueeze(2) + right.exponents.unsqueeze(1))
    return result[0] if left.flat else result


def bf16_terms(x: torch.Tensor, terms: int) -> list[torch.Tensor]:
    """x as a sum of bfloat16 terms of 8 bits each; no scaling is needed, their range is float32's.

    >>> [float(term) for term in bf16_terms(torch.tensor([1 + 2**-9 + 2**-18]), 3)]
    [1.0, 0.001953125, 3.814697265625e-06]
    """
    made = []
    for _ in range(terms):
        made.append(x.bfloat16())
        x = x - made[-1].float()
    return made


def bf16_product(a: torch.Tensor, b: torch.Tensor, terms: int) -> torch.Tensor:
    """bf16x3 (2 terms, 3 products: 16 bits) or bf16x6 (3 terms, 6 products: 24 bits), small products first."""
    if terms not in (2, 3):
        raise ArgumentError("bf16_product", "terms", terms, "2 or 3")
    flat = a.ndim == 2
    left, right = (bf16_terms(each.unsqueeze(0) if flat else each, terms) for each in (a, b))
    kept = sorted(((i, j) for i in range(terms) for j in range(terms) if i + j < terms), key=lambda pair: -sum(pair))
    (i, j), *others = kept
    total = library_product(left[i], right[j])
    for i, j in others:
        total += library_product(left[i], right[j])
    return total[0] if flat else total


def tf32_terms(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x as two float32 tensors: rounded to the 11 bits that TF32 holds, and the rest, of which it keeps 11.

    >>> [float(term) for term in tf32_terms(torch.tensor([1 + 2**-12]))]
    [1.0, 0.000244140625]
    """
    hi = ((x.contiguous().view(torch.int32) + 2**12) & -(2**13)).view(torch.float32)
    return hi, x - hi


def tf32_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Three TF32 products of two terms by the library; on the CPU, which has no TF32, float32 products.

    The sums stay in the tensor core, which truncates them: an error in proportion to k, 1.9e-5 at 8192 on an H200.
    """
    (a_hi, a_lo), (b_hi, b_lo) = tf32_terms(a), tf32_terms(b)
    with float32_products(tf32=True):
        total = a_lo @ b_hi.mT
        total += a_hi @ b_lo.mT
        total += a_hi @ b_hi.mT
    return total


# ---------------------------------------------------------------------------------------------------------------------
# 3xTF32 in one Triton kernel: `tl.dot` cuts float32 tiles into two TF32 terms itself, and makes three products.

GROUP = 8


@triton.jit(do_not_specialize=["m", "steps"])
def _product(
    left, right, out, m, n, k, steps,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, STEPS: tl.constexpr, BANDS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile of left (batch, m, k) times right (batch, n, k); a sum leaves the tensor core after each step."""
    batch, bands, column_tiles = tl.program_id(1).to(tl.int64), tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    group, inside = tl.program_id(0) // (BANDS * column_tiles), tl.program_id(0) % (BANDS * column_tiles)
    high = tl.minimum(bands - group * BANDS, BANDS)
    row = (group * BANDS + inside % high) * ROWS + tl.arange(0, ROWS)
    column, along = (inside // high) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    left_at = left + (batch * m + tl.minimum(row, m - 1))[:, None] * k + along[None, :]
    right_at = right + (batch * n + tl.minimum(column, n - 1))[None, :] * k + along[:, None]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for step in range(STEPS if STEPS >= 0 else steps):
        a = tl.load(left_at, along[None, :] < k - step * DEPTH, 0.0)
        b = tl.load(right_at, along[:, None] < k - step * DEPTH, 0.0)
        total += tl.dot(a, b, input_precision=PRECISION)
        left_at += DEPTH
        right_at += DEPTH
    to = out + (batch * m + row.to(tl.int64))[:, None] * n + column[None, :]
    tl.store(to, total, mask=(row[:, None] < m) & (column[None, :] < n))


def prepared_tf32x3(
    left: torch.Tensor,
    right: torch.Tensor,
    out: torch.Tensor,
    tile: tuple[int, int, int, int, int] = (128, 128, 32, 8, 3),
) -> Callable[[], Any]:
    """A launch of left (batch, m, k) times right (batch, n, k) into out: float32, contiguous, none of them empty.

    tile: rows, columns, depth, warps, stages. Nothing is checked.
    """
    (batch, m, k), n = left.shape, right.shape[1]
    rows, columns, depth, warps, stages = tile
    steps = triton.cdiv(k, depth)
    return partial(
        _product[(triton.cdiv(m, rows) * triton.cdiv(n, columns), batch)], left, right, out, m, n, k, steps,
        ROWS=rows, COLUMNS=columns, DEPTH=depth, STEPS=-1 if out.is_cuda else steps, BANDS=GROUP, PRECISION="tf32x3",
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
