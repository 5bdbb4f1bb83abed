"""A product in float32's accuracy through the tensor cores by torch's own calls: two float16 terms, three products."""

from __future__ import annotations

import torch

SHIFT = 2.0**11
"""float16 keeps 11 bits: the rest is as much smaller, and is stored so much larger."""


def split(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x as two float16 terms, hi + lo / 2^11; numbers beyond float16's range are lost, as torch's call would have it.

    >>> hi, lo = split(torch.tensor([1.0 + 2.0**-12]))
    >>> float(hi.float() + lo.float() / SHIFT) == 1.0 + 2.0**-12
    True
    """
    hi = x.half()
    return hi, ((x - hi.float()) * SHIFT).half()


def split_products(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, *, chunk: int = 0) -> torch.Tensor:
    """hi hi + (hi lo + lo hi) / 2^11 into `out`, float32; `chunk`: the sums over k in parts of so many, 0 for one part.

    >>> a, b = torch.randn(64, 96), torch.randn(96, 32)
    >>> found = split_products(a, b, torch.empty(64, 32), chunk=32)
    >>> bool(torch.linalg.norm(found - a.double() @ b.double()) < 1e-5 * torch.linalg.norm(a @ b))
    True
    """
    (a_hi, a_lo), (b_hi, b_lo) = split(a), split(b)
    k = a.shape[1]
    out.zero_()
    for start in range(0, k, chunk or k):
        part = slice(start, start + (chunk or k))
        left_hi, left_lo, right_hi, right_lo = a_hi[:, part], a_lo[:, part], b_hi[part], b_lo[part]
        out.add_(_wide(left_hi, right_lo).add_(_wide(left_lo, right_hi)), alpha=1 / SHIFT)
        out.add_(_wide(left_hi, right_hi))
    return out


def _wide(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """A float16 product whose sums are kept in float32."""
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()
