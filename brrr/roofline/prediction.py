"""A prediction: how long something should take on a device, what limits it, and what that rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from brrr.core import units
from brrr.counting.cost import Cost
from brrr.roofline.device_model import STANDS_IN, Used
from brrr.roofline.terms import OperatorTime

How = Literal["eager", "graph", "compiled"]

_BOUND = {
    "overhead": "overhead-bound", "memory": "memory-bound", "compute": "compute-bound", "balanced": "balanced",
    "unknown": "what limits it is not known",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Prediction:
    """Predicted times, under the names that a `Measurement` has, and what limits them.

    >>> from brrr.counting.cost import Cost
    >>> from brrr.roofline.predicting import predict
    >>> found = predict(Cost(flop=2**26, bytes=2**29), device="datasheet:h200")
    >>> found.bound, f"{found.period_s * 1e6:.0f} µs"
    ('memory', '132 µs')

    `predict` returns it. It prints as one sentence; `details()` lists operators and figures.

    Attributes
    ----------
    device : str
        The device that it is for.
    how : {"eager", "graph", "compiled"}
        How the work is launched.
    calls : int
        The number of calls in the loop of `period_s`.
    period_s : float
        Seconds per call in that loop.
    latency_s : float
        Seconds of one call on an idle device, until its result is there.
    host_s : float
        Seconds that the host takes to launch a call.
    span_s, busy_s : float or None
        Seconds on the device, with and without the gaps between kernels; None on a CPU.
    bound : str
        What limits it: "overhead", "memory", "compute", "balanced" or "unknown".
    margin : float
        How clear that is: if overhead limits it, `period_s` over the time of the work alone; else the factor by which
        the other resource could be slower before it were the limit.
    operators : tuple of OperatorTime
        The times of the kernels and calls one by one.
    cost : Cost
        The FLOP and bytes that were counted.
    origin : str
        Where the peaks come from.
    basis : tuple of Used
        The figures used, each measured, from a datasheet, or assumed.
    notes : tuple of str
        What was simplified.
    unknown : tuple of str
        Operators whose FLOP no formula gives. Then the times are lower bounds, and `bound` is "unknown".
    too_large : str
        How much memory the work takes, if the device has less.
    """

    device: str
    how: How
    calls: int
    period_s: float
    latency_s: float
    host_s: float
    span_s: float | None
    busy_s: float | None
    bound: Bound
    margin: float
    operators: tuple[OperatorTime, ...]
    cost: Cost
    origin: str
    basis: tuple[Used, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = field(default=())
    too_large: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Where the figures come from that it rests on: "measured", "datasheet", "assumed"."""
        return tuple(kind for kind in ("measured", "datasheet", "assumed") if kind in {u.kind for u in self.basis})

    @property
    def memory_s(self) -> float:
        """The seconds that moving all the bytes takes."""
        return sum(each.memory_s for each in self.operators)

    @property
    def compute_s(self) -> float:
        """The seconds that all the arithmetic takes."""
        return sum(each.compute_s for each in self.operators)

    def details(self) -> str:
        """The operators one by one, every figure used with its origin, and the notes, as text."""

        return details(self)

    def __str__(self) -> str:
        about = "at least" if self.unknown else "about"
        missing = f"; FLOP unknown: {', '.join(self.unknown)}" if self.unknown else ""
        missing += f"; {self.too_large}" if self.too_large else ""
        stands_in = f", {STANDS_IN}" if STANDS_IN in self.notes else ""
        where = f"{self.device}{stands_in}, {_HOW[self.how]}, peaks: {' and '.join(self.kinds) or 'none'}"
        return f"PREDICTED: {about} {units.seconds(self.period_s, 2)}, {_BOUND[self.bound]} ({where}{missing})"

    def __repr__(self) -> str:
        return str(self)


_HOW = {"eager": "eager", "graph": "as a CUDA Graph", "compiled": "compiled"}


# ---------------------------------------------------------------------------------------------------------------------
# A prediction in full: its operators, the figures it rests on, and what was simplified.

_HEAD = ("calls", "operator", "host", "bytes", "FLOP", "on the device")


def details(prediction: Prediction) -> str:
    """Equal neighbours stand on one line, with the times of one of them."""
    runs = [(each, len(list(same))) for each, same in groupby(prediction.operators)]
    rows = [_HEAD, *(_row(each, count) for each, count in runs)]
    return "\n".join([str(prediction), *_times(prediction), "", *units.table(rows), "", *_origins(prediction)])


def _row(each: OperatorTime, count: int) -> tuple[str, ...]:
    device = "nothing" if each.device_s is None else units.seconds(each.device_s)
    computing = units.seconds(each.compute_s) if each.known else "unknown"
    return str(count), each.name, units.seconds(each.host_s), units.seconds(each.memory_s), computing, device


def _times(prediction: Prediction) -> list[str]:
    names = ("period_s", "span_s", "busy_s", "host_s", "latency_s")
    times = [(name, getattr(prediction, name)) for name in names]
    margin = f"margin {units.ratio(prediction.margin)}" if prediction.bound != "unknown" else "no margin"
    return [", ".join([*(f"{name} {units.seconds(time)}" for name, time in times if time is not None), margin])]


def _origins(prediction: Prediction) -> list[str]:
    return [
        f"rests on ({prediction.origin}):",
        *(f"  {used}" for used in prediction.basis),
        *(f"note: {note}" for note in prediction.notes),
    ]


# ---------------------------------------------------------------------------------------------------------------------
# What limits a piece of work: overhead, memory or compute, or the last two alike; and by how much.

Bound = Literal["overhead", "memory", "compute", "balanced", "unknown"]

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
    memory, compute = sum(each.memory_s for each in times), sum(each.compute_s for each in times)
    if max(moving, computing) <= RIDGE * min(moving, computing):
        alone = all(_ratio(each.memory_s, each.compute_s) <= RIDGE for each in times)
        return "balanced", _ratio(memory, compute) if alone else _ratio(moving, computing)
    by_memory = moving > computing
    if min(moving, computing) > 0:
        memory, compute = moving, computing
    return ("memory", _over(memory, compute)) if by_memory else ("compute", _over(compute, memory))


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


def _ratio(one: float, other: float) -> float:
    """The larger of two over the smaller."""
    return _over(max(one, other), min(one, other))


def _over(one: float, other: float) -> float:
    return one / other if other > 0 else float("inf")
