"""Which measured host cost counts for an operator: that of its own call where there is one, else that of its class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, repeat
from typing import NamedTuple

from brrr.core.errors import ArgumentError
from brrr.counting.cost import OperatorCost
from brrr.roofline.basis import Basis
from brrr.roofline.peaks.peak import Curve, Peak
from brrr.roofline.peaks.peaks import Peaks

WHOLE = "whole"
"""The kind of a cost that does not tell its operators."""

CLASS: Mapping[str, str] = {
    "view": "view", "copy": "copy", "pointwise": "pointwise", "reduction": "reduction", "softmax": "softmax",
    "norm": "norm", "matmul": "matmul", "fused": "pointwise",
    "scan": "reduction", "loss": "reduction", "pooling": "reduction", "index": "pointwise", "random": "pointwise",
    "convolution": "matmul", "attention": "matmul", "recurrent": "matmul", "unknown": "pointwise",
}  # fmt: skip
"""Which measured class counts for which kind of operator."""

OWN: Mapping[str, str] = {
    "aten.relu": "relu", "aten.clamp": "relu", "aten.clamp_min": "relu", "aten.addmm": "addmm", "aten.clone": "clone",
    "aten.t": "transpose", "aten.transpose": "transpose", "aten.select": "select", "aten.slice": "select",
    "aten._to_copy": "cast", "aten.native_batch_norm": "batch-norm", "aten._fused_rms_norm": "rms-norm",
}  # fmt: skip
"""Operators whose own host cost is measured; a bound of relu is a number, which Python hands over at a price."""


def host_class(each: OperatorCost, basis: Basis) -> str:
    """The name, behind `host.`, of the figure that counts; a class that stands in for another one becomes a note."""
    for name in _nearest(each):
        if basis.has(f"host.{name}"):
            return name
    found = CLASS.get(each.kind, "pointwise")
    if found != each.kind and each.kind not in ("fused", WHOLE):
        basis.note(f"issuing {each.kind} operators counts as issuing {found} ones")
    return found


def behind_transpose_s(each: OperatorCost, before: str, basis: Basis) -> float | None:
    """What a product costs right behind a transpose: both are one call of `F.linear`, which was measured as a module.

    None where that is not so, or was not measured.
    """
    needed = ("host.linear", "host.module", "host.transpose")
    if (before, each.name) != ("aten.t", "aten.mm") or not all(map(basis.has, needed)):
        return None
    linear, module, transpose = map(basis.value, needed)
    return max(0.0, linear - module - transpose)


def _nearest(each: OperatorCost) -> Iterator[str]:
    """Figures nearer to a call than that of its class: a number in place of a tensor, in place, one tensor alone."""
    if each.name in OWN:
        yield OWN[each.name]
    if each.kind == "pointwise" and each.name.endswith("_"):
        yield "in-place-scalar" if each.form.name == "scalar" else "in-place"
        yield "in-place"
    if each.form.name == "scalar":
        yield "scalar"
    if each.kind == "pointwise" and len(each.shapes) == 1 and each.shapes[0] and each.form.name == "":
        yield "unary"
    if each.kind == "reduction" and each.form.name in ("rows", "columns"):
        yield "reduction-rows"
    if each.name == "aten.view" and each.shapes and len(each.shapes[0]) == 1:
        yield "view-shape"


# ---------------------------------------------------------------------------------------------------------------------
# The same peaks on a host that is faster or slower just now: its costs go together, the device's do not follow.

REFERENCE = "host.relu"
"""The call whose cost stands for the host's speed: a relu of 8 x 8 numbers."""
REPLAY = "graph-replay"


def at_host_speed(peaks: Peaks, relu_s: float) -> Peaks:
    """The peaks with every host cost times `relu_s` over the calibrated cost of the same call, in seconds.

    A processor that others share is not equally fast from one minute to the next; a figure taken a moment before tells
    how fast it is now. MissingPeakError where the reference was not calibrated; ArgumentError for a time not above 0.
    """
    if not 0 < relu_s < float("inf"):
        raise ArgumentError("at_host_speed", "relu_s", relu_s, "a time in seconds, above 0")
    by = relu_s / peaks.get(REFERENCE).value
    measured = {name: _times(peak, by) if name.startswith("host.") else peak for name, peak in peaks.measured.items()}
    curves = {name: _curve(curve, by) if name == REPLAY else curve for name, curve in peaks.curves.items()}
    return replace(peaks, measured=measured, curves=curves)


def without_host(peaks: Peaks) -> Peaks:
    """The device's own figures, equal whatever the host's speed, so that what rests on them can be kept.

    >>> relu = Peak(5e-6, 5e-6, 5e-6, "s")
    >>> dict(without_host(Peaks("Some GPU", "cuda", "2026-01-01", measured={"host.relu": relu})).measured)
    {}
    """
    measured = {name: peak for name, peak in peaks.measured.items() if not name.startswith("host.")}
    return replace(
        peaks, measured=measured, curves={name: peaks.curves[name] for name in peaks.curves if name != REPLAY}
    )


def _curve(curve: Curve, by: float) -> Curve:
    return replace(curve, points=tuple((place, _times(peak, by)) for place, peak in curve.points))


def _times(peak: Peak, by: float) -> Peak:
    return replace(peak, value=peak.value * by, low=peak.low * by, high=peak.high * by)


# ---------------------------------------------------------------------------------------------------------------------
# Two clocks: the host issues one operator after the other, and the device does each when both are ready for it.


class Step(NamedTuple):
    """One operator: what it costs the host to issue, and the device to do (None: nothing runs there)."""

    host_s: float
    device_s: float | None


class Moment(NamedTuple):
    """When one operator was issued, and from when to when the device did it; both as issued if nothing ran there."""

    issued_s: float
    start_s: float
    end_s: float


def schedule(steps: Iterable[Step], gap_s: float = 0.0) -> Iterator[Moment]:
    """The moments of a chain, from an idle device on; `gap_s` lies between two kernels that do not wait for the host.

    >>> [tuple(moment) for moment in schedule([Step(2.0, 1.0), Step(2.0, 5.0), Step(2.0, 1.0)], gap_s=0.5)]
    [(2.0, 2.0, 3.0), (4.0, 4.0, 9.0), (6.0, 9.5, 10.5)]
    """
    issued, free = 0.0, float("-inf")
    for host_s, device_s in steps:
        issued += host_s
        if device_s is None:
            yield Moment(issued, issued, issued)
            continue
        start = max(issued, free + gap_s)
        free = start + device_s
        yield Moment(issued, start, free)


def period_s(steps: list[Step], calls: int, gap_s: float = 0.0) -> float:
    """Seconds a call of `calls` calls without synchronising, until host and device are through.

    >>> period_s([Step(2.0, 1.0), Step(2.0, 5.0)], calls=1), period_s([Step(2.0, 1.0), Step(2.0, 5.0)], calls=100)
    (9.0, 6.03)
    """
    last = 0.0
    for moment in schedule(chain.from_iterable(repeat(steps, calls)), gap_s):
        last = max(last, moment.issued_s, moment.end_s)
    return last / calls


def span_s(steps: Iterable[Step], gap_s: float = 0.0) -> float:
    """Seconds from the first start to the last end on the device when everything is issued already.

    >>> span_s([Step(2.0, 1.0), Step(1.0, None), Step(2.0, 5.0)], gap_s=0.5)
    6.5
    """
    times = [device_s for _, device_s in steps if device_s is not None]
    return sum(times) + gap_s * max(0, len(times) - 1)
