"""What limits a piece of work: overhead, memory or compute, or the last two alike; and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from brrr.roofline.terms import OperatorTime

Bound = Literal["overhead", "memory", "compute", "balanced"]

RIDGE = 1.15
"""Memory and compute within 15 % of each other are balanced."""
GRAPH_GAIN = 1.3
"""What a CUDA Graph must gain for the host to be the limit."""
WORK_SHARE = 0.5
"""Where bytes and FLOP take less than this share of the time, overhead is the limit."""


def bound_of(times: Sequence[OperatorTime], period_s: float, graph_s: float | None) -> tuple[Bound, float]:
    """The bound and its margin.

    `graph_s` is the period of the same kernels in a CUDA Graph, None where there is none to compare with. Overhead it
    is where a graph gains 1.3x, or where bytes and FLOP take less than half of the time; its margin is the period over
    the time of the work alone. Else each operator's time goes to what limits it, half and half within 15 % of its
    ridge, and the larger sum is the bound. That margin is the factor by which the other resource could be slower.
    """
    work = sum(each.work_s for each in times)
    if work < WORK_SHARE * period_s or (graph_s is not None and period_s >= GRAPH_GAIN * graph_s):
        return "overhead", period_s / work if work else float("inf")
    moving, computing = _limited(times)
    larger, smaller = max(moving, computing), min(moving, computing)
    if larger <= RIDGE * smaller:
        return "balanced", _ratio(*_whole(times)) if moving == computing else larger / smaller
    bound: Bound = "memory" if moving > computing else "compute"
    if smaller > 0:
        return bound, larger / smaller
    memory, compute = _whole(times)
    return bound, (_over(memory, compute) if bound == "memory" else _over(compute, memory))


def _limited(times: Sequence[OperatorTime]) -> tuple[float, float]:
    """Seconds limited by memory, and by compute."""
    moving = computing = 0.0
    for each in times:
        if _ratio(each.memory_s, each.compute_s) <= RIDGE:
            moving, computing = moving + each.work_s / 2, computing + each.work_s / 2
        elif each.memory_s > each.compute_s:
            moving += each.work_s
        else:
            computing += each.work_s
    return moving, computing


def _whole(times: Sequence[OperatorTime]) -> tuple[float, float]:
    return sum(each.memory_s for each in times), sum(each.compute_s for each in times)


def _ratio(one: float, other: float) -> float:
    """The larger of two over the smaller."""
    return _over(max(one, other), min(one, other))


def _over(one: float, other: float) -> float:
    return one / other if other > 0 else float("inf")
