"""The drawing of speed, error and workspace side by side, level by level, for one size and one kind of product.

This module's functions load matplotlib when they draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.measurement import Value
from brrr.course.experiments.strassen.frontier import clocks_note
from brrr.course.lessons.drawings import Dial, Drawing, LessonDrawing
from brrr.course.lessons.drawings.strassen_frontier import (
    Seen,
    described,
    fullest,
    kinds_of,
    nothing_measured,
    seen,
    sizes_with_errors,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from brrr.course.nouns.source import Source
    from brrr.course.view.display import Lock
    from brrr.drawing.style import Picture

LEVELS = (0, 1, 2, 3)
_HEIGHT = 330
_CHOSEN, _OTHER = "#D55E00", "#9aa4ae"
Limits = tuple[float, float]


def drawing(source: Source, at: Mapping[str, Value], unlock: Lock | None) -> Drawing:
    """Three sliders: the size, the levels, the kind of product; NotRecordedError where nothing was measured."""
    there, kinds = sizes_with_errors(source), kinds_of(source)
    if not there:
        raise nothing_measured(source)
    dials = (
        Dial("size", "size", tuple(there), start=fullest(source, there)),
        Dial("level", "levels", LEVELS, start=1),
        Dial("kind", "product", tuple(kinds)),
    )
    limits = _limits(source, there, kinds)
    made = partial(draw, source=source, limits=limits)
    return Drawing(dials, made, at, badge=str(source.badge(described())), unlock=unlock)


DRAWING = LessonDrawing("strassen-panel", drawing)


def rows(source: Source, kind: str, size: int) -> dict[int, tuple[Seen, float, float]]:
    """For each level that was measured: the way, its speed and its error over those of the same product without levels.

    Empty where that one was not measured.
    """
    inner, form = kinds_of(source)[kind]
    found = {level: each for level in LEVELS if (each := seen(source, inner, form, level, size)) is not None}
    if 0 not in found:
        return {}
    plain = found[0]
    return {level: (each, plain.time_s / each.time_s, each.error / plain.error) for level, each in found.items()}


def text(settings: Mapping[str, Value], source: Source) -> str:
    """What is known where the sliders stand."""
    size, level = int(settings["size"]), int(settings["level"])
    found = rows(source, str(settings["kind"]), size)
    if level not in found:
        return "this was not measured."
    way, faster, worse = found[level]
    rate = units.rate(2 * size**3 / way.time_s, "FLOP/s")
    if not level:
        return f"{rate}; the relative error is {way.error:.1e}."
    ready = "right side prepared, " if way.way.prepared else ""
    return (
        f"{ready}{units.ratio(faster)} as fast as without levels ({rate} effective), with {units.ratio(worse)} the "
        f"error ({way.error:.1e}), in buffers of {units.ratio(way.workspace)} the bytes of operands and result."
        f"{clocks_note((way.clock_hz, found[0][0].clock_hz))}"
    )


def _limits(source: Source, there: list[int], kinds: Mapping[str, object]) -> tuple[Limits, Limits, Limits]:
    """The ends of the three axes, the same wherever the sliders stand."""
    every = [each for kind in kinds for size in there for each in rows(source, kind, size).values()]
    speeds, errors = [speed for _, speed, _ in every] or [1.0], [error for *_, error in every] or [1.0]
    most = max([seen.workspace for seen, *_ in every] or [1.0])
    return _room(speeds), _room(errors), (0.0, 1.3 * max(most, 1.0))


def _room(values: list[float]) -> Limits:
    low, high = min([*values, 0.8]) / 1.3, max([*values, 1.3])
    return low, high * (high / low) ** 0.3  # room for the numbers beside the dots


def draw(settings: Mapping[str, Value], source: Source, limits: tuple[Limits, Limits, Limits]) -> Picture:
    """Three panels over the same levels: a dot for each level, the slider's in colour."""
    from brrr.drawing import style

    found = rows(source, str(settings["kind"]), int(settings["size"]))
    made = style.figure(height=_HEIGHT)
    columns: tuple[tuple[str, Callable[[tuple[Seen, float, float]], float]], ...] = (
        ("speed over no levels", lambda each: each[1]),
        ("error over no levels", lambda each: each[2]),
        ("buffers over operands and result", lambda each: each[0].workspace),
    )
    for place, ((title, value), ends) in enumerate(zip(columns, limits, strict=True)):
        left = 0.085 + 0.31 * place
        on = style.axes(made, left=left, bottom=0.15, right=left + 0.265, top=0.86)
        _frame(on, title, ends, first=not place, log=place < 2)
        _dots(
            on, {level: value(each) for level, each in found.items()}, int(settings["level"]), 1.0 if place < 2 else 0.0
        )
    return style.picture(made, text(settings, source))


def _frame(on: Axes, title: str, ends: Limits, *, first: bool, log: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if log:
        on.set_xscale("log")
        wide = ends[1] / ends[0] > 300
        on.xaxis.set_major_locator(LogLocator(10, subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=4 if wide else 8))
        on.xaxis.set_minor_locator(NullLocator())
    on.set_xlim(ends)
    on.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    on.set_ylim(LEVELS[-1] + 0.6, -0.6)
    on.set_yticks(LEVELS, [f"{level} level{'s' * (level != 1)}" for level in LEVELS] if first else [""] * len(LEVELS))
    on.tick_params(axis="y", length=0)
    on.tick_params(labelsize=9)
    on.grid(visible=False, axis="y")
    on.set_title(title, loc="left", fontsize=9.5, pad=8)


def _dots(on: Axes, values: Mapping[int, float], chosen: int, base: float) -> None:
    """A line from the base to each value, and the number beside it; a level without one says so."""
    from brrr.drawing import style

    on.axvline(base, color=style.FAINT, linewidth=0.9, zorder=1)
    for level in LEVELS:
        colour = _CHOSEN if level == chosen else _OTHER
        if level not in values:
            on.text(0.5, level, "not measured", transform=on.get_yaxis_transform(), fontsize=8.5, color=style.FAINT,
                    ha="center", va="center", bbox={"facecolor": style.PAPER, "edgecolor": "none"})  # fmt: skip
            continue
        value = values[level]
        on.plot([base, value], [level, level], color=colour, linewidth=2.4, zorder=2)
        on.plot([value], [level], "o", color=colour, markersize=7, zorder=3)
        on.annotate(
            units.ratio(value), (max(value, base), level), (8, 0), textcoords="offset points", ha="left", va="center",
            fontsize=8.5, color=style.INK, fontweight="bold" if level == chosen else "normal",
            bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.8},
        )  # fmt: skip
