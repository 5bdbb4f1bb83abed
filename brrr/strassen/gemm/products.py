"""The products of blocks, each as a function of no arguments: by the library or kernel that its name says.

>>> out = torch.empty(1, 2, 2)
>>> _ = product_step(INNERS["sgemm"], torch.ones(1, 2, 8), torch.ones(1, 2, 8), out, right_transposed=True)()
>>> out[0, 0, 0]
tensor(8.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Any, Literal, get_args

import torch

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.gpu.launching import fastest
from brrr.gpu.precision import float32_products
from brrr.strassen.operands import check_batch
from brrr.strassen.passes.launch import Run
from brrr.strassen.ways import INNERS as INNERS
from brrr.strassen.ways import Inner

# ---------------------------------------------------------------------------------------------------------------------
# Many products of one size at a time, by whichever library or kernel is asked: `out[p] = left[p] @ right[p]`.

How = Literal["cublas", "torch", "cuda", "triton", "auto"]
"""cuBLAS through nvmath-python, torch.bmm, `gemm/sgemm.py` (CUDA C++), `gemm/sgemm_triton.py`, and whichever of the
first and the third is faster for a shape, tried once."""

HALVES = ("float16", "bfloat16")


def batched(
    left: torch.Tensor,
    right: torch.Tensor,
    out: torch.Tensor,
    *,
    right_transposed: bool,
    how: How = "torch",
    tf32: bool = False,
) -> torch.Tensor:
    """All products into `out`, which is returned.

    left: (p, m, k), right: (p, k, n), or (p, n, k) where right_transposed; out: (p, m, n). All three float32; or the
    operands float16 or bfloat16 and out the same or float32 (and for torch, all three float64). Contiguous, on one
    device; out shares no memory with the others. Sums are float32. tf32: float32 operands, multiplied in TF32, by
    "cublas" and "torch" only. "cuda" and "triton" take float32 only, and multiply it truly. "auto" has a choice for
    such float32 on a GPU; anything else there is the library's, and on the CPU torch's.

    ArgumentError for any others. UnavailableError where `how` is not here: on the CPU, only "torch" and "auto" are.
    """
    prepared_batched(left, right, out, right_transposed=right_transposed, how=how, tf32=tf32)()
    return out


def prepared_batched(
    left: torch.Tensor,
    right: torch.Tensor,
    out: torch.Tensor,
    *,
    right_transposed: bool,
    how: How = "torch",
    tf32: bool = False,
) -> Callable[[], Any]:
    """A function of no arguments that issues the products; it must not outlive the tensors.

    Everything is checked and chosen here, so that a call may be captured in a CUDA Graph. "cublas" and "auto" issue on
    the stream that is torch's current one now, the others on the one that is current when called. "auto" times its ways
    at the first call for a shape, which writes `out`. Arguments and errors as those of `batched`.
    """
    check_how(left, out, how, tf32)
    check_batch("batched", left, right, out, right_transposed)
    if how == "auto" and left.is_cuda and left.dtype == out.dtype and str(left.dtype) == "torch.float32" and not tf32:
        return prepared_fastest(left, right, out, right_transposed)
    if how == "auto":
        how = "cublas" if left.is_cuda and _has_cublas() else "torch"
    if how == "torch":
        return _by_torch(left, right, out, right_transposed, tf32)
    if how == "cuda":
        from brrr.strassen.gemm.sgemm import prepared

        return prepared(left, right, out, right_transposed=right_transposed)
    if how == "triton":
        from brrr.strassen.gemm.sgemm_triton import prepared as prepared_in_triton

        return prepared_in_triton(left, right, out, right_transposed=right_transposed)
    return _by_cublas(left, right, out, right_transposed, tf32)


def check_how(left: torch.Tensor, out: torch.Tensor, how: str, tf32: bool) -> None:
    """ArgumentError for a way that is none, or that has not this type."""
    if how not in get_args(How):
        raise ArgumentError("batched", "how", how, f"one of {', '.join(get_args(How))}")
    kind, into = (str(each.dtype).removeprefix("torch.") for each in (left, out))
    if kind not in ("float32", *HALVES) and (kind, how) != ("float64", "torch"):
        raise ArgumentError("batched", "left", kind, "float32, float16 or bfloat16", "float64 is for how='torch'")
    if into != kind and (into, kind in HALVES) != ("float32", True):
        raise ArgumentError("batched", "out", into, f"{kind}" + (" or float32" if kind in HALVES else ""))
    if how in ("cuda", "triton") and (kind != "float32" or tf32):
        given = "TF32" if tf32 else kind
        raise ArgumentError("batched", "how", f"{how} for {given}", "true float32", 'Use how="cublas" or "torch"')
    if tf32 and kind != "float32":
        raise ArgumentError("batched", "tf32", tf32, f"False for {kind}", "TF32 is a way to multiply float32")


def _by_torch(
    left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, right_transposed: bool, tf32: bool
) -> Callable[[], Any]:
    other = right.transpose(1, 2) if right_transposed else right
    if out.dtype != left.dtype and left.is_cuda:  # the matrix units add in float32 as they do anyway; no rounding after
        return partial(torch.bmm, left, other, out_dtype=torch.float32, out=out)
    if out.dtype != left.dtype:
        return lambda: torch.bmm(left.float(), other.float(), out=out)
    if left.dtype != torch.float32:
        return partial(torch.bmm, left, other, out=out)

    def multiply() -> torch.Tensor:
        with float32_products(tf32):
            return torch.bmm(left, other, out=out)

    return multiply


def _has_cublas() -> bool:
    from brrr.gpu.cublas import bindings

    try:
        bindings()
    except UnavailableError:
        return False
    return True


def _by_cublas(
    left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, right_transposed: bool, tf32: bool
) -> Callable[[], Any]:
    from brrr.gpu.cublas import blas_on

    if not left.is_cuda:
        raise UnavailableError('batched: the tensors are on the CPU, and cuBLAS needs an NVIDIA GPU; use how="torch"')
    index = int(left.device.index)
    blas = blas_on(index, int(torch.cuda.current_stream(index).cuda_stream))
    return blas.batched_product(left, right, out, right_transposed=right_transposed, tf32=tf32)


# ---------------------------------------------------------------------------------------------------------------------
# The fastest of several ways to multiply blocks, tried once for each shape.

LEAST_GAIN = 0.98
"""A way that is not faster by that much is no reason to leave the one before it."""

LONG_S = 2e-3
"""A product that takes so long is timed one launch at a time."""

_CHOSEN: dict[Hashable, bool] = {}
"""Whether our own kernel is the fastest, by shape."""


def forget() -> None:
    """Empties the memory, so that each shape is tried again."""
    _CHOSEN.clear()


def prepared_fastest(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, right_transposed: bool) -> Run:
    """cuBLAS or our own kernel, whichever is faster for float32 of this shape; arguments are checked before.

    The first call for a shape launches each a few times, into `out`. While a graph is captured nothing can be timed:
    for a shape that is new then, it is the library, and the first call afterwards tries.
    """
    from brrr.gpu.cublas_lt import capturing

    tensors = (left, right, out)
    whole = tuple(each.data_ptr() % 16 == 0 for each in tensors)
    key = (left.device.index, tuple(left.shape), tuple(right.shape), right_transposed, whole)
    if key in _CHOSEN:
        return _prepared(_CHOSEN[key], tensors, right_transposed)
    library = _library(tensors, right_transposed)
    if capturing() or not out.numel() * left.shape[2]:
        return library
    ways = {False: library, **_ours(tensors, right_transposed)}
    index = int(left.device.index)
    _CHOSEN[key] = fastest(ways, lambda ours, _: seconds_of(ways[ours], index), LEAST_GAIN) or False
    return ways[_CHOSEN[key]]


def seconds_of(run: Run, index: int) -> float:
    """The device's time for a launch on a GPU's current stream, the least of a few tries; the first is not counted."""
    from brrr.gpu.cublas_lt import seconds

    with torch.cuda.device(index):
        run()
        least = min(_once(run), _once(run))
        stream = int(torch.cuda.current_stream().cuda_stream)
    return least if least > LONG_S else seconds(run, stream, index)


def _once(run: Run) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e-3


def _prepared(ours: bool, tensors: tuple[torch.Tensor, ...], right_transposed: bool) -> Run:
    from brrr.strassen.gemm.sgemm import prepared

    if not ours:
        return _library(tensors, right_transposed)
    left, right, out = tensors
    return prepared(left, right, out, right_transposed=right_transposed)


def _library(tensors: tuple[torch.Tensor, ...], right_transposed: bool) -> Run:
    """cuBLAS's product; torch's, which is cuBLAS's too, where it cannot be called directly."""

    left, right, out = tensors
    try:
        return prepared_batched(left, right, out, right_transposed=right_transposed, how="cublas")
    except UnavailableError:
        return prepared_batched(left, right, out, right_transposed=right_transposed, how="torch")


def _ours(tensors: tuple[torch.Tensor, ...], right_transposed: bool) -> dict[bool, Run]:
    """Our own kernel, where it runs here."""
    try:
        return {True: _prepared(True, tensors, right_transposed)}
    except UnavailableError:
        return {}


HOW: dict[str, tuple[How, ...]] = {
    "sgemm": ("cublas", "torch"), "tf32": ("cublas", "torch"), "ffma": ("cuda", "triton"),
    "fp16": ("cublas", "torch"), "bf16": ("cublas", "torch"), "fp64": ("torch",),
}  # fmt: skip
"""Whose product it is on a GPU; the second where the first is not here."""


def product_step(
    inner: Inner, left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, *, right_transposed: bool
) -> Run:
    """All block products, [count, m, k] by [count, k, n] or [count, n, k], into `out`, [count, m, n]."""
    hows: tuple[How, ...] = HOW[inner.name] if left.is_cuda else ("torch",)
    tf32 = inner.name == "tf32"
    for how in hows[:-1]:
        with suppress(UnavailableError):
            return prepared_batched(left, right, out, right_transposed=right_transposed, how=how, tf32=tf32)
    return prepared_batched(left, right, out, right_transposed=right_transposed, how=hows[-1], tf32=tf32)


def matrix_step(inner: Inner, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, *, right_transposed: bool) -> Run:
    """One classical product of matrices as they lie: (m, k) by (k, n), or (n, k) where `right_transposed`."""
    whole = a.is_contiguous() and b.is_contiguous() and out.is_contiguous()
    if whole and a.is_cuda:
        return product_step(inner, a[None], b[None], out[None], right_transposed=right_transposed)
    # what lies otherwise is the library's: it takes strides, and "ffma" is as exact
    return partial(_torch_product, a, b.t() if right_transposed else b, out, inner.name == "tf32")


def _torch_product(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, tf32: bool) -> None:
    with float32_products(tf32):
        torch.mm(a, b, out=out)
