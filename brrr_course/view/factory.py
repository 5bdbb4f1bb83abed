"""The course's picture: the host issues launches, memory sends bytes, compute works; later lessons see more of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from brrr.core.errors import ArgumentError
from brrr_course.nouns.places import share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from brrr.drawing.style import Picture

Highlight = Literal["overhead", "memory", "compute", "under-filled"]
Detail = Literal["gpu", "link", "dram", "l2", "sm"]

_DATA: Mapping[str, Any] = tomllib.loads((share("data") / "factory.toml").read_text(encoding="utf-8"))
STAGES: Mapping[Detail, str] = _DATA["stages"]
"""What each stage adds, in order."""
TITLES, BROUGHT_OUT = (
    {None if part == "none" else part: text for part, text in _DATA[name].items()} for name in ("titles", "brought_out")
)

WIDE, HIGH = 760, 496  # places in the drawing are CSS pixels from its lower left corner
Pair = tuple[str, str]  # the colour of a face, and of its edge
_INK, _FAINT, _PAPER = "#24292f", "#57606a", "#ffffff"


def factory(highlight: Highlight | None = None, *, detail: Detail = "gpu") -> Picture:
    """Draw a host and its GPU, and highlight what the work waits for.

    >>> factory("memory", detail="dram").alt[:57]
    'Memory-bound: the multiprocessors wait for the next bytes'

    Parameters
    ----------
    highlight : {"overhead", "memory", "compute", "under-filled"}, optional
        What is highlighted. By default nothing. An under-filled GPU shows in the warps; with less detail than "sm",
        "under-filled" highlights compute.
    detail : {"gpu", "link", "dram", "l2", "sm"}
        How much is drawn; each level adds to the one before.

    Returns
    -------
    Picture
        It shows itself in a notebook; `alt` says in words what it shows.

    Raises
    ------
    ArgumentError
        If a word is not one of these.
    """
    if highlight not in TITLES:
        raise ArgumentError("factory", "highlight", highlight, f"one of {', '.join(map(repr, TITLES))}")
    if detail not in STAGES:
        raise ArgumentError("factory", "detail", detail, "'gpu', 'link', 'dram', 'l2' or 'sm'")
    from brrr.drawing import style

    shown = list(STAGES)[: list(STAGES).index(detail) + 1]
    part = "compute" if highlight == "under-filled" and "sm" not in shown else highlight
    lit = {name: 1.0 if part in (None, name) else 0.35 for name in ("link", *filter(None, TITLES))}
    lit["under-filled"] = max(lit["under-filled"], lit["compute"])
    drawn = style.figure(WIDE, HIGH)
    on = style.axes(drawn, left=0.0, bottom=0.0, right=1.0, top=1.0)
    on.set_xlim(0, WIDE)
    on.set_ylim(0, HIGH)
    on.axis("off")
    _write(on, WIDE / 2, 474, TITLES[highlight], size=12.5, bold=True, align="center")
    for row in ({**group, **row} for group in _DATA["groups"] for row in group["rows"]):
        if row.get("from", "gpu") in shown and row.get("until") not in shown and row.get("but", "") != highlight:
            _draw(on, row, lit.get(row.get("part", ""), 1.0), few=highlight == "under-filled")
    says = " ".join(STAGES[stage] for stage in shown)
    return style.picture(drawn, f"{TITLES[highlight]}. {says}{BROUGHT_OUT[part]}")


def _draw(on: Axes, row: Mapping[str, Any], lit: float, *, few: bool) -> None:
    """A row of the data."""
    face, edge = _DATA["colours"].get(row.get("fill", row.get("edge")), ("", ""))
    colours = face if "fill" in row else _PAPER, edge
    match row:
        case {"box": [x, y, width, height]}:
            _box(on, x, y, width, height, colours, lit, row.get("name", ""))
        case {"cells": [x, y, columns, rows]}:
            for n in range(columns * rows):
                _box(on, x + 23 * (n % columns), y + 23 * (n // columns), 18, 18, colours, lit)
        case {"block": [x, width]}:
            _draw_block(on, x, width, colours, lit, row["few" if few else "warps"], row.get("names", ("", "")))
        case {"way": [foot, top, width]}:
            _draw_way(on, foot, top, width, _faded(edge, lit))
        case {"arrow": [left, right, y]}:
            line = {"arrowstyle": row["head"], "color": _faded(edge, lit), "linewidth": 2, "shrinkA": 0, "shrinkB": 0}
            on.annotate("", xy=(right, y), xytext=(left, y), arrowprops={**line, "mutation_scale": 13}, zorder=3)
        case {"text": [*texts], "at": [x, y]}:
            for n, line in enumerate([*texts, *row.get("like", ())]):
                _write(on, x, y - 17 * n, line, lit, bold=n == 0, like=n >= len(texts))
        case {"at": [x, y]}:
            looks = {name: row[name] for name in ("size", "bold", "align") if name in row}
            _write(on, x, y, row.get("text") or row["like"], lit, like="like" in row, **looks)


def _draw_way(on: Axes, foot: float, top: float, width: float, colour: Any) -> None:
    """A thick upright arrow with two heads: bytes go both ways."""
    from matplotlib.patches import Polygon

    half, shaft, head = width / 2, 0.3 * width, 12
    right = [(half, top - head), (shaft, top - head), (shaft, foot + head), (half, foot + head)]
    around = [(0, top), *right, (0, foot), *((-across, up) for across, up in reversed(right))]
    corners = [(430 + across, up) for across, up in around]
    on.add_patch(Polygon(corners, facecolor=colour, edgecolor="none", zorder=3))


def _draw_block(on: Axes, x: float, width: float, colours: Pair, lit: float, warps: int, names: Pair) -> None:
    """A thread block with up to four warps, and empty places for the rest; without a warp, the block's empty place."""
    _box(on, x, 302, width, 69, colours, lit, empty=not warps)
    if not warps:
        return
    _write(on, x + width / 2, 359, names[0], lit, align="center")
    gap = max(3, width / 17)
    wide = (width - 3 * gap) / 2
    for n in range(4):
        left, up, there = x + gap + (wide + gap) * (n % 2), 328 - 22 * (n // 2), n < warps
        _box(on, left, up, wide, 18, (_PAPER, colours[1]), lit, names[1] if there else "", empty=not there)


def _box(
    on: Axes, x: float, y: float, width: float, height: float, colours: Pair, lit: float, name: str = "",
    *, empty: bool = False,
) -> None:  # fmt: skip
    """A box with its name in the middle; an empty place has no face, and a dotted edge."""
    from matplotlib.patches import Rectangle

    face, edge = (_faded(colour, lit) for colour in colours)
    line = {"facecolor": "none", "linestyle": ":"} if empty else {"facecolor": face}
    on.add_patch(Rectangle((x, y), width, height, edgecolor=edge, linewidth=1.2, zorder=3, **line))
    _write(on, x + width / 2, y + height / 2, name, lit, align="center")


def _write(
    on: Axes, x: float, y: float, text: str, lit: float = 1.0, *,
    size: float = 9.5, bold: bool = False, like: bool = False, align: Literal["left", "center", "right"] = "left",
) -> None:  # fmt: skip
    """Text; a term is bold, what it is like slanted and grey. Faded text stays readable."""
    if text:
        on.text(
            x, y, text, ha=align, va="center", fontsize=max(size, 10.5 if bold else 0), zorder=5,
            color=_faded(_FAINT if like else _INK, max(lit, 0.75)),
            fontweight="bold" if bold else "normal", fontstyle="italic" if like else "normal",
        )  # fmt: skip


def _faded(colour: str, lit: float) -> tuple[float, ...]:
    """A colour mixed with the paper's white: unlike a transparent one, it hides what lies below."""
    from matplotlib.colors import to_rgb

    return tuple(1 - lit * (1 - share) for share in to_rgb(colour))
