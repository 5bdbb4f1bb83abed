"""float32 matrices as two float16 terms, and their product by the tensor cores, as exact as float32's own.

>>> a, b = torch.randn(64, 100), torch.randn(48, 100)
>>> product = split_product(split(a), split(b))
>>> bool((product - a @ b.T).norm() < 1e-6 * product.norm())
True

x = (hi + lo) 2^e. hi is x 2^-e rounded to float16, 11 bits; lo is what is left, rounded to 11 more. Of the four
products of terms the smallest, lo lo, is left out, and three are summed, on the tensor cores with a total outside (see
`brrr/kernels/split_product.cu` for why).

Range. With scale="row" each row (along k) has an e of its own, so that its largest number lies from 2^14 to 2^15:

- no finite float32 overflows, and rows of very different size are all exact;
- a number is exact to 2^-23 of itself down to 2^-16 of its row's largest, and below that to 2^-39 of the largest: in a
  row whose numbers differ by more, the small ones lose digits, as they do in a sum with the large ones;
- infinity and NaN are kept in hi, with a lo of 0: their whole row (or column) of the product is infinite or NaN, and
  may be NaN where float32's product is infinite, since infinity meets terms of zero or of another sign. Other rows are
  as they should be;
- subnormal numbers are scaled as others are. A product out of float32's range is infinite, or rounded to a subnormal.

scale="matrix": one e for all rows of a matrix; then small rows beside large ones lose digits. scale="none": e = 0, and
numbers beyond 65504 become infinite, those below 2^-2 lose digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from brrr.gpu import is_gpu
from brrr.strassen.split.splits import (
    Part,
    Terms,
    check_result,
    check_split,
    check_terms,
    empty_terms,
    prepared_splits,
    scaled,
)


def split(
    x: torch.Tensor,
    *,
    terms: int = 2,
    scale: str = "row",
    transposed: bool = False,
    out: Terms | None = None,
    how: str = "auto",
) -> Terms:
    """x = (hi + lo) 2^e, in one pass over memory.

    >>> split(torch.tensor([[1.0, 2**-12]])).exponents.tolist(), split(torch.ones(2, 3), transposed=True).hi.shape
    ([[-14]], torch.Size([1, 3, 8]))

    x: float32 (rows, k) or (batch, rows, k); with `transposed`, (k, rows) or (batch, k, rows), as a right operand is:
    its terms lie along k all the same. scale: "row", "matrix" or "none" (see above). out: terms to be overwritten, from
    a call with the same shapes. how: "cuda" (compute capability 8.0 on) or "torch"; "auto" takes the first that
    runs. ArgumentError for others. Prepared, and two operands in one launch: `splits.py`.
    """
    check_split(x, terms, scale, how)
    if out is None:
        batch, (rows, k) = x.shape[0] if x.ndim == 3 else None, x.shape[-2:]
        out = empty_terms(k, rows, batch, x.device) if transposed else empty_terms(rows, k, batch, x.device)
    prepared_splits(Part(x, out, transposed, scale), how=how)()
    return out


def split_product(
    left: Terms,
    right: Terms,
    out: torch.Tensor | None = None,
    *,
    chunk: int | None = None,
    how: str = "auto",
    tiling: Any = None,
) -> torch.Tensor:
    """left @ right^T of two splits, in float32: (m, n), or (batch, m, n) for batches.

    >>> a, b = torch.randn(2, 8, 16), torch.randn(2, 16, 4)
    >>> product = split_product(split(a), split(b, transposed=True))
    >>> torch.allclose(product, a @ b, atol=1e-4)
    True

    left: terms of (m, k), right: terms of (n, k) or, split with `transposed`, of (k, n); batches of one size. out:
    float32, its rows contiguous. chunk: how deep a sum grows on the tensor core before it leaves it: a multiple of 64
    for "cuda"; "torch" has no tensor core. how: "cuda" (compute capability 9.0), "torch"; "auto" takes the first that
    runs. tiling: a `Tiling` of that kernel's module. ArgumentError for what does not fit.
    """
    if out is None:
        check_terms(left, right)
        shape = (left.hi.shape[0], left.hi.shape[1], right.hi.shape[1])
        out = torch.empty(shape[1:] if left.flat else shape, dtype=torch.float32, device=left.hi.device)
    prepared_product(left, right, out, chunk=chunk, how=how, tiling=tiling)()
    return out


def prepared_product(
    left: Terms, right: Terms, out: torch.Tensor, *, chunk: int | None = None, how: str = "auto", tiling: Any = None
) -> Callable[[], Any]:
    """A function of no arguments that launches `split_product` on torch's current stream; arguments as there."""
    check_terms(left, right)
    result = check_result(left, right, out, chunk, how)
    if not result.numel():
        return _nothing
    if not left.k:
        return partial(_zero, result)
    how = product_way(result.device) if how == "auto" else how
    if how == "cuda":
        return _by_cuda(left, right, result, chunk, tiling)
    return partial(_by_torch, left, right, result)


def product_way(device: torch.device) -> str:
    """What "auto" takes on a device.

    >>> product_way(torch.device("cpu"))
    'torch'
    """
    return "cuda" if is_gpu(device) and torch.cuda.get_device_capability(device) == (9, 0) else "torch"


def _by_cuda(left: Terms, right: Terms, out: torch.Tensor, chunk: int | None, tiling: Any) -> Callable[[], Any]:
    from brrr.strassen.split import product

    tiling = tiling or product.chosen(*out.shape)
    tiling = replace(tiling, chunk=chunk) if chunk else tiling
    operands = (left.hi, left.lo, left.exponents, right.hi, right.lo, right.exponents)
    return product.prepared(*operands, out, tiling)


def _by_torch(left: Terms, right: Terms, out: torch.Tensor) -> None:
    """Three float32 products of the terms, which are exact in float32."""
    a_hi, a_lo, b_hi, b_lo = (each.float() for each in (left.hi, left.lo, right.hi, right.lo))
    total = a_hi @ b_lo.transpose(1, 2) + a_lo @ b_hi.transpose(1, 2) + a_hi @ b_hi.transpose(1, 2)
    out.copy_(scaled(total, left.exponents.unsqueeze(2) + right.exponents.unsqueeze(1)))


def _nothing() -> None:
    """An empty result."""


def _zero(out: torch.Tensor) -> None:
    out.zero_()
