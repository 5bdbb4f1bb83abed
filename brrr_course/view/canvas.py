"""A figure that is drawn once and then only touched up: what makes a slider move smoothly.

Drawing a whole figure takes matplotlib tens of milliseconds and encoding it as many again. So three pictures are
kept: the empty axes, the axes with the lines, and the latter already reduced to a palette of 256 colours. A slider
step restores the second, draws the marked points, and encodes with only their narrow strip reduced again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from itertools import pairwise
from statistics import median_low as median
from statistics import mode
from textwrap import fill
from types import MappingProxyType, SimpleNamespace
from typing import Any, Literal

import numpy as np
from matplotlib import rc_context
from PIL import Image

from brrr.core.measurement import Badge, Value
from brrr.drawing import style

# ---------------------------------------------------------------------------------------------------------------------
# What every kept figure does: draw on a canvas that stays, and encode it as a small PNG.

_COLOURS = 256


class Blit:
    """A figure on a canvas, a palette of its colours, and the picture as a PNG.

    `redraws` counts how often the whole figure was drawn: a slider's step is to do without.
    """

    def __init__(self) -> None:
        self._canvas: Any = None  # matplotlib leaves it untyped
        self._axes: Any = None
        self._figure: Any = None
        self._palette: Image.Image | None = None
        self.redraws = 0

    def new_figure(self, height: float) -> None:
        """Begin anew, with an empty figure of that height in CSS pixels."""
        self.redraws += 1
        self._figure = style.figure(height=round(height))
        self._canvas = self._figure.canvas

    def whole(self) -> Image.Image:
        """What is drawn now, without copying it."""
        size = self._canvas.get_width_height()
        return Image.frombuffer("RGBA", size, self._canvas.buffer_rgba(), "raw", "RGBA", 0, 1)

    def new_palette(self) -> Image.Image:
        """What is drawn now, reduced to the 256 colours that suit it best; later pictures are reduced to the same."""
        picture = self.whole().convert("RGB")
        self._palette = picture.quantize(_COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        return self._palette

    def reduced(self, picture: Image.Image) -> Image.Image:
        """A picture in the colours of the palette."""
        return picture.quantize(palette=self._palette, dither=Image.Dither.NONE)

    def encoded(self, picture: Image.Image | None = None) -> bytes:
        """A PNG of the picture, or of what is drawn now, packed as lightly as it goes: it travels a local socket."""
        stream = BytesIO()
        ready = picture if picture is not None else self.reduced(self.whole().convert("RGB"))
        ready.save(stream, format="png", compress_level=1)
        return stream.getvalue()

    @property
    def figure(self) -> Any:
        """The figure as it stands now."""
        return self._figure

    @property
    def axes(self) -> Any:
        """Its axes."""
        return self._axes

    def draw_message(self, message: str) -> None:
        """A message in the middle of the axes, over what is drawn."""
        text = self.message_artist(message)
        self._axes.draw_artist(text)
        text.remove()

    def message_artist(self, message: str) -> Any:
        """A text in a box in the middle of the axes, for what could not be shown."""
        box = {"boxstyle": "round,pad=0.6", "facecolor": "#fff8e6", "edgecolor": "#d4a72c"}
        with rc_context(style.STYLE):
            return self._axes.text(
                0.5, 0.5, fill(message, 78), transform=self._axes.transAxes, ha="center", va="center",
                fontsize=9.5, bbox=box, animated=True, zorder=9,
            )  # fmt: skip


_STRIP = 32  # pixels to each side of the marked place: half a marker, its edge and the guide line
POINTS = 72  # of an inch: a unit that a page has too, so that it finds the same places for what stands beside a line
# Values beside marked points: of how many lines; from one to the next, and to the axis; how far off; a letter's width;
# from a text's middle to what it clears; how far it moves to clear one of so many parts of a line, and at most.
SAID = SimpleNamespace(most=5, row=9.4, foot=6, aside=9, letter=5.4, clear=6.2, on=2, parts=8, far=24)
MIDDLE, AT_LEFT = "center_baseline", 0.13  # where they stand; of the axes, where nothing fits to the left
_SAID = 68  # CSS pixels kept free for them at the right
_PAPER = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.8, "alpha": 0.6}  # lines show through, paler
_BELOW = {"boxstyle": "round,pad=0.15", "facecolor": style.PAPER, "edgecolor": style.FAINT, "linewidth": 0.8}
_FAR = 20  # gaps that are so many times as wide as the usual one are none between neighbours
_ROWS_WITHIN = 4  # rows of the legend that find room in a figure of the usual height
PREDICTED = "PREDICTED, in the line's colour (grey: several)"
SEVERAL = -1  # in place of a line's look: a prediction that several lines share
_APART = 0.35  # half the length of a theoretical line over one category
WIDER, MOST_ABOVE = 2.2, 2  # points for each line that lies on a line; of more, none would be seen
SAME = 0.01  # of the axis: lines that are nearer lie on each other
_STEP_ASIDE, _MOST_ASIDE = 0.13, 0.7  # from one marker of a category to the next, and all of them, in its width


@dataclass(frozen=True)
class Curve:
    """One line of the figure, in the order of x: its name, its looks, and the medians with their intervals."""

    name: str
    label: str
    index: int
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    joined: bool = True
    guide: str = ""  # PREDICTED or DATASHEET, of a theoretical line
    predicted: bool = False  # what one of the lines should be


@dataclass(frozen=True)
class Frame:
    """All that stands still while a slider moves: both axes with their limits, and the badge."""

    values: tuple[Value, ...]
    scale: Literal["log", "linear", "category"]
    x_label: str
    unit: str
    y_label: str
    limits: tuple[float, float]
    badge: Badge
    legend_rows: int = 4
    predicted: bool = False
    alone: tuple[Value, ...] = ()

    @property
    def height(self) -> float:
        """The figure's height in CSS pixels: a long legend does not press the axes."""
        return style.HEIGHT + style.LEGEND_ROW * max(0, self.legend_rows - _ROWS_WITHIN)

    @property
    def inner(self) -> tuple[float, float]:
        """Bottom and top of the axes, as shares of the figure's height."""
        above = 14 + style.LEGEND_ROW * self.legend_rows
        return style.bottom_margin(self.values, self.scale) / self.height, 1 - above / self.height


class Canvas(Blit):
    """The kept figure. First `show` a frame and its lines, then `mark` places on them as often as you like.

    >>> badge = Badge("RECORDED", "a GPU", "2024-01-01", "")
    >>> canvas = Canvas()
    >>> canvas.show(Frame((1, 2), "log", "size", "s", "time", (1e-6, 1e-3), badge), [])
    >>> canvas.mark(2, {})[:4]
    b'\\x89PNG'
    """

    def __init__(self) -> None:
        super().__init__()
        self._drawn_with: tuple[Frame, tuple[tuple[str, int, str], ...]] | None = None
        self._curves: list[Curve] = []
        self._moving: list[Any] = []

    def show(self, frame: Frame, curves: Sequence[Curve]) -> None:
        """Draw lines; the axes and the legend too, where these are not the ones that stand already."""
        drawn_with = (frame, tuple((c.label, c.index, c.guide) for c in curves if not c.predicted))
        self._aside = asides(curves) if frame.scale == "category" else {}
        self._curves = [replace(c, xs=tuple(x + self._aside.get(c.name, 0.0) for x in c.xs)) for c in curves]
        if drawn_with != self._drawn_with:
            self.draw_frame(frame)
            self._canvas.draw()
            self._empty = self._canvas.copy_from_bbox(self._figure.bbox)
            self._moving = []
            self._drawn_with = drawn_with
        self._draw_curves()

    @property
    def apart(self) -> bool:
        """Whether x has categories: then markers stand side by side, and nothing joins them."""
        return self._scale == "category"

    @property
    def scattered(self) -> bool:
        """Whether some places along x are too far apart to be joined."""
        return any(map(math.isnan, self._places))

    @property
    def cursor(self) -> Any:
        """The upright line at the marked place, to begin with at the first one."""
        return self._guide

    def mark(
        self, x: float, heights: Mapping[str, float], message: str = "", said: Mapping[str, str] = MappingProxyType({})
    ) -> bytes:
        """The picture as a PNG with a guide line at `x` and a marked point on each line that has a height there.

        Beside a point stands what is `said` of it, where there is room. A `message` stands in the middle of the axes,
        for what could not be shown.
        """
        self._canvas.restore_region(self._with_curves)
        self._guide.set_xdata([x, x])
        below, *texts = self.said_artists(x, self._curves, said)
        for artist in (self._guide, below):
            self._axes.draw_artist(artist)
        for curve in self._curves:
            if curve.name in heights:
                ring = self._ring(curve.index)
                ring.set_data([x + self._aside.get(curve.name, 0.0)], [heights[curve.name]])
                self._axes.draw_artist(ring)
        for text in texts:
            self._axes.draw_artist(text)
        if message:
            self.draw_message(message)
            return self.encoded()
        return self.encoded(self._touched_up(x, max(map(len, said.values()), default=0)))

    def draw_frame(self, frame: Frame, curves: Sequence[Curve] | None = None) -> None:
        """The axes, the legend (of the kept curves, or of those given) and the badge: all that no slider moves."""
        self.new_figure(frame.height)
        self._scale = frame.scale
        places = style.positions(frame.values, frame.scale)
        ticks = style.ticked(frame.values, frame.scale)
        self._unticked = {x: [*ticks, v] for x, v in zip(places, frame.values, strict=True) if v not in ticks}
        self._alone = [x for x, value in zip(places, frame.values, strict=True) if value in frame.alone]
        self._places = broken([x for x in places if x not in self._alone])
        bottom, top = frame.inner
        self._axes = style.axes(
            self._figure,
            style.left_margin(frame.limits, frame.unit),
            bottom,
            0.975 if frame.scale == "category" else 1 - _SAID / style.WIDTH,
            top,
        )
        self._axes.set_ylim(*frame.limits)
        style.value_axis(self._axes, frame.unit, frame.y_label)
        style.slider_axis(self._axes, frame.values, frame.scale, frame.x_label)
        for curve in self._curves if curves is None else curves:
            if not curve.predicted:
                self._plotted(curve, [], [], named=True)
        if frame.predicted:
            style.draw_predicted(self._axes, [], [], SEVERAL, PREDICTED)
        style.legend(self._axes)
        style.stamp(self._figure, frame.badge, 9 / frame.height)
        texts = (self._text("", (1, 1), (SAID.aside, 0), style.INK, xycoords="figure points") for _ in range(SAID.most))
        self._texts, self._chosen = list(texts), self.chosen_artist(math.nan)
        self._ring = cache(lambda index: self.mark_artist(places[0], frame.limits[0], index))
        self._guide = self._axes.axvline(places[0], color=style.FAINT, linewidth=1, animated=True)

    def _plotted(self, curve: Curve, xs: Sequence[float], ys: Sequence[float], *, named: bool = False) -> Any:
        """The line's artist; `named`, it appears in the legend."""
        if curve.predicted:
            return style.draw_predicted(self._axes, xs, ys, curve.index)
        if curve.guide:
            return style.draw_guide(self._axes, xs, ys, curve.index, f"{curve.guide} {curve.label}" if named else "")
        return style.draw_line(self._axes, xs, ys, curve.index, curve.label if named else "")

    def _draw_curves(self) -> None:
        """The lines with their intervals over the empty axes; then the palette of what is there now."""
        for artist in self._moving:
            artist.remove()
        self._moving = []
        self._canvas.restore_region(self._empty)
        self._moving += self._wide(self._curves)
        for curve in self._curves:
            self._moving += self.curve_artists(curve)
        for artist in self._moving:
            self._axes.draw_artist(artist)
        self._with_curves = self._canvas.copy_from_bbox(self._figure.bbox)
        self._base = self.new_palette()

    def _wide(self, curves: Sequence[Curve]) -> list[Any]:
        """Below each line a wide stroke where others lie on it, so that its colour shows on both sides of them."""
        drawn: list[Any] = []
        for curve, above in covered(curves, self._axes.get_ylim()).items():
            drawn += self.wide_artists(curve, above)
        return drawn

    def wide_artists(self, curve: Curve, above: Mapping[float, int]) -> list[Any]:
        """The wide stroke below a line, at those of its points above which so many others lie."""
        if self._scale == "category" or not above or self.scattered:
            return []
        ys = [y if x in above else math.nan for x, y in zip(curve.xs, curve.ys, strict=True)]
        width = style.STYLE["lines.linewidth"] + WIDER * mode(above.values())
        colour = style.look(curve.index)["color"]
        return list(self._axes.plot(curve.xs, ys, color=colour, linewidth=width, zorder=2.9, animated=True))

    def curve_artists(self, curve: Curve) -> list[Any]:
        """What a line is drawn with, in this order."""
        if not curve.xs:
            return []
        if curve.predicted and curve.label:
            return self._yours(curve)
        if curve.guide or curve.predicted:
            return self._guide_artists(curve)
        if self._scale == "category":  # there is nothing between two categories
            line = self._plotted(curve, curve.xs, curve.ys)
            line.set_linestyle("")
        else:
            line = self._plotted(curve, *_with_gaps(curve, self._places))
        drawn = [self._interval(curve), line, *self._lone(curve)]
        if curve.joined and self._scale != "category" and not self.scattered:
            drawn.insert(0, self._bridge(curve))
        return drawn

    def _guide_artists(self, curve: Curve) -> list[Any]:
        """A theoretical or predicted line over its points; over categories, a piece at each."""
        if self._scale != "category":
            xs, ys = (curve.xs, curve.ys) if curve.guide else _with_gaps(curve, self._places)
            return [self._plotted(curve, xs, ys)]
        pairs = zip(curve.xs, curve.ys, strict=True)
        return [self._plotted(curve, [x - _APART, x + _APART], [y, y]) for x, y in pairs]

    def _lone(self, curve: Curve) -> list[Any]:
        """The points that are joined to no other."""
        points = [(x, y) for x, y in zip(curve.xs, curve.ys, strict=True) if x in self._alone]
        found = [self._plotted(curve, *zip(*points, strict=True))] if points else []
        for marks in found:
            marks.set_linestyle("")
        return found

    def _bridge(self, curve: Curve) -> Any:
        """A thin line through all points that are joined, seen where it runs over places that have none."""
        colour, points = style.look(curve.index)["color"], zip(curve.xs, curve.ys, strict=True)
        xs, ys = zip(*[point for point in points if point[0] not in self._alone] or [(math.nan, math.nan)], strict=True)
        return self._axes.plot(xs, ys, color=colour, linewidth=0.7, alpha=0.6, zorder=2)[0]

    def _interval(self, curve: Curve) -> Any:
        """A thin bar from low to high at each point, cut off where an end is not on the axis."""
        least, most = self._axes.get_ylim()
        lows, highs = [max(low, least) for low in curve.lows], [min(high, most) for high in curve.highs]
        with rc_context(style.STYLE):
            return self._axes.vlines(
                curve.xs, lows, highs, color=style.look(curve.index)["color"], linewidth=1.2, zorder=2
            )  # fmt: skip

    def at(self, xs: Sequence[float], ys: Sequence[float]) -> Any:
        """Where points lie on the figure, in points from its upper left corner."""
        places = self._axes.transData.transform(np.column_stack((xs, ys))) * POINTS / self._figure.dpi
        return np.round(np.abs([0, self._figure.get_figheight() * POINTS] - places), 2)

    def said_artists(self, x: float, curves: Sequence[Curve], said: Mapping[str, str]) -> list[Any]:
        """What stands at the place along x and beside the points there; no more where there are many, or categories."""
        self._chosen.xy = (x, 0)
        self._chosen.set_text(self._chosen_name(x))
        here = [curve for curve in curves if curve.name in said]
        if self.apart or not here or len(here) > SAID.most:
            return [self._chosen]
        (left, bottom), (_, top) = self.at([x, x], self._axes.get_ylim())
        wide = SAID.letter * max(map(len, said.values())) / SAID.parts
        along = [left + SAID.aside + k * wide for k in range(SAID.parts + 1)]
        lines = [self.at(c.xs, c.ys).T for c in curves if c.xs and not c.predicted]
        taken = [y for xs, ys in lines for y in np.interp(along, xs, ys, math.nan, math.nan) - top if y == y]
        marks = [self.at([x], [curve.ys[curve.xs.index(x)]])[0, 1] - top for curve in here]
        for text, curve, down in zip(self._texts, here, beside(marks, taken, bottom - top), strict=False):
            text.xy = (left, self._figure.get_figheight() * POINTS - top - down)
            text.set(text=said[curve.name], color=style.ink(curve.index))
        return [self._chosen, *self._texts[: len(here)]]

    def _chosen_name(self, x: float) -> str:
        """The value at a place along x, as the ticks read; empty where a tick says it."""
        return style.alike(self._unticked[x])[-1] if x in self._unticked else ""

    def chosen_artist(self, x: float) -> Any:
        """That value below the axis, over the ticks' texts."""
        return self._text(self._chosen_name(x), (x, 0), (0, -11), style.INK, ha="center", weight="bold", bbox=_BELOW,
                          xycoords=("data", "axes fraction"))  # fmt: skip

    def _yours(self, curve: Curve) -> list[Any]:
        """The student's guess: a star, and to its left what it says; at the left end above it."""
        place = (curve.xs[0], curve.ys[0])
        (star,) = self._axes.plot(*place, linestyle="", marker="*", markersize=13, color=style.INK, zorder=6,
                                  markeredgecolor=style.PAPER, clip_on=False, animated=True)  # fmt: skip
        at_left = (self._axes.transData + self._axes.transAxes.inverted()).transform(place)[0] < AT_LEFT
        looks = {"ha": "left", "va": "bottom"} if at_left else {"ha": "right"}
        beside = (0, SAID.aside) if at_left else (-SAID.aside, 0)
        return [star, self._text(curve.label, place, beside, style.INK, weight="bold", **looks)]

    def _text(self, said: str, at: tuple[float, float], beside: tuple[float, float], colour: str, **looks: Any) -> Any:
        with rc_context(style.STYLE):
            return self._axes.annotate(said, at, xytext=beside, textcoords="offset points", fontsize=9, color=colour,
                                       animated=True, annotation_clip=False, zorder=6,
                                       **{"bbox": _PAPER, "va": MIDDLE, **looks})  # fmt: skip

    def mark_artist(self, x: float, y: float, index: int) -> Any:
        """The ring around a point of the line with that look."""
        look = style.look(index)
        (mark,) = self._axes.plot(
            [x], [y], linestyle="", marker=look["marker"], markersize=12, markerfacecolor="none",
            markeredgecolor=look["color"], markeredgewidth=2.2, animated=True, zorder=5, clip_on=False,
        )  # fmt: skip
        return mark

    def _touched_up(self, x: float, letters: int) -> Image.Image:
        """The kept picture with the strip around `x`, and so many letters beside it, taken from what was drawn."""
        width, height = self._canvas.get_width_height()
        most = max(map(abs, self._aside.values()), default=0.0)
        middle, edge = (self._axes.transData.transform((place, self._axes.get_ylim()[0]))[0] for place in (x, x + most))
        strip = round(_STRIP + edge - middle) + 9 * len(self._chosen_name(x))
        right = round(middle) + strip + round(letters * SAID.letter * self._figure.dpi / POINTS)
        box = (max(0, round(middle) - strip), 0, min(width, right), height)
        touched = self._base.copy()
        touched.paste(self.reduced(self.whole().crop(box).convert("RGB")), box)
        return touched


def beside(marks: Sequence[float], taken: Sequence[float], most: float) -> list[float]:
    """Places of texts beside marked points, measured downwards: in their order, near them, and clear of lines.

    `taken` are heights of lines where the texts are, `most` says how far down these may stand.

    >>> beside([50, 52], [50, 52] * 5, 99), beside([95], [], 99)
    ([43, 59], [93.0])
    """
    found, least = list(marks), SAID.row / 2
    order = sorted(range(len(marks)), key=lambda n: marks[n])
    for n in order:
        tries = [max(least, marks[n] + far) for far in sorted(range(-SAID.far, SAID.far + 1), key=abs)]
        on = (abs(np.subtract.outer(tries, taken)) < SAID.clear).sum(axis=1)
        found[n] = min(zip(tries, on, strict=True), key=lambda each: abs(each[0] - marks[n]) + SAID.on * each[1])[0]
        least = found[n] + SAID.row
    for below, n in enumerate(reversed(order)):
        found[n] = min(found[n], most - SAID.foot - below * SAID.row)
    return found


def broken(places: Sequence[float]) -> list[float]:
    """Rising places with NaN where the next is not a neighbour, by difference and by ratio: there a line breaks.

    >>> broken([896, 897, 928, 929]), broken([1, 2, 4, 1024])
    ([896, 897, nan, 928, 929], [1, 2, 4, 1024])
    """
    steps = [(b - a, math.log(b / a) if a > 0 else math.inf) for a, b in pairwise(places)]
    usual = [_FAR * median(each) for each in zip(*steps, strict=True)]
    far = [step > usual[0] and factor > usual[1] for step, factor in steps]
    gaps = [[math.nan] if wide else [] for wide in far]
    return [*places[:1], *(x for gap, place in zip(gaps, places[1:], strict=True) for x in (*gap, place))]


def asides(curves: Sequence[Curve]) -> dict[str, float]:
    """How far beside its category each measured line's marker stands, so that none hides another."""
    names = [curve.name for curve in curves if not (curve.guide or curve.predicted)]
    step = min(_STEP_ASIDE, _MOST_ASIDE / max(1, len(names)))
    return {name: (place - (len(names) - 1) / 2) * step for place, name in enumerate(names)}


def covered(curves: Sequence[Curve], limits: tuple[float, float]) -> dict[Curve, dict[float, int]]:
    """For each measured line, at which of its points others that are drawn later lie on it, and how many."""
    measured = [curve for curve in curves if not (curve.guide or curve.predicted)]
    room = SAME * math.log(limits[1] / (limits[0] or 1.0))
    found: dict[Curve, dict[float, int]] = {}
    for place, one in enumerate(measured, start=1):
        later = [dict(zip(other.xs, other.ys, strict=True)) for other in measured[place:]]
        near = {x: sum(_lies_on(ys[x], y, room) for ys in later if x in ys)
                for x, y in zip(one.xs, one.ys, strict=True)}  # fmt: skip
        found[one] = {x: count for x, count in near.items() if 0 < count <= MOST_ABOVE}
    return found


def _lies_on(one: float, other: float, room: float) -> bool:
    """Whether two heights are nearer than so much of the axis; a time may be zero, which has no place on it."""
    return one > 0 < other and abs(math.log(one / other)) < room


def _with_gaps(curve: Curve, places: Sequence[float]) -> tuple[list[float], list[float]]:
    """The line over all places of the axis, broken where it has no point."""
    known = dict(zip(curve.xs, curve.ys, strict=True))
    return list(places), [known.get(x, float("nan")) for x in places]
