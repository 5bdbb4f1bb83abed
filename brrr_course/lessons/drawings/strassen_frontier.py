"""The drawing of time against error with the size as a slider: the frontier a line, what is beaten small and hollow."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import cos, sin
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, NullLocator
from matplotlib.transforms import Bbox

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr_course.experiments.strassen import Place, accuracy_of, apart, chosen, places, way_of
from brrr_course.lessons.drawings import Dial, LessonDrawing, Made
from brrr_course.lessons.strassen_levels import described, sizes_with_errors
from brrr_course.nouns.source import Source

SIDES = ("as they come", "prepared")
HEIGHT = 500

FAMILIES = (
    ("float32, no tensor cores", ("sgemm",), 0), ("float32's accuracy through tensor cores", ("fp16x3", "torch"), 1),
    ("TF32", ("tf32",), 2), ("bfloat16", ("bf16",), 3), ("float16", ("fp16",), 5),
)  # fmt: skip
"""Groups of inner products, with the colour and the marker of each."""

ONE_RING = 16.0
"""Rings nearer to each other than so many pixels share a name."""

RADIUS, DIRECTIONS = 6.0, 16
RINGS = (9, 15, 24, 36, 50, 66, 84, 104, 130, 160)
"""So many pixels from its marker a name is tried, in so many directions; a marker takes up its radius."""


def drawing(source: Source) -> Made:
    """Two sliders: the size, and whether the right sides are prepared; NotRecordedError where nothing was measured."""
    there = sizes_with_errors(source)
    if not there:
        what = f"{source.name} has no time with its error"
        raise NotRecordedError(f"drawing: {what}; `brrr record strassen` measures them")
    start = max(there, key=lambda size: (len(frontier(source, size)), size))
    dials = (Dial("size", "size", tuple(there), start=start), Dial("right", "right sides", SIDES))
    return dials, partial(draw, source=source), str(source.badge(described()))


DRAWING = LessonDrawing("strassen-frontier", drawing)


def text(places: Sequence[Place]) -> str:
    """The frontier's names, its two ends, and how many ways are beaten: three lines above the picture, not more."""
    best = [place for place in places if not place.dominated_by]
    named = ", ".join(short(place.variant) for place in best)
    ends = " to ".join(f"{units.seconds(p.time_s)} (error {p.error:.1e})" for p in dict.fromkeys((best[0], best[-1])))
    said = f"on the frontier are {named}: {ends}. {len(places) - len(best)} of {len(places)} ways are dominated."
    return said + clocks_note(place.clock_hz for place in places)


def draw(settings: Mapping[str, Value], source: Source) -> Picture:
    """Every way a marker with its name, the frontier's joined; around them rings for what `matmul` took."""
    size, prepared = int(settings["size"]), settings["right"] == "prepared"
    places = frontier(source, size, prepared=prepared)
    taken = [] if prepared else chosen(source, size)
    made = style.figure(height=HEIGHT)
    on = style.axes(made, left=0.105, bottom=0.135, right=0.96, top=0.81)
    _axes(on, [*places, *taken], f"time of a product of size {size}{', right sides prepared' * prepared}")
    _markers(on, places, taken)
    _names(on, places, taken)
    _legend(on, places, taken)
    return style.picture(made, text(places))


def _axes(on: Axes, places: Sequence[Place], label: str) -> None:
    times, errors = [p.time_s for p in places], [p.error for p in places]
    on.set_xscale("log")
    on.set_yscale("log")
    on.set_xlim(*_room(times, 0.09, 0.14))
    on.set_ylim(*_room(errors, 0.12, 0.1))
    style.bar_axis(on, "s", f"{label} (less is better)")
    for axis, values in ((on.xaxis, times), (on.yaxis, errors)):  # one tick a decade would leave few of one or two
        few = max(values) < 30 * min(values)
        axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=12))
    on.yaxis.set_minor_locator(NullLocator())
    on.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}".replace("e-0", "e-"))
    on.set_ylabel("relative error (less is better)")


def _room(values: Sequence[float], below: float, above: float) -> tuple[float, float]:
    """The limits of a log axis: so large a share of it stays free at each end."""
    low, high = min(values), max(values)
    spread = max(high / low, 4.0)
    return low / spread**below, high * spread**above


def _markers(on: Axes, places: Sequence[Place], taken: Sequence[Place]) -> None:
    best = [place for place in places if not place.dominated_by]
    on.plot([p.time_s for p in best], [p.error for p in best], color=style.FAINT, linewidth=1.2, zorder=2,
            drawstyle="steps-post")  # fmt: skip
    for place in places:
        index, beaten = family(place.variant), bool(place.dominated_by)
        look: dict[str, Any] = {"markeredgecolor": style.COLOURS[index], "marker": style.MARKERS[index]}
        look |= {"markerfacecolor": style.PAPER if beaten else style.COLOURS[index], "markersize": 4.5 if beaten else 8}
        on.plot([place.time_s], [place.error], linestyle="", zorder=4, **look)
    for place in taken:
        on.plot([place.time_s], [place.error], "o", markersize=14, markerfacecolor="none", color=style.INK, zorder=5)
        on.plot([place.time_s], [place.error], "o", markersize=2.5, color=style.INK, zorder=6)


def family(variant: str) -> int:
    """The number of a variant's colour and marker.

    >>> family("sgemm-strassen-2"), family("torch-fp16x3"), family("cpu-fp16x3")
    (0, 1, 1)
    """
    way = way_of(variant)
    inner = way.inner if way is not None else "torch"
    return next(index for _, inners, index in FAMILIES if inner in inners)


def _legend(on: Axes, places: Sequence[Place], taken: Sequence[Place]) -> None:
    here = {family(place.variant) for place in places}
    signs = [Line2D([], [], linestyle="", marker=style.MARKERS[index], color=style.COLOURS[index], label=title)
             for title, _, index in FAMILIES if index in here]  # fmt: skip
    signs.append(Line2D([], [], linestyle="", marker="o", markersize=4.5, markerfacecolor="none", color=style.FAINT,
                        label="small and hollow: another is faster and no less accurate"))  # fmt: skip
    if taken:
        signs.append(Line2D([], [], linestyle="", marker="$\\odot$", markersize=11, color=style.INK,
                            label="matmul(accuracy=), measured by itself"))  # fmt: skip
    stars = any(place.variant.endswith("-prepared") for place in places)
    title = "S, W: levels of Strassen's or Winograd's form" + "; *: right side prepared" * stars
    on.legend(handles=signs, title=title, ncols=2, fontsize=8.5, title_fontsize=8.5, loc="lower left",
              bbox_to_anchor=(-0.09, 1.0), borderaxespad=0.3, handletextpad=0.5, labelspacing=0.3,
              alignment="left", frameon=False)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Names beside markers: none lies on another name, on a marker or outside the axes, where there is room.


def _names(on: Axes, places: Sequence[Place], taken: Sequence[Place]) -> None:
    """The frontier's first, so that they stand nearest; a thin line leads to a name further away."""
    best = [place for place in places if not place.dominated_by]
    named = [(short(place.variant), place) for place in best] + _rings(on, taken)
    named += [(_beaten(place), place) for place in places if place.dominated_by]
    full = [Bbox(_pixels(on, place) + RADIUS * style.SHARP * np.array([[-1, -1], [1, 1]])) for _, place in named]
    line = _line([_pixels(on, place) for place in best])
    for name, place in named:
        faint = bool(place.dominated_by)
        label = on.annotate(
            name, (place.time_s, place.error), (0, 0), textcoords="offset pixels", ha="center", va="center",
            fontsize=7.5 if faint else 8.8, color=style.FAINT if faint else style.INK, zorder=6,
            gid=f"label {place.variant}", arrowprops={"arrowstyle": "-", "color": style.FAINT, "linewidth": 0.6},
            path_effects=[withStroke(linewidth=2.2, foreground=style.PAPER)],
        )  # fmt: skip
        ring, label.xyann = free(label.get_window_extent(), full, line, on.bbox)
        assert label.arrow_patch is not None
        label.arrow_patch.set_visible(ring > RINGS[1])


def _line(corners: Sequence[Any]) -> list[Bbox]:
    """The frontier's line as boxes: across to the next time, then down to its error."""
    boxes = []
    for (x, y), (next_x, next_y) in pairwise(corners):
        boxes += [Bbox([[x, y], [next_x, y]]), Bbox([[next_x, next_y], [next_x, y]])]
    return [box.padded(style.SHARP) for box in boxes]


def free(box: Bbox, full: list[Bbox], line: list[Bbox], frame: Bbox) -> tuple[int, tuple[float, float]]:
    """How far from its marker, and where, a name lies on as little as may be; its place is taken from then on."""

    def cost(tried: tuple[int, tuple[float, float]]) -> float:
        moved = box.translated(*tried[1])
        inside = frame.containsx(moved.x0) and frame.containsx(moved.x1) and frame.containsy(moved.y0)
        crossed = 100 * moved.count_overlaps(line) + 1000 * moved.count_overlaps(full)
        return tried[0] + crossed + 4000 * (not inside or not frame.containsy(moved.y1))

    tries = [
        (ring, ((ring * style.SHARP + box.width / 2) * cos(angle), (ring * style.SHARP + box.height / 2) * sin(angle)))
        for ring in RINGS
        for angle in np.linspace(0, 2 * np.pi, DIRECTIONS, endpoint=False)
    ]
    found = min(tries, key=cost)
    full.append(box.translated(*found[1]))
    return found


def _pixels(on: Axes, place: Place) -> Any:
    return on.transData.transform((place.time_s, place.error))


def _beaten(place: Place) -> str:
    """Of a beaten way the levels alone, where it has some: marker and colour tell the rest."""
    way = way_of(place.variant)
    return short(place.variant).rpartition(" ")[2] if way is not None and way.level else short(place.variant)


def _rings(on: Axes, taken: Sequence[Place]) -> list[tuple[str, Place]]:
    """One name for the rings that lie on each other: `matmul(fp32, 1e-5)`."""
    groups: dict[tuple[float, ...], list[Place]] = {}
    for place in taken:
        groups.setdefault(tuple((_pixels(on, place) / (ONE_RING * style.SHARP)).round()), []).append(place)
    return [(f"matmul({', '.join(accuracy_of(p.variant) for p in group)})", group[0]) for group in groups.values()]


# ---- the ways of a size ----


def judged(found: Sequence[Place]) -> list[Place]:
    """Each place with the fastest other one that beats it, the fastest first."""
    ordered = sorted(found, key=lambda place: (place.time_s, place.error))
    return [replace(p, dominated_by=next((o.variant for o in ordered if o.beats(p)), "")) for p in ordered]


def frontier(source: Source, size: int, *, prepared: bool = False) -> list[Place]:
    """All ways that a source has at a size, judged: those that time everything, or those with a prepared right side.

    With `prepared` a way that has a prepared twin is left out for it; what `matmul` chose is never among them.
    """
    found = [(place, way_of(place.variant)) for place in places(source, size) if not accuracy_of(place.variant)]
    ready = {way for _, way in found if way is not None and way.prepared}
    left_out = {replace(way, prepared=False) for way in ready} if prepared else ready
    return judged([place for place, way in found if way not in left_out])


def clocks_note(clocks: Iterable[float | None]) -> str:
    """A sentence for times that stand beside each other though they were measured at different clocks, else nothing.

    >>> clocks_note([1.98e9, 1.40e9])
    ' As measured, at SM clocks of 1.4 GHz to 1.98 GHz: a power limit held some back.'
    """
    known = [each for each in clocks if each]
    if not apart(known):
        return ""
    low, high = (units.quantity(each, "Hz") for each in (min(known), max(known)))
    return f" As measured, at SM clocks of {low} to {high}: a power limit held some back."


def short(name: str) -> str:
    """How a variant reads beside its marker: S or W with the levels, a star for a prepared right side.

    >>> short("sgemm-strassen-2-prepared"), short("cpu-sgemm-winograd-1"), short("auto-fp32"), short("torch-fp16x3")
    ('sgemm S2*', 'sgemm W1', 'matmul(fp32)', 'torch fp16x3')
    """
    found = way_of(name)
    if found is None:
        accuracy = accuracy_of(name)
        return f"matmul({accuracy})" if accuracy else name.replace("-", " ")
    level = f" {str(found.form)[0].upper()}{found.level}" if found.level else ""
    return f"{found.inner}{level}{'*' * found.prepared}"
