"""The products of blocks, each as a function of no arguments: by the library that its name says.

>>> from brrr.strassen.implementations import INNERS
>>> out = torch.empty(1, 2, 2)
>>> _ = product_step(INNERS["sgemm"], torch.ones(1, 2, 8), torch.ones(1, 2, 8), out, right_transposed=True)()
>>> out[0, 0, 0]
tensor(8.)
"""

from contextlib import suppress
from functools import partial

import torch
from torch import Tensor

from brrr.core.errors import UnavailableError
from brrr.gpu.precision import float32_products
from brrr.strassen.implementations import Inner
from brrr.strassen.launcher import Run


def product_step(inner: Inner, left: Tensor, right: Tensor, out: Tensor, *, right_transposed: bool) -> Run:
    """All block products into `out`, as a function of no arguments: `out[p] = left[p] @ right[p]`.

    left: (count, m, k), right: (count, k, n), or (count, n, k) where right_transposed; out: (count, m, n). All three of
    one type, or of short operands in float32; contiguous, on one device; out shares no memory with the others. Sums are
    float32 at least. On a GPU by cuBLAS, issued on the stream that is torch's current one now; by torch where it is not
    here, on the stream that is current when called.
    """
    tf32 = inner.name == "tf32"
    if left.is_cuda and inner.name != "fp64":
        with suppress(UnavailableError):
            return by_cublas(left, right, out, right_transposed, tf32)
    return by_torch(left, right, out, right_transposed, tf32)


def by_torch(left: Tensor, right: Tensor, out: Tensor, right_transposed: bool, tf32: bool) -> Run:
    """The products by torch.bmm."""
    other = right.transpose(1, 2) if right_transposed else right
    if left.dtype == torch.float32:
        return float32_products(tf32)(partial(torch.bmm, left, other, out=out))
    if out.dtype == left.dtype:
        return partial(torch.bmm, left, other, out=out)
    if left.is_cuda:  # the matrix units add in float32 as they do anyway; no rounding after
        return partial(torch.bmm, left, other, out_dtype=torch.float32, out=out)
    return lambda: torch.bmm(left.float(), other.float(), out=out)


def by_cublas(left: Tensor, right: Tensor, out: Tensor, right_transposed: bool, tf32: bool) -> Run:
    """The products by cuBLAS through nvmath-python; UnavailableError without it."""
    from brrr.gpu.cublas import blas_on

    index = int(left.device.index)
    blas = blas_on(index, int(torch.cuda.current_stream(index).cuda_stream))
    return blas.batched_product(left, right, out, right_transposed=right_transposed, tf32=tf32)


def matrix_step(inner: Inner, a: Tensor, b: Tensor, out: Tensor, *, right_transposed: bool) -> Run:
    """One classical product of matrices as they lie: (m, k) by (k, n), or (n, k) where `right_transposed`."""
    whole = a.is_contiguous() and b.is_contiguous() and out.is_contiguous()
    if whole and a.is_cuda:
        return product_step(inner, a[None], b[None], out[None], right_transposed=right_transposed)
    # what lies otherwise is torch's: it takes strides
    return float32_products(inner.name == "tf32")(partial(torch.mm, a, b.t() if right_transposed else b, out=out))
