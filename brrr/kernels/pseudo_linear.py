"""`y = x * w + b` with a weight and a bias for each feature, fused by hand in Triton: forward one kernel, backward two.

Eager, the forward pass is two kernels, and the product between them travels to the memory and back. Here every tensor
is read or written once. Backward, dw and db are sums over the whole batch, while one program sees some rows only; so
each program writes the sums of its rows, and a second kernel adds them up. No atomics: the same input gives the same
bits every time.

    x: (batch, width)   w, b: (width,)   y = x * w + b
    dx = g * w          dw = sum of g * x over the batch          db = sum of g over the batch
"""

# Triton's decorator has no types, and neither has what it compiles.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable

from brrr.gpu import is_gpu
from brrr.kernels.alone import Example, alone
from brrr.kernels.checks import check_shape, check_tensors, require_triton

TILE = 4096
WIDEST_TILE = 1024
PARTS = 1024
"""At most so many programs share the backward pass: some eight for each of an H200's 132 processors."""

LINES, LINE_COLUMNS = 128, 16
"""Partial sums are added 128 lines at a time, by programs of 16 columns: a narrow layer needs several of them too."""


@triton.jit
def _forward(x, w, b, y, batch, width, column_tiles, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """One tile of ROWS x COLUMNS; the tiles of the same rows are neighbours, so that memory is read in order."""
    tile = tl.program_id(0)
    # batch * width may exceed 2^31: the tile's start is 64 bits wide, an offset inside the tile need not be.
    first_row = (tile // column_tiles).to(tl.int64) * ROWS
    start = first_row * width
    columns = (tile % column_tiles) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.arange(0, ROWS)
    offsets = rows[:, None] * width + columns[None, :]
    inside = (rows[:, None] < batch - first_row) & (columns[None, :] < width)
    scale = tl.load(w + columns, mask=columns < width, other=0.0).to(tl.float32)
    shift = tl.load(b + columns, mask=columns < width, other=0.0).to(tl.float32)
    values = tl.load(x + start + offsets, mask=inside, other=0.0).to(tl.float32)
    result = values * scale[None, :] + shift[None, :]
    tl.store(y + start + offsets, result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _backward(
    g, x, w, dx, sums_gx, sums_g, batch, width, column_tiles,
    NEED_DX: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """STEPS * ROWS rows of one column tile: dx at once, and the sums of g * x and of g over these rows."""
    tile = tl.program_id(0)
    part = (tile // column_tiles).to(tl.int64)
    columns = (tile % column_tiles) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.arange(0, ROWS)
    scale = tl.load(w + columns, mask=columns < width, other=0.0).to(tl.float32)
    sum_gx = tl.zeros((ROWS, COLUMNS), tl.float32)
    sum_g = tl.zeros((ROWS, COLUMNS), tl.float32)
    offsets = rows[:, None] * width + columns[None, :]
    for step in range(STEPS):
        first_row = (part * STEPS + step) * ROWS
        start = first_row * width
        inside = (rows[:, None] < batch - first_row) & (columns[None, :] < width)
        gradient = tl.load(g + start + offsets, mask=inside, other=0.0).to(tl.float32)
        values = tl.load(x + start + offsets, mask=inside, other=0.0).to(tl.float32)
        sum_gx += gradient * values
        sum_g += gradient
        if NEED_DX:
            tl.store(dx + start + offsets, (gradient * scale[None, :]).to(dx.dtype.element_ty), mask=inside)
    here = part * width + columns
    tl.store(sums_gx + here, tl.sum(sum_gx, axis=0), mask=columns < width)
    tl.store(sums_g + here, tl.sum(sum_g, axis=0), mask=columns < width)


@triton.jit
def _add_parts(sums, dw, db, width, parts, STEPS: tl.constexpr, LINES: tl.constexpr, COLUMNS: tl.constexpr):
    """The sums of all parts, for one tile of columns; program 0 of the second axis does dw, program 1 does db."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    which = tl.program_id(1)
    begin = sums + which.to(tl.int64) * parts * width
    lines = tl.arange(0, LINES)
    total = tl.zeros((LINES, COLUMNS), tl.float32)
    for step in range(STEPS):
        inside = (lines[:, None] < parts - step * LINES) & (columns[None, :] < width)
        offsets = (step * LINES + lines[:, None]).to(tl.int64) * width + columns[None, :]
        total += tl.load(begin + offsets, mask=inside, other=0.0)
    result = tl.sum(total, axis=0)
    if which == 0:
        tl.store(dw + columns, result.to(dw.dtype.element_ty), mask=columns < width)
    else:
        tl.store(db + columns, result.to(db.dtype.element_ty), mask=columns < width)


def pseudo_linear(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The fused layer `x * w + b`, with gradients of x, w and b.

    >>> y = pseudo_linear(x, w, b)                        # doctest: +SKIP
    >>> dx, dw, db = torch.autograd.grad(y, (x, w, b), g)   # doctest: +SKIP

    `x` is (..., width), `w` and `b` are (width,): float32, float16 or bfloat16 on one CUDA device. Whatever the type,
    products and sums are float32; y and dx have x's type, dw and db have theirs. Raises ArgumentError for other
    shapes, types or places, UnavailableError for tensors on the CPU (Triton's interpreter, `TRITON_INTERPRET=1`,
    takes them).
    """
    check_tensors("pseudo_linear", {"x": x, "w": w, "b": b}, strided=True)
    for name, tensor in (("w", w), ("b", b)):
        check_shape("pseudo_linear", name, tensor, (x.shape[-1] if x.dim() else 0,))
    require_triton("pseudo_linear", x)
    if torch.is_grad_enabled() and (x.requires_grad or w.requires_grad or b.requires_grad):
        return PseudoLinear.apply(x, w, b)
    return _run_forward(x, w, b)


class PseudoLinear(torch.autograd.Function):
    """The two passes as torch's autograd wants them."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Keep what the backward pass reads: x and w, never the result."""
        ctx.save_for_backward(x, w)
        ctx.bias_type = b.dtype
        return _run_forward(x, w, b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]:
        """(dx, dw, db); dx only where somebody wants it."""
        x, w = ctx.saved_tensors
        return _run_backward(g, x, w, ctx.bias_type, need_dx=ctx.needs_input_grad[0])


def _run_forward(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    width = w.numel()
    batch = x.numel() // width if width else 0
    if batch:
        rows, columns = tile_of(width)
        column_tiles = triton.cdiv(width, columns)
        grid = (triton.cdiv(batch, rows) * column_tiles,)
        _forward[grid](x, w.contiguous(), b.contiguous(), y, batch, width, column_tiles, ROWS=rows, COLUMNS=columns)
    return y


def _run_backward(
    g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, bias_type: torch.dtype, *, need_dx: bool
) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]:
    g, x, w = g.contiguous(), x.contiguous(), w.contiguous()
    dx = torch.empty_like(x) if need_dx else None
    width = w.numel()
    batch = x.numel() // width if width else 0
    if not batch:
        return dx, torch.zeros_like(w), torch.zeros_like(w, dtype=bias_type)
    dw, db = torch.empty_like(w), torch.empty_like(w, dtype=bias_type)
    rows, columns = backward_tile_of(width)
    column_tiles = triton.cdiv(width, columns)
    # Loop counts are compiled in; rounded up to powers of two, they are few.
    steps = triton.next_power_of_2(triton.cdiv(batch, rows * max(1, PARTS // column_tiles)))
    parts = triton.cdiv(batch, rows * steps)
    sums = torch.empty((2, parts, width), dtype=torch.float32, device=x.device)
    _backward[(parts * column_tiles,)](
        g, x, w, x if dx is None else dx, sums[0], sums[1], batch, width, column_tiles,
        NEED_DX=need_dx, STEPS=steps, ROWS=rows, COLUMNS=columns,
    )  # fmt: skip
    rounds, grid = triton.next_power_of_2(triton.cdiv(parts, LINES)), (triton.cdiv(width, LINE_COLUMNS), 2)
    _add_parts[grid](sums, dw, db, width, parts, STEPS=rounds, LINES=LINES, COLUMNS=LINE_COLUMNS)
    return dx, dw, db


def tile_of(width: int) -> tuple[int, int]:
    """Rows and columns of a forward tile: as wide as the layer up to 1024, and 4096 elements in all.

    >>> tile_of(64), tile_of(1000), tile_of(24576)
    ((64, 64), (4, 1024), (4, 1024))
    """
    columns = min(WIDEST_TILE, max(16, triton.next_power_of_2(width)))
    return TILE // columns, columns


def backward_tile_of(width: int) -> tuple[int, int]:
    """Rows and columns of a backward step: 2048 elements, at most 256 columns, for two sums must stay in registers.

    >>> backward_tile_of(64), backward_tile_of(24576)
    ((32, 64), (8, 256))
    """
    columns = min(256, max(16, triton.next_power_of_2(width)))
    return 2048 // columns, columns


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.kernels.pseudo_linear`.


def examples(device: str) -> Iterator[Example]:
    """Forward, and all three gradients, of a layer of 1024."""
    x = torch.randn(2**14 if is_gpu(device) else 8, 1024, device=device)
    w, b, g = torch.randn_like(x[0]), torch.randn_like(x[0]), torch.randn_like(x)
    exact, count = g.double(), float(x.numel())
    gradients = exact * w.double(), (exact * x.double()).sum(0), exact.sum(0)
    forward = x.double() * w.double() + b.double()
    yield Example("forward", 2 * count, 2.0 * x.nbytes, lambda: pseudo_linear(x, w, b), forward)
    yield Example("backward", 4 * count, 3.0 * x.nbytes,
                  lambda: _run_backward(g, x, w, b.dtype, need_dx=True), gradients)  # fmt: skip


if __name__ == "__main__":
    alone(examples)
