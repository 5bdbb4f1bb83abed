"""A calibration part by part: each has its share of the time, and one that fails costs only itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from brrr.core.errors import BrrrError, WrongResultError
from brrr.core.measurement import Estimate
from brrr.roofline.peaks.peak import Curve, Peak, Sweep
from brrr.timing.host_times import HostTimes

if TYPE_CHECKING:
    import torch

PROBES = 8
CHUNK = 2048


def product_error(a: torch.Tensor, b: torch.Tensor) -> Callable[[torch.Tensor], float]:
    """The relative error of a product, by Freivalds' check: compare C v with A (B v) in float64 for random v.

    With normal v the expected squared norm of (C - AB) v is that of C - AB itself, so a few v estimate the error of
    the whole product at a thousandth of its cost (R. Freivalds, 1977).
    """

    def error(c: torch.Tensor) -> float:
        probes = torch.randn(b.shape[1], PROBES, dtype=torch.float64, device=b.device)
        expected = _times(a, _times(b, probes))
        found = _times(c, probes.to(c.device)).to(expected.device)
        return float(torch.linalg.norm(found - expected) / torch.linalg.norm(expected))

    return error


def _times(matrix: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """A float64 product a block of rows at a time, so that no float64 copy of the whole matrix is needed."""
    return torch.cat([rows.double() @ vectors for rows in matrix.split(CHUNK)])


@dataclass
class Findings:
    """What a calibration has found so far, and how much of its time is left."""

    until_s: float
    quick: bool = False
    measured: dict[str, Peak] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)
    assumed: dict[str, Peak] = field(default_factory=dict)
    sweeps: dict[str, Sweep] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def left_s(self) -> float:
        """Seconds left of the whole budget, none below zero."""
        return max(0.0, self.until_s - time.perf_counter())

    def note(self, what: str) -> None:
        """Say what is missing, and why; each thing once."""
        if what not in self.notes:
            self.notes.append(what)


@dataclass(frozen=True)
class Part:
    """One part: its name, what it does, and the seconds it needs at least."""

    name: str
    run: Callable[[Findings], None]
    needs_s: float = 0.0


def run_parts(parts: Sequence[Part], found: Findings, progress: Callable[[str], None]) -> None:
    """Each part in turn; one for which no time is left, or which fails, becomes a note.

    WrongResultError is let through: a wrong result is no missing figure.
    """
    for part in parts:
        if part.needs_s and found.quick:
            found.note(f"{part.name}: left out of a quick calibration")
            continue
        if found.left_s <= part.needs_s:
            found.note(f"{part.name}: left out: it may need {part.needs_s:g} s, and {found.left_s:.1f} s were left")
            continue
        progress(part.name)
        try:
            part.run(found)
        except WrongResultError:
            raise
        except Exception as error:  # a missing library, too little memory, an operator that this torch lacks
            found.note(f"{part.name}: not measured: {said(error)}")


def said(error: Exception) -> str:
    """What went wrong, on one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


# ---------------------------------------------------------------------------------------------------------------------
# Is what a kernel computed right? Memory is looked at a block at a time, so that checking needs little of it.

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


# ---------------------------------------------------------------------------------------------------------------------
# Short samples of a call by the host's clock: what a loop of it takes, and what issuing it costs.

ROUNDS = 8


def loop_estimate(call: Callable[[], Any], seconds: float, wait: Callable[[], None] | None = None) -> Estimate:
    """Seconds a call takes in a loop, from about `seconds` of them after a warm-up; `wait` synchronises with a GPU.

    >>> loop_estimate(lambda: sum(range(1000)), 0.01).median > 0
    True
    """
    times = _rounds(HostTimes(call, wait), seconds)
    return _found(times.estimate(times.period))


def issue_estimate(call: Callable[[], Any], wait: Callable[[], None] | None, seconds: float) -> Estimate:
    """Seconds to a call's return, the queue never full; on a CPU (`wait` None), to its end in a loop."""
    times = _rounds(HostTimes(call, wait), seconds)
    return _found(times.estimate(times.host if wait is not None else times.period))


def issue_beside(
    call: Callable[[], Any], reference: Callable[[], Any], wait: Callable[[], None] | None, seconds: float
) -> tuple[Estimate, Estimate]:
    """`issue_estimate` of two calls by turns, so that both meet the host at the same speed.

    >>> longer, shorter = issue_beside(lambda: sum(range(2000)), lambda: sum(range(100)), None, 0.02)
    >>> longer.median > shorter.median
    True
    """
    both = HostTimes(call, wait), HostTimes(reference, wait)
    for times in both:
        for _ in range(3):
            times.one()
    until = time.perf_counter() + seconds
    while not both[1].host or time.perf_counter() < until:
        for times in both:
            times.round(seconds / ROUNDS / 2)
    one, other = (_found(times.estimate(times.host if wait is not None else times.period)) for times in both)
    return one, other


def _rounds(times: HostTimes, seconds: float) -> HostTimes:
    for _ in range(3):
        times.one()
    until = time.perf_counter() + seconds
    times.round(seconds / ROUNDS)
    while time.perf_counter() < until:
        times.round(seconds / ROUNDS)
    return times


def _found(estimate: Estimate | None) -> Estimate:
    if estimate is None:
        raise BrrrError("calibrate: a call could not be sampled")
    return estimate
