"""Split products as calls that make their own terms and results, for tests."""

from collections.abc import Iterable

import torch

from brrr.strassen.split.operands_kernel import SplitSource, Terms, empty_terms, prepared_splits, split_in_torch
from brrr.strassen.split.product_kernel import Tiling, multiply_in_torch, prepared_product

TILINGS = {
    "": Tiling(), "128 columns": Tiling(columns=128), "clusters": Tiling(cluster=2),
    "128 columns, clusters": Tiling(columns=128, cluster=2),
}  # fmt: skip


def split(x: torch.Tensor, *, transposed: bool = False, kernels: bool = True) -> Terms:
    """x (rows, k), or (k, rows) where `transposed`, as two terms along k: by the GPU's kernel, or by torch."""
    along = x.t() if transposed else x
    source = SplitSource(along, empty_terms(along.shape[0], along.shape[1], x.device))
    if kernels:
        prepared_splits(source)()
    else:
        split_in_torch([source])
    return source.out


def together(each: Iterable[torch.Tensor]) -> Terms:
    """Several matrices' terms as one, as the sums of blocks make them."""
    hi, lo, exponents = (torch.cat(part) for part in zip(*map(split, each), strict=True))
    return Terms(hi, lo, exponents)


def split_product(left: Terms, right: Terms, *, kernels: bool = True) -> torch.Tensor:
    """left @ right^T, (m, n)."""
    out = torch.empty(left.hi.shape[1], right.hi.shape[1], device=left.hi.device)
    if kernels:
        prepared_product(left, right, out)()
    else:
        multiply_in_torch(left, right, out.unsqueeze(0))
    return out


def value(terms: Terms, k: int) -> torch.Tensor:
    """What a matrix's terms stand for, in float64."""
    together = torch.ldexp(terms.hi.double() + terms.lo.double(), terms.exponents.double().unsqueeze(-1))
    return together[0, :, :k]
