"""A figure that is drawn once and then only touched up: what makes a slider move smoothly.

Drawing a whole figure takes matplotlib tens of milliseconds and encoding it as many again. So three pictures are
kept: the empty axes, the axes with the lines, and the latter already reduced to a palette of 256 colours. A slider
step restores the second, draws the marked points, and encodes with only their narrow strip reduced again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from textwrap import fill
from typing import Any, Literal

from matplotlib import rc_context
from PIL import Image

from brrr import plots
from brrr.experiment import Value
from brrr.source import Badge

_STRIP = 26  # pixels to each side of the marked place: half a marker, its edge and the guide line
_COLOURS = 256


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
    predicted: bool = False
    joined: bool = True


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


class Canvas:
    """The kept figure. First `show` a frame and its lines, then `mark` places on them as often as you like.

    >>> badge = Badge("RECORDED", "a GPU", "2024-01-01", "")
    >>> canvas = Canvas()
    >>> canvas.show(Frame((1, 2), "log", "size", "s", "time", (1e-6, 1e-3), badge), [])
    >>> canvas.mark(2, {})[:4]
    b'\\x89PNG'
    """

    def __init__(self) -> None:
        self._drawn_with: tuple[Frame, tuple[tuple[str, int, bool], ...]] | None = None
        self._curves: list[Curve] = []
        self._moving: list[Any] = []
        self._canvas: Any = None  # matplotlib leaves it untyped
        self.redraws = 0

    def show(self, frame: Frame, curves: Sequence[Curve]) -> None:
        """Draw lines; the axes and the legend too, where these are not the ones that stand already."""
        drawn_with = (frame, tuple((c.label, c.index, c.predicted) for c in curves))
        self._curves = list(curves)
        if drawn_with != self._drawn_with:
            self._draw_frame(frame)
            self._drawn_with = drawn_with
        self._draw_curves()

    def mark(self, x: float, heights: Mapping[str, float], message: str = "") -> bytes:
        """The picture as a PNG with a guide line at `x` and a marked point on each line that has a height there.

        A `message` stands in the middle of the axes, for what could not be shown.
        """
        self._canvas.restore_region(self._with_curves)
        self._guide.set_xdata([x, x])
        self._axes.draw_artist(self._guide)
        for curve in self._curves:
            if curve.name in heights:
                self._draw_mark(x, heights[curve.name], curve.index)
        if message:
            self._draw_message(message)
            return _encoded(self._reduced(self._rgb()))
        return _encoded(self._touched_up(x))

    def _draw_frame(self, frame: Frame) -> None:
        """The axes, the legend and the badge: all that no slider moves."""
        self.redraws += 1
        self._figure = plots.figure()
        self._canvas = self._figure.canvas
        self._scale = frame.scale
        self._places = plots.positions(frame.values, frame.scale)
        self._axes = plots.axes(
            self._figure,
            bottom=plots.bottom_margin(frame.values, frame.scale) / plots.HEIGHT,
            top=1 - (14 + 16 * frame.legend_rows) / plots.HEIGHT,
        )
        self._axes.set_ylim(*frame.limits)
        plots.value_axis(self._axes, frame.unit, frame.y_label)
        plots.slider_axis(self._axes, frame.values, frame.scale, frame.x_label)
        for curve in self._curves:
            plots.draw_line(self._axes, [], [], curve.index, curve.label, predicted=curve.predicted)
        plots.legend(self._axes)
        plots.stamp(self._figure, frame.badge)
        self._guide = self._axes.axvline(frame_start(frame), color=plots.FAINT, linewidth=1, animated=True)
        self._canvas.draw()
        self._empty = self._canvas.copy_from_bbox(self._figure.bbox)
        self._moving = []

    def _draw_curves(self) -> None:
        """The lines with their intervals over the empty axes; then the palette of what is there now."""
        for artist in self._moving:
            artist.remove()
        self._moving = []
        self._canvas.restore_region(self._empty)
        for curve in self._curves:
            self._moving += self._curve_artists(curve)
        for artist in self._moving:
            self._axes.draw_artist(artist)
        self._with_curves = self._canvas.copy_from_bbox(self._figure.bbox)
        self._palette = self._rgb().quantize(_COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        self._base = self._palette

    def _curve_artists(self, curve: Curve) -> list[Any]:
        if not curve.xs:
            return []
        line = plots.draw_line(self._axes, *_with_gaps(curve, self._places), curve.index, "", predicted=curve.predicted)
        drawn = [self._interval(curve), line]
        if self._scale == "category":  # there is nothing between two categories
            line.set_linestyle("")
        elif curve.joined:
            drawn.insert(0, self._bridge(curve))
        for artist in drawn:
            artist.set_animated(True)
        return drawn

    def _bridge(self, curve: Curve) -> Any:
        """A thin line through all points, seen where it runs over places that have none."""
        colour = plots.look(curve.index)["color"]
        return self._axes.plot(curve.xs, curve.ys, color=colour, linewidth=0.7, alpha=0.6, zorder=2)[0]

    def _interval(self, curve: Curve) -> Any:
        """A thin bar from low to high at each point."""
        with rc_context(plots.STYLE):
            return self._axes.vlines(
                curve.xs, curve.lows, curve.highs, color=plots.look(curve.index)["color"], linewidth=1.2, zorder=2
            )  # fmt: skip

    def _draw_mark(self, x: float, y: float, index: int) -> None:
        look = plots.look(index)
        (mark,) = self._axes.plot(
            [x], [y], linestyle="", marker=look["marker"], markersize=12, markerfacecolor="none",
            markeredgecolor=look["color"], markeredgewidth=2.2, animated=True, zorder=5,
        )  # fmt: skip
        self._axes.draw_artist(mark)
        mark.remove()

    def _draw_message(self, message: str) -> None:
        box = {"boxstyle": "round,pad=0.6", "facecolor": "#fff8e6", "edgecolor": "#d4a72c"}
        with rc_context(plots.STYLE):
            text = self._axes.text(
                0.5, 0.5, fill(message, 78), transform=self._axes.transAxes, ha="center", va="center",
                fontsize=9.5, bbox=box, animated=True, zorder=9,
            )  # fmt: skip
        self._axes.draw_artist(text)
        text.remove()

    def _rgb(self) -> Image.Image:
        return self._whole().convert("RGB")

    def _whole(self) -> Image.Image:
        """What is drawn now, without copying it."""
        size = self._canvas.get_width_height()
        return Image.frombuffer("RGBA", size, self._canvas.buffer_rgba(), "raw", "RGBA", 0, 1)

    def _reduced(self, picture: Image.Image) -> Image.Image:
        return picture.quantize(palette=self._palette, dither=Image.Dither.NONE)

    def _touched_up(self, x: float) -> Image.Image:
        """The kept picture with the strip around `x` taken from what was just drawn."""
        width, height = self._canvas.get_width_height()
        middle = round(self._axes.transData.transform((x, self._axes.get_ylim()[0]))[0])
        box = (max(0, middle - _STRIP), 0, min(width, middle + _STRIP), height)
        touched = self._base.copy()
        touched.paste(self._reduced(self._whole().crop(box).convert("RGB")), box)
        return touched


def frame_start(frame: Frame) -> float:
    """The place of the slider's first value on the x axis."""
    return plots.positions(frame.values, frame.scale)[0]


def _with_gaps(curve: Curve, places: Sequence[float]) -> tuple[list[float], list[float]]:
    """The line over all places of the axis, broken where it has no point."""
    known = dict(zip(curve.xs, curve.ys, strict=True))
    return list(places), [known.get(x, float("nan")) for x in places]


def _encoded(picture: Image.Image) -> bytes:
    """A PNG, packed as lightly as it goes: the picture travels over a local socket."""
    stream = BytesIO()
    picture.save(stream, format="png", compress_level=1)
    return stream.getvalue()
