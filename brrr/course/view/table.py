"""The data table below a figure: its numbers with their intervals, and the theoretical and published ones."""

from __future__ import annotations

from collections.abc import Sequence

from brrr.core import units
from brrr.core.values import Value
from brrr.course.view.display import table_html
from brrr.course.view.guides import ABOVE
from brrr.course.view.published_panels import PublishedPanel
from brrr.course.view.scene import Row, Scene
from brrr.course.view.words import is_above, place, readings, share, stacked
from brrr.drawing import style

_MARK = "above the limit"  # in a cell; the caption says what it means


def table_of(scene: Scene) -> str:
    """What the figure shows as HTML tables: its own numbers, then the published ones of other machines."""
    made = {"lines": _line_table, "ladder": _ladder_table, "stack": _stack_table}[scene.view.form]
    header, rows = made(scene)
    caption = f"{scene.y_label}: median (95 % interval). {scene.source_said}"
    if scene.view.form != "lines":
        caption = f"{place(scene)}. {caption}"
    if any(_MARK in cell for row in rows for cell in row):
        caption = f"{ABOVE.capitalize()}. {caption}"
    return table_html(header, rows, caption) + "".join(_published_table(panel) for panel in scene.published)


Table = tuple[Sequence[str], list[Sequence[str]]]


def _line_table(scene: Scene) -> Table:
    """A row for each value along x; the theoretical lines and the predictions behind the measured ones."""
    data = {name: {row[0]: row for row in rows} for name, rows in scene.data.items()}
    guides = {name: dict(rows) for name, rows in scene.guide_data.items()}
    foreseen = {f"PREDICTED {scene.experiment.line(n).label}": dict(rows) for n, rows in scene.predicted_data.items()}
    guides |= {name: heights for name, heights in foreseen.items() if heights}
    rows: list[Sequence[str]] = []
    for x in scene.values[scene.view.x]:
        cells = [_cell(scene, name, data[name].get(x)) for name in scene.on]
        heights = [_height(scene, guides[name].get(x)) for name in guides]
        if any(cells):
            rows.append([style.readable(x), *cells, *heights])
    header = [scene.x_axis.name, *(scene.experiment.line(name).label for name in scene.on), *guides]
    return header, rows


def _cell(scene: Scene, name: str, row: Row | None) -> str:
    if row is None:
        return ""
    x, middle, low, high = row
    beside = f", {_MARK}" if is_above(scene, name, middle, **{scene.view.x: x}) else ""
    return f"{scene.quantity.short(middle)} ({scene.quantity.between(low, high)}){beside}"


def _height(scene: Scene, height: float | None) -> str:
    return "" if height is None else scene.quantity.short(height)


def _ladder_table(scene: Scene) -> Table:
    """A row for each bar, and its ratio to the smallest; then the theoretical values."""
    here = scene.here()
    smallest = min((e.median for e in here.values()), default=1.0)
    x: Value = scene.point[scene.view.x]
    rows: list[Sequence[str]] = []
    for name, e in here.items():
        cell = _cell(scene, name, (x, e.median, e.low, e.high))
        rows.append([scene.experiment.line(name).label, cell, units.ratio(e.median / smallest)])
    rows += [[name, value, ""] for name, value, _ in readings(scene)[len(here) :]]
    return ["line", scene.y_label, "over the smallest"], rows


def _stack_table(scene: Scene) -> Table:
    """A row for each part, with the interval of the difference and its share of the whole."""
    short, between = scene.quantity.short, scene.quantity.between
    rows: list[Sequence[str]] = []
    for part in stacked(scene):
        said = f"{short(part.value)} ({between(part.low, part.high)})"
        rows.append([part.label, said, share(part.share), scene.experiment.line(part.line).label])
    return ["part", scene.y_label, "share", "up to the line"], rows


def _published_table(panel: PublishedPanel) -> str:
    xs = sorted({x for curve in panel.curves for x in curve.xs})
    found = [dict(zip(curve.xs, curve.ys, strict=True)) for curve in panel.curves]
    rows = [[style.readable(x), *(units.ratio(c[x]) if x in c else "" for c in found)] for x in xs]
    return table_html([panel.x_label, *(c.label for c in panel.curves)], rows, f"{panel.y_label}. {panel.badge}")
