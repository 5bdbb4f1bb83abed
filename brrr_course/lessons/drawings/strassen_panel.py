"""The drawing of speed, error and workspace side by side, level by level, for one size and one kind of product.

This module's functions load matplotlib when they draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Value
from brrr.gpu import is_gpu
from brrr.strassen.ways import Way
from brrr_course.experiments import experiment
from brrr_course.experiments.strassen.frontier import Place, clocks_note, frontier, places, sizes
from brrr_course.experiments.strassen.ways import way_of, workspace_bytes
from brrr_course.lessons.drawings import Dial, Drawing, LessonDrawing
from brrr_course.nouns.source import Source, quick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from brrr.drawing.style import Picture
    from brrr_course.nouns.experiment import Experiment
    from brrr_course.view.display import Lock

LEVELS = (0, 1, 2, 3)
COLUMNS = ("speed over no levels", "error over no levels", "buffers over operands and result")
_HEIGHT = 330
_CHOSEN, _OTHER = "#D55E00", "#9aa4ae"
Row = tuple[float, float, float]
"""Speed and error over those without levels, and bytes of workspace over those of operands and result."""

Limits = tuple[float, float]

FIRST = {"cuda": 4096, "cpu": 512}
"""The size at which a live source measures before a drawing shows it."""

FIRST_ON_GPU = (
    "sgemm", "sgemm-strassen-1-prepared", "sgemm-strassen-2-prepared", "fp16x3", "fp16x3-strassen-1", "tf32",
    "bf16", "bf16-strassen-1", "fp16",
)  # fmt: skip
FIRST_ON_CPU = (
    "cpu-sgemm", "cpu-sgemm-strassen-1", "cpu-sgemm-strassen-1-prepared", "cpu-sgemm-strassen-2-prepared",
    "cpu-sgemm-winograd-1", "cpu-sgemm-winograd-2",
)  # fmt: skip
"""What a live source measures there. On a GPU each way takes most of a second to reach its own clock, on a CPU split
products are slow: with all of them a reader would wait for a minute."""

KINDS = {
    "float32, Strassen": ("sgemm", "strassen"),
    "float32, Winograd": ("sgemm", "winograd"),
    "float32's accuracy, tensor cores": ("fp16x3", "strassen"),
    "bfloat16": ("bf16", "strassen"),
}


def described() -> Experiment:
    """The experiment on Strassen's algorithm."""
    return experiment("strassen")


def sizes_with_errors(source: Source) -> list[int]:
    """The sizes of which a source has times and errors; a live one measures some ways at one size first."""
    if source.live:
        gpu = is_gpu(source.name)
        wanted, first = (FIRST_ON_GPU, FIRST["cuda"]) if gpu else (FIRST_ON_CPU, FIRST["cpu"])
        if quick() and not gpu:
            first = min(first, *map(int, source.values(described(), "size")))
        source.measure_together(described(), wanted, {"size": first})
    return sizes(source)


def size_dial(source: Source) -> Dial:
    """The slider of sizes; it begins with that of the most ways, of several the largest."""
    there = sizes_with_errors(source)
    if not there:
        what = f"{source.name} has no time with its error"
        raise NotRecordedError(f"drawing: {what}; `brrr record strassen` measures them")
    return Dial("size", "size", tuple(there), start=max(there, key=lambda size: (len(frontier(source, size)), size)))


def kinds_of(source: Source) -> dict[str, tuple[str, str]]:
    """The inner products and forms that a source has, by their titles."""
    variants = [described().variant(name) for name in source.variants(described())]
    gpu = any(each.on_gpu for each in variants)
    there = {(way.inner, way.form) for each in variants if each.on_gpu == gpu and (way := way_of(each.name))}
    return {title: each for title, each in KINDS.items() if each in there}


def levels_of(source: Source, kind: str, size: int) -> dict[int, Place]:
    """The way of each number of levels that was measured: with its right side prepared where that was."""
    inner, form = kinds_of(source)[kind]
    there = {way_of(place.variant): place for place in places(source, size)}
    found = {}
    for level in LEVELS:
        place = there.get(Way(inner, level, form, prepared=bool(level))) or there.get(Way(inner, level, form))
        if place is not None:
            found[level] = place
    return found


def rows(source: Source, kind: str, size: int) -> dict[int, Row]:
    """What each number of levels comes to; empty where the product without levels was not measured."""
    found = levels_of(source, kind, size)
    plain = found.get(0)
    if plain is None:
        return {}
    return {level: (plain.time_s / place.time_s, place.error / plain.error, _workspace(place, size))
            for level, place in found.items()}  # fmt: skip


def _workspace(place: Place, size: int) -> float:
    way = way_of(place.variant)
    return workspace_bytes(way, size) / (12 * size * size) if way is not None else 0.0


def drawing(source: Source, at: Mapping[str, Value], unlock: Lock | None) -> Drawing:
    """Three sliders: the size, the levels, the kind of product; NotRecordedError where nothing was measured."""
    size, kinds = size_dial(source), tuple(kinds_of(source))
    dials = (size, Dial("level", "levels", LEVELS, start=1), Dial("kind", "product", kinds))
    every = [row for kind in kinds for n in size.values for row in rows(source, kind, int(n)).values()]
    made = partial(draw, source=source, limits=_limits(every))
    return Drawing(dials, made, at, badge=str(source.badge(described())), unlock=unlock)


DRAWING = LessonDrawing("strassen-panel", drawing)


def text(settings: Mapping[str, Value], source: Source) -> str:
    """What is known where the sliders stand."""
    size, level, kind = int(settings["size"]), int(settings["level"]), str(settings["kind"])
    found, row = levels_of(source, kind, size), rows(source, kind, size).get(level)
    if row is None:
        return "this was not measured."
    place = found[level]
    way = way_of(place.variant)
    assert way is not None
    rate = units.rate(2 * size**3 / place.time_s, "FLOP/s")
    if not level:
        return f"{rate}; the relative error is {place.error:.1e}."
    return (
        f"{'right side prepared, ' * way.prepared}{units.ratio(row[0])} as fast as without "
        f"levels ({rate} effective), with {units.ratio(row[1])} the error ({place.error:.1e}), in buffers of "
        f"{units.ratio(row[2])} the bytes of operands and result.{clocks_note((place.clock_hz, found[0].clock_hz))}"
    )


def _limits(every: list[Row]) -> tuple[Limits, ...]:
    """The ends of the three axes, the same wherever the sliders stand."""
    speeds, errors, workspaces = zip(*every, strict=True) if every else ((1.0,),) * 3
    return _room(speeds), _room(errors), (0.0, 1.3 * max(*workspaces, 1.0))


def _room(values: tuple[float, ...]) -> Limits:
    low, high = min(*values, 0.8) / 1.3, max(*values, 1.3)
    return low, high * (high / low) ** 0.3  # room for the numbers beside the dots


def draw(settings: Mapping[str, Value], source: Source, limits: tuple[Limits, ...]) -> Picture:
    """Three panels over the same levels: a dot for each level, the slider's in colour."""
    from brrr.drawing import style

    found = rows(source, str(settings["kind"]), int(settings["size"]))
    made = style.emptied(_frames(limits))
    for column, on in enumerate(made.axes):
        values = {level: row[column] for level, row in found.items()}
        _dots(on, values, int(settings["level"]), 1.0 if column < 2 else 0.0)
    return style.picture(made, text(settings, source))


@lru_cache(maxsize=2)
def _frames(limits: tuple[Limits, ...]) -> Figure:
    """The panels without their dots."""
    from brrr.drawing import style

    made = style.figure(height=_HEIGHT)
    for column, (title, ends) in enumerate(zip(COLUMNS, limits, strict=True)):
        left = 0.085 + 0.31 * column
        on = style.axes(made, left=left, bottom=0.15, right=left + 0.265, top=0.86)
        _frame(on, title, ends, first=not column, log=column < 2)
    return made


def _frame(on: Axes, title: str, ends: Limits, *, first: bool, log: bool) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    if log:
        on.set_xscale("log")
        wide = ends[1] / ends[0] > 300
        on.xaxis.set_major_locator(LogLocator(10, subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=4 if wide else 8))
        on.xaxis.set_minor_locator(NullLocator())
    on.set_xlim(ends)
    on.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    on.set_ylim(LEVELS[-1] + 0.6, -0.6)
    on.set_yticks(LEVELS, [f"{level} level{'s' * (level != 1)}" for level in LEVELS] if first else [""] * len(LEVELS))
    on.tick_params(axis="y", length=0)
    on.tick_params(labelsize=9)
    on.grid(visible=False, axis="y")
    on.set_title(title, loc="left", y=1.0, fontsize=9.5, pad=8)


def _dots(on: Axes, values: Mapping[int, float], chosen: int, base: float) -> None:
    """A line from the base to each value, and the number beside it; a level without one says so."""
    from brrr.drawing import style

    on.axvline(base, color=style.FAINT, linewidth=0.9, zorder=1)
    paper = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.8}
    for level in LEVELS:
        if level not in values:
            on.text(0.5, level, "not measured", transform=on.get_yaxis_transform(), fontsize=8.5, color=style.FAINT,
                    ha="center", va="center", bbox=paper)  # fmt: skip
            continue
        value, colour = values[level], _CHOSEN if level == chosen else _OTHER
        on.plot([base, value], [level, level], color=colour, linewidth=2.4, zorder=2)
        on.plot([value], [level], "o", color=colour, markersize=7, zorder=3)
        on.annotate(units.ratio(value), (max(value, base), level), (8, 0), textcoords="offset points", va="center",
                    fontsize=8.5, color=style.INK, fontweight="bold" if level == chosen else "normal",
                    bbox=paper)  # fmt: skip
