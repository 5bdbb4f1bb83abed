"""A scene in words: the text line in front of the figure, and the figure's alternative text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from brrr.core import units
from brrr.core.measurement import Estimate
from brrr.course.experiments.judging import stand_in
from brrr.course.nouns.experiment import Line
from brrr.course.view.guides import ABOVE, label

if TYPE_CHECKING:
    from brrr.course.view.scene import Scene

_CHARTS = {
    "lines": "Line chart of {what} against {x}.",
    "ladder": "Bar chart of {what}: one bar for each of {lines}.",
    "stack": "One bar of {what}, stacked from the differences between {lines}; below it each part in its place.",
}


def place(scene: Scene) -> str:
    """The point in words: `size 4096`."""
    from brrr.drawing.style import readable

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


def text(scene: Scene) -> str:
    """One line that says what the figure shows at the slider's value."""
    said = "; ".join(f"{label}: {value}{beside}" for label, value, beside in readings(scene))
    return f"At {place(scene)}{': ' if said else ''}{said}. {remark(scene)}".rstrip()


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


# ---------------------------------------------------------------------------------------------------------------------
# A stack: what each rung adds to the one before, as parts that together make the dearest.


@dataclass(frozen=True)
class Part:
    """One part of a stack: from `start` to `end`, in the unit of the figure, with its share of the whole.

    `low` and `high` bound the difference by the widest interval that the two times allow; `note` says what a reader
    must know: a rung that is not slower than the one before, or one that was not measured.
    """

    line: str
    label: str
    start: float
    end: float
    low: float
    high: float
    share: float
    note: str = ""

    @property
    def value(self) -> float:
        """How much it adds."""
        return self.end - self.start


Rung = tuple[str, str, Estimate | None]
"""A line's name, its part's label, and its time at the point if it is there."""


def parts_of(rungs: Sequence[Rung]) -> list[Part]:
    """The parts of rungs from the cheapest to the dearest; a rung below the highest so far adds nothing, and says so.

    >>> a, b = Estimate(2.0, 1.9, 2.1, 9), Estimate(5.0, 4.8, 5.2, 9)
    >>> [(part.label, part.value, part.share) for part in parts_of([("a", "launch", a), ("b", "dispatch", b)])]
    [('launch', 2.0, 0.4), ('dispatch', 3.0, 0.6)]
    """
    highest = Estimate(0.0, 0.0, 0.0, 1)
    made: list[Part] = []
    missing: list[str] = []
    whole = max((time.median for _, _, time in rungs if time), default=0.0)
    for line, name, time in rungs:
        if time is None:
            missing.append(name)
            continue
        top = max(highest.median, time.median)
        note = _note(name, missing, time, highest)
        low, high = max(0.0, time.low - highest.high), max(0.0, time.high - highest.low)
        share = (top - highest.median) / whole if whole else 0.0
        made.append(Part(line, name, highest.median, top, low, high, share, note))
        highest = time if time.median >= highest.median else highest
        missing = []
    return made


def _note(label: str, missing: Sequence[str], time: Estimate, highest: Estimate) -> str:
    inside = f"{label} contains what was not measured: {'; '.join(missing)}." if missing else ""
    if time.median >= highest.median:
        return inside
    if time.high >= highest.low:
        said = f"{label} is shown as zero: its difference is negative, within the noise."
    else:
        said = f"{label} is shown as zero: with it the call was faster than without, by more than the noise."
    return f"{inside} {said}".strip()


def stacked(scene: Scene) -> list[Part]:
    """The parts of a scene's stack where its sliders stand."""
    here, lines = scene.here(), {line.name for line in scene.lines}
    rungs = [stand_in(name, lines) or name for name in scene.view.parts]  # the source may lack some
    return parts_of([(name, part_label(scene, name), here.get(name)) for name in rungs])


def part_label(scene: Scene, line: str) -> str:
    """What a line's part is called: as `show` names it."""
    parts = scene.view.parts
    return parts.get(line) or parts.get(line.removeprefix("queue ")) or scene.experiment.line(line).label
