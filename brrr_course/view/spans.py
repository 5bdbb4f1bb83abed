"""Timelines as data for `drawn/scene.js`: what ran when, of every variant and at every value of the slider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from brrr.core import units
from brrr.gpu import is_cpu
from brrr.tracing.spans import HOST_LANES, Kind
from brrr.tracing.timeline import Timeline, device_of, lane_title, verdict
from brrr_course.view.figure import Data, short, slider_of, told_once
from brrr_course.view.selection import NOT_YET, TimelineSelection, lanes_of

if TYPE_CHECKING:
    from brrr.core.measurement import Value

HUES: Mapping[Kind, str] = {
    "call": "faint", "operator": "sky", "launch": "overhead", "wait": "waiting", "kernel": "working",
    "copy in": "memory", "copy out": "memory", "copy": "memory", "memset": "ink",
}  # fmt: skip
"""A launch is overhead, a kernel the GPU's work, a copy bytes that move."""
MOST_ARROWS = 40
"""So many arrows from a launch to what it started can be told apart."""


def timelines_of(selection: TimelineSelection) -> Data:
    """What is drawn of a selection, which stands afterwards where it stood."""
    from brrr.drawing.timeline_figure import calls_shown, window_ns

    values = values_of(selection)
    found = [selection.at_place(variant, value) for variant in selection.variants for value in values] or [None]
    there = [each for each in found if each is not None]
    shown = min((calls_shown(each, selection.calls) for each in there), default=1)
    ends = [0 if each is None else window_ns(each, shown) for each in found]
    lanes = lanes_of(there)
    nothing = selection.message or (NOT_YET if selection.source.live else "Not traced here.")
    said = [(nothing, "") if each is None else (verdict(each), each.text) for each in found]
    return {
        "v": 1, "kind": "timeline", "name": selection.experiment.name,
        "title": f"{selection.experiment.title}: who waits for whom?",
        "sliders": _sliders(selection, values), "x": {"title": "time since the loop began", "unit": "s"},
        # all variants at a value share one scale of time, so that lengths can be compared
        "windows": [1e-9 * max(1, *ends[place % len(values) :: len(values)]) for place in range(len(found))],
        "rows": [_row(lane, lanes, there[0], found, ends) for lane in lanes], "gauges": _gauge(found),
        "arrows": [_arrows(each, lanes, end) for each, end in zip(found, ends, strict=True)],
        "badge": str(there[0].badge if there else selection.badge or ""), "alt": selection.alt, **told_once(said),
    }  # fmt: skip


def values_of(selection: TimelineSelection) -> list[Value | None]:
    """The slider's values: those at which any variant has a timeline; [None] where nothing varies."""
    there = {value for variant in selection.variants for value in selection.values_for(variant)}
    if selection.axis is None:
        return [None]
    known: list[Value | None] = [value for value in selection.axis.values if value in there]
    return [*known, *sorted((value for value in there - {*known} if value is not None), key=float)]


def _sliders(selection: TimelineSelection, values: Sequence[Value | None]) -> list[Data]:
    from brrr.drawing.style import readable

    labels, axis = [selection.experiment.variant(name).label for name in selection.variants], selection.axis
    at = selection.variants.index(selection.variant) if labels else 0
    sliders = [slider_of("variant", "variant", "choice", labels or [""], at)]
    if axis is not None:
        texts = [readable(value) for value in values if value is not None]
        form = "choice" if len(texts) == 2 else "range"
        sliders.append(slider_of(axis.name, axis.title, form, texts, values.index(selection.value)))
    return sliders


def _row(
    lane: str, lanes: Sequence[str], first: Timeline, found: Sequence[Timeline | None], ends: Sequence[int]
) -> Data:
    """A lane: its spans at each place, each with its start, its length, its hue and what may stand in it.

    Where a device has one stream, what is empty there is the device's idle time.
    """
    on_device = lane not in HOST_LANES and not is_cpu(first.kind)
    alone = on_device and [device_of(each) for each in lanes if each not in HOST_LANES].count(device_of(lane)) == 1
    return {
        "label": lane_title(first.kind, lane), "hue": "working" if on_device else "overhead",
        "gap": "overhead" if alone else "none", "between": ["idle"] if alone else [],
        "until": [1e-9 * end for end in ends],
        "at": [[] if each is None else _spans(each, lane, end) for each, end in zip(found, ends, strict=True)],
    }  # fmt: skip


def _spans(found: Timeline, lane: str, end_ns: int) -> list[list[Any]]:
    inside = [span for span in found.spans if span.lane == lane and span.start_ns <= end_ns]
    return [[short(span.start_ns * 1e-9), short((min(span.end_ns, end_ns) - span.start_ns) * 1e-9), HUES[span.kind],
             _inscription(span.kind, span.name, span.call)] for span in inside]  # fmt: skip


def _inscription(kind: Kind, name: str, call: int) -> str:
    """What stands in a bar where it fits: an operator's name, which way a copy goes, else the number of its call."""
    number = str(call + 1) if call >= 0 else ""
    return {"operator": name, "wait": "waits", "launch": "", "call": f"call {number}".strip(),
            "copy in": "copy to the GPU", "copy out": "copy from the GPU"}.get(kind, number)  # fmt: skip


def _arrows(found: Timeline | None, lanes: Sequence[str], end_ns: int) -> list[list[float]]:
    """From a launch to what it started: the rows and times of both; thinned out where there are many."""
    if found is None:
        return []
    shown = [
        [lanes.index(launch.lane), short(1e-9 * min(launch.end_ns, max(launch.start_ns, work.start_ns))),
         lanes.index(work.lane), short(1e-9 * work.start_ns)]
        for launch, work in found.arrows if work.start_ns <= end_ns
    ]  # fmt: skip
    return shown[:: max(1, -(-len(shown) // MOST_ARROWS))]


def _gauge(found: Sequence[Timeline | None]) -> list[Data]:
    """How long the device is idle, where every timeline tells."""
    shares = [None if each is None else each.idle_share for each in found]
    if not shares or any(each is not None and each.idle_share is None for each in found):
        return []
    at = [[short(share or 0.0), "" if share is None else units.percent(share, 2), "overhead"] for share in shares]
    return [{"label": "the GPU is idle", "max": 1, "at": at}]
