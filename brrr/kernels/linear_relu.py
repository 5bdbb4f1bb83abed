"""A whole layer in one Triton kernel: the product, and bias and ReLU while the sums are still in registers.

    x: (batch, k)   w: (n, k), as in torch.nn.Linear   b: (n,)   y = relu(x @ w.T + b): (batch, n)

float32 is true float32 unless TF32 is asked for; sums are float32 whatever the type. How the work is cut into tiles is
chosen by trying a few ways on the GPU, once for each size.
"""

# Triton's decorator has no types, and neither has what it compiles.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
import triton
import triton.language as tl

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.gpu import is_gpu
from brrr.gpu.launching import fastest
from brrr.kernels.alone import Example, alone, giving
from brrr.kernels.checks import check_shape, check_tensors, require_triton

TRIAL_MS = 4
"""How long each tiling is tried."""


FEW = (
    (16, 16, 128, 4, 4), (16, 16, 256, 4, 3), (16, 32, 64, 4, 5), (16, 32, 128, 4, 3), (16, 32, 128, 8, 4),
    (16, 64, 64, 4, 4),
)  # fmt: skip
SOME = (
    (16, 32, 64, 2, 5), (16, 64, 64, 4, 4), (32, 16, 128, 4, 4), (32, 32, 64, 4, 4), (32, 32, 128, 4, 3),
    (32, 64, 64, 8, 4), (64, 32, 64, 4, 4),
)  # fmt: skip
MANY = (
    (32, 32, 64, 4, 4), (32, 64, 64, 4, 3), (64, 32, 64, 4, 4), (64, 64, 32, 4, 4), (64, 64, 32, 8, 3),
    (64, 128, 32, 8, 3), (128, 64, 32, 4, 3), (128, 32, 32, 4, 4), (32, 64, 64, 2, 3), (64, 64, 64, 4, 3),
    (128, 128, 64, 8, 3),
)  # fmt: skip
"""Rows, columns, depth, warps and stages to try: for up to 16 rows, up to 64, and more."""

SPREAD = ((2, 4), (4, 4), (4, 8), (8, 4))
"""Columns and warps to try without `tl.dot`, for up to 16 rows."""

SPREAD_ROWS, SPREAD_SUMS, SPREAD_DEPTH = 8, 64, 1024
"""Rows of a program at most, sums that each thread then holds, and values of k in a step at most."""

MOST_SHARED = 96 * 1024
"""Shared memory that a tiling may take; what a GPU lacks even so is left out when it is tried."""


@dataclass(frozen=True)
class LayerTiling:
    """A program's tile of the result, rows x columns, how many of the k it takes a step, its warps, its stages.

    spread: without `tl.dot`: the threads share out k, and add up in the end. `tl.dot` takes 16 rows or more, and with
    few rows most of its work is for rows that are not there.
    """

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    spread: bool = False


@triton.jit
def _loaded(at, deep, left, EVEN: tl.constexpr):
    """A tile of an operand, zeros behind its end."""
    return tl.load(at) if EVEN else tl.load(at, mask=deep < left, other=0.0)


@triton.jit
def _finish(total, b, y, rows, columns, batch, n):
    """Bias, ReLU and the store of a tile of sums."""
    total += tl.load(b + columns, mask=columns < n, other=0.0).to(tl.float32)[None, :]
    total = tl.where(total < 0.0, 0.0, total)  # a NaN stays one
    inside = (rows[:, None] < batch) & (columns[None, :] < n)
    y_at = y + rows.to(tl.int64)[:, None] * n + columns[None, :]
    tl.store(y_at, total.to(y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["batch", "steps"])
def _linear_relu(
    x, w, b, y, batch, n, k, steps,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    STEPS: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """One tile of y, in steps of DEPTH along k. EVEN: k is a multiple of DEPTH, so that none asks where it ends.

    The number of steps is known at run time only, so that one compiled kernel serves every k; but Triton's interpreter
    cannot count so, and is given STEPS, which is negative elsewhere. WIDEN, for it too: multiply as float32, since it
    would take the bits of bfloat16 for whole numbers.
    """
    column_tiles = tl.cdiv(n, COLUMNS)
    first_row = (tl.program_id(0) // column_tiles) * ROWS
    first_column = (tl.program_id(0) % column_tiles) * COLUMNS
    rows, columns = first_row + tl.arange(0, ROWS), first_column + tl.arange(0, COLUMNS)
    deep = tl.arange(0, DEPTH)
    # n * k may exceed 2^31: where a row starts is 64 bits wide, an offset inside it need not be.
    # Rows beyond the end read the last one: a mask would cost more, and their results are not written.
    x_at = x + tl.minimum(rows, batch - 1).to(tl.int64)[:, None] * k + deep[None, :]
    w_at = w + tl.minimum(columns, n - 1).to(tl.int64)[None, :] * k + deep[:, None]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for step in range(STEPS if STEPS >= 0 else steps):
        left = k - step * DEPTH
        x_tile, w_tile = _loaded(x_at, deep[None, :], left, EVEN), _loaded(w_at, deep[:, None], left, EVEN)
        if WIDEN:
            x_tile, w_tile = x_tile.to(tl.float32), w_tile.to(tl.float32)
        total = tl.dot(x_tile, w_tile, total, input_precision=PRECISION)
        x_at += DEPTH
        w_at += DEPTH
    _finish(total, b, y, rows, columns, batch, n)


@triton.jit(do_not_specialize=["batch", "steps"])
def _linear_relu_spread(
    x, w, b, y, batch, n, k, steps,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    STEPS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """The same for few rows: a sum for each row, column and place in a step, so that no thread waits for another.

    Constants as above; products are of float32 always.
    """
    column_tiles = tl.cdiv(n, COLUMNS)
    rows = (tl.program_id(0) // column_tiles) * ROWS + tl.arange(0, ROWS)
    columns = (tl.program_id(0) % column_tiles) * COLUMNS + tl.arange(0, COLUMNS)
    deep = tl.arange(0, DEPTH)
    x_at = x + tl.minimum(rows, batch - 1).to(tl.int64)[:, None] * k + deep[None, :]
    w_at = w + tl.minimum(columns, n - 1).to(tl.int64)[:, None] * k + deep[None, :]
    sums = tl.zeros((ROWS, COLUMNS, DEPTH), tl.float32)
    for step in range(STEPS if STEPS >= 0 else steps):
        left = k - step * DEPTH
        x_tile, w_tile = _loaded(x_at, deep[None, :], left, EVEN), _loaded(w_at, deep[None, :], left, EVEN)
        sums += x_tile.to(tl.float32)[:, None, :] * w_tile.to(tl.float32)[None, :, :]
        x_at += DEPTH
        w_at += DEPTH
    _finish(tl.sum(sums, axis=2), b, y, rows, columns, batch, n)


def prepared(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, out: torch.Tensor, *, tf32: bool = False
) -> Callable[[], Any]:
    """A function of no arguments that launches the kernel on torch's current stream; it must not outlive the tensors.

    The kernel is `relu(x @ w.T + b)` into `out`; the tiling is chosen here, so that a call may be captured.

    x: (batch, k), w: (n, k), b: (n,), out: (batch, n): float32, float16 or bfloat16, all the same, contiguous, on one
    GPU; out shares no memory with the others. tf32: float32 products in TF32. ArgumentError for any others;
    UnavailableError for tensors on the CPU outside Triton's interpreter.
    """
    check(x, w, b, out, tf32)
    if not out.numel():
        return _nothing
    (batch, k), n, on = x.shape, w.shape[0], x.device
    # in the interpreter any will do
    tiling = _fastest(batch, n, k, x.dtype, tf32, on.index) if is_gpu(on) else tilings(batch, k, x.dtype.itemsize)[0]
    return launch(x, w, b, out, tiling, tf32)


def launch(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, out: torch.Tensor, tiling: LayerTiling, tf32: bool
) -> Callable[[], Any]:
    """The launch with a given tiling; nothing is checked."""
    (batch, k), n = x.shape, w.shape[0]
    grid = (triton.cdiv(batch, tiling.rows) * triton.cdiv(n, tiling.columns),)
    steps, here = triton.cdiv(k, tiling.depth), x.is_cuda
    kernel, more = _linear_relu, {}
    if tiling.spread:
        kernel = _linear_relu_spread
    else:
        more = {"PRECISION": "tf32" if tf32 else "ieee", "WIDEN": not here and x.dtype == torch.bfloat16}
    return partial(
        kernel[grid], x, w, b, out, batch, n, k, steps,
        ROWS=tiling.rows, COLUMNS=tiling.columns, DEPTH=tiling.depth,
        STEPS=-1 if here else steps, EVEN=k % tiling.depth == 0,
        num_warps=tiling.warps, num_stages=tiling.stages, **more,
    )  # fmt: skip


def tilings(batch: int, k: int, itemsize: int = 4, tf32: bool = False) -> tuple[LayerTiling, ...]:
    """The tilings to try for so many rows: narrow ones, that spread over the GPU, and wide ones, that read less.

    >>> len(tilings(2, 256)), len(tilings(128, 4096))
    (10, 10)

    With `tl.dot` no side is less than 16, the least that it takes; no step is deeper than k, rounded up.
    """
    deepest = max(16, triton.next_power_of_2(k)) if k else 16
    chosen = FEW if batch <= 16 else SOME if batch <= 64 else MANY
    cut = (LayerTiling(each[0], each[1], min(each[2], deepest), *each[3:]) for each in chosen)
    fitting = [tiling for tiling in cut if stage_bytes(tiling, itemsize) <= MOST_SHARED]
    return tuple(dict.fromkeys(fitting + ([] if tf32 else spread_tilings(batch, deepest))))


def spread_tilings(batch: int, deepest: int) -> list[LayerTiling]:
    """Those without `tl.dot`; none for many rows, of which it does all the work that there is.

    >>> spread_tilings(2, 4096)[0], spread_tilings(17, 4096)
    (LayerTiling(rows=2, columns=2, depth=1024, warps=4, stages=1, spread=True), [])
    """
    if batch > 2 * SPREAD_ROWS:
        return []
    rows = min(triton.next_power_of_2(max(batch, 1)), SPREAD_ROWS)
    made = []
    for columns, warps in SPREAD:
        depth = min(SPREAD_SUMS * 32 * warps // (rows * columns), SPREAD_DEPTH, deepest)
        made.append(LayerTiling(rows, columns, depth, warps, 1, spread=True))
    return made


def stage_bytes(tiling: LayerTiling, itemsize: int) -> int:
    """Shared memory of a tiling's stages.

    >>> stage_bytes(LayerTiling(16, 32, 64, 4, 4), 4)
    49152
    """
    return (tiling.rows + tiling.columns) * tiling.depth * itemsize * tiling.stages


@lru_cache(maxsize=4096)
def _fastest(batch: int, n: int, k: int, dtype: torch.dtype, tf32: bool, device_index: int) -> LayerTiling:
    """The tiling with the shortest time on the GPU, its data hot in L2 as a network's are; tried on random numbers."""
    from triton.testing import do_bench_cudagraph

    device = f"cuda:{device_index}"
    x, w, b = (torch.randn(size, dtype=dtype, device=device) for size in ((batch, k), (n, k), (n,)))
    out = torch.empty((batch, n), dtype=dtype, device=device)

    def seconds(tiling: LayerTiling, _: float) -> float:
        return float(do_bench_cudagraph(launch(x, w, b, out, tiling, tf32), rep=TRIAL_MS))

    # more shared memory or registers than this GPU has
    refusals = triton.runtime.errors.OutOfResources, triton.compiler.errors.CompilationError
    found = fastest(tilings(batch, k, dtype.itemsize, tf32), seconds, refusals=refusals)
    if found is None:
        raise UnavailableError(f"linear_relu: no tiling fits on {torch.cuda.get_device_name(device_index)}")
    return found


def check(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, out: torch.Tensor, tf32: bool) -> None:
    """ArgumentError for tensors that the kernel cannot take; UnavailableError for the CPU outside the interpreter."""
    check_tensors("linear_relu", {"x": x, "w": w, "b": b, "out": out}, alike=True)
    for name, tensor, axes in (("x", x, 2), ("b", b, 1)):
        if tensor.ndim != axes:
            raise ArgumentError("linear_relu", name, tuple(tensor.shape), f"{axes} axes")
    check_shape("linear_relu", "w", w, (len(b), x.shape[1]))
    check_shape("linear_relu", "out", out, (x.shape[0], len(b)))
    if tf32 and x.dtype != torch.float32:
        raise ArgumentError("linear_relu", "tf32", tf32, f"False for {x.dtype}", "TF32 is a way to multiply float32")
    require_triton("linear_relu", x)


def _nothing() -> None:
    """An empty result."""


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.kernels.linear_relu`.


def examples(device: str) -> Iterator[Example]:
    """A layer of 1024 on few rows and on many, in float32."""
    for batch, width in ((16, 1024), (4096, 1024)) if is_gpu(device) else ((16, 64),):
        x, w, b = (torch.randn(shape, device=device) for shape in ((batch, width), (width, width), (width,)))
        out = torch.full_like(x, torch.nan)
        launch = giving(out, prepared(x, w, b, out))
        flop, nbytes = 2.0 * batch * width**2, float(sum(each.nbytes for each in (x, w, b, out)))
        expected = (x.double() @ w.double().t() + b.double()).relu()
        yield Example(f"batch {batch}", flop, nbytes, launch, expected)


if __name__ == "__main__":
    alone(examples)
