"""The products of blocks, each as a function of no arguments: by the library that its name says.

>>> from brrr.strassen.ways import INNERS
>>> out = torch.empty(1, 2, 2)
>>> _ = product_step(INNERS["sgemm"], torch.ones(1, 2, 8), torch.ones(1, 2, 8), out, right_transposed=True)()
>>> out[0, 0, 0]
tensor(8.)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Literal, get_args

import torch

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.gpu.precision import float32_products
from brrr.strassen.operands import check_batch
from brrr.strassen.passes.launch import Run
from brrr.strassen.ways import Inner

# ---------------------------------------------------------------------------------------------------------------------
# Many products of one size at a time, by whichever library is asked: `out[p] = left[p] @ right[p]`.

How = Literal["cublas", "torch"]
"""cuBLAS through nvmath-python, or torch.bmm."""

HALVES = ("float16", "bfloat16")


def prepared_batched(
    left: torch.Tensor,
    right: torch.Tensor,
    out: torch.Tensor,
    *,
    right_transposed: bool,
    how: How = "torch",
    tf32: bool = False,
) -> Callable[[], Any]:
    """All products into `out`, as a function of no arguments; it must not outlive the tensors.

    left: (p, m, k), right: (p, k, n), or (p, n, k) where right_transposed; out: (p, m, n). All three float32; or the
    operands float16 or bfloat16 and out the same or float32 (and for torch, all three float64). Contiguous, on one
    device; out shares no memory with the others. Sums are float32. tf32: float32 operands, multiplied in TF32.

    Everything is checked here, so that a call may be captured in a CUDA Graph. "cublas" issues on the stream that is
    torch's current one now, "torch" on the one that is current when called. ArgumentError for any other tensors.
    UnavailableError where `how` is not here: on the CPU, only "torch" is.
    """
    check_how(left, out, how, tf32)
    check_batch("batched", left, right, out, right_transposed)
    make = _by_torch if how == "torch" else _by_cublas
    return make(left, right, out, right_transposed, tf32)


def check_how(left: torch.Tensor, out: torch.Tensor, how: str, tf32: bool) -> None:
    """ArgumentError for a way that is none, or that has not this type."""
    if how not in get_args(How):
        raise ArgumentError("batched", "how", how, f"one of {', '.join(get_args(How))}")
    kind, into = (str(each.dtype).removeprefix("torch.") for each in (left, out))
    if kind not in ("float32", *HALVES) and (kind, how) != ("float64", "torch"):
        raise ArgumentError("batched", "left", kind, "float32, float16 or bfloat16", "float64 is for how='torch'")
    if into != kind and (into, kind in HALVES) != ("float32", True):
        raise ArgumentError("batched", "out", into, f"{kind}" + (" or float32" if kind in HALVES else ""))
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


def _by_cublas(
    left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, right_transposed: bool, tf32: bool
) -> Callable[[], Any]:
    from brrr.gpu.cublas import blas_on

    if not left.is_cuda:
        raise UnavailableError('batched: the tensors are on the CPU, and cuBLAS needs an NVIDIA GPU; use how="torch"')
    index = int(left.device.index)
    blas = blas_on(index, int(torch.cuda.current_stream(index).cuda_stream))
    return blas.batched_product(left, right, out, right_transposed=right_transposed, tf32=tf32)


def product_step(
    inner: Inner, left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, *, right_transposed: bool
) -> Run:
    """All block products, [count, m, k] by [count, k, n] or [count, n, k], into `out`, [count, m, n].

    On a GPU by cuBLAS; by torch where it is not here.
    """
    multiply = partial(prepared_batched, left, right, out, right_transposed=right_transposed, tf32=inner.name == "tf32")
    if left.is_cuda and inner.name != "fp64":
        with suppress(UnavailableError):
            return multiply(how="cublas")
    return multiply()


def matrix_step(inner: Inner, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, *, right_transposed: bool) -> Run:
    """One classical product of matrices as they lie: (m, k) by (k, n), or (n, k) where `right_transposed`."""
    whole = a.is_contiguous() and b.is_contiguous() and out.is_contiguous()
    if whole and a.is_cuda:
        return product_step(inner, a[None], b[None], out[None], right_transposed=right_transposed)
    # what lies otherwise is torch's: it takes strides
    return partial(_torch_product, a, b.t() if right_transposed else b, out, inner.name == "tf32")


def _torch_product(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, tf32: bool) -> None:
    with float32_products(tf32):
        torch.mm(a, b, out=out)
