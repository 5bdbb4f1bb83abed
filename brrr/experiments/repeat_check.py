"""Is a repeated operation right? Its end is known: in float64, with powers in place of steps.

y -> a y + b, n times, is y -> a^n y + b (a^n - 1) / (a - 1). With a near one and above it, a single step that is
missing changes the result by a - 1 of itself, 1/128 or more, in any of the three types: more than their rounding does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

TOLERANCE = {torch.float32: 4e-5, torch.float16: 7e-4, torch.bfloat16: 4e-3}
"""float32: 512 roundings of 2^-24 at most, each relative; the half types: one rounding of 2^-11 or 2^-8, at the end."""

EXACT = 1e-6
"""For a chain that rounds at each step, against one that rounds at the same places."""

CHUNK = 2**24
SAMPLE = 2**18


def scale_and_shift(factor: float, addend: float | None, repeat: int) -> tuple[float, float]:
    """What `repeat` steps amount to: y = scale * x + shift.

    >>> scale_and_shift(2.0, 1.0, 3)
    (8.0, 7.0)
    """
    scale = factor**repeat
    return scale, 0.0 if addend is None else addend * (scale - 1) / (factor - 1)


def fused_error(x: torch.Tensor, factor: float, addend: float | None, repeat: int) -> Callable[[Any], float]:
    """||y - reference|| / ||reference|| over all elements; NaN for another shape or type."""
    scale, shift = scale_and_shift(factor, addend, repeat)
    return _error(x, lambda part: part.double() * scale + shift)


def stepwise_error(x: torch.Tensor, factor: float, addend: float | None, repeat: int) -> Callable[[Any], float]:
    """The same for operators that each round to the type: against steps in float64 that round at the same places.

    In a half type that rounding adds up to far more than the type's own precision; it is the type's, not the kernel's.
    Compared on SAMPLE elements at least, spread over the array and with both ends among them.
    """

    def steps(part: torch.Tensor) -> torch.Tensor:
        y = part.double()
        for _ in range(repeat):
            y = (y * factor).to(x.dtype).double()
            y = y if addend is None else (y + addend).to(x.dtype).double()
        return y

    places = torch.arange(x.numel(), device=x.device) if x.numel() <= SAMPLE else sampled(x.numel(), x.device)
    inner = _error(x[places], steps)
    return lambda y: inner(y[places]) if _fits(x, y) else math.nan


def sampled(count: int, device: torch.device) -> torch.Tensor:
    """SAMPLE places: the two ends, and a random one in each part of the array."""
    part = count // SAMPLE
    inside = torch.arange(SAMPLE, device=device) * part + torch.randint(part, (SAMPLE,), device=device)
    return torch.cat([torch.tensor([0, count - 1], device=device), inside])


def _error(x: torch.Tensor, expected: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], float]:
    def error(y: Any) -> float:
        if not _fits(x, y):
            return math.nan
        wrong = right = 0.0
        for start in range(0, x.numel(), CHUNK):
            reference = expected(x[start : start + CHUNK])
            wrong += float((y[start : start + CHUNK].double() - reference).square().sum())
            right += float(reference.square().sum())
        return math.sqrt(wrong / right) if right else math.nan

    return error


def _fits(x: torch.Tensor, y: Any) -> bool:
    return isinstance(y, torch.Tensor) and y.shape == x.shape and y.dtype == x.dtype
