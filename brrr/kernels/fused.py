"""Operators fused by hand in Triton: cos of cos, a chain of three, bias and ReLU, layer norm, softmax.

Each kernel reads its inputs once and writes its results once; whatever stands between stays in registers. Arithmetic is
in float32 whatever the type of the inputs, and rounded once, at the end. A row of layer norm or softmax is held by one
program, so that its sum and its elements are of one read.
"""

# Triton's decorator has no types, and neither has what it compiles.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

from brrr.core.errors import ArgumentError
from brrr.gpu import is_gpu
from brrr.kernels.alone import Example, alone
from brrr.kernels.checks import check_shape, check_tensors, require_triton

BLOCK_BYTES, WARPS = 4096, 4
"""A program's share of an array: each of its 128 threads loads 16 bytes twice."""

WIDEST = 16384
"""The longest row that one program holds."""

TILE = 4096
"""Elements of a program that holds whole rows: several short ones together."""


@triton.jit
def _loaded(start, left, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    """A block of numbers as float32, zeros after the last; where all blocks are full, none asks whether it is."""
    offsets = tl.arange(0, BLOCK)
    value = tl.load(start + offsets) if EVEN else tl.load(start + offsets, mask=offsets < left, other=0.0)
    return value.to(tl.float32)


@triton.jit
def _stored(start, value, left, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    """The reverse, rounded to the array's type."""
    offsets = tl.arange(0, BLOCK)
    if EVEN:
        tl.store(start + offsets, value.to(start.dtype.element_ty))
    else:
        tl.store(start + offsets, value.to(start.dtype.element_ty), mask=offsets < left)


@triton.jit
def _rows(x, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A program's whole rows: where they start, their columns, the offsets from there that exist, and the values."""
    first = tl.program_id(0).to(tl.int64) * ROWS
    columns, down = tl.arange(0, COLUMNS), tl.arange(0, ROWS)
    offsets = down[:, None] * width + columns[None, :]
    inside = (down[:, None] < rows - first) & (columns[None, :] < width)
    value = tl.load(x + first * width + offsets, mask=inside, other=0.0).to(tl.float32)
    return first * width, columns, offsets, inside, value


@triton.jit
def _cos_cos(x, y, count, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    """cos(cos(x))."""
    # count may exceed 2^31: the block's start is 64 bits wide, an offset inside the block need not be
    start = tl.program_id(0).to(tl.int64) * BLOCK
    value = tl.cos(tl.cos(_loaded(x + start, count - start, BLOCK, EVEN)))
    _stored(y + start, value, count - start, BLOCK, EVEN)


@triton.jit
def _chain(x, r, y, scale, count, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    """relu(x * scale + r); a NaN stays one."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    value = _loaded(x + start, count - start, BLOCK, EVEN) * scale + _loaded(r + start, count - start, BLOCK, EVEN)
    _stored(y + start, tl.where(value < 0.0, 0.0, value), count - start, BLOCK, EVEN)


@triton.jit
def _bias_relu(x, b, y, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """relu(x + b), a row of the bias for each row of x."""
    start, columns, offsets, inside, value = _rows(x, rows, width, ROWS, COLUMNS)
    value += tl.load(b + columns, mask=columns < width, other=0.0).to(tl.float32)[None, :]
    value = tl.where(value < 0.0, 0.0, value)
    tl.store(y + start + offsets, value.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _layer_norm(x, w, b, y, rows, width, eps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Each row less its mean, over its standard deviation, times w, plus b."""
    start, columns, offsets, inside, value = _rows(x, rows, width, ROWS, COLUMNS)
    mean = tl.sum(value, axis=1) / width
    # Second pass over registers, not E[x^2] - E[x]^2, which loses digits where the mean is large.
    centred = tl.where(inside, value - mean[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / width + eps)
    weight = tl.load(w + columns, mask=columns < width, other=0.0).to(tl.float32)
    shift = tl.load(b + columns, mask=columns < width, other=0.0).to(tl.float32)
    result = centred * scale[:, None] * weight[None, :] + shift[None, :]
    tl.store(y + start + offsets, result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _softmax(x, y, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """exp of each row less its largest element, over the sum of these."""
    start, columns, offsets, inside, value = _rows(x, rows, width, ROWS, COLUMNS)
    value = tl.where(columns[None, :] < width, value, float("-inf"))
    power = tl.exp(value - tl.max(value, axis=1)[:, None])
    result = power / tl.sum(power, axis=1)[:, None]
    tl.store(y + start + offsets, result.to(y.dtype.element_ty), mask=inside)


def cos_cos(x: torch.Tensor) -> torch.Tensor:
    """`x.cos().cos()` in one kernel; x as `scale_add_relu` takes it."""
    _check("cos_cos", x=x)
    y = torch.empty_like(x)
    _along(_cos_cos, x, (x, y))
    return y


def scale_add_relu(x: torch.Tensor, scale: float, r: torch.Tensor) -> torch.Tensor:
    """`relu(x * scale + r)` in one kernel; x and r of one shape and type.

    >>> scale_add_relu(torch.ones(2, device="cuda"), 0.5, torch.ones(2, device="cuda"))  # doctest: +SKIP
    tensor([1.5000, 1.5000], device='cuda:0')

    x: float32, float16 or bfloat16, contiguous, of any shape. ArgumentError for anything else; UnavailableError for a
    CPU tensor outside Triton's interpreter. The other functions here refuse the same.
    """
    _check("scale_add_relu", x=x, r=r)
    check_shape("scale_add_relu", "r", r, x.shape)
    y = torch.empty_like(x)
    _along(_chain, x, (x, r, y, float(scale)))
    return y


def bias_relu(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`relu(x + b)` in one kernel; x of shape (rows, width), b of (width,)."""
    _check("bias_relu", x=x, b=b)
    return _by_rows("bias_relu", _bias_relu, x, (b,))


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """Layer norm over the last dimension in one kernel; x of shape (rows, width), w and b of (width,)."""
    _check("layer_norm", x=x, w=w, b=b)
    return _by_rows("layer_norm", _layer_norm, x, (w, b), eps)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension in one kernel; x of shape (rows, width)."""
    _check("softmax", x=x)
    return _by_rows("softmax", _softmax, x, ())


def tile_of(width: int) -> tuple[int, int]:
    """Rows and columns that one program holds: whole rows, the columns rounded up to a power of two.

    >>> tile_of(1024), tile_of(5)
    ((4, 1024), (512, 8))
    """
    columns = triton.next_power_of_2(width)
    return max(1, TILE // columns), columns


def _along(kernel: Any, x: torch.Tensor, args: tuple[Any, ...]) -> None:
    if x.numel():
        block = BLOCK_BYTES // x.element_size()
        even = x.numel() % block == 0
        kernel[(triton.cdiv(x.numel(), block),)](*args, x.numel(), BLOCK=block, EVEN=even, num_warps=WARPS)


def _by_rows(call: str, kernel: Any, x: torch.Tensor, vectors: tuple[torch.Tensor, ...], *more: float) -> torch.Tensor:
    if x.ndim != 2 or not 0 < x.shape[1] <= WIDEST:
        raise ArgumentError(call, "x", tuple(x.shape), f"shape (rows, width) with a width from 1 to {WIDEST}")
    for name, vector in zip("wb" if len(vectors) == 2 else "b", vectors, strict=False):
        check_shape(call, name, vector, x.shape[1:])
    y, (rows, columns) = torch.empty_like(x), tile_of(x.shape[1])
    if x.numel():
        kernel[(triton.cdiv(x.shape[0], rows),)](
            x, *vectors, y, *x.shape, *more, ROWS=rows, COLUMNS=columns, num_warps=4 if rows * columns <= TILE else 8
        )
    return y


def _check(call: str, **tensors: torch.Tensor) -> None:
    check_tensors(call, tensors)
    require_triton(call, next(iter(tensors.values())))


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.kernels.fused`.


def examples(device: str) -> Iterator[Example]:
    """The kernels on rows of 1024, but for bias and ReLU."""
    x, r = (torch.randn(2**14 if is_gpu(device) else 4, 1024, device=device) for _ in range(2))
    w, b, exact, count = r[0].clone(), r[1].clone(), x.double(), float(x.numel())
    normed = torch.nn.functional.layer_norm(exact, (1024,), w.double(), b.double())
    chain = (exact * 0.5 + r.double()).relu()
    yield Example("relu(x * s + r)", 3 * count, 3.0 * x.nbytes, partial(scale_add_relu, x, 0.5, r), chain)
    yield Example("layer norm", 8 * count, 2.0 * x.nbytes, partial(layer_norm, x, w, b), normed)
    yield Example("softmax", 4 * count, 2.0 * x.nbytes, partial(softmax, x), exact.softmax(-1))


if __name__ == "__main__":
    alone(examples)
