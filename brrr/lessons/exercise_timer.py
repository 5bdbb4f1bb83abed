"""Exercise 01-timer: mend a timer. It is run on an asynchronous device, with work whose duration is known.

The student's timer is called as `timer(call, synchronize, clock)`. The clock is the real one, and it also notes what
was in the queue whenever it was read; so the mark does not depend on how busy the machine is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from brrr.lessons.checking import Mark, ask
from brrr.lessons.exercise_device import Clocked, Reading, device
from brrr.units import seconds

FEWEST = 5
"""Fewer samples than this have no median worth the name."""


@dataclass(frozen=True)
class Sample:
    """What lies between two readings of the clock with at least one call between them."""

    seconds: float
    first_call: int
    calls: int
    waited_before: bool
    waited_after: bool


def grade(timer: Any) -> Mark:
    """Run the timer on the queue (on the GPU where there is one) and say which mistake it makes, if any."""
    if not callable(timer):
        return Mark(
            "wrong", f"{timer!r} is not a function.", 'Pass the function itself: check("01-timer", timer=timer).'
        )
    with device() as work:
        work.submit_earlier_work()
        said = ask(timer, work.call, work.synchronize, work.clock)
        work.synchronize()
    if isinstance(said, bool) or not isinstance(said, int | float) or not math.isfinite(said):
        return Mark("wrong", f"your timer returned {said!r}.", "It should return one number of seconds.")
    mistake = _mistake(work, float(said))
    truth = f"Your timer says {seconds(float(said))}; the work takes {seconds(work.true_s)} by construction"
    if mistake is None:
        return Mark("right", f"{truth} ({work.name}). It waits, warms up, repeats, and takes the median.")
    return Mark("wrong", f"{mistake[0]} {truth} ({work.name}).", mistake[1])


def _mistake(work: Clocked, said: float) -> tuple[str, str] | None:
    """The first mistake in the order in which they spoil a time, as (what, hint)."""
    if not work.calls:
        return "your timer never calls `call()`.", "It should run the work that it times."
    samples = samples_of(work.readings)
    if not samples:
        return "your timer does not read the clock around the call.", "Use the `clock()` that it is given."
    kept = [s for s in samples if s.first_call > 0]
    return _no_waiting(samples, kept) or _no_warm_up(samples, kept, said) or _too_few(kept) or _not_median(kept, said)


def samples_of(readings: list[Reading]) -> list[Sample]:
    """The intervals between readings of the clock that hold at least one call.

    >>> samples_of([Reading(0.0, 0, True), Reading(2.0, 1, False)])
    [Sample(seconds=2.0, first_call=0, calls=1, waited_before=True, waited_after=False)]
    """
    return [
        Sample(end.seconds - start.seconds, start.calls, end.calls - start.calls, start.idle, end.idle)
        for start, end in pairwise(readings)
        if end.calls > start.calls
    ]


def _no_waiting(samples: list[Sample], kept: list[Sample]) -> tuple[str, str] | None:
    if not all(s.waited_after for s in samples):
        return (
            "your timer stops the clock while the work is still running.",
            "The call only puts the work into the queue. Wait for its end before you read the clock again.",
        )
    if not all(s.waited_before for s in kept or samples):
        return (
            "your timer starts the clock while earlier work is still in the queue.",
            "Wait until the queue is empty, then read the clock. The warm-up call is earlier work too.",
        )
    return None


def _no_warm_up(samples: list[Sample], kept: list[Sample], said: float) -> tuple[str, str] | None:
    dropped = _near_middle(kept, said) and not _near_middle(samples, said)
    if len(kept) < len(samples) and not dropped:
        return (
            "the first call, which sets everything up, is among the times.",
            "Make one call that is not timed before the others. What sets up once is not part of the work.",
        )
    return None


def _too_few(kept: list[Sample]) -> tuple[str, str] | None:
    if any(s.calls > 1 for s in kept):
        return "your timer times several calls together.", "Read the clock before and after each single call."
    if len(kept) < FEWEST:
        return (
            f"your timer takes {len(kept)} time{'s' * (len(kept) != 1)}, and any of them may be disturbed.",
            f"Repeat the measurement: {FEWEST} times or more.",
        )
    return None


def _not_median(kept: list[Sample], said: float) -> tuple[str, str] | None:
    if _near_middle(kept, said):
        return None
    times = [s.seconds for s in kept]
    names = {fmean(times): "the mean", min(times): "the smallest", max(times): "the largest"}
    for value, name in names.items():
        if math.isclose(said, value, rel_tol=1e-9):
            return f"your timer returns {name} of its times.", "One disturbed call moves it. Return the median."
    if math.isclose(said, sum(times), rel_tol=1e-9):
        return "your timer returns the sum of its times.", "Return their median."
    return "your timer returns a number that is none of its times.", "Return the median of the times, in seconds."


def _near_middle(samples: list[Sample], said: float) -> bool:
    """Whether `said` is the median; either of the two middle times will do as well."""
    times = sorted(s.seconds for s in samples)
    if not times:
        return False
    middle = (times[(len(times) - 1) // 2], median(times), times[len(times) // 2])
    return any(math.isclose(said, m, rel_tol=1e-9) for m in middle)
