"""A calibration part by part: each has its share of the time, and one that fails costs only itself."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from brrr.core.errors import BrrrError, WrongResultError
from brrr.core.measurement import Estimate, Value
from brrr.gpu import is_gpu, waiting
from brrr.gpu.precision import float32_products
from brrr.roofline.peak import Curve, Peak, SweptCalls, Unit
from brrr.timing.host_times import HostTimes

PROBES = 8
CHUNK = 2048


def product_error(a: torch.Tensor, b: torch.Tensor) -> Callable[[torch.Tensor], float]:
    """The relative error of a product, or of a batch, by Freivalds' check: compare C v with A (B v) in float64.

    With random normal v the expected squared norm of (C - AB) v is that of C - AB itself, so a few v estimate the
    error of the whole product at a thousandth of its cost (R. Freivalds, 1977).
    """

    def error(c: torch.Tensor) -> float:
        probes = torch.randn(b.shape[-1], PROBES, dtype=torch.float64)
        expected = _times(a, _times(b, probes))
        found = _times(c, probes).to(expected.device)
        return float(torch.linalg.norm(found - expected) / torch.linalg.norm(expected))

    return error


def _times(matrix: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """A float64 product a block of rows at a time, so that no float64 copy of the whole matrix is needed."""
    blocks = map(double, matrix.split(CHUNK))
    return torch.cat([rows @ vectors.to(rows.device) for rows in blocks])


def double(x: torch.Tensor) -> torch.Tensor:
    """A tensor in float64, on the CPU where its device has none.

    >>> double(torch.ones(1)).dtype
    torch.float64
    """
    try:
        return x.double()
    except (TypeError, RuntimeError):  # as Apple's
        return x.cpu().double()


@dataclass
class Findings:
    """What a calibration has found so far, and how much of its time is left."""

    until_s: float
    quick: bool = False
    device: str = ""
    measured: dict[str, Peak] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)
    assumed: dict[str, Peak] = field(default_factory=dict)
    sweeps: dict[str, SweptCalls] = field(default_factory=dict)
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


def require(right: bool, what: str) -> None:
    """WrongResultError unless it is right: a rate of something wrong is worth nothing."""
    if not right:
        raise WrongResultError(f"calibrate: {what} gave a wrong result, so that no rate of it is shown")


def close(found: torch.Tensor, expected: torch.Tensor, limit: float, what: str) -> None:
    """Every element is within `limit` of the expected one, relative to it or to their mean size; NaN is not.

    What a norm makes of a number near the mean is near zero: relative to itself, it may be rounded to anything.
    """
    reference = double(expected)
    error, size = (double(found).to(reference.device) - reference).abs(), reference.abs()
    require(bool((error <= limit * size.clamp(min=max(1e-30, float(size.mean())))).all()), what)


OfBlock = Callable[[slice], torch.Tensor]
"""Something of each element of a block."""


def same(found: torch.Tensor, expected: OfBlock, what: str, allowed: float | OfBlock = 0.0) -> None:
    """Every element of a long row is what is expected of its block: equal, or within an error that is allowed.

    A number is relative, as in `close`; else it is told for each element.
    """
    for first in range(0, len(found), BLOCK):
        block = slice(first, min(first + BLOCK, len(found)))
        if callable(allowed):
            error = (double(found[block]) - expected(block)).abs()
            require(bool((error <= allowed(block)).all()), what)
        elif allowed:
            close(found[block], expected(block), allowed, what)
        else:
            require(torch.equal(found[block], expected(block)), what)


def added(b: torch.Tensor, c: torch.Tensor, scale: float) -> OfBlock:
    """What a triad gives: b + scale * c, in float64."""
    return lambda block: double(b[block]) + double(c[block]) * scale


FLOAT32_STEP = 2.0**-23


def roundings(b: torch.Tensor, c: torch.Tensor, scale: float) -> OfBlock:
    """How far one or two roundings in float32 may move it."""
    return lambda block: FLOAT32_STEP * (double(b[block]).abs() + (double(c[block]) * scale).abs())


def checked(
    call: Callable[[], Any], out: torch.Tensor, expected: OfBlock, what: str, allowed: float | OfBlock = 0.0
) -> Callable[[], Any]:
    """The call, once what it leaves in `out` is right; what was there is put back, for other calls read it."""
    kept = out.clone()
    out.fill_(torch.nan)
    call()
    same(out, expected, what, allowed)
    out.copy_(kept)
    return call


# ---------------------------------------------------------------------------------------------------------------------
# Short samples of a call by the host's clock: what a loop of it takes, and what issuing it costs.

ROUNDS = 8


def loop_estimate(call: Callable[[], Any], seconds: float, kind: str = "cpu") -> Estimate:
    """Seconds a call takes in a loop on a CPU, or by slope on an accelerator, from about `seconds` after a warm-up.

    >>> loop_estimate(lambda: sum(range(1000)), 0.01).median > 0
    True
    """
    times = HostTimes(call, waiting(kind), by_slope=is_gpu(kind))
    _sample([times], seconds)
    return _known(times, times.period)


def issue_estimates(
    calls: Sequence[Callable[[], Any]], wait: Callable[[], None] | None, seconds: float
) -> list[Estimate]:
    """Seconds to each call's return, the queue never full; on a CPU (`wait` None), to its end in a loop.

    The calls take turns, so that all of them meet the host at the same speed.

    >>> longer, shorter = issue_estimates([lambda: sum(range(2000)), lambda: sum(range(100))], None, 0.02)
    >>> longer.median > shorter.median
    True
    """
    every = [HostTimes(call, wait) for call in calls]
    _sample(every, seconds)
    return [_known(each, each.period if wait is None else each.host) for each in every]


def _sample(every: Sequence[HostTimes], seconds: float) -> None:
    for times in every:
        for _ in range(3):
            times.one()
    until = time.perf_counter() + seconds
    while not every[-1].host or time.perf_counter() < until:
        for times in every:
            times.round(seconds / ROUNDS / len(every))


def _known(times: HostTimes, samples: list[float]) -> Estimate:
    found = times.estimate(samples)
    if found is None:
        raise BrrrError("calibrate: a call could not be sampled")
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Products of square matrices by data type and size, on random data: the best rate that the library reaches.

# Relative errors (Frobenius) that a right product stays below: float32 lies at 1e-6 and TF32 at 3e-4, so that TF32 in
# place of float32 is found out; the 16-bit types round their result to 2^-9 and 2^-12; fp8 is compared on
# what it holds, and int8 has none.
LIMITS = {"fp64": 1e-12, "fp32": 5e-5, "tf32": 2e-3, "fp16": 3e-3, "bf16": 1e-2, "fp8": 5e-2, "int8": 1e-12}

CALLS = 10
"""So often about is a product called, for the check and the times."""

Timer = Callable[[Callable[[], Any], float], Estimate]
"""Times a call, from about so many seconds of it."""


class ReadyProduct(NamedTuple):
    """One product, ready to run, and its operands for the check."""

    call: Callable[[], torch.Tensor]
    a: torch.Tensor
    b: torch.Tensor


def product(dtype: str, size: int, device: str) -> ReadyProduct:
    """A product of two fresh random size x size matrices: normal values, whole numbers of 8 bits for int8.

    With 8 bits the second operand lies column by column, as the tensor cores take it.
    """
    if dtype == "int8":
        x, y = (torch.randint(-128, 128, (size, size), dtype=torch.int8, device=device) for _ in range(2))
        return ReadyProduct(lambda: torch._int_mm(x, y.t()), x, y.t())
    a, b = (torch.randn(size, size, device=device) for _ in range(2))
    if dtype == "fp8":
        x, y, one = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t().contiguous().t(), a.new_ones(())
        how: dict[str, Any] = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16, "use_fast_accum": a.is_cuda}
        return ReadyProduct(lambda: torch._scaled_mm(x, y, **how), x, y)
    kind = {"fp64": torch.float64, "fp16": torch.float16, "bf16": torch.bfloat16}.get(dtype, torch.float32)
    a, b = a.to(kind), b.to(kind)
    return ReadyProduct(lambda: a @ b, a, b)


def measure_products(
    dtype: str, sizes: Sequence[int], device: str, timed: Timer, found: Findings, *, share_s: float, by: str,
    conditions: Callable[[], Mapping[str, Value]] = dict,
) -> None:  # fmt: skip
    """The rates of one data type by size, in the curve `matmul.<dtype>`; what would take too long is left out."""
    points: list[tuple[float, Peak]] = []
    last_s, last, until_s = 0.0, 1, time.perf_counter() + share_s
    unit: Unit = "IOP/s" if dtype == "int8" else "FLOP/s"
    with float32_products(dtype == "tf32"), torch.no_grad():
        for size in sizes:
            if CALLS * last_s * (size / last) ** 3 > min(share_s, found.left_s):
                found.note(f"matmul.{dtype}: size {size} left out, for lack of time")
                break
            call, a, b = product(dtype, size, device)
            error = product_error(a, b)(call())
            require(error <= LIMITS[dtype], f"a {dtype} product of {size} (relative error {error:.2g})")
            estimate = timed(call, max(0.02, min(0.5, (until_s - time.perf_counter()) / 4)))
            last_s, last = estimate.median, size
            points.append((size, Peak.rate(2.0 * size**3, estimate, unit, **conditions())))
    if points:
        found.curves[f"matmul.{dtype}"] = Curve("size", tuple(points), {"by": by, "data": "random", "cache": "hot"})
