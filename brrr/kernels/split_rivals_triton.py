"""3xTF32 in one Triton kernel: `tl.dot` cuts float32 tiles into two TF32 terms itself, and makes three products."""

# Triton's decorator has no types, and neither has what it compiles.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

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
