"""A scene's one still picture: what `drawn/scene.js` draws, by matplotlib, where nothing moves (executed notebooks)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context

from brrr.core import units
from brrr.drawing import style
from brrr_course.view.figure import Data, figure_of, place_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from brrr_course.view.scene import Scene

SHEET = Path(__file__).parent / "drawn" / "built" / "scene.css"
ROW, BAR = 16, 34
"""Heights in CSS pixels: of a line of text, and of a bar with the gap below it."""
LETTER = 8.2
"""About so wide is a letter of a name, in CSS pixels."""
NAMES = 22
"""Letters of a line's name at its end; longer ones are broken."""
CLOSE = 30
"""Values whose points are so near each other, in CSS pixels, are told together."""
TILES, PANELS = 220, ((124, 76), (34, 56))
"""In CSS pixels the height of a product's result below its times, and where its tiles and its waves stand in it."""
FULL = "#c62828"
"""What is out of memory is red, as in the style sheet."""
IDLE = "#f9e6d8"
"""What has nothing to do is overhead, faintly, as in the style sheet."""
EDGE = 0.09
"""So far from the ends of x, as a share of it, the middle of a value has room."""


def png_of(scene: Scene) -> bytes:
    """The picture of a scene where its sliders stand, as a PNG.

    >>> from brrr_course import explore
    >>> png_of(explore("matmul", source="recorded:h200").scene)[:4]
    b'\x89PNG'
    """
    return style.to_png(still_of(scene))


def still_of(scene: Scene) -> Figure:
    """The picture of a scene where its sliders stand."""
    return still(figure_of(scene, ()))


@rc_context(style.STYLE)
def still(drawn: Data) -> Figure:
    """A figure's data, drawn where its sliders stand to begin with."""
    made = (_stack if "parts" in drawn else _bars if "bars" in drawn else _lines)(drawn)
    made.text(0.985, 8 / (made.get_figheight() * style.DPI), drawn["badge"], ha="right", fontsize=8, color=style.FAINT)
    if message := drawn.get("message") or _nothing(drawn):
        box = {"boxstyle": "round,pad=0.6", "facecolor": "#fff8e6", "edgecolor": "#d4a72c"}
        made.axes[0].annotate(fill(message, 78), (0.5, 0.5), xycoords="axes fraction", ha="center", va="center",
                              fontsize=9.5, bbox=box, zorder=9)  # fmt: skip
    return made


def _nothing(drawn: Data) -> str:
    """The sentence, where it says that there is nothing to see."""
    told, cut = drawn["say"], place_of(drawn["sliders"], but=drawn["x"]["along"]) if "lines" in drawn else 0
    if "lines" not in drawn or any(line["cuts"][cut] for line in drawn["lines"] if line.get("on")):
        return ""
    return str(told["forms"][told["at"][place_of(drawn["sliders"])]])


@cache
def _hues() -> dict[str, str]:
    """The style sheet's colours on white paper: of an area, and with `-ink` of a text."""
    found = re.findall(r"--([\w-]+):\s*light-dark\((#\w+)", SHEET.read_text(encoding="utf-8"))
    return {"faint": style.FAINT, **dict(found)}


def _ink(hue: str) -> str:
    return _hues().get(f"{hue}-ink") or _hues()[hue]


def _axes(height: float, left: float, right: float, below: float = 66.0, above: float = 30.0) -> Axes:
    """Axes with so many CSS pixels around them, in a figure of that height."""
    made, wide = style.figure(height=round(height)), style.WIDTH
    return style.axes(made, left / wide, below / height, 1 - right / wide, 1 - above / height)


def _scale(on: Any, axis: Data) -> None:
    """A matplotlib axis (`xaxis` or `yaxis`) with the domain and the ticks of a figure's."""
    side = on.axis_name
    on.axes.set(**{f"{side}scale": axis["scale"], f"{side}lim": axis["domain"]})
    on.set_ticks([value for value, _ in axis["ticks"]], [text for _, text in axis["ticks"]])
    on.set_ticks([], minor=True)


def _title(on: Axes, text: str) -> None:
    """The axis of values is named above it, where it reads level."""
    on.annotate(
        text, (0, 1), (-2, 9), xycoords="axes fraction", textcoords="offset points", fontsize=9, color=style.FAINT
    )


# ---------------------------------------------------------------------------------------------------------------------
# Lines over x.


def _lines(drawn: Data) -> Figure:
    cut, at = place_of(drawn["sliders"], but=drawn["x"]["along"]), drawn["sliders"][drawn["x"]["along"]]["at"]
    off = {line["name"] for line in drawn["lines"] if not line.get("on", True)}
    shown = [line for line in drawn["lines"] if not off & {line["name"], line.get("of")}
             and (line.get("kind") != "predicted" or drawn["predictions"])]  # fmt: skip
    named = [line for line in shown if line.get("kind") != "predicted"]
    names = {line["name"]: fill(line["short"], NAMES) for line in named}
    rows = sum(name.count("\n") + 1 for name in names.values())
    ticks = max((len(text) for _, text in drawn["y"]["ticks"]), default=4)
    across = max((len(part) for name in names.values() for part in name.split("\n")), default=0)
    below = TILES * ("tiles" in drawn)
    height, left, right = max(style.HEIGHT, 90 + ROW * rows), 30 + 0.85 * LETTER * ticks, 30 + LETTER * across
    on = _axes(height + below, left, right, 66.0 + below)
    _scale(on.xaxis, drawn["x"])
    _scale(on.yaxis, drawn["y"])
    on.set_xlabel(drawn["x"]["title"])
    _title(on, drawn["y"]["title"])
    for line in shown:
        _line(on, line, line["cuts"][cut])
    _end_names(on, [(line, names[line["name"]], line["cuts"][cut]) for line in named])
    here = [(line, row) for line in shown if not line.get("kind") for row in line["cuts"][cut] if row[0] == at]
    told = _brackets(on, drawn, here)
    _values(on, sorted(here, key=lambda each: each[1][2]), drawn["y"]["unit"], told)
    if below:
        _tiles(on, **drawn["tiles"], place=place_of(drawn["sliders"]))
    return on.figure  # type: ignore[return-value]


def _line(on: Axes, line: Data, rows: Sequence[Sequence[float]]) -> None:
    """A line with its intervals and points; a theoretical one is dashed, a prediction dotted."""
    xs, ys = [row[1] for row in rows], [row[2] for row in rows]
    colour, kind = _hues()[line["hue"]], line.get("kind")
    if kind:
        on.plot(xs, ys, "--" if kind == "guide" else ":", color=colour, linewidth=1.5, zorder=2.5)
        return
    on.fill_between(xs, [row[3] for row in rows], [row[4] for row in rows], color=colour, alpha=0.18, linewidth=0)
    on.plot(xs, ys, "-", color=colour, marker="o", markersize=3.2, markeredgewidth=0, linewidth=2, zorder=3)


def _end_names(on: Axes, named: Iterable[tuple[Data, str, Sequence[Sequence[float]]]]) -> None:
    """Each line's name at its right end, none on another."""
    low, high = (_pixels(on, y) for y in on.get_ylim())
    found = ((_pixels(on, rows[-1][2]) if rows else low, text, line) for line, text, rows in named)
    ends = sorted(found, key=itemgetter(0))
    sizes = [ROW * (text.count("\n") + 1) for _, text, _ in ends]
    for y, (_, text, line) in zip(apart([y for y, _, _ in ends], sizes, low, high + ROW), ends, strict=True):
        on.annotate(text, (1, (y - low) / (high - low)), (8, 0), xycoords="axes fraction", textcoords="offset points",
                    va="center", fontsize=9, fontweight="bold", color=_ink(line["hue"]), linespacing=1.15)  # fmt: skip


def apart(heights: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Rising heights moved until texts of these sizes around them lie within two ends and not on each other.

    >>> apart([10, 30, 31], [16, 16, 16], 0, 100)
    [9.0, 27.0, 43.0]
    """
    upwards = _pushed(heights, sizes, low, high)
    downwards = [-y for y in _pushed([-y for y in heights[::-1]], sizes[::-1], -high, -low)][::-1]
    return [(one + other) / 2 for one, other in zip(upwards, downwards, strict=True)]


def _pushed(heights: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Each as high as the one below it asks for, then as low as the end does."""
    found, edge = list(heights), low
    for i, size in enumerate(sizes):
        found[i] = max(found[i], edge + size / 2)
        edge = found[i] + size / 2
    edge = high
    for i, size in reversed([*enumerate(sizes)]):
        found[i] = min(found[i], edge - size / 2)
        edge = found[i] - size / 2
    return found


def _pixels(on: Axes, y: float) -> float:
    """How high a value stands, in CSS pixels."""
    return float(on.transData.transform((on.get_xlim()[0], y))[1]) / style.SHARP


def _brackets(on: Axes, drawn: Data, here: Sequence[tuple[Data, Sequence[float]]]) -> tuple[str, set[str]]:
    """From one line's point to the other's, with the factor; where they are too close, it is told with both."""
    rows = {line["name"]: row for line, row in here}
    for mark in drawn.get("marks", ()):
        if not all(name in rows for name in mark["lines"]):
            continue
        x, (low, high) = rows[mark["lines"][0]][1], sorted(rows[name][2] for name in mark["lines"])
        factor = str(mark["texts"][place_of(drawn["sliders"])])
        if _pixels(on, high) - _pixels(on, low) < 2 * CLOSE:
            return factor, {*mark["lines"]}
        side = -1 if on.transAxes.inverted().transform(on.transData.transform((x, low)))[0] > 0.7 else 1
        middle = on.transData.inverted().transform((0, (_pixels(on, low) + _pixels(on, high)) * style.SHARP / 2))[1]
        set_at = "right" if side < 0 else "left"
        line = {"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "color": style.INK, "shrinkA": 0, "shrinkB": 0}
        on.annotate("", (x, low), (x, high), arrowprops=line, zorder=2.8)
        on.annotate(factor, (x, middle), (9 * side, 1), textcoords="offset points", fontsize=15, fontweight="bold",
                    ha=set_at, zorder=5)  # fmt: skip
        on.annotate(fill(mark["label"], 18), (x, middle), (9 * side, -3), textcoords="offset points", fontsize=9,
                    va="top", ha=set_at, zorder=5)  # fmt: skip
    return "", set()


def _values(on: Axes, here: Sequence[tuple[Data, Sequence[float]]], unit: str, times: tuple[str, set[str]]) -> None:
    """The points where the slider stands, with their values above them; those close together stand in rows."""
    groups: list[list[tuple[Data, Sequence[float]]]] = []
    for each in here:
        near = groups and _pixels(on, each[1][2]) - _pixels(on, groups[-1][-1][1][2]) < CLOSE
        groups[-1].append(each) if near else groups.append([each])
        on.plot(*each[1][1:3], "o", color=_hues()[each[0]["hue"]], markersize=9, markeredgecolor=style.PAPER, zorder=4)
    for at, group in enumerate(groups):
        (line, row), least = group[-1], group[0][1]
        texts = [times[0]] if times[0] and {each["name"] for each, _ in group} == times[1] else []
        texts += dict.fromkeys(style.tick_label(each[2], unit) for _, each in reversed(group))
        below = at == 0 and len(groups) > 1 and _pixels(on, least[2]) - _pixels(on, on.get_ylim()[0]) > CLOSE
        on.annotate("\n".join(texts), (row[1], (least if below else row)[2]), (0, -9 if below else 9),
                    textcoords="offset points", ha=_side(on, row[1]), va="top" if below else "bottom", fontsize=10,
                    color=style.INK if len(group) > 1 else _ink(line["hue"]), fontweight="bold", zorder=6,
                    bbox=_PAPER)  # fmt: skip


def _side(on: Axes, x: float) -> str:
    """How a text at a place along x is set, so that it stays within the axes."""
    part = on.transAxes.inverted().transform(on.transData.transform((x, on.get_ylim()[0])))[0]
    return "left" if part < EDGE else "right" if part > 1 - EDGE else "center"


_PAPER = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.8, "alpha": 0.7}  # lines show through, paler


def _tiles(on: Axes, slots: int, at: Sequence[Sequence[int] | None], place: int) -> None:
    """Below a product's times its result in tiles, whose edge stands below the point, and its blocks in waves."""
    n, across, down, wide, tall, blocks = at[place] or (0, 0, 0, 0, 0, 0)
    waves, over, box = -(-blocks // slots), max(wide * across - n, 0), on.get_position()
    pixel = style.SHARP * box.height / on.bbox.height
    result, busy = (on.figure.add_axes((box.x0, low * pixel, box.width, size * pixel))
                    for low, size in PANELS)  # fmt: skip
    result.barh([0, 0], [n, over], 2, left=[0, n], color=[_hues()["sky"], _hues()["overhead"]])
    result.vlines([across * i for i in range(wide + 1)], -1, 1, color=style.PAPER, linewidth=0.8)
    result.hlines([2 * i / tall - 1 for i in range(tall)], 0, n + over, color=style.PAPER, linewidth=0.6)
    result.set(xlim=on.get_xlim(), ylim=(-1, 1))
    busy.barh(range(waves), 1, 0.8, color=IDLE)
    busy.barh(range(waves), [min(1, blocks / slots - wave) for wave in range(waves)], 0.8, color=_hues()["sky"])
    busy.set(xlim=(0, 1), ylim=(max(waves, 1) - 0.5, -0.5))
    said = ("no tiles: a kernel for one column", "")
    if waves:
        said = (f"the result: {wide * tall} tiles of {down} × {across}{f', {over} columns too wide' * (over > 0)}",
                f"{blocks} blocks in {waves} wave{'s' * (waves > 1)} of {slots} multiprocessors")  # fmt: skip
    for each, text in zip((result, busy), said, strict=True):
        each.set_title(text, loc="left", fontsize=9.5, pad=4)
        each.set_axis_off()


# ---------------------------------------------------------------------------------------------------------------------
# Bars, and a stack of parts.


def _rowed(names: Sequence[str], values: Iterable[str] = ()) -> Axes:
    """Axes with a row for each name, the first at the top, and room for the values behind."""
    folded = [fill(name, 30) for name in names]
    across = max((len(part) for name in folded for part in name.split("\n")), default=0)
    height = 96 + sum(max(BAR, 6 + ROW * (name.count("\n") + 1)) for name in folded)
    on = _axes(height, 20 + 0.8 * LETTER * across, max(125, 30 + LETTER * max(map(len, values), default=0)), above=24)
    on.set_ylim(len(names) - 0.5, -0.5)
    on.set_yticks(range(len(names)), folded, fontsize=9)
    on.tick_params(axis="y", length=0)
    on.grid(visible=False, axis="y")
    return on


def _bars(drawn: Data) -> Figure:
    """A bar for each line with its interval and its value; on a log axis, where only a factor has a length, a dot."""
    place, log = place_of(drawn["sliders"]), drawn["y"]["scale"] == "log"
    on = _rowed(
        [bar["label"] for bar in drawn["bars"]], [bar["at"][place][4] for bar in drawn["bars"] if bar["at"][place]]
    )
    _scale(on.xaxis, drawn["y"])
    on.set_xlabel(drawn["y"]["title"])
    for y, bar in enumerate(drawn["bars"]):
        colour, found = _hues()[bar["hue"]], bar["at"][place]
        if found is None:
            _behind(on, y, drawn["y"]["domain"][0], "not measured", style.FAINT)
            continue
        median, low, high, _, value = found
        if log and drawn["y"]["unit"] == "x":
            on.barh(y, median - 1, 0.62, left=1, color=colour, zorder=3)
        elif log:
            on.plot(median, y, "o", color=colour, markersize=9, zorder=4)
        else:
            on.barh(y, median, 0.62, color=colour, zorder=3)
        on.hlines(y, low, high, color=style.INK, linewidth=1.3, zorder=5)
        _behind(on, y, max(median, high), value, _ink(bar["hue"]))
    for rule in drawn["rules"]:
        if rule["at"][place] is not None:
            _rule(on, rule["label"], rule["at"][place])
    return on.figure  # type: ignore[return-value]


def _rule(on: Axes, label: str, at: float) -> None:
    """A theoretical line across all rows, named above."""
    on.axvline(at, color=style.FAINT, linestyle="--", linewidth=1.4, zorder=3.5)
    on.annotate(label, (at, 1), (0, 4), xycoords=("data", "axes fraction"), ha="center", textcoords="offset points",
                fontsize=8.5, color=style.FAINT)  # fmt: skip


def _behind(on: Axes, y: float, x: float, text: str, colour: str) -> None:
    on.annotate(text, (min(x, on.get_xlim()[1]), y), (8, 0), textcoords="offset points", va="center", fontsize=10,
                fontweight="bold", color=colour, annotation_clip=False, zorder=6)  # fmt: skip


def _stack(drawn: Data) -> Figure:
    """The whole, and below it each part in its place."""
    place, unit = place_of(drawn["sliders"]), drawn["x"]["unit"]
    whole, total = drawn["totals"][place]
    on = _rowed([f"together {total}", *(part["label"] for part in drawn["parts"])])
    limits = [(rule["label"], rule["at"][place]) for rule in drawn.get("rules", ()) if rule["at"][place] is not None]
    full = drawn.get("full", {place: False})[place]
    on.set_xlim(0, 1.02 * max(end for end, _ in (*drawn["totals"], *((at, "") for _, at in limits))) or 1)
    for label, at in limits:
        _rule(on, label, at)
    on.locator_params(axis="x", nbins=5)  # no more have room beside each other
    on.xaxis.set_major_formatter(lambda value, _: style.tick_label(value, unit))
    on.set_xlabel(drawn["x"]["title"])
    for y, part in enumerate(drawn["parts"], start=1):
        start, size, *_ = part["at"][place]
        colour = FULL if full else _hues()[part["hue"]]
        on.barh([0, y], size, 0.62, left=start, color=colour, edgecolor=style.PAPER, linewidth=0.6, zorder=3)
        share = f", {units.percent(size / whole, 2)}" if whole else ""
        _behind(on, y, start + size, f"{style.tick_label(size, unit)}{share}", _ink(part["hue"]))
    return on.figure  # type: ignore[return-value]
