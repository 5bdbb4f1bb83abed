"""Splitting one or two operands, ready to run: by CUDA C++ in one launch, by Triton, or by torch.

>>> a, b = torch.randn(4, 8), torch.randn(8, 5)
>>> left, right = Part(a, empty_terms(4, 8)), Part(b, empty_terms(5, 8), transposed=True)
>>> prepared_splits(left, right)()
>>> bool((right.out.value() - b.T).abs().max() < 1e-6)
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import torch

from brrr.errors import UnavailableError
from brrr.kernels import split_operands
from brrr.kernels.split_operands import Source
from brrr.strassen.split_terms import Terms, check_out, check_split, check_triton, scaled

LARGE = 2**25
"""Numbers of an operand from which on Triton's splits are faster: on an H200 2.0 to 2.6 TB/s along columns where CUDA's
reach 1.3 to 1.6, and 3.9 along rows where CUDA's reach 2.9 to 3.7. Below, their launches cost the host more time than
the device gains."""


@dataclass(frozen=True)
class Part:
    """One operand: x and, if `transposed`, its terms along columns; where they go; its scale: all as for `split`."""

    x: torch.Tensor
    out: Terms
    transposed: bool = False
    scale: str = "row"

    @property
    def along(self) -> torch.Tensor:
        """x as (batch, rows, k), k the direction of the terms."""
        matrices = self.x.unsqueeze(0) if self.x.ndim == 2 else self.x
        return matrices.transpose(1, 2) if self.transposed else matrices


def empty_terms(rows: int, k: int, batch: int | None = None, device: str | torch.device = "cpu") -> Terms:
    """Room for the terms of a matrix, or of a batch of them.

    >>> empty_terms(3, 5).hi.shape, empty_terms(3, 5, batch=2).flat
    (torch.Size([1, 3, 8]), False)
    """
    count = 1 if batch is None else batch
    both = torch.empty((2, count, rows, -(-k // 8) * 8), dtype=torch.float16, device=device)
    exponents = torch.empty((count, rows), dtype=torch.int32, device=device)
    return Terms(both[0], both[1], exponents, k, batch is None)


def prepared_splits(*parts: Part, how: str = "auto") -> Callable[[], None]:
    """A function of no arguments that splits one or two operands, on torch's current stream.

    how: "cuda" (compute capability 8.0 on, both in one launch), "triton", "torch"; "auto" takes the first that runs,
    but Triton's before CUDA's from `LARGE` numbers on.
    It reads and writes the tensors given; a run must not overlap with another of the same. ArgumentError for others.
    """
    for part in parts:
        check_split(part.x, 2, part.scale, how)
        check_out(part.out, part.along, part.x.ndim == 2)
    steps: list[Callable[[], None]] = [partial(_give_exponents, part) for part in parts if part.scale != "row"]
    filled = [part for part in parts if part.out.hi.numel()]
    if filled:
        steps += _filling(filled, how)
    return steps[0] if len(steps) == 1 else partial(_all, tuple(steps))


def _filling(parts: list[Part], how: str) -> list[Callable[[], None]]:
    if how == "torch" or (how == "auto" and not parts[0].x.is_cuda):
        return [partial(_split_torch, part) for part in parts]
    sources = _sources(parts)
    by_triton = how == "triton" or (how == "auto" and _large(parts))
    if not by_triton and sources and split_operands.fits(sources):
        return [split_operands.prepared(sources)]
    if how == "cuda":
        raise UnavailableError("split: how='cuda' needs a GPU of compute capability 8.0 and operands without gaps")
    for part in parts:
        check_triton(part.x)
    return [partial(_split_triton, part, torch.empty_like(part.out.exponents)) for part in parts]


def _large(parts: list[Part]) -> bool:
    """Whether Triton's kernels are here, and worth what their launches cost the host."""
    return min(part.x.numel() for part in parts) >= LARGE and find_spec("triton") is not None


def _sources(parts: list[Part]) -> list[Source]:
    """The operands for CUDA C++; none where it cannot read one of them."""
    return [_source(part) for part in parts] if all(_lies_along(part) is not None for part in parts) else []


def _source(part: Part) -> Source:
    out = part.out
    return Source(part.along, out.hi, out.lo, out.exponents, _lies_along(part) == 1, part.scale != "row")


def _lies_along(part: Part) -> int | None:
    """The axis of (batch, rows, k) along which x is contiguous; None: neither."""
    x = part.along
    return next((axis for axis in (2, 1) if x.stride(axis) == 1 or x.shape[axis] == 1), None)


def _split_triton(part: Part, sizes: torch.Tensor) -> None:
    from brrr.kernels import split_product_triton as kernels

    x, out, given, axis = part.along, part.out, part.scale != "row", _lies_along(part)
    if axis == 1:
        kernels.split_columns(x.transpose(1, 2), out.hi, out.lo, out.exponents, given, sizes)
    else:
        kernels.split_rows(x if axis == 2 else x.contiguous(), out.hi, out.lo, out.exponents, given)


def _split_torch(part: Part) -> None:
    x, made = part.along, part.out
    if part.scale == "row":
        made.exponents.copy_(_exponents(_largest(x, (2,))))
    numbers = scaled(x, -made.exponents.unsqueeze(-1))
    hi = numbers.half()
    lo = torch.where(hi.isfinite(), numbers - hi.float(), 0.0).half()
    for term, values in ((made.hi, hi), (made.lo, lo)):
        term[..., : made.k] = values
        term[..., made.k :] = 0


def _give_exponents(part: Part) -> None:
    if part.scale == "none":
        part.out.exponents.zero_()
    else:
        part.out.exponents.copy_(_exponents(_largest(part.along, (1, 2))).unsqueeze(1))


def _largest(x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    """The largest finite |x| along axes; 0 where there is none."""
    sizes = torch.where(x.isfinite(), x.abs(), 0.0)
    return sizes.amax(axes) if x.numel() else x.new_zeros([size for i, size in enumerate(x.shape) if i not in axes])


def _exponents(largest: torch.Tensor) -> torch.Tensor:
    """e with largest 2^-e from 2^14 to 2^15, by float32's bits; a subnormal one counts as 2^-127."""
    return (largest.contiguous().view(torch.int32) >> 23) - 141


def _all(steps: tuple[Callable[[], None], ...]) -> None:
    for step in steps:
        step()
