"""Many products of one size at a time, by whichever library or kernel is asked: `out[p] = left[p] @ right[p]`.

>>> import torch
>>> left, right, out = torch.ones(7, 2, 8), torch.ones(7, 3, 8), torch.empty(7, 2, 3)
>>> batched(left, right, out, right_transposed=True, how="torch")[0, 0]
tensor([8., 8., 8.])
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from brrr.errors import ArgumentError, UnavailableError

if TYPE_CHECKING:
    import torch

How = Literal["cublas", "torch", "cuda", "triton", "auto"]
"""cuBLAS through nvmath-python, torch.bmm, `brrr.kernels.sgemm` (CUDA C++), `brrr.kernels.sgemm_triton`, and whichever
of the first and the third is faster for a shape, tried once (`brrr.strassen.fastest_product`)."""

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
        from brrr.strassen.fastest_product import prepared_fastest

        return prepared_fastest(left, right, out, right_transposed)
    if how == "auto":
        how = "cublas" if left.is_cuda and _has_cublas() else "torch"
    if how == "torch":
        return _by_torch(left, right, out, right_transposed, tf32)
    if how == "cuda":
        from brrr.kernels.sgemm import prepared

        return prepared(left, right, out, right_transposed=right_transposed)
    if how == "triton":
        from brrr.kernels.sgemm_triton import prepared as prepared_in_triton

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


def check_batch(
    call: str, left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, right_transposed: bool
) -> tuple[int, int, int, int]:
    """Products, m, n and k; ArgumentError for tensors that do not fit together or are not contiguous."""
    for name, tensor in (("left", left), ("right", right), ("out", out)):
        if tensor.ndim != 3 or not tensor.is_contiguous():
            found = f"shape {tuple(tensor.shape)}, strides {tensor.stride()}"
            raise ArgumentError(call, name, found, "3 axes, contiguous", "Use .contiguous()")
        if tensor.device != left.device:
            raise ArgumentError(call, name, str(tensor.device), f"a tensor on {left.device}, as left")
    products, m, k = left.shape
    n = right.shape[1 if right_transposed else 2]
    wanted = (products, n, k) if right_transposed else (products, k, n)
    if right.dtype != left.dtype or right.shape != wanted:
        raise ArgumentError(call, "right", f"{right.dtype} {tuple(right.shape)}", f"{left.dtype} of shape {wanted}")
    if out.shape != (products, m, n):
        raise ArgumentError(call, "out", tuple(out.shape), f"shape {(products, m, n)}, by those of left and right")
    if out.numel() and out.data_ptr() in (left.data_ptr(), right.data_ptr()):
        raise ArgumentError(call, "out", "the memory of left or right", "another tensor")
    return products, m, n, k


def _by_torch(
    left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, right_transposed: bool, tf32: bool
) -> Callable[[], Any]:
    import torch

    other = right.transpose(1, 2) if right_transposed else right
    if out.dtype != left.dtype and left.is_cuda:  # the matrix units add in float32 as they do anyway; no rounding after
        return partial(torch.bmm, left, other, out_dtype=torch.float32, out=out)
    if out.dtype != left.dtype:
        return lambda: torch.bmm(left.float(), other.float(), out=out)
    plain = partial(torch.bmm, left, other, out=out)
    if left.dtype != torch.float32 or not left.is_cuda:
        return plain
    from brrr.peaks.matrix import precision_of

    return partial(_inside, partial(precision_of, "tf32" if tf32 else "float32"), plain)


def _inside(setting: Callable[[], AbstractContextManager[None]], plain: Callable[[], Any]) -> Any:
    with setting():
        return plain()


def _has_cublas() -> bool:
    from brrr.kernels.cublas import bindings

    try:
        bindings()
    except UnavailableError:
        return False
    return True


def _by_cublas(
    left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, right_transposed: bool, tf32: bool
) -> Callable[[], Any]:
    import torch

    from brrr.kernels.cublas import blas_on

    if not left.is_cuda:
        raise UnavailableError('batched: the tensors are on the CPU, and cuBLAS needs an NVIDIA GPU; use how="torch"')
    index = int(left.device.index)
    blas = blas_on(index, int(torch.cuda.current_stream(index).cuda_stream))
    return blas.batched_product(left, right, out, right_transposed=right_transposed, tf32=tf32)
