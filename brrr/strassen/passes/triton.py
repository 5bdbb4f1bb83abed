"""The same passes as `strassen_sums.cu`, in Triton: one kernel, whose parts are chosen when it is compiled.

>>> run = prepared(work)    # doctest: +SKIP
>>> run()                   # doctest: +SKIP

A program holds BLOCK places of a block's grid, and of each the numbers in all 4^L blocks, as a tuple of tensors. The
sums are made depth first, as in CUDA C++; the compiler unrolls them.
"""

# Triton's decorator has no types, and neither has what it compiles.
# ruff: noqa: RUF005 (its tuples are joined, not unpacked)
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return, assignment"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.strassen.passes.plan import Table
from brrr.strassen.passes.work import Work

COLUMNS = 8
"""Columns of a block are a multiple of this, and the compiler is told so."""

WARPS = 4
PER_THREAD = {0: 8, 1: 4, 2: 4, 3: 1}
"""Places that a thread holds, by level."""

MOST = 2**31 - 2**16
"""Places of a block: they are counted in 32 bits."""


@triton.jit
def _plus(total, x, SIGN: tl.constexpr, FIRST: tl.constexpr):
    """total + SIGN * x; where FIRST, there is no total yet."""
    if SIGN > 0:
        total = x if FIRST else total + x
    if SIGN < 0:
        total = -x if FIRST else total - x
    return total


@triton.jit
def _signed(a, b, c, d, TABLE: tl.constexpr, P: tl.constexpr):
    """The P-th sum of four, from left to right; every sum has at least one."""
    A: tl.constexpr = TABLE[4 * P]
    B: tl.constexpr = TABLE[4 * P + 1]
    C: tl.constexpr = TABLE[4 * P + 2]
    D: tl.constexpr = TABLE[4 * P + 3]
    total = _plus(a, a, A, True)
    total = _plus(total, b, B, A == 0)
    total = _plus(total, c, C, A == 0 and B == 0)
    return _plus(total, d, D, A == 0 and B == 0 and C == 0)


@triton.jit
def _give(value, high, low, scale, live, TERMS: tl.constexpr):
    """One sum, to its buffers."""
    if TERMS == 2:
        scaled = value * scale
        upper = scaled.to(tl.float16)
        tl.store(high, upper, mask=live)
        tl.store(low, (scaled - upper.to(tl.float32)).to(tl.float16), mask=live)
    else:
        tl.store(high, value.to(high.dtype.element_ty), mask=live)


@triton.jit
def _spread(blocks, high, low, scale, size, live, LEVEL: tl.constexpr, TABLE: tl.constexpr, TERMS: tl.constexpr):
    """All 7^LEVEL sums of 4^LEVEL blocks, in the order of the products."""
    if LEVEL == 0:
        _give(blocks[0], high, low, scale, live, TERMS)
    else:
        COUNT: tl.constexpr = 4 ** (LEVEL - 1)
        for p in tl.static_range(7):
            sums = ()
            for i in tl.static_range(COUNT):
                made = _signed(blocks[i], blocks[COUNT + i], blocks[2 * COUNT + i], blocks[3 * COUNT + i], TABLE, p)
                sums = sums + (made,)
            far = size * (p * 7 ** (LEVEL - 1))
            _spread(sums, high + far, low + far, scale, size, live, LEVEL - 1, TABLE, TERMS)


@triton.jit
def _collect(products, size, live, LEVEL: tl.constexpr, TABLE: tl.constexpr):
    """4^LEVEL blocks from the next 7^LEVEL products."""
    if LEVEL == 0:
        blocks = (tl.load(products, mask=live, other=0.0).to(tl.float32),)
    else:
        COUNT: tl.constexpr = 4 ** (LEVEL - 1)
        blocks = _collect(products, size, live, LEVEL - 1, TABLE)
        blocks = _begun(blocks, TABLE, COUNT)
        for p in tl.static_range(1, 7):
            part = _collect(products + size * (p * 7 ** (LEVEL - 1)), size, live, LEVEL - 1, TABLE)
            more = ()
            for b in tl.static_range(4):
                for i in tl.static_range(COUNT):
                    more = more + (_plus(blocks[b * COUNT + i], part[i], TABLE[7 * b + p], False),)
            blocks = more
    return blocks


@triton.jit
def _begun(part, TABLE: tl.constexpr, COUNT: tl.constexpr):
    """The four quarters with the first product's part, zero where it does not enter."""
    blocks = ()
    for b in tl.static_range(4):
        for i in tl.static_range(COUNT):
            blocks = blocks + (_plus(tl.zeros_like(part[i]), part[i], TABLE[7 * b], False),)
    return blocks


@triton.jit
def _finished(value, shift, inside, BIAS: tl.constexpr, RELU: tl.constexpr):
    """max(value + shift, 0) inside the matrix, zero outside."""
    if BIAS:
        value = value + shift
    if RELU:
        value = tl.where(value < 0.0, 0.0, value)  # a NaN stays one
    return tl.where(inside, value, 0.0)


@triton.jit
def _moved(row, column, block_rows, block_columns, B: tl.constexpr):
    """A place of the first block, in block B: its row among blocks is the upper bits of its digits of base 4."""
    i: tl.constexpr = (B // 2 % 2) + (B // 8 % 2) * 2 + (B // 32 % 2) * 4
    j: tl.constexpr = (B % 2) + (B // 4 % 2) * 2 + (B // 16 % 2) * 4
    return row + i * block_rows, column + j * block_columns


@triton.jit
def _offset(row, column, row_stride, column_stride):
    """Where an element lies; in 64 bits, for a matrix may have more than 2^31."""
    return row.to(tl.int64) * row_stride + column.to(tl.int64) * column_stride


@triton.jit(do_not_specialize=["rows", "block_rows", "words", "exponent_step"])
def _sums(
    source, bias, matrix, high, low, exponents, exponent_step, rows, columns, row_stride, column_stride,
    block_rows, words,
    LEVEL: tl.constexpr, FROM_PRODUCTS: tl.constexpr, TO_MATRIX: tl.constexpr, TERMS: tl.constexpr,
    BIAS: tl.constexpr, RELU: tl.constexpr, SPREAD: tl.constexpr, COLLECT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One pass; see `Work`. Strides in numbers; words: a row of a block, in eights."""
    block_columns = words * 8
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = place < block_rows * block_columns
    row, column = place // block_columns, place % block_columns
    size = block_rows.to(tl.int64) * block_columns
    if FROM_PRODUCTS:
        blocks = _collect(source + place, size, live, LEVEL, COLLECT)
    else:
        blocks = ()
        for b in tl.static_range(4**LEVEL):
            down, across = _moved(row, column, block_rows, block_columns, b)
            inside = live & (down < rows) & (across < columns)
            at = source + _offset(down, across, row_stride, column_stride)
            blocks = blocks + (tl.load(at, mask=inside, other=0.0).to(tl.float32),)
    if FROM_PRODUCTS or BIAS or RELU:
        done = ()
        for b in tl.static_range(4**LEVEL):
            down, across = _moved(row, column, block_rows, block_columns, b)
            inside = live & (down < rows) & (across < columns)
            shift = blocks[b]
            if BIAS:
                shift = tl.load(bias + across, mask=inside, other=0.0).to(tl.float32)
            value = _finished(blocks[b], shift, inside, BIAS, RELU)
            if TO_MATRIX:
                at = matrix + _offset(down, across, row_stride, column_stride)
                tl.store(at, value.to(matrix.dtype.element_ty), mask=inside)
            done = done + (value,)
        blocks = done
    if TERMS > 0:
        scale = 1.0
        if TERMS == 2:
            scale = tl.exp2(-tl.load(exponents + row * exponent_step, mask=live, other=0).to(tl.float32))
        _spread(blocks, high + place, low + place, scale, size, live, LEVEL, SPREAD, TERMS)


def prepared(work: Work, per_thread: int | None = None, warps: int = WARPS) -> Callable[[], Any]:
    """A function of no arguments that does the work on torch's current stream; it keeps the tensors.

    UnavailableError for tensors on the CPU outside Triton's interpreter; ArgumentError for blocks of too many places.
    """
    if not work.source.is_cuda and not triton.knobs.runtime.interpret:
        raise UnavailableError(
            "strassen_sums: the tensors are on the CPU, and a Triton kernel needs an NVIDIA GPU. Move them with "
            ".cuda(), or set TRITON_INTERPRET=1 before Triton is loaded to run the kernel in its interpreter"
        )
    if work.level == 3 and work.from_products and work.high is not None:
        return _in_two(work)  # 64 sums of products and the sums of those at once do not fit the registers here
    places = work.block[0] * work.block[1]
    if places > MOST:
        found = f"blocks of {work.block}"
        raise ArgumentError("strassen_sums", "shape", found, f"at most {MOST} places in a block", "Use more levels")
    if not places:
        return _nothing
    block = 32 * warps * (per_thread or PER_THREAD[work.level])
    return partial(
        _sums[(triton.cdiv(places, block),)], *_arguments(work), **_constants(work), BLOCK=block, num_warps=warps
    )


def _in_two(work: Work) -> Callable[[], Any]:
    """A step as two passes, by way of the layer's output."""
    matrix = work.matrix
    if matrix is None:
        matrix = torch.empty(work.shape, dtype=torch.float32, device=work.source.device)
    first = prepared(replace(work, matrix=matrix, spread=None, high=None, low=None, exponents=None))
    second = prepared(replace(work, source=matrix, from_products=False, matrix=None, bias=None, relu=False))
    return partial(_both, first, second)


def _both(first: Callable[[], Any], second: Callable[[], Any]) -> None:
    first()
    second()


def _arguments(work: Work) -> tuple[Any, ...]:
    """Tensors that are missing are stood for by one that is there: the compiled kernel does not touch them."""
    touched, exponents = work.touched, work.exponents
    down, along = (0, 1) if touched is None else touched.stride()
    some = [work.source if each is None else each for each in (work.bias, work.matrix, work.high, work.low, exponents)]
    many = int(exponents is not None and exponents.numel() > 1)
    return (work.source, *some, many, *work.shape, down, along, work.block[0], work.block[1] // COLUMNS)


def _constants(work: Work) -> dict[str, Any]:
    job = work.job()
    return {
        "LEVEL": work.level, "FROM_PRODUCTS": work.from_products, "TO_MATRIX": work.matrix is not None,
        "TERMS": work.terms, "BIAS": work.bias is not None, "RELU": work.relu, "SPREAD": _flat(job.spread),
        "COLLECT": _flat(job.collect),
    }  # fmt: skip


def _flat(table: Table) -> tuple[int, ...]:
    return tuple(each for row in table for each in row)


def _nothing() -> None:
    """There is nothing to launch."""
