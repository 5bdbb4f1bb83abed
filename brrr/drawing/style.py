"""One style for every figure: the same colours, markers, badge and tick labels everywhere.

This module imports matplotlib, so load it inside the function that draws.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from brrr.core import units
from brrr.core.measurement import Badge, Value

WIDTH, HEIGHT = 760, 440
"""Size of a figure on the page, in CSS pixels; the picture itself has SHARP times as many each way."""
SHARP = 2
LEGEND_ROW = 16
"""A row of a legend, in CSS pixels."""
DPI = 100
LEFT = 0.118  # share of the figure's width in front of the axes, where their labels need no more
_LABEL_AT = 0.022  # where the y axis's label stands, as a share of the figure's width
_LETTER = 0.8  # CSS pixels of a letter a point of its size, on the average
_LABEL_BEYOND = 30  # CSS pixels by which the y axis's label may reach beyond the axis
_FEW_DECADES = 150  # a log axis whose ends differ by less has ticks within its decades
_LEGEND_LETTERS = 118  # so many fit side by side above the axes, their signs and gaps included
INK, FAINT, PAPER = "#24292f", "#6a737d", "#ffffff"
GUIDE = "#57606a"  # of theoretical lines: no measured line has it
PREDICTED_DASHES: Any = (0, (3, 2))
GUIDE_DASHES: Any = ((0, (5, 2.5)), (0, (1.5, 1.5)), (0, (7, 2, 1.5, 2)), (0, (10, 3)))

# Okabe and Ito's palette, told apart also by readers who do not see every colour; its yellow is left out, because it
# does not stand out from white paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLE: Any = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 10, "text.parse_math": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), FAINT),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), PAPER),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
    **dict.fromkeys(("axes.linewidth", "grid.linewidth"), 0.8),
    "grid.color": "#e4e7eb", "lines.linewidth": 1.8, "lines.markersize": 5,
}  # fmt: skip


def dark(selector: str) -> str:
    """The rule of a style sheet that gives a picture dark paper on a dark page, and keeps its hues: red stays red."""
    places = (f"{theme} {selector}" for theme in ('body[data-jp-theme-light="false"]', "body.vscode-dark"))
    return f"{', '.join(places)} {{ filter: invert(.93) hue-rotate(180deg) brightness(1.2); }}"


@dataclass(frozen=True)
class Picture:
    """A picture for a notebook, with its alternative text; shown at `width` CSS pixels, however many it has.

    `figure` is what it was drawn as, and then in place of the PNG, where `kept_figures` asks for it.

    >>> Picture(b"", "A line chart.", 760)
    Picture('A line chart.')
    """

    png: bytes
    alt: str
    width: int
    figure: Figure | None = None

    def __repr__(self) -> str:
        return f"Picture({self.alt!r})"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        png = b64encode(self.png).decode("ascii")
        what = f'class="brrr-picture" width="{self.width}" alt="{escape(self.alt)}"'
        html = f'<style>{dark(".brrr-picture")}</style><img {what} src="data:image/png;base64,{png}">'
        data = {"text/html": html, "image/png": png, "text/plain": self.alt}
        return data, {"image/png": {"width": self.width, "alt": self.alt}}


def figure(width: int = WIDTH, height: int = HEIGHT) -> Figure:
    """An empty figure of that size in CSS pixels, in the house style, ready to be drawn without a display."""
    with rc_context(STYLE):
        made = Figure(figsize=(width / DPI, height / DPI), dpi=DPI * SHARP)
        FigureCanvasAgg(made)
        return made


def axes(on: Figure, left: float = LEFT, bottom: float = 0.165, right: float = 0.975, top: float = 0.825) -> Axes:
    """Axes at a fixed place of the figure (in shares of it), so that nothing jumps when its labels change."""
    with rc_context(STYLE):
        return on.add_axes((left, bottom, right - left, top - bottom))


def stamp(on: Figure, badge: Badge, height: float = 0.02) -> None:
    """Write the badge (LIVE or RECORDED, device, date, torch) at the figure's right, at a height from its foot."""
    with rc_context(STYLE):
        on.text(0.985, height, str(badge), ha="right", va="bottom", fontsize=8, color=FAINT)


def look(index: int) -> dict[str, Any]:
    """How line number `index` looks: its colour and marker.

    >>> look(0)["marker"]
    'o'
    """
    # Where the colours begin again, the markers are shifted by one: no two of 49 lines look alike.
    marker = MARKERS[(index + index // len(COLOURS)) % len(MARKERS)]
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": "-", "marker": marker}


def draw_line(on: Axes, xs: Sequence[float], ys: Sequence[float], index: int, label: str) -> Any:
    """Draw one line in its look and return the artist."""
    with rc_context(STYLE):
        return on.plot(xs, ys, label=label, markeredgewidth=0, zorder=3, **look(index))[0]


def draw_guide(on: Axes, xs: Sequence[float], ys: Sequence[float], index: int, label: str = "") -> Any:
    """Draw theoretical line number `index`: dashed, in ink, so that it is never taken for a measured one."""
    dashes = GUIDE_DASHES[index % len(GUIDE_DASHES)]
    with rc_context(STYLE):
        return on.plot(xs, ys, label=label, color=GUIDE, linewidth=1.5, linestyle=dashes, zorder=2.5)[0]


def legend(on: Axes, left: float = -LEFT, columns: int = 0) -> None:
    """The lines' names above the axes, where they hide no point: in as many columns as their longest names allow.

    `columns` sets their number.
    """
    labels = on.get_legend_handles_labels()[1]
    if not labels:
        return
    with rc_context(STYLE):
        on.legend(
            ncols=columns or legend_columns(labels), fontsize=8.5, handlelength=2.3, columnspacing=1.6,
            labelspacing=0.3, loc="lower left", bbox_to_anchor=(left, 1.0), borderaxespad=0.4,
        )  # fmt: skip


def legend_columns(labels: Sequence[str]) -> int:
    """Two columns, three for many short names, one where two names would not fit side by side.

    >>> legend_columns(["eager", "CUDA graph"]), legend_columns(["eager"] * 9), legend_columns(["a long name " * 6] * 2)
    (2, 3, 1)
    """
    longest = max(map(len, labels), default=0)
    if len(labels) > 8 and longest <= _LEGEND_LETTERS // 3 - 4:
        return 3
    return 2 if longest <= _LEGEND_LETTERS // 2 - 4 else 1


def legend_rows(labels: Sequence[str]) -> int:
    """How many rows the legend takes.

    >>> legend_rows(["eager", "CUDA graph", "PyCUDA"])
    2
    """
    return -(-len(labels) // legend_columns(labels))


def value_axis(on: Axes, unit: str, label: str) -> None:
    """A log y axis whose ticks read 10 µs, 1 ms, 2 s (unit "s"), or as ratios or rates in their own units.

    One of "%" is linear, from nothing to all of it.
    """
    low, high = on.get_ylim()
    decades = math.log10(high / low) if 0 < low < high else 1.0
    subs = (1.0,) if decades > 2.5 else (1.0, 2.0, 5.0)
    whole = unit == "%"
    on.set(yscale="linear" if whole else "log", ylim=(0, 104) if whole else (low, high))
    on.yaxis.set_major_locator(MaxNLocator(5) if whole else LogLocator(10, subs=subs, numticks=12))
    on.yaxis.set_minor_locator(NullLocator())
    on.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_label(value, unit)))
    room = on.bbox.height / SHARP + _LABEL_BEYOND
    letters = max(1, len(label))
    points = min(10.0, max(7.5, room / (_LETTER * letters)))
    most = int(room / (_LETTER * points))
    on.set_ylabel(label if letters <= most else f"{label[: most - 1]}…", fontsize=points)
    place = on.get_position()  # the label stands at the figure's left edge, however wide the ticks' texts are
    on.yaxis.set_label_coords((_LABEL_AT - place.x0) / place.width, 0.5)


def bar_axis(on: Axes, unit: str, label: str) -> None:
    """The x axis of bars: at most five ticks with their unit; on a log axis one a decade, three where that is few."""
    if on.get_xscale() == "log":
        low, high = on.get_xlim()
        few = high < _FEW_DECADES * low
        on.xaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=7))
    else:
        on.xaxis.set_major_locator(MaxNLocator(5))
    on.xaxis.set_minor_locator(NullLocator())
    on.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_label(value, unit)))
    on.set_xlabel(label)


def left_margin(limits: tuple[float, float], unit: str) -> float:
    """The room that the ticks of a log y axis and its label need, as a share of the figure's width.

    >>> left_margin((1e-6, 1.0), "s"), left_margin((1e5, 1e12), "FLOP/s") > 0.14
    (0.118, True)
    """
    low, high = (round(math.log10(limit)) for limit in limits)
    letters = max(len(tick_label(10.0**power, unit)) for power in range(low, high + 1))
    return max(LEFT, (44 + 7.1 * letters) / WIDTH)


def tick_label(value: float, unit: str) -> str:
    """A tick with its unit: no sign of floating-point noise.

    >>> tick_label(1e-5, "s"), tick_label(0.5, "x"), tick_label(2e12, "FLOP/s")
    ('10 µs', '0.5×', '2 TFLOP/s')
    """
    return units.ratio(value).replace("x", "×") if unit == "x" else units.quantity(value, unit)


def positions(values: Sequence[Value], scale: str) -> list[float]:
    """Where values stand on the x axis: numbers at themselves, categories side by side.

    >>> positions(("eager", "graph"), "category"), positions((1, 8), "log")
    ([0.0, 1.0], [1.0, 8.0])
    """
    return [float(place if scale == "category" else value) for place, value in enumerate(values)]


def ticked(values: Sequence[Value], scale: str, most: int = 10) -> list[Value]:
    """Which values get a tick: on a log axis the powers of two where there are enough, and where many, evenly apart.

    >>> ticked((1, 2, 4, 8, 16, 100, 1000), "log", most=3), ticked(tuple(range(1, 18)), "log")
    ([1, 4, 16], [1, 2, 4, 8, 16])
    """
    chosen = list(values)
    if scale == "category":
        return chosen
    if scale != "log":
        return chosen[:: -(-len(chosen) // most)]
    powers = [v for v in chosen if float(v) == int(v) and int(v) & (int(v) - 1) == 0]
    reach = len(powers) >= 5 and powers[0] == chosen[0] and 2 * float(powers[-1]) > float(chosen[-1])
    chosen = powers if reach or 2 * len(powers) >= len(chosen) else chosen
    return _apart(chosen, 16 if len(chosen) <= most else most - 1)


def _apart(values: list[Value], parts: int) -> list[Value]:
    """Those of rising values that stand on a log axis at least one of so many equal parts from one to the next.

    >>> _apart([1, 10, 11, 100], 16)
    [1, 10, 100]
    """
    kept, least = values[:1], (float(values[-1]) / float(values[0])) ** (1 / parts) if values else 1.0
    least *= 1 - 1e-9
    for value in values[1:]:
        if float(value) >= least * float(kept[-1]):
            kept.append(value)
    return kept


LARGE = 2**17
"""From here on a power of two is written as one."""


def readable(value: Value, large: int = LARGE) -> str:
    """A slider's value as a person reads it: whole numbers whole, large powers of two as such.

    >>> readable(32768), readable(2**24), readable(0.25), readable("eager"), readable(64, large=2)
    ('32768', '2²⁴', '0.25', 'eager', '2⁶')
    """
    if isinstance(value, int) and value >= large and value & (value - 1) == 0:
        return "2" + str(value.bit_length() - 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    if isinstance(value, float):
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"
    return str(value)


def to_png(drawn: Figure) -> bytes:
    """The figure as a PNG at its full, sharp resolution."""
    stream = BytesIO()
    drawn.savefig(stream, format="png", dpi=DPI * SHARP)
    return stream.getvalue()


def picture(drawn: Figure, alt: str) -> Picture:
    """The figure as a `Picture` for a notebook."""
    width = round(drawn.get_figwidth() * DPI)
    return Picture(b"", alt, width, drawn) if _keeps_figures else Picture(to_png(drawn), alt, width)


_keeps_figures = False


@contextmanager
def kept_figures() -> Iterator[None]:
    """Within it, `picture` keeps the figure in place of a PNG: for who draws it in another form."""
    global _keeps_figures
    _keeps_figures = True
    try:
        yield
    finally:
        _keeps_figures = False
