"""Products of float32 matrices in true float32, many at a time, in Triton: `out[p] = left[p] @ right[p]`.

>>> multiply(left, right, out, right_transposed=True)    # doctest: +SKIP

The same work as `sgemm.py`, in a tenth of its lines: which thread holds which sum, and in which register, is
left to the compiler. How the work is cut into tiles is chosen by trying a few ways on the GPU, once for each size.
"""

# Triton's decorator has no types, and neither has what it compiles.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
import triton
import triton.language as tl

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.gpu.launching import fastest
from brrr.strassen.operands import check_batch

TRIAL_MS = 10
"""How long each tiling is tried."""

TRIAL_PRODUCTS = 16
"""How many products of a batch a trial makes, at most."""


@dataclass(frozen=True)
class Tiling:
    """A program's tile, rows x columns; how many of the k it takes a step; its warps and stages; rows of a group."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    group: int = 8


TILINGS = (
    Tiling(128, 128, 16, 8, 3), Tiling(128, 128, 32, 8, 3), Tiling(128, 256, 16, 8, 3), Tiling(128, 64, 32, 4, 3),
    Tiling(64, 64, 32, 4, 3), Tiling(32, 32, 32, 4, 2),
)  # fmt: skip
"""Those that are tried."""


@triton.jit(do_not_specialize=["steps"])
def _sgemm(
    left, right, out, m, n, k, steps, right_k, right_n,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
    STEPS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """One tile of out. right_k, right_n: how far apart right's numbers lie along k and n.

    EVEN: k is a multiple of DEPTH. The number of steps is known at run time only; but Triton's interpreter cannot count
    so, and is given STEPS, which is negative elsewhere.
    """
    row_tiles, column_tiles = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    product = (tl.program_id(0) // (row_tiles * column_tiles)).to(tl.int64)
    inside = tl.program_id(0) % (row_tiles * column_tiles)
    first = inside // (GROUP * column_tiles) * GROUP
    high = tl.minimum(row_tiles - first, GROUP)
    rest = inside - first * column_tiles
    rows = (first + rest % high) * ROWS + tl.arange(0, ROWS)
    columns = rest // high * COLUMNS + tl.arange(0, COLUMNS)
    deep = tl.arange(0, DEPTH)
    # Rows beyond the end read the last one: a mask would cost more, and their results are not written.
    left_at = left + product * m * k + tl.minimum(rows, m - 1).to(tl.int64)[:, None] * k + deep[None, :]
    right_columns = tl.minimum(columns, n - 1).to(tl.int64)[None, :] * right_n
    right_at = right + product * n * k + right_columns + deep.to(tl.int64)[:, None] * right_k
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for step in range(STEPS if STEPS >= 0 else steps):
        if EVEN:
            left_tile, right_tile = tl.load(left_at), tl.load(right_at)
        else:
            left_tile = tl.load(left_at, mask=deep[None, :] < k - step * DEPTH, other=0.0)
            right_tile = tl.load(right_at, mask=deep[:, None] < k - step * DEPTH, other=0.0)
        total = tl.dot(left_tile, right_tile, total, input_precision="ieee")
        left_at += DEPTH
        right_at += DEPTH * right_k
    out_at = out + product * m * n + rows.to(tl.int64)[:, None] * n + columns[None, :]
    tl.store(out_at, total, mask=(rows[:, None] < m) & (columns[None, :] < n))


def multiply(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, *, right_transposed: bool) -> torch.Tensor:
    """`out[p] = left[p] @ right[p]`, or `@ right[p].T`; returns out. Arguments and errors as those of `prepared`."""
    prepared(left, right, out, right_transposed=right_transposed)()
    return out


def prepared(
    left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, *, right_transposed: bool
) -> Callable[[], Any]:
    """A function of no arguments that launches the kernel on torch's current stream; it must not outlive the tensors.

    left: (p, m, k), right: (p, k, n), or (p, n, k) where right_transposed; out: (p, m, n): float32, contiguous, on one
    GPU, and out shares no memory with the others. ArgumentError for any others; UnavailableError for tensors on the CPU
    outside Triton's interpreter.
    """
    products, m, n, k = check_batch("sgemm_triton.multiply", left, right, out, right_transposed)
    if left.dtype != torch.float32:
        raise ArgumentError("sgemm_triton.multiply", "left", str(left.dtype), "float32")
    if not left.is_cuda and not triton.knobs.runtime.interpret:
        raise UnavailableError(
            "sgemm_triton: the tensors are on the CPU, and a Triton kernel needs an NVIDIA GPU; use .cuda()"
        )
    if not out.numel():
        return _nothing
    tiling = TILINGS[-1]  # the interpreter: any will do
    if left.is_cuda:
        tiling = _fastest(min(products, TRIAL_PRODUCTS), m, n, k, right_transposed, int(left.device.index))
    return launch(left, right, out, tiling, right_transposed)


def launch(
    left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, tiling: Tiling, right_transposed: bool
) -> Callable[[], Any]:
    """The launch with a given tiling; nothing is checked."""
    (products, m, k), n = left.shape, out.shape[2]
    grid = (products * triton.cdiv(m, tiling.rows) * triton.cdiv(n, tiling.columns),)
    steps = triton.cdiv(k, tiling.depth)
    return partial(
        _sgemm[grid], left, right, out, m, n, k, steps, *((1, k) if right_transposed else (n, 1)),
        ROWS=tiling.rows, COLUMNS=tiling.columns, DEPTH=tiling.depth, GROUP=tiling.group,
        STEPS=-1 if left.is_cuda else steps, EVEN=k % tiling.depth == 0,
        num_warps=tiling.warps, num_stages=tiling.stages,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _fastest(products: int, m: int, n: int, k: int, right_transposed: bool, device_index: int) -> Tiling:
    """The tiling with the shortest time on the GPU, on random numbers."""
    from triton.testing import do_bench

    device = f"cuda:{device_index}"
    left = torch.randn((products, m, k), device=device)
    right = torch.randn((products, n, k) if right_transposed else (products, k, n), device=device)
    out = torch.empty((products, m, n), device=device)

    def seconds(tiling: Tiling, _: float) -> float:
        return float(do_bench(launch(left, right, out, tiling, right_transposed), warmup=TRIAL_MS // 2, rep=TRIAL_MS))

    # more shared memory or registers than this GPU has
    refusals = triton.runtime.errors.OutOfResources, triton.compiler.errors.CompilationError
    found = fastest(TILINGS, seconds, refusals=refusals)
    if found is None:
        raise UnavailableError(f"sgemm_triton: no tiling fits on {torch.cuda.get_device_name(device_index)}")
    return found


def _nothing() -> None:
    """An empty result."""
