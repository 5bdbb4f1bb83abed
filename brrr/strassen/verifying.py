"""Whether a product is as exact as was asked for: c r beside a (b r), for a few vectors r of +1 and -1.

>>> a, b = torch.eye(64), torch.randn(64, 64)
>>> verified(a, b, b, 1e-6, lambda: torch.mm(a, b)) is b
True

R. Freivalds, "Probabilistic machines can use less running time", 1977. All is in float64, and takes as long as reading
the matrices does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch

PROBES = 8
"""Vectors: of so many, the error of a row is known to about a quarter."""

ROOM = 4.0
"""So many times the error that was asked for may be seen in a row: rows differ, and so do the vectors."""

PIECES = 32
"""A matrix is read in so many pieces, one of which at a time is there in float64."""


@torch.no_grad()
def verified(
    a: torch.Tensor, b: torch.Tensor, made: torch.Tensor, limit: float, classical: Callable[[], torch.Tensor]
) -> torch.Tensor:
    """`made`, or, with a warning, what `classical` makes, where a row of `made` is wrong by much more than `limit`.

    An error is relative to its row's size, or, where the row cancels, to that of a product of independent numbers as
    large as a's and b's. What is not finite has to be so in the classical product too. It waits for the GPU.
    """
    if not made.numel():
        return made
    errors, sizes = row_errors(a, b, made)
    wrong = ~(errors.isfinite() & (errors <= ROOM * limit * sizes))
    if not bool(wrong.any()):
        return made
    with torch.enable_grad():
        plain = classical()
    wrong &= errors.isfinite() | (made.isfinite() != plain.isfinite()).any(1)
    if not bool(wrong.any()):
        return made
    relative = torch.where(wrong, (errors / sizes).nan_to_num(torch.inf, torch.inf), -1.0)
    row = int(relative.argmax())
    said = f"matmul: row {row} is wrong by {float(relative[row]):.1e} of its size, and {limit:.1e} was asked for"
    warnings.warn(f"{said}; the classical product is taken instead", stacklevel=5)
    return plain


def row_errors(a: torch.Tensor, b: torch.Tensor, made: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each row of `made`, the root of its squared errors' sum, by the probes, and the size that this is held to."""
    (k, n), at = b.shape, {"dtype": torch.float64, "device": a.device}
    signs = torch.randint(2, (n, PROBES), generator=torch.Generator(a.device).manual_seed(0), device=a.device)
    probes, ones = 2 * signs.double() - 1, torch.ones(n, 1, **at)  # type: ignore[call-overload]
    found = times(made, probes) - times(a, times(b, probes))
    sizes = times(made, ones, torch.square).sqrt()
    independent = times(a, times(b, ones, torch.abs), torch.abs) / max(1, n * k) ** 0.5
    return found.square().mean(1).sqrt(), torch.maximum(sizes, independent)[:, 0]


def times(
    x: torch.Tensor, vectors: torch.Tensor, each: Callable[[torch.Tensor], torch.Tensor] = torch.Tensor.double
) -> torch.Tensor:
    """What `each` makes of x's numbers, times vectors in float64; x is copied piece by piece."""
    made = vectors.new_zeros(x.shape[0], vectors.shape[1])
    wide = max(1, -(-x.shape[1] // PIECES))
    for start in range(0, x.shape[1], wide):
        made += each(x[:, start : start + wide].double()) @ vectors[start : start + wide]
    return made
