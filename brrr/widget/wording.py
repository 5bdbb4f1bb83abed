"""A scene in words: the text line in front of the figure, and the figure's alternative text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from brrr import units
from brrr.experiment import Line
from brrr.measurement import Estimate
from brrr.widget.guides import ABOVE, label
from brrr.widget.stack import stacked

if TYPE_CHECKING:
    from brrr.widget.scene import Scene

_CHARTS = {
    "lines": "Line chart of {what} against {x}.",
    "ladder": "Bar chart of {what}: one bar for each of {lines}.",
    "stack": "One bar of {what}, stacked from the differences between {lines}; below it each part in its place.",
}


def place(scene: Scene) -> str:
    """The point in words: `size 4096`."""
    from brrr.plots import readable

    return ", ".join(f"{name} {readable(value)}" for name, value in scene.point.items())


class Reading(NamedTuple):
    """One of the values that the text line names: of what, the value, and what is said behind it."""

    label: str
    value: str
    beside: str = ""


def readings(scene: Scene) -> list[Reading]:
    """Each line's value where the slider stands (of a stack: each part's), then the theoretical lines there."""
    short = scene.quantity.short
    if scene.view.form == "stack":
        return [Reading(part.label, f"{short(part.value)}, {share(part.share)}") for part in stacked(scene)]
    said = [_reading(scene, scene.experiment.line(name), estimate) for name, estimate in scene.here().items()]
    heights = [(label(guide), scene.guides.at(guide, scene.point)) for guide in scene.guides.drawn]
    return said + [Reading(name, short(height)) for name, height in heights if height is not None]


def _reading(scene: Scene, line: Line, estimate: Estimate) -> Reading:
    beside = scene.quantity.beside(line, estimate)
    if is_above(scene, line.name, estimate.median):
        beside += f" ({ABOVE})"
    return Reading(line.label, scene.quantity.short(estimate.median), beside)


def is_above(scene: Scene, line: str, value: float, **at: int | float | str) -> bool:
    """Whether a line's rate passes a datasheet's limit at the point."""
    return scene.guides.exceeded(line, value, {**scene.point, **at}) is not None


def share(part: float) -> str:
    """A part of one, in whole percents where it is not tiny.

    >>> share(0.417), share(0.004)
    ('42 %', '0.4 %')
    """
    return units.percent(part, 1 if part < 0.1 else 2)


def remark(scene: Scene) -> str:
    """What stands behind the readings: a comparison, what has no value here, and a message."""
    here = scene.here()
    parts = (
        _stack_remark(scene) if scene.view.form == "stack" else _comparison(scene, here),
        _absent(scene, [name for name in scene.on if name not in here]),
        _no_datasheet(scene),
        _below(scene),
        scene.message,
    )
    return " ".join(part for part in parts if part)


def _comparison(scene: Scene, here: Mapping[str, Estimate]) -> str:
    """Largest over smallest, where there are two to compare."""
    most, least = scene.quantity.extremes
    if len(here) < 2 or not most:
        return ""
    large = max(here, key=lambda name: here[name].median)
    small = min(here, key=lambda name: here[name].median)
    factor = units.ratio(here[large].median / here[small].median)
    labels = [scene.experiment.line(name).label for name in (large, small)]
    return f"{most} over {least}: {factor} ({labels[0]} over {labels[1]})."


def _stack_remark(scene: Scene) -> str:
    parts = stacked(scene)
    if not parts:
        return ""
    dearest = max(scene.here().items(), key=lambda item: item[1].median)[0]
    total = f"All parts together: {scene.quantity.short(parts[-1].end)} ({scene.experiment.line(dearest).label})."
    return " ".join([total, *(part.note for part in parts if part.note)])


def _absent(scene: Scene, names: Sequence[str]) -> str:
    if not scene.lines:
        return nothing_here(scene)
    if not scene.on:
        return "No line is switched on."
    if not names:
        return ""
    said = "Not measured yet" if scene.source.live else "Not recorded here"
    return f"{said}: {'; '.join(scene.experiment.line(name).label for name in names)}."


def nothing_here(scene: Scene) -> str:
    """What is said where the source has none of the lines that the view is made of."""
    labels = "; ".join(scene.experiment.line(name).label for name in scene.view.only)
    return f"{scene.source.name} has none of the lines of this figure: {labels}."


def in_figure(scene: Scene) -> str:
    """The message in the middle of the figure."""
    return scene.message or ("" if scene.lines else nothing_here(scene))


def _no_datasheet(scene: Scene) -> str:
    """Why a datasheet's line is missing."""
    names = [guide.label for guide in scene.guides.unknown if guide not in scene.guides.drawn]
    return f"No datasheet of this device is known, so there is no line for: {'; '.join(names)}." if names else ""


def _below(scene: Scene) -> str:
    return f"Below, of other machines: {', '.join(p.badge for p in scene.published)}." if scene.published else ""


def alt(scene: Scene) -> str:
    """The alternative text of the picture: the same wherever the sliders stand."""
    lines = "; ".join(line.label for line in scene.lines)
    said = _CHARTS[scene.view.form].format(what=scene.y_label, x=scene.x_axis.title, lines=lines)
    dashed = [label(guide) for guide in scene.guides.drawn] if scene.view.form != "stack" else []
    parts = [said, *([f"Dashed: {'; '.join(dashed)}."] if dashed else []), scene.source_said]
    below = [panel.said for panel in scene.published]
    return " ".join(parts) + (f". Below: {'. '.join(below)}" if below else "")
