"""A timeline drawn for a class to read: labelled lanes, the device's idle time shaded, arrows from launch to work.

This module imports matplotlib, so load it inside the function that draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from brrr.core import units
from brrr.core.intervals import Interval, gaps
from brrr.drawing import style
from brrr.gpu import is_cpu, is_queue
from brrr.tracing.spans import HOST_LANES, Kind, Span
from brrr.tracing.timeline import Timeline, device_of, lane_title, verdict

MOST_CALLS, MOST_WORK = 8, 40
"""Without a wish, the picture shows as many calls as this, and as do this many things on the device."""
MOST_ARROWS, APART = 60, 14
"""No more arrows than this are drawn, and in each lane no two whose heads are fewer pixels apart."""

LEFT, RIGHT = 156, 22  # the margins beside the lanes, in CSS pixels; the lanes' names stand in the left one
TOP, BOTTOM = 88, 72
LANE = 46  # pixels from lane to lane
BAR = 0.56  # of that, the bars
SHORTEST = 1.2  # pixels: what is shorter is drawn so long, or it would not be seen
LETTER = 6.2  # pixels of one letter in a bar

COLOURS: Mapping[Kind, str] = {
    "call": "#b8c0c8", "operator": "#0072B2", "launch": "#E69F00", "wait": "#ffffff", "kernel": "#009E73",
    "copy in": "#D55E00", "copy out": "#CC79A7", "copy": "#56B4E9", "memset": "#000000",
}  # fmt: skip
TITLES: Mapping[Kind, str] = {
    "call": "call", "operator": "operator", "launch": "launch", "wait": "wait for the device", "kernel": "kernel",
    "copy in": "copy to GPU", "copy out": "copy from GPU", "copy": "copy on GPU", "memset": "memset",
}  # fmt: skip
QUEUE_TITLES: Mapping[Kind, str] = {
    **TITLES, "kernel": "work", "launch": "submit", "wait": "wait for the worker", "copy in": "copy in",
    "copy out": "copy out", "copy": "copy",
}  # fmt: skip
ON_DARK: tuple[Kind, ...] = ("operator", "kernel", "copy in", "memset")
IDLE = "#f6dfd3"


def picture(found: Timeline, calls: int | None = None) -> style.Picture:
    """The timeline as a picture for a notebook, with what it shows as alternative text."""
    return style.picture(draw(found, calls), alt(found))


def alt(found: Timeline) -> str:
    """The alternative text: the lanes, then what they show."""
    return f"A timeline with the lanes {', '.join(lane_title(found.kind, x) for x in found.lanes)}. {found.text}"


def draw(
    found: Timeline, calls: int | None = None, *, lanes: Sequence[str] = (), title: str = "",
    beside: Sequence[Timeline] = (),
) -> Figure:  # fmt: skip
    """The timeline as a figure: its first `calls` calls, or as many as can be read.

    `lanes` are those to draw, empty ones too, so that they stay where they are from one timeline to the next. It shows
    as many calls as those `beside` it and has their time scale, so that their lengths can be compared.
    """
    lanes = tuple(lanes) or found.lanes
    together = (found, *beside)
    shown = min(calls_shown(each, calls) for each in together)
    end_ns, scale_ns = window_ns(found, shown), max(window_ns(each, shown) for each in together)
    made = style.figure(style.WIDTH, TOP + BOTTOM + LANE * len(lanes))
    with rc_context(style.STYLE):
        on = _axes(made, found, lanes, scale_ns)
        _idle(on, found, lanes, end_ns)
        for lane in lanes:
            _lane(on, found, lane, lanes, end_ns)
        _arrows(on, found, lanes, end_ns)
        _legend(made, on, found)
        of = f"until call {shown} of {found.calls} ends" if shown < found.calls else f"{shown} call{'s' * (shown != 1)}"
        heading = f"{title}: {of}" if title else of
        for down, text, weight, most in ((12, heading, "normal", 105), (32, verdict(found), "bold", 85)):
            size = min(10.5, 10.5 * most / len(text))  # a long one must not run out of the figure
            made.text(0.012, 1 - down / _high(made), text, ha="left", va="top", fontsize=size, fontweight=weight)
    style.stamp(made, found.badge)
    return made


def calls_shown(found: Timeline, calls: int | None) -> int:
    """How many calls the picture shows: those wished for, or as many as can be read."""
    if calls is not None:
        return max(1, min(calls, found.calls))
    work = max(sum(span.on_device for span in found.spans), len(found.spans) // 4, 1)
    return max(1, min(found.calls, MOST_CALLS, int(MOST_WORK * found.calls / work)))


def window_ns(found: Timeline, calls: int) -> int:
    """Where the picture ends: with the last span of the calls shown."""
    if calls >= found.calls:
        return max(1, found.end_ns)
    return max([1, *(span.end_ns for span in found.spans if 0 <= span.call < calls)])


def _axes(made: Figure, found: Timeline, lanes: Sequence[str], scale_ns: int) -> Axes:
    high = _high(made)
    on = style.axes(made, LEFT / style.WIDTH, BOTTOM / high, 1 - RIGHT / style.WIDTH, 1 - TOP / high)
    on.set_xlim(0, scale_ns * 1.01)
    on.set_ylim(len(lanes) - 0.5, -0.5)
    on.set_yticks(range(len(lanes)), [lane_title(found.kind, lane) for lane in lanes])
    on.tick_params(axis="y", length=0)
    on.grid(visible=False, axis="y")
    on.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    on.xaxis.set_minor_locator(NullLocator())
    on.xaxis.set_major_formatter(FuncFormatter(lambda ns, _: style.tick_label(ns * 1e-9, "s") if ns else "0"))
    on.set_xlabel("time since the loop began")
    for place in range(1, len(lanes)):
        new = lanes[place] not in HOST_LANES and lanes[place - 1] in HOST_LANES
        on.axhline(place - 0.5, color=style.FAINT if new else "#e4e7eb", linewidth=1.1 if new else 0.8, zorder=1)
    return on


def _high(made: Figure) -> float:
    """The figure's height in CSS pixels."""
    return made.get_figheight() * style.WIDTH / made.get_figwidth()


def _pixel_ns(on: Axes) -> float:
    """How long one CSS pixel is."""
    return float(on.get_xlim()[1]) / (style.WIDTH - LEFT - RIGHT)


# -- the device's idle time -------------------------------------------------------------------------------------------


def idle_gaps(found: Timeline, end_ns: int, device: str = "") -> list[Interval]:
    """When no stream of the device did anything, up to the end of the picture."""
    if is_cpu(found.kind):
        return []
    return gaps((span.interval for span in found.device_spans() if device_of(span.lane) == device), 0, end_ns)


def _idle(on: Axes, found: Timeline, lanes: Sequence[str], end_ns: int) -> None:
    """Shade the gaps over all of a device's lanes; the long ones say so, and how long they are."""
    for device, own in groupby((lane for lane in lanes if lane not in HOST_LANES), device_of):
        mine = list(own)
        high, first = len(mine), lanes.index(mine[0])
        shaded = idle_gaps(found, end_ns, device)
        boxes = [Rectangle((start, first - 0.5), end - start, high) for start, end in shaded]
        on.add_collection(PatchCollection(boxes, facecolor=IDLE, edgecolor="none", zorder=0.5, gid="idle"))
        longest = sorted(shaded, key=lambda gap: gap[0] - gap[1])[:8]
        for start, end in longest:
            wide, full = (end - start) / _pixel_ns(on), f"idle {units.seconds((end - start) * 1e-9, 2)}"
            text = full if wide > LETTER * len(full) else "idle" if wide > 4.5 * LETTER else ""
            if text:
                on.text((start + end) / 2, first - 0.5 + high / 2, text, ha="center", va="center", fontsize=8.5,
                        color="#8a3b12", clip_on=True, zorder=4)  # fmt: skip


# -- bars and arrows --------------------------------------------------------------------------------------------------


def _lane(on: Axes, found: Timeline, lane: str, lanes: Sequence[str], end_ns: int) -> None:
    place, pixel = lanes.index(lane), _pixel_ns(on)
    inside = [span for span in found.spans if span.lane == lane and span.start_ns <= end_ns]
    for kind in dict.fromkeys(span.kind for span in inside):
        bars = [(span.start_ns, max(min(span.end_ns, end_ns) - span.start_ns, SHORTEST * pixel))
                for span in inside if span.kind == kind]  # fmt: skip
        wide = sum(length for _, length in bars) / len(bars) > 5 * pixel  # a slim bar would be all edge
        on.broken_barh(bars, (place - BAR / 2, BAR), linewidth=0.5, zorder=2.8 if kind == "wait" else 3,
                       gid=f"{lane} {kind}", **{"edgecolor": "white" if wide else "none", **_look(kind)})  # fmt: skip
    for span in inside:
        text = _inscription(span, end_ns, pixel)
        if text:
            middle = (span.start_ns + min(span.end_ns, end_ns)) / 2
            on.text(middle, place, text, ha="center", va="center", fontsize=8, clip_on=True, zorder=5,
                    color="white" if span.kind in ON_DARK else style.INK)  # fmt: skip


def _inscription(span: Span, end_ns: int, pixel: float) -> str:
    """What stands in a bar, if it fits: an operator's name; else the number of the call, on host and device alike."""
    wide = (min(span.end_ns, end_ns) - span.start_ns) / pixel - 4
    number = str(span.call + 1) if span.call >= 0 else ""
    if span.kind == "call":
        number = f"call {number}" if wide > LETTER * len(f"call {number}") else number
    text = {"operator": span.name, "wait": "waits", "launch": ""}.get(span.kind, number)
    return text if wide > LETTER * len(text) else ""


def arrows_shown(found: Timeline, end_ns: int, pixel_ns: float) -> list[tuple[Span, Span]]:
    """The arrows of the picture, to what a launch starts first in each lane; thinned out where heads would touch."""
    kept: list[tuple[Span, Span]] = []
    launched: set[tuple[Span, str]] = set()
    last: dict[str, float] = {}
    for launch, work in found.arrows:
        room = work.start_ns - last.get(work.lane, -end_ns) >= APART * pixel_ns
        if work.start_ns <= end_ns and room and (launch, work.lane) not in launched:
            kept.append((launch, work))
            launched.add((launch, work.lane))
            last[work.lane] = work.start_ns
    return kept[:: max(1, -(-len(kept) // MOST_ARROWS))]


def _arrows(on: Axes, found: Timeline, lanes: Sequence[str], end_ns: int) -> None:
    lines = list(_lines(arrows_shown(found, end_ns, _pixel_ns(on)), lanes))
    if not lines:
        return
    on.add_collection(LineCollection(lines, colors=style.INK, linewidths=0.7, alpha=0.6, zorder=2.6, gid="arrows"))
    xs, ys = zip(*(line[1] for line in lines), strict=True)
    on.scatter(xs, ys, marker="v", s=11, color=style.INK, alpha=0.7, linewidths=0, zorder=3.6)


def _lines(shown: Sequence[tuple[Span, Span]], lanes: Sequence[str]) -> Iterator[list[tuple[float, float]]]:
    for launch, work in shown:
        start = min((launch.start_ns + launch.end_ns) / 2, max(launch.start_ns, work.start_ns))
        above, below = lanes.index(launch.lane) + BAR / 2, lanes.index(work.lane) - BAR / 2
        yield [(start, above), (work.start_ns, below)]


def _legend(made: Figure, on: Axes, found: Timeline) -> None:
    """Above the lanes, where it hides nothing."""
    titles = QUEUE_TITLES if is_queue(found.kind) else TITLES
    kinds = [kind for kind in COLOURS if any(span.kind == kind for span in found.spans)]
    handles = [Patch(**_look(kind), linewidth=0.4, label=titles[kind]) for kind in kinds]
    if not is_cpu(found.kind):
        handles.append(Patch(facecolor=IDLE, edgecolor="#d9b9a6", linewidth=0.5, label="idle"))
    on.legend(
        handles=handles, ncols=len(handles), loc="upper left", bbox_transform=made.transFigure,
        bbox_to_anchor=(0.012, 1 - 56 / _high(made)), borderaxespad=0, borderpad=0, fontsize=8.5,
        handlelength=1.2, handleheight=0.9, columnspacing=1.1, handletextpad=0.4,
    )  # fmt: skip


def _look(kind: Kind) -> dict[str, Any]:
    hatched = {"hatch": "/////", "edgecolor": COLOURS["launch"]} if kind == "wait" else {}
    return {"facecolor": COLOURS[kind], **hatched}
