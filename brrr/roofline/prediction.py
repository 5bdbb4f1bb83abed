"""A prediction: how long something should take on a device, what limits it, and what that rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

from brrr.core import units
from brrr.core.cards import Card, Carded
from brrr.core.measurement import FIELDS, Badge
from brrr.counting.by_module import ByModule, by_module
from brrr.counting.cost import Cost, OperatorCost
from brrr.roofline.device_model import NOT_THIS_ONE, DeviceModel, Used, Where
from brrr.roofline.memory import Memory, memory_of
from brrr.roofline.peaks import short
from brrr.roofline.terms import KERNELS, OperatorTime

How = Literal["eager", "graph", "compiled"]
OnRoofline = tuple[dict[str, tuple[Cost, float]], DeviceModel | Where, list[str], Badge]
"""Work by name with its seconds, the device, the types of its products, and where the times come from."""

_BOUND = {
    "overhead": ("overhead-bound", "without its overhead it would be {} as fast"),
    "memory": ("memory-bound", "its bytes take {} as long as its arithmetic"),
    "compute": ("compute-bound", "its arithmetic takes {} as long as its bytes"),
    "under-filled": ("under-filled", "at the roof of its bytes and arithmetic it would be {} as fast"),
    "balanced": ("balanced", "bytes and arithmetic differ by {}"), "unknown": ("what limits it is not known", ""),
}  # fmt: skip
"""What limits it, and what its margin says."""


@dataclass(frozen=True, repr=False)
class Prediction(Carded):
    """Predicted times, named as in a `Measurement`, and what limits them.

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
        What limits it: "overhead" (the device waits for the host), "memory", "compute", "balanced", "under-filled"
        (the device works, and reaches neither roof) or "unknown".
    margin : float
        How clear `bound` is. For "overhead" and "under-filled": `period_s` over the time of its bytes and arithmetic
        alone. For the others: the factor by which the other resource could slow down before it became the limit.
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
        Operators whose time nothing tells. Then the times are lower bounds, and `bound` is "unknown"; `bounded` tells
        whether they say anything, and only then it prints "at least" and a time.
    kernels : tuple of OperatorCost
        What the last of `operators` are the times of.
    model : DeviceModel or None
        The figures of the device.
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
    kernels: tuple[OperatorCost, ...] = field(default=(), repr=False)
    model: DeviceModel | None = field(default=None, repr=False)
    _more = "memory_s", "compute_s", "memory", "too_large"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The sources of the figures that it rests on: "measured", "datasheet", "assumed"."""
        return tuple(kind for kind in ("measured", "datasheet", "assumed") if kind in {u.kind for u in self.basis})

    @cached_property
    def memory(self) -> Memory | None:
        """The peak of its memory, and what for; of a bare cost nobody knows what it needs at once."""
        return memory_of(self.cost, self.model) if self.model else None

    @property
    def too_large(self) -> str:
        """How much memory it takes, if the device has less; else nothing."""
        if self.memory is None or self.memory.fits:
            return ""
        needed, there = self.memory.reserved_bytes + self.memory.context_bytes, self.memory.device_bytes or 0
        return f"it needs {units.nbytes(needed)} at once and does not fit into the device's {units.nbytes(there)}"

    @property
    def memory_s(self) -> float:
        """The seconds that moving all the bytes takes."""
        return sum(each.memory_s for each in self.operators)

    @property
    def compute_s(self) -> float:
        """The seconds that all the arithmetic takes."""
        return sum(each.compute_s for each in self.operators)

    def by_module(self, diagnosis: Any = None) -> ByModule:
        """The work by module, with the predicted time of each, and with what a diagnosis of the same work measured.

        FLOP and bytes are those of the operators, as `cost` counts them. Times are those of the kernels that do their
        work on the device; the host's on a CPU. A kernel fused of several modules' operators counts in what holds them.
        """
        predicted = [(each.module, time_s) for each, time_s in zip(self.kernels, self._times, strict=True)]
        measured = [(each.name, each.time_s / diagnosis.steps) for each in diagnosis.modules] if diagnosis else []
        return by_module(self.cost.operators or self.kernels, predicted, measured)

    @property
    def _times(self) -> list[float]:
        """Seconds of each of `kernels`."""
        times = [each.device_s or (0.0 if self.busy_s is not None else each.host_s) for each in self.operators]
        return times[len(times) - len(self.kernels) :]

    def on_roofline(self) -> OnRoofline:
        """What `roofline_plot` shows of it: its operators, or all of a cost that has none."""
        badge, found = Badge("PREDICTED", self.device, "", ""), dict[str, tuple[Cost, float]]()
        for each, time_s in zip(self.kernels, self._times, strict=True):
            before, taken_s = found.get(each.name, (Cost(0.0, 0.0), 0.0))
            found[each.name] = Cost(before.flop + each.counted_flop, before.bytes + each.bytes), taken_s + time_s
        dtypes = {short(product.dtype) for each in self.kernels for product in each.matmuls}
        return found or {"all of it": (self.cost, self.period_s)}, self.model, sorted(dtypes), badge

    @property
    def bounded(self) -> bool:
        """Whether its times say something where they are lower bounds: most of them is of what is known.

        A solver or a decomposition waits for its own steps; the time of its bytes says nothing of it.
        """
        lost = {each.name for each in self.cost.operators if each.kind == "unknown"} - KERNELS.keys()
        told = sum(each.device_s or 0.0 for each in self.operators if each.name not in lost)
        return not lost & {*self.unknown} or told >= self.period_s / 2

    def __repr__(self) -> str:
        said, where, missing = _said(self)
        return f"PREDICTED: {said} ({'; '.join([where, *missing])})"

    def _card(self) -> Card:
        said, where, missing = _said(self)
        moving, computing = _limited(self.operators)
        busy_s = min(self.period_s, self.period_s - self.host_s if self.busy_s is None else self.busy_s)
        parts = {"overhead": self.period_s - busy_s, "memory": moving, "compute": computing}
        parts["under-filled"] = busy_s - moving - computing
        shares = {name: part / self.period_s for name, part in parts.items() if self.bound != "unknown" and part > 0}
        why = f": {_BOUND[self.bound][1].format(units.ratio(self.margin))}" * math.isfinite(self.margin)
        times = [(units.seconds(time), what) for name, what in FIELDS.items() if (time := getattr(self, name, None))]
        seen = [[("time", ""), *times]] * self.bounded
        rows = [_HEAD, *(_row(each, len(list(same))) for each, same in groupby(self.operators))]
        basis = [f"rests on ({self.origin}):", *map("  {}".format, self.basis), *map("note: {}".format, self.notes)]
        said, lines = f"{said}{why * bool(shares)}.".capitalize(), [f"{each}." for each in missing]
        return Card(said, lines, shares, f"PREDICTED · {where}", [*seen, rows, *basis], self.bound)


class Predictions(list[Prediction]):
    """The same work on several devices: a list that prints as one table."""

    def __repr__(self) -> str:
        rows = [("device", "a call", "on the device", "what limits it", "memory", "peaks")]
        for each in self:
            device = "" if each.busy_s is None else units.seconds(each.busy_s, 2)
            time = units.seconds(each.period_s, 2) if each.bounded else "not known"
            time = f"at least {time}" if each.unknown and each.bounded else time
            needed = units.nbytes(each.memory.peak_bytes) if each.memory else ""
            limit, peaks = _BOUND[each.bound][0], " and ".join(each.kinds)
            rows.append((each.device, time, device * each.bounded, limit, needed, peaks))
        said = (f"{each.device}: {each.too_large}" for each in self if each.too_large)
        return "\n".join(
            [f"PREDICTED, {', '.join(dict.fromkeys(_HOW[each.how] for each in self))}", *units.table(rows), *said]
        )

    def details(self) -> str:
        """Each prediction in full."""
        return "\n\n".join(each.details() for each in self)


def _said(found: Prediction) -> tuple[str, str, list[str]]:
    """The time and the bound, where they hold, and what is not in them."""
    time, limit = units.seconds(found.period_s, 2), _BOUND[found.bound][0]
    least = [f"at least {time}", limit] * found.bounded
    about = ", ".join([f"not known: {', '.join(found.unknown)}", *least] if found.unknown else [f"about {time}", limit])
    peaks = f"peaks: {' and '.join(found.kinds) or 'none'}"
    where = [found.device, *(note for note in found.notes if note in NOT_THIS_ONE), _HOW[found.how], peaks]
    return about, ", ".join(where), [found.too_large] * bool(found.too_large)


_HOW = {"eager": "eager", "graph": "as a CUDA Graph", "compiled": "compiled"}


# ---------------------------------------------------------------------------------------------------------------------
# A prediction in full: its operators, the figures it rests on, and what was simplified.

_HEAD = ("calls", "operator", "host", "bytes", "FLOP", "on the device")


def _row(each: OperatorTime, count: int) -> tuple[str, ...]:
    device = "nothing" if each.device_s is None else units.seconds(each.device_s) if each.known else "not known"
    computing = units.seconds(each.compute_s) if each.known else "unknown"
    return str(count), each.name, units.seconds(each.host_s), units.seconds(each.memory_s), computing, device


# ---------------------------------------------------------------------------------------------------------------------
# What limits a piece of work: overhead, memory, compute, the last two alike, or an under-filled GPU; and by how much.

Bound = Literal["overhead", "memory", "compute", "balanced", "under-filled", "unknown"]

RIDGE = 1.15
"""Memory and compute within 15 % of each other are balanced."""
GRAPH_GAIN = 1.3
"""What work without the host's part, as in a CUDA Graph, must gain for the host to be the limit."""
WORK_SHARE = 0.5
"""Where bytes and FLOP take less than this share of the time, neither of them is the limit."""


def bound_of(times: Sequence[OperatorTime], period_s: float, alone_s: float) -> tuple[Bound, float]:
    """The bound and its margin.

    `alone_s` is the period of the same kernels without the host's part. Overhead it is where that gains 1.3x; else
    under-filled, where bytes and FLOP take less than half of the time. The margin of both is the period over the time
    of bytes and FLOP alone. Else each operator's time goes to what limits it, half and half within 15 % of its ridge,
    and the larger sum is the bound. That margin is the factor by which the other resource could be slower.
    """
    work = sum(each.work_s for each in times)
    if (waits := period_s >= GRAPH_GAIN * alone_s) or work < WORK_SHARE * period_s:
        return "overhead" if waits else "under-filled", period_s / work if work else float("inf")
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
