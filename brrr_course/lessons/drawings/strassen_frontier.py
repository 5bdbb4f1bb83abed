"""The drawing of time against error with the size as a slider: the frontier a line, what is beaten small and hollow.

This module's functions load matplotlib when they draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from math import cos, hypot, inf, pi, sin
from typing import TYPE_CHECKING, Any

from brrr.core import units
from brrr.core.measurement import Value
from brrr_course.experiments.strassen.frontier import Place, chosen, clocks_note, frontier
from brrr_course.experiments.strassen.ways import accuracy_of, short, way_of
from brrr_course.lessons.drawings import Dial, Drawing, LessonDrawing
from brrr_course.lessons.drawings.strassen_panel import described, size_dial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from brrr.drawing.style import Picture
    from brrr_course.nouns.source import Source
    from brrr_course.view.display import Lock

SIDES = ("as they come", "prepared")
HEIGHT = 500
POINTS = 0.72
"""A CSS pixel in points: the picture has 100 of them an inch."""

FAMILIES = (
    ("float32, no tensor cores", ("sgemm",), 0), ("float32's accuracy through tensor cores", ("fp16x3", "torch"), 1),
    ("TF32", ("tf32",), 2), ("bfloat16", ("bf16",), 3), ("float16", ("fp16",), 5),
)  # fmt: skip
"""Groups of inner products, with the colour and the marker of each."""

ONE_RING = 16.0
"""Rings nearer to each other than so many pixels share a name."""


def drawing(source: Source, at: Mapping[str, Value], unlock: Lock | None) -> Drawing:
    """Two sliders: the size, and whether the right sides are prepared; NotRecordedError where nothing was measured."""
    dials = (size_dial(source), Dial("right", "right sides", SIDES))
    return Drawing(dials, partial(draw, source=source), at, badge=str(source.badge(described())), unlock=unlock)


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
    from brrr.drawing import style

    size, prepared = int(settings["size"]), settings["right"] == "prepared"
    places = frontier(source, size, prepared=prepared)
    taken = [] if prepared else chosen(source, size)
    made = style.figure(height=HEIGHT)
    on = style.axes(made, left=0.105, bottom=0.135, right=0.96, top=0.81)
    _axes(on, [*places, *taken], f"time of a product of size {size}{', right sides prepared' * prepared}")
    _markers(on, places, taken)
    _names(on, places, taken)
    _legend(on, places, taken)
    style.stamp(made, source.badge(described()))
    return style.picture(made, text(places))


def _axes(on: Axes, places: Sequence[Place], label: str) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    from brrr.drawing import style

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
    from brrr.drawing import style

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
    from matplotlib.lines import Line2D

    from brrr.drawing import style

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
# Names beside markers: none lies on another name, on a marker or outside the axes.

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in pixels."""

RINGS = (12.0, 20.0, 30.0, 42.0, 56.0, 72.0, 90.0, 110.0, 135.0, 165.0)
DIRECTIONS = 16


@dataclass(frozen=True)
class Spot:
    """A marker's place and its radius, and the room that its name takes, in pixels."""

    x: float
    y: float
    width: float
    height: float
    radius: float = 7.0


def _names(on: Axes, places: Sequence[Place], taken: Sequence[Place]) -> None:
    """The frontier's first, so that they stand nearest; a thin line leads to a name further away."""
    from matplotlib.patheffects import withStroke

    from brrr.drawing import style

    best = [place for place in places if not place.dominated_by]
    named = [(short(place.variant), place) for place in best] + _rings(on, taken)
    named += [(_beaten(place), place) for place in places if place.dominated_by]
    spots = [_spot(on, *each) for each in named]
    box = on.get_window_extent()
    frame = tuple(float(edge) / style.SHARP for edge in (box.x0, box.y0, box.x1, box.y1))
    for (name, place), spot, (x, y) in zip(named, spots, placed(spots, frame, _steps(spots[: len(best)])), strict=True):  # type: ignore[arg-type]
        away = max(abs(x + spot.width / 2 - spot.x) - spot.width / 2, abs(y - spot.y)) > 14
        arrow = {"arrowstyle": "-", "color": style.FAINT, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
        on.annotate(
            name, xy=(place.time_s, place.error), xytext=(x * POINTS, y * POINTS), textcoords="figure points",
            fontsize=_letters(place), va="center", ha="left", zorder=6, gid=f"label {place.variant}",
            color=style.FAINT if place.dominated_by else style.INK, arrowprops=arrow if away else None,
            path_effects=[withStroke(linewidth=2.2, foreground=style.PAPER)],
        )  # fmt: skip


def _beaten(place: Place) -> str:
    """Of a beaten way the levels alone, where it has some: marker and colour tell the rest."""
    way = way_of(place.variant)
    return short(place.variant).rpartition(" ")[2] if way is not None and way.level else short(place.variant)


def _letters(place: Place) -> float:
    return 7.5 if place.dominated_by else 8.8


def _rings(on: Axes, taken: Sequence[Place]) -> list[tuple[str, Place]]:
    """One name for the rings that lie on each other: `matmul(fp32, 1e-5)`."""
    groups: list[list[Place]] = []
    for place in taken:
        here = _spot(on, "", place)
        firsts = [_spot(on, "", group[0]) for group in groups]
        near = [hypot(here.x - first.x, here.y - first.y) < ONE_RING for first in firsts]
        if any(near):
            groups[near.index(True)].append(place)
        else:
            groups.append([place])
    return [(f"matmul({', '.join(accuracy_of(p.variant) for p in group)})", group[0]) for group in groups]


def _steps(best: Sequence[Spot]) -> list[Box]:
    """The frontier's line as boxes: across to the next time, then down to its error."""
    return [box for one, two in pairwise(best) for box in (
        (one.x, one.y - 1, two.x, one.y + 1), (two.x - 1, two.y, two.x + 1, one.y))]  # fmt: skip


def _spot(on: Axes, name: str, place: Place) -> Spot:
    """Where a marker stands, in pixels of a picture of 100 an inch, and how much room its name takes."""
    from brrr.drawing import style

    x, y = on.transData.transform((place.time_s, place.error)) / style.SHARP
    radius = 11.0 if accuracy_of(place.variant) else 4.0 if place.dominated_by else 7.0
    return Spot(float(x), float(y), _width(name, _letters(place)), 13.0 if not place.dominated_by else 10.0, radius)


@lru_cache(maxsize=128)
def _width(name: str, points: float) -> float:
    """The pixels that a name takes across."""
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), name, size=points).get_extents().width) / POINTS + 2 if name else 0.0


def placed(spots: Sequence[Spot], frame: Box, lines: Sequence[Box] = ()) -> list[tuple[float, float]]:
    """The left end and the middle height of each name, the first ones nearest to their markers.

    >>> placed([Spot(50.0, 50.0, 20.0, 10.0)], (0.0, 0.0, 100.0, 100.0))
    [(60.0, 50.0)]

    `lines` are boxes that names keep off where they can. Where no place is free the one that overlaps least is taken.
    """
    full = [(s.x - s.radius, s.y - s.radius, s.x + s.radius, s.y + s.radius) for s in spots]

    def cost(box: Box, away: float) -> float:
        outside = _overlap(box, box) - _overlap(box, frame)
        crossed = 0.6 * sum(_overlap(box, line) for line in lines)
        return away + crossed + 100 * (sum(_overlap(box, other) for other in full) + 4 * outside)

    found = []
    for spot in spots:
        least, box = inf, (spot.x, spot.y, spot.x, spot.y)
        for tried, away in _tried(spot):
            if away < least and (its := cost(tried, away)) < least:  # none costs less than it is away
                least, box = its, tried
        full.append(box)
        found.append((box[0], (box[1] + box[3]) / 2))
    return found


def _tried(spot: Spot) -> Iterator[tuple[Box, float]]:
    """Boxes around a marker with their distances: beside it first, then on rings ever further out."""
    for ring in RINGS:
        for turn in range(DIRECTIONS):
            across, up = cos(2 * pi * turn / DIRECTIONS), sin(2 * pi * turn / DIRECTIONS)
            away = ring + spot.radius - 7
            x = spot.x + (away - 2) * across + (across - 1) / 2 * spot.width
            y = spot.y + away * up - spot.height / 2
            yield (x, y, x + spot.width, y + spot.height), ring + 2 * abs(up) + (1.0 if across < -0.1 else 0.0)


def _overlap(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)
