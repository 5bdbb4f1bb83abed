"""Short samples of a call by the host's clock: what a loop of it takes, and what issuing it costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from brrr.errors import BrrrError
from brrr.measurement import Estimate
from brrr.timing.host_times import HostTimes

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
