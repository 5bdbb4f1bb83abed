"""The picture of time against error: every way a marker, the frontier a line with names, what is beaten hollow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import cos, hypot, pi, sin
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.textpath import TextPath
from matplotlib.ticker import LogLocator, NullLocator

from brrr.core import units
from brrr.course.experiments import experiment
from brrr.course.experiments.strassen.frontier import Place, checked_size, chosen, clocks_note, frontier
from brrr.course.experiments.strassen.ways import CPU, accuracy_of, short, way_of
from brrr.course.nouns.source import Source
from brrr.course.sources import source as source_named
from brrr.drawing import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from brrr.drawing.style import Picture

WIDTH, HEIGHT = 760, 520
LABEL_POINTS = 8.8
POINTS = 0.72
"""A CSS pixel in points: the picture has 100 of them an inch."""

FAMILIES = (
    ("float32, no tensor cores", ("sgemm", "ffma"), 0),
    ("float32's accuracy through tensor cores", ("fp16x3", "tf32x3", "bf16x6", "bf16x3", "torch"), 1),
    ("TF32", ("tf32",), 2),
    ("bfloat16", ("bf16",), 3),
    ("float16", ("fp16",), 5),
    ("float8", ("fp8",), 6),
)
"""Groups of inner products, with the colour and the marker of each."""

DOMINATED = "small and hollow: another way is faster and no less accurate"
YARDSTICK = "sgemm"
"""The one dominated way with a name."""

ONE_RING = 16.0
"""Rings nearer to each other than so many pixels share a name."""


def strassen_frontier(
    source: Source | str | None = None, *, size: int | None = None, prepared: bool = False
) -> Picture:
    """Time against error of every way of multiplying that a source measured at a size; the frontier is joined.

    >>> strassen_frontier("recorded:h200", size=8192)     # doctest: +SKIP
    Picture('Time against relative error ...')

    `size`: 8192 where it was measured, else the largest. `prepared`: right sides prepared, as a network's weights are;
    else all that a product of two new matrices takes. NotRecordedError where nothing was measured, ArgumentError
    for a size that was not.
    """
    chosen_source = source_named(source) if source is None or isinstance(source, str) else source
    n = checked_size(chosen_source, size)
    places, taken = frontier(chosen_source, n, prepared=prepared), [] if prepared else chosen(chosen_source, n)
    drawn = style.figure(WIDTH, HEIGHT)
    on = style.axes(drawn, left=0.105, bottom=0.135, right=0.96, top=0.815)
    with rc_context(style.STYLE):
        _axes(on, [*places, *taken], n, prepared)
        _draw(on, places, taken)
        _legend(on, places, taken)
    style.stamp(drawn, chosen_source.badge(experiment("strassen")))
    return style.picture(drawn, said(places, taken, n, prepared))


def said(places: Sequence[Place], taken: Sequence[Place], size: int, prepared: bool) -> str:
    """The picture in words: the frontier from fast to accurate, then who is beaten by whom, then what matmul took."""
    best = ", ".join(_words(place) for place in places if not place.dominated_by)
    beaten = ", ".join(f"{short(p.variant)} by {short(p.dominated_by)}" for p in places if p.dominated_by)
    text = f"Time against relative error at size {size}{', right sides prepared' if prepared else ''}. "
    text += f"On the frontier: {best}. Dominated: {beaten or 'none'}." + clocks_note(place.clock_hz for place in places)
    return text + (f" matmul took: {', '.join(map(_words, taken))}." if taken else "")


def _words(place: Place) -> str:
    return f"{short(place.variant)} ({units.seconds(place.time_s)}, error {place.error:.1e})"


def _axes(on: Axes, places: Sequence[Place], n: int, prepared: bool) -> None:
    times, errors = [p.time_s for p in places], [p.error for p in places]
    on.set_xscale("log")
    on.set_yscale("log")
    on.set_xlim(*_room(times, 0.09, 0.14))
    on.set_ylim(*_room(errors, 0.12, 0.1))
    style.bar_axis(
        on, "s", f"time of a product of size {n}{', right sides prepared' if prepared else ''} (less is better)"
    )
    if max(times) < 30 * min(times):  # one tick a decade would leave an axis of one or two
        on.xaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0), numticks=12))
    few = max(errors) < 30 * min(errors)
    on.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=12))
    on.yaxis.set_minor_locator(NullLocator())
    on.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}".replace("e-0", "e-"))
    on.set_ylabel("relative error (less is better)")


def _room(values: Sequence[float], below: float, above: float) -> tuple[float, float]:
    """The limits of a log axis: so large a share of it stays free at each end."""
    low, high = min(values), max(values)
    spread = max(high / low, 4.0)
    return low / spread**below, high * spread**above


def _draw(on: Axes, places: Sequence[Place], taken: Sequence[Place]) -> None:
    best = [place for place in places if not place.dominated_by]
    on.plot([p.time_s for p in best], [p.error for p in best], color=style.FAINT, linewidth=1.2, zorder=2,
            drawstyle="steps-post", gid="frontier")  # fmt: skip
    for place in places:
        on.plot([place.time_s], [place.error], linestyle="", zorder=4, gid=place.variant, **_look(place))
    for place in taken:
        on.plot([place.time_s], [place.error], linestyle="", marker="o", markersize=14, markerfacecolor="none",
                markeredgecolor=style.INK, markeredgewidth=1.1, zorder=5, gid=place.variant)  # fmt: skip
    _label(on, places, taken)


def _look(place: Place) -> dict[str, Any]:
    index = family(place.variant)
    colour, beaten = style.COLOURS[index], bool(place.dominated_by)
    return {
        "marker": style.MARKERS[index], "markersize": 4.5 if beaten else 8, "markeredgewidth": 1.2,
        "markeredgecolor": colour, "markerfacecolor": style.PAPER if beaten else colour, "alpha": 0.75 if beaten else 1,
    }  # fmt: skip


def family(variant: str) -> int:
    """The number of a variant's colour and marker.

    >>> family("sgemm-strassen-2"), family("torch-fp16x3"), family("cpu-fp16x3")
    (0, 1, 1)
    """
    way = way_of(variant)
    inner = way.inner if way is not None else variant.split("-")[0]
    return next(index for _, inners, index in FAMILIES if inner in inners)


def _label(on: Axes, places: Sequence[Place], taken: Sequence[Place]) -> None:
    """Names beside the frontier's markers, matmul's rings and `YARDSTICK`; a thin line leads to one further away.

    What is dominated stays without a name: thirty names on one picture nobody can read.
    """
    named = [_Named(short(place.variant), place) for place in places if not place.dominated_by]
    best = [_spot(on, each) for each in named]
    named += [*_rings(on, taken), *(_Named(short(p.variant), p) for p in places if _faint(p))]
    spots = [_spot(on, each) for each in named]
    others = [_spot(on, _Named("", place)) for place in places if place.dominated_by and not _faint(place)]
    for each, spot, (x, y) in zip(named, spots, placed(spots, _frame(on), _steps(best), others), strict=True):
        arrow = {"arrowstyle": "-", "color": style.FAINT, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
        away = max(abs(x + spot.width / 2 - spot.x) - spot.width / 2, abs(y - spot.y)) > 14
        on.annotate(
            each.name, xy=(each.place.time_s, each.place.error), xytext=(x * POINTS, y * POINTS),
            textcoords="figure points", fontsize=LABEL_POINTS, va="center", ha="left", zorder=6,
            color=style.FAINT if _faint(each.place) else style.INK,
            arrowprops=arrow if away else None, gid=f"label {each.place.variant}",
            path_effects=[withStroke(linewidth=2.2, foreground=style.PAPER)],
        )  # fmt: skip


@dataclass(frozen=True)
class _Named:
    """A place with the name that stands beside it."""

    name: str
    place: Place


def _faint(place: Place) -> bool:
    """Whether it is the product that all others are compared with, dominated as it may be."""
    return bool(place.dominated_by) and place.variant.removeprefix(CPU) == YARDSTICK


def _rings(on: Axes, taken: Sequence[Place]) -> list[_Named]:
    """One name for the rings that lie on each other: `matmul(fp32, 1e-5)`."""
    groups: list[list[Place]] = []
    for place in taken:
        near = next((group for group in groups if _apart(on, group[0], place) < ONE_RING), None)
        if near is None:
            groups.append([place])
        else:
            near.append(place)
    return [_Named(f"matmul({', '.join(accuracy_of(p.variant) for p in group)})", group[0]) for group in groups]


def _apart(on: Axes, one: Place, other: Place) -> float:
    """Pixels between two places."""
    here, there = (_spot(on, _Named("", place)) for place in (one, other))
    return float(hypot(here.x - there.x, here.y - there.y))


def _steps(best: Sequence[Spot]) -> list[Box]:
    """The frontier's line as boxes: across to the next time, then down to its error."""
    found: list[Box] = []
    for one, two in pairwise(best):
        low, high = sorted((one.y, two.y))
        found += [(one.x, one.y - 1, two.x, one.y + 1), (two.x - 1, low, two.x + 1, high)]
    return found


def _spot(on: Axes, named: _Named) -> Spot:
    """Where a marker stands, in pixels of a picture of 100 an inch, and how much room its name takes."""
    place, scale = named.place, 1 / style.SHARP
    x, y = on.transData.transform((place.time_s, place.error)) * scale
    radius = 11.0 if accuracy_of(place.variant) else 4.0 if place.dominated_by else 7.0
    return Spot(float(x), float(y), _width(named.name), 13.0, radius)


@lru_cache(maxsize=128)
def _width(name: str) -> float:
    """The pixels that a name takes across."""
    return float(TextPath((0, 0), name, size=LABEL_POINTS).get_extents().width) / POINTS + 2 if name else 0.0


def _frame(on: Axes) -> tuple[float, float, float, float]:
    box = on.get_window_extent()
    return tuple(float(edge) / style.SHARP for edge in (box.x0, box.y0, box.x1, box.y1))  # type: ignore[return-value]


def _legend(on: Axes, places: Sequence[Place], taken: Sequence[Place]) -> None:
    here = {family(place.variant) for place in places}
    handles = [_sign(title, index) for title, _, index in FAMILIES if index in here]
    handles.append(Line2D([], [], linestyle="", marker="o", markersize=4.5, markerfacecolor=style.PAPER,
                          markeredgecolor=style.FAINT, label=DOMINATED))  # fmt: skip
    if taken:
        handles.append(Line2D([], [], linestyle="", marker="o", markersize=11, markerfacecolor="none",
                              markeredgecolor=style.INK, label="what matmul(accuracy=) took"))  # fmt: skip
    stars = any(way is not None and way.prepared for way in (way_of(p.variant) for p in places))
    title = "S, W: levels of Strassen's or Winograd's form" + ("; *: right side prepared" if stars else "")
    on.legend(handles=handles, title=title, ncols=2, fontsize=8.5, title_fontsize=8.5, loc="lower left",
              bbox_to_anchor=(-0.09, 1.0), borderaxespad=0.3, handletextpad=0.5, labelspacing=0.3,
              alignment="left")  # fmt: skip


def _sign(title: str, index: int) -> Line2D:
    return Line2D(
        [], [], linestyle="", marker=style.MARKERS[index], color=style.COLOURS[index], markersize=7, label=title
    )


# ---------------------------------------------------------------------------------------------------------------------
# Where the names of markers stand, so that none lies on another name, on a marker or outside the axes.

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


def placed(
    spots: Sequence[Spot], frame: Box, lines: Sequence[Box] = (), others: Sequence[Spot] = ()
) -> list[tuple[float, float]]:
    """The left end and the middle height of each name, the first ones nearest to their markers.

    >>> placed([Spot(50.0, 50.0, 20.0, 10.0)], (0.0, 0.0, 100.0, 100.0))
    [(60.0, 50.0)]

    `lines` are boxes that names keep off where they can, `others` markers without a name. Where no place is free the
    one that overlaps least is taken.
    """
    markers = [(s.x - s.radius, s.y - s.radius, s.x + s.radius, s.y + s.radius) for s in (*spots, *others)]
    taken: list[Box] = []
    found = []
    for spot in spots:
        box = min(_tried(spot), key=lambda tried: _cost(tried[0], tried[1], [*markers, *taken], lines, frame))[0]
        taken.append(box)
        found.append((box[0], (box[1] + box[3]) / 2))
    return found


def _tried(spot: Spot) -> Iterator[tuple[Box, float]]:
    """Boxes around a marker with their distances: beside it first, then on rings ever further out."""
    for ring in RINGS:
        for turn in range(DIRECTIONS):
            angle = 2 * pi * turn / DIRECTIONS
            yield _beside(spot, ring, angle), ring + 2 * abs(sin(angle)) + (1.0 if cos(angle) < -0.1 else 0.0)


def _beside(spot: Spot, ring: float, angle: float) -> Box:
    """A box whose nearest edge is `ring` away in a direction, of a marker of the usual radius."""
    across, up = cos(angle), sin(angle)
    away = ring + spot.radius - 7
    x = spot.x + (away - 2) * across + (across - 1) / 2 * spot.width
    y = spot.y + away * up
    return x, y - spot.height / 2, x + spot.width, y + spot.height / 2


def _cost(box: Box, distance: float, taken: Sequence[Box], lines: Sequence[Box], frame: Box) -> float:
    """Pixels covered that may not be, which nothing outweighs; then the way from the marker, and lines crossed."""
    outside = _area(box) - _overlap(box, frame)
    crossed = sum(_overlap(box, line) for line in lines)
    return 100 * (sum(_overlap(box, other) for other in taken) + 4 * outside) + distance + 0.6 * crossed


def _overlap(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])
