"""Is what a kernel computed right? Memory is looked at a block at a time, so that checking needs little of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from brrr.errors import WrongResultError

if TYPE_CHECKING:
    import torch

BLOCK = 2**25
FLOAT32_STEP = 2.0**-23


def require(right: bool, what: str) -> None:
    """WrongResultError unless it is right: a rate of something wrong is worth nothing."""
    if not right:
        raise WrongResultError(f"calibrate: {what} gave a wrong result, so that no rate of it is shown")


def same(found: torch.Tensor, expected: Callable[[int, int], torch.Tensor], what: str) -> None:
    """Every element of `found` equals `expected(first, last)`; both one-dimensional, compared a block at a time."""
    for first in range(0, len(found), BLOCK):
        last = min(first + BLOCK, len(found))
        require(bool((found[first:last] == expected(first, last)).all()), what)


def close(found: torch.Tensor, expected: torch.Tensor, limit: float, what: str) -> None:
    """Every element is within `limit`, relative, of the expected one; NaN is not."""
    reference = expected.double()
    error = (found.double() - reference).abs()
    require(bool((error <= limit * reference.abs().clamp(min=1e-30)).all()), what)


def triad_is_right(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, scale: float, what: str) -> None:
    """a = b + scale * c in float32: one or two roundings away from the float64 result."""
    for first in range(0, len(a), BLOCK):
        last = min(first + BLOCK, len(a))
        x, y = b[first:last].double(), c[first:last].double() * scale
        allowed = FLOAT32_STEP * (x.abs() + y.abs())
        require(bool(((a[first:last].double() - (x + y)).abs() <= allowed).all()), what)
