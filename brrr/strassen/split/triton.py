"""Two-term float16 operands in Triton: the kernels that split float32 matrices, and one that multiplies the terms.

Works wherever Triton does, and in its interpreter on the CPU. Terms lie along k, with zeros up to a multiple of eight.
The product adds to a float32 total after each step along k: what the tensor core sums in between is a step deep.
"""

# Triton's decorator has no types, and neither has what it compiles.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

WIDEST = 16384
"""The longest row that one program holds; a longer one is read twice."""

TILE = 4096
"""Numbers of a program that holds several short rows."""

TOP = tl.constexpr(141)
"""float32's bias, 127, and 14: a row's largest number is scaled to lie from 2^14 to 2^15, inside float16's range."""

INFINITE = tl.constexpr(0x7F800000)
"""float32's bits of infinity: as whole numbers, those of finite numbers are less."""


@triton.jit
def _power(e):
    """2^e as float32, e from -126 to 127."""
    return ((e + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def _scaled(x, e):
    """x 2^e in two steps, since 2^e alone may be out of range; e is cut at 252, where every result is out of it too."""
    e = tl.minimum(tl.maximum(e, -252), 252)
    return x * _power(e >> 1) * _power(e - (e >> 1))


@triton.jit
def _size(x):
    """The bits of |x|, which are in the order of the numbers; zero for infinity and NaN."""
    bits = x.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    return tl.where(bits < INFINITE, bits, 0)


@triton.jit
def _terms(x, e):
    """x 2^-e as two float16 terms: what the first leaves is exact in float32, and rounded once. inf, NaN: the first."""
    scaled = _scaled(x, -e)
    hi = scaled.to(tl.float16)
    rest = scaled - hi.to(tl.float32)
    return hi, tl.where(rest - rest == 0.0, rest, 0.0).to(tl.float16)


@triton.jit
def _split_rows(
    x, hi, lo, exponents, rows, k, width, x_batch, x_row,
    STEPS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, GIVEN: tl.constexpr,
):  # fmt: skip
    """Rows of one matrix, contiguous along k, in STEPS of WIDTH; the exponents are GIVEN, or found and written."""
    batch, first = tl.program_id(1).to(tl.int64), tl.program_id(0).to(tl.int64) * ROWS
    row, along = first + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    inside = row < rows
    from_row = x + batch * x_batch + row[:, None] * x_row + along[None, :]
    to_row = (batch * rows + row[:, None]) * width + along[None, :]
    exponent_at = exponents + batch * rows + row
    x_tile = tl.load(from_row, mask=inside[:, None] & (along[None, :] < k), other=0.0)
    if GIVEN:
        e = tl.load(exponent_at, mask=inside, other=0)
    else:
        largest = tl.max(_size(x_tile), axis=1)
        for step in tl.static_range(1, STEPS):
            mask = inside[:, None] & (along[None, :] < k - step * WIDTH)
            largest = tl.maximum(largest, tl.max(_size(tl.load(from_row + step * WIDTH, mask=mask, other=0.0)), axis=1))
        e = (largest >> 23) - TOP
        tl.store(exponent_at, e, mask=inside)
    for step in tl.static_range(0, STEPS):
        if step > 0:
            mask = inside[:, None] & (along[None, :] < k - step * WIDTH)
            x_tile = tl.load(from_row + step * WIDTH, mask=mask, other=0.0)
        high, low = _terms(x_tile, e[:, None])
        mask = inside[:, None] & (along[None, :] < width - step * WIDTH)
        tl.store(hi + to_row + step * WIDTH, high, mask=mask)
        tl.store(lo + to_row + step * WIDTH, low, mask=mask)


@triton.jit
def _column_sizes(x, sizes, k, n, x_batch, x_row, DEEP: tl.constexpr, ACROSS: tl.constexpr):
    """The largest `_size` of each column of a row-major (k, n) matrix, into zeros, by atomic maxima."""
    batch = tl.program_id(2).to(tl.int64)
    deep, across = tl.program_id(1) * DEEP + tl.arange(0, DEEP), tl.program_id(0) * ACROSS + tl.arange(0, ACROSS)
    mask = (deep[:, None] < k) & (across[None, :] < n)
    tile = tl.load(x + batch * x_batch + deep.to(tl.int64)[:, None] * x_row + across[None, :], mask=mask, other=0.0)
    tl.atomic_max(sizes + batch * n + across, tl.max(_size(tile), axis=0), mask=across < n)


@triton.jit
def _split_columns(
    x, hi, lo, sizes, exponents, k, n, width, x_batch, x_row,
    DEEP: tl.constexpr, ACROSS: tl.constexpr, GIVEN: tl.constexpr,
):  # fmt: skip
    """Columns of a row-major (k, n) matrix as rows along k: a tile is read, split, turned and written."""
    batch = tl.program_id(2).to(tl.int64)
    deep, across = tl.program_id(1) * DEEP + tl.arange(0, DEEP), tl.program_id(0) * ACROSS + tl.arange(0, ACROSS)
    mask = (deep[:, None] < k) & (across[None, :] < n)
    tile = tl.load(x + batch * x_batch + deep.to(tl.int64)[:, None] * x_row + across[None, :], mask=mask, other=0.0)
    at = batch * n + across
    if GIVEN:
        e = tl.load(exponents + at, mask=across < n, other=0)
    else:
        e = (tl.load(sizes + at, mask=across < n, other=0) >> 23) - TOP
        if tl.program_id(1) == 0:
            tl.store(exponents + at, e, mask=across < n)
    high, low = _terms(tl.trans(tile), e[:, None])
    to = at[:, None] * width + deep[None, :]
    mask = (across[:, None] < n) & (deep[None, :] < width)
    tl.store(hi + to, high, mask=mask)
    tl.store(lo + to, low, mask=mask)


@triton.jit(do_not_specialize=["m", "steps", "out_batch", "left_batch", "left_row", "right_batch", "right_row"])
def _product(
    left_hi, left_lo, right_hi, right_lo, out, left_exponents, right_exponents,
    m, n, k, steps, out_batch, out_row, left_batch, left_row, right_batch, right_row,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, STEPS: tl.constexpr,
    GROUP: tl.constexpr, EVEN: tl.constexpr, MAPS: tl.constexpr,
):  # fmt: skip
    """One tile of out. MAPS: operands are tensor descriptors of (batch * rows, k). EVEN: k is a multiple of DEPTH.

    As in linear_relu.py, STEPS is negative but in the interpreter, which cannot count up to a number of run time.
    """
    batch, bands, column_tiles = tl.program_id(1), tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    group, inside = tl.program_id(0) // (GROUP * column_tiles), tl.program_id(0) % (GROUP * column_tiles)
    high = tl.minimum(bands - group * GROUP, GROUP)
    first_row, first_column = (group * GROUP + inside % high) * ROWS, (inside // high) * COLUMNS
    row, column, along = first_row + tl.arange(0, ROWS), first_column + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    # Rows beyond the end read the last one: their results are not written.
    left_at = (batch.to(tl.int64) * m + tl.minimum(row, m - 1))[:, None] * k + along[None, :]
    right_at = (batch.to(tl.int64) * n + tl.minimum(column, n - 1))[None, :] * k + along[:, None]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for step in range(STEPS if STEPS >= 0 else steps):
        if MAPS:
            a_hi = left_hi.load([batch * m + first_row, step * DEPTH])
            a_lo = left_lo.load([batch * m + first_row, step * DEPTH])
            b_hi = right_hi.load([batch * n + first_column, step * DEPTH]).T
            b_lo = right_lo.load([batch * n + first_column, step * DEPTH]).T
        elif EVEN:
            a_hi, a_lo = tl.load(left_hi + left_at), tl.load(left_lo + left_at)
            b_hi, b_lo = tl.load(right_hi + right_at), tl.load(right_lo + right_at)
        else:
            left_mask, right_mask = along[None, :] < k - step * DEPTH, along[:, None] < k - step * DEPTH
            a_hi, a_lo = tl.load(left_hi + left_at, left_mask, 0.0), tl.load(left_lo + left_at, left_mask, 0.0)
            b_hi, b_lo = tl.load(right_hi + right_at, right_mask, 0.0), tl.load(right_lo + right_at, right_mask, 0.0)
        # The small products first: while a sum is small, the tensor core cuts little off.
        part = tl.dot(a_hi, b_lo)
        part = tl.dot(a_lo, b_hi, part)
        total += tl.dot(a_hi, b_hi, part)
        left_at += DEPTH
        right_at += DEPTH
    e = tl.load(left_exponents + batch * left_batch + row * left_row, mask=row < m, other=0)
    f = tl.load(right_exponents + batch * right_batch + column * right_row, mask=column < n, other=0)
    total = _scaled(total, e[:, None] + f[None, :])
    to = out + batch.to(tl.int64) * out_batch + row.to(tl.int64)[:, None] * out_row + column[None, :]
    tl.store(to, total, mask=(row[:, None] < m) & (column[None, :] < n))


@dataclass(frozen=True)
class Tiling:
    """A program's tile of the result, rows x columns, the depth of a step, its warps, its stages; how it reads.

    maps: by the copy engine, from compute capability 9.0 on, and not by each thread. More than 64 sums a thread, twice
    for the total, fit no registers: 128 x 128 with 8 warps is as large as it gets.
    """

    rows: int = 128
    columns: int = 128
    depth: int = 64
    warps: int = 8
    stages: int = 3
    maps: bool = False
    group: int = 8


def split_rows(x: torch.Tensor, hi: torch.Tensor, lo: torch.Tensor, exponents: torch.Tensor, given: bool) -> None:
    """Split x (batch, rows, k), contiguous along k, into hi and lo (batch, rows, width), packed; nothing is checked."""
    (batch, rows, k), width = x.shape, hi.shape[2]
    wide = min(WIDEST, triton.next_power_of_2(width))
    high = max(1, TILE // wide)
    _split_rows[(triton.cdiv(rows, high), batch)](
        x, hi, lo, exponents, rows, k, width, x.stride(0), x.stride(1), STEPS=triton.cdiv(width, wide),
        ROWS=high, WIDTH=wide, GIVEN=given, num_warps=4 if wide * high <= TILE else 16 if wide == WIDEST else 8,
    )  # fmt: skip


def split_columns(
    x: torch.Tensor, hi: torch.Tensor, lo: torch.Tensor, exponents: torch.Tensor, given: bool,
    sizes: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """Split x (batch, k, n), contiguous along n, into hi and lo (batch, n, width), packed; nothing is checked.

    sizes: memory like the exponents', to be overwritten; new if None.
    """
    (batch, k, n), width = x.shape, hi.shape[2]
    if given:
        sizes = exponents
    else:
        sizes = torch.zeros_like(exponents) if sizes is None else sizes.zero_()
        grid = triton.cdiv(n, 128), triton.cdiv(k, 128), batch
        _column_sizes[grid](x, sizes, k, n, x.stride(0), x.stride(1), DEEP=128, ACROSS=128, num_warps=8)
    grid = triton.cdiv(n, 64), triton.cdiv(width, 64), batch
    _split_columns[grid](
        x, hi, lo, sizes, exponents, k, n, width, x.stride(0), x.stride(1), DEEP=64, ACROSS=64, GIVEN=given, num_warps=4
    )


def prepared(
    left: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    right: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    out: torch.Tensor,
    tiling: Tiling | None = None,
) -> Callable[[], Any]:
    """A function of no arguments that launches the product; nothing is checked.

    left, right: hi and lo (batch, rows, k), packed, and exponents (batch, rows), of any strides, read at each launch;
    out: (batch, m, n), its rows contiguous, not empty.
    """
    (batch, m, k), n = left[0].shape, right[0].shape[1]
    tiling = tiling or default_tiling(out)
    operands: tuple[Any, ...] = (*left[:2], *right[:2])
    if tiling.maps:
        operands = tuple(_described(each, tiling, side) for each, side in zip(operands, "llrr", strict=True))
    steps, here = triton.cdiv(k, tiling.depth), out.is_cuda
    grid = (triton.cdiv(m, tiling.rows) * triton.cdiv(n, tiling.columns), batch)
    return partial(
        _product[grid], *operands, out, left[2], right[2], m, n, k, steps, out.stride(0), out.stride(1),
        *left[2].stride(), *right[2].stride(),
        ROWS=tiling.rows, COLUMNS=tiling.columns, DEPTH=tiling.depth, STEPS=-1 if here else steps, GROUP=tiling.group,
        EVEN=k % tiling.depth == 0, MAPS=tiling.maps, num_warps=tiling.warps, num_stages=tiling.stages,
    )  # fmt: skip


def default_tiling(out: torch.Tensor) -> Tiling:
    """The tiling for where `out` is."""
    return Tiling(maps=out.is_cuda and torch.cuda.get_device_capability(out.device) >= (9, 0))


def _described(term: torch.Tensor, tiling: Tiling, side: str) -> Any:
    from triton.tools.tensor_descriptor import TensorDescriptor

    block = [tiling.rows if side == "l" else tiling.columns, tiling.depth]
    return TensorDescriptor.from_tensor(term.flatten(0, 1), block)
