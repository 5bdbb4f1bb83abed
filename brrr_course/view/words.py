"""A scene in words and numbers: the text line, the alternative text, and the table of predictions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from brrr.core import units
from brrr.core.measurement import Estimate, Value
from brrr.gpu import gpu_here
from brrr_course.nouns import places
from brrr_course.nouns.experiment import HAVE, Axis, Experiment, Line
from brrr_course.nouns.source import Source
from brrr_course.view.arguments import Versus
from brrr_course.view.display import folded_html, table_html, table_text
from brrr_course.view.predictions import LinePrediction
from brrr_course.view.quantities import ABOVE, label, ratio
from brrr_course.view.scene import Scene
from brrr_course.view.stack import is_full, stacked

_CHARTS = {
    "lines": "Line chart of {what} against {x}.",
    "ladder": "Chart of {what}: a row for each of {lines}.",
    "stack": "One bar of {what}, stacked from the differences between {lines}; below it each part in its place.",
}


def place(scene: Scene, but: str = "") -> str:
    """The point in words: `size 4096`; without one of the axes, where it is named."""
    return scene.experiment.place(scene.point, but)


def spot(axis: Axis, value: Value) -> str:
    """Where on an axis, in a comparison: a word needs no preposition."""
    return axis.says(value) if isinstance(value, str) else f"at {axis.says(value)}"


LONGEST = 24
"""A label of more letters than these is told in fewer words at its line's end; tables and sentences have it whole."""


def brief(label: str) -> str:
    """A line's name at its end.

    >>> brief("GPU, clock stopped without waiting"), brief("torch.compile")
    ('GPU, not waited for', 'torch.compile')
    """
    for words, fewer in _fewer().items() if len(label) > LONGEST else ():
        label = label.replace(words, fewer)
    return label


@cache
def _fewer() -> dict[str, str]:
    return tomllib.loads((places.share("data") / "short_names.toml").read_text(encoding="utf-8"))


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
    said = [reading(scene, scene.experiment.line(name), estimate) for name, estimate in scene.here().items()]
    heights = [(label(guide), scene.guides.at(guide, scene.point)) for guide in scene.guides.drawn]
    return said + [Reading(name, short(height)) for name, height in heights if height is not None]


def text(scene: Scene) -> str:
    """All that is said of the figure where the sliders stand: the verdict, then the rest."""
    return f"{verdict(scene)} {details(scene)}"


def verdict(scene: Scene) -> str:
    """What the figure says where the sliders stand, in one line: the guess and what it asks for, else a comparison.

    What stands in the way of both comes first.
    """
    if scene.message or not (here := scene.here()):
        return scene.message or _absent(scene, scene.on)
    if answered := _answered(scene):
        return f"{_guessed(scene)} {begun(answered)}".strip()
    return begun(_stack_verdict(scene) if scene.view.form == "stack" else _compared(scene, here))


def begun(sentence: str) -> str:
    """A sentence with a capital at its head, unless that is a name of a program's.

    >>> begun("the launch: 49 % of it."), begun("torch.relu: 2×."), begun("int8 weights: 2×.")
    ('The launch: 49 % of it.', 'torch.relu: 2×.', 'int8 weights: 2×.')
    """
    return sentence[:1].upper() + sentence[1:] if re.match(r"[a-z]+(?![\w.(])", sentence) else sentence


def details(scene: Scene) -> str:
    """Each line's value where the sliders stand, what has none there, and what drifted."""
    said = "; ".join(f"{label}: {value}{beside}" for label, value, beside in readings(scene))
    return f"At {place(scene)}{': ' if said else ''}{said}. {remark(scene)}".rstrip()


def _guessed(scene: Scene) -> str:
    """The number that was guessed, where the sliders stand as they do for it."""
    found, asked = scene.guessed, scene.view.asked
    if found is None or asked is None or scene.point != found.point or not isinstance(asked.guess.value, float):
        return ""
    return f"You said {scene.said(asked.guess.value)}."


def _answered(scene: Scene) -> str:
    """What the guess asks for, where the sliders stand; where it was asked, as an answer to its question."""
    answer, asked, found = scene.answer, scene.view.asked, scene.guessed
    if answer is None or asked is None or found is None:
        return ""
    told, line = scene.said(answer), scene.quantity.here(asked.of.line)
    if found.exact and scene.point == found.point and "..." in asked.guess.question:
        question = asked.guess.question.replace("... times as", "as" if is_same(answer) else "... times as")
        return f"{question.replace('...', told.rstrip('×'))}."
    if asked.of.over and (others := _pairs(scene)[1:]):
        return f"{spot(scene.x_axis, scene.point[scene.view.x])}, {_pair(others[0], scene.relation)}."
    if scene.asks_factor and len(sides := _sides(scene, asked.of)) == 2:
        one, other = (said.label for _, said in sides)
        if sides[0] == sides[1]:
            return f"{one}: {sides[0][1].value}."
        many = "" if is_same(answer) else f"{told} "
        return f"{_where(scene)}{did(one, scene.relation)} {many}{scene.relation} {rest(other, one)}."
    if base := scene.quantity.base(line):
        as_much = scene.quantity.as_much
        return f"{_where(scene)}{did(line.label, as_much)} {told} {as_much} {base.label}."
    return f"{line.label}: {told}."


def is_same(factor: float) -> bool:
    """Whether two values are the same to three digits, near enough.

    >>> is_same(0.999), is_same(1.03)
    (True, False)
    """
    return abs(factor - 1) < 0.005


def did(label: str, relation: str) -> str:
    """A line as the subject of a comparison; in the past tense one verb does for one thing and for many.

    >>> did("int4 weights", "as long as"), did("relu, out=", "as fast as")
    ('int4 weights took', 'relu, out=, ran')
    """
    return f"{label}{',' if ', ' in label else ''} {'ran' if relation == 'as fast as' else 'took'}"


def _where(scene: Scene) -> str:
    """The place along x, as a sentence begins that does not compare two of them."""
    x = scene.view.x
    compares = any(x in each.over for each in scene.view.versus)
    if compares or scene.view.form != "lines" or isinstance(scene.point[x], str):
        return ""
    return f"{spot(scene.x_axis, scene.point[x])}, "


def reading(scene: Scene, line: Line, estimate: Estimate) -> Reading:
    """What the text line says of a line."""
    beside = scene.quantity.beside(line, estimate)
    if scene.guides.exceeded(line.name, estimate.median, scene.point):
        beside += f" ({ABOVE})"
    return Reading(line.label, scene.quantity.short(estimate.median), beside)


def share(part: float) -> str:
    """A part of one, in whole percents where it is not tiny.

    >>> share(0.417), share(0.004)
    ('42 %', '0.4 %')
    """
    return units.percent(part, 1 if part < 0.1 else 2)


def remark(scene: Scene) -> str:
    """What stands behind the readings: notes on a stack's parts, what has no value here or drifted."""
    here = scene.here()
    drawn = [scene.experiment.line(name) for name, rows in scene.data.items() if rows]
    relation = scene.quantity.relation
    parts = (
        *(f"{_pair(sides, relation)}." for sides in _pairs(scene)[1:] if relation),
        *(part.note for part in (stacked(scene) if scene.view.form == "stack" else ())),
        _absent(scene, [name for name in scene.on if name not in here]) if here else "",
        drifted(scene.experiment, scene.source, drawn),
        lacking(scene),
        no_datasheet(scene),
    )
    return " ".join(part for part in parts if part)


ALIKE = 1.05
"""Values within this factor of each other are hardly different."""


def _compared(scene: Scene, here: Mapping[str, Estimate]) -> str:
    """What `versus` names first, else the best line with the next; of ratios the best over its base.

    Of shares and of a single line the values.
    """
    relation = scene.quantity.relation
    found = {name: reading(scene, scene.experiment.line(name), here[name]) for name in here}
    order = sorted(here, key=lambda name: here[name].median, reverse=scene.quantity.more_is_better)
    pairs = _pairs(scene) or [_ends(scene, [(here[name].median, found[name]) for name in order])]
    if relation and len(pairs[0]) == 2:
        return f"{_where(scene)}{_pair(pairs[0], relation)}."
    for best in (found[name] for name in order if found[name].beside and not relation):
        return f"{_where(scene)}{did(best.label, scene.quantity.as_much)} {best.value}{best.beside}."
    return f"{'; '.join(f'{each.label}: {each.value}{each.beside}' for each in found.values())}."


def _pairs(scene: Scene) -> list[list[tuple[float, Reading]]]:
    """The comparisons that `versus` names, of which both sides are on and were measured."""
    return [sides for each in scene.view.versus if len(sides := _sides(scene, each)) == 2]


def _ends(scene: Scene, sides: list[tuple[float, Reading]]) -> list[tuple[float, Reading]]:
    """Of lines, the best first: that one and its rival, the next; of a ladder's rungs both ends. Of many it says so."""
    if len(sides) < 3:
        return sides
    best, last = scene.quantity.best_and_last
    at, called = (-1, last) if scene.view.form == "ladder" else (1, "the next")
    named = zip((sides[0], sides[at]), (best, called), strict=True)
    return [(value, said._replace(label=f"{name}, {said.label}")) for (value, said), name in named]


def _sides(scene: Scene, versus: Versus) -> list[tuple[float, Reading]]:
    """The two that a comparison is of, as far as they are on and were measured."""
    sides = []
    for name, point in ((versus.line, scene.point), (versus.base, {**scene.point, **versus.over})):
        line = scene.quantity.here(name)
        found = scene.everywhere.get(line.name, {}).get(tuple(point.values()))
        if found and line.name in scene.on:
            said = reading(scene, line, found)
            where = "".join(f", {spot(scene.experiment.axis(each), point[each])}" for each in versus.over)
            sides.append((found.median, said._replace(label=said.label + where)))
    return sides


def base_of(scene: Scene) -> dict[str, str]:
    """Of a line that the sentence compares with itself elsewhere: where, and its value there, in brackets."""
    found = {}
    for versus in (each for each in scene.view.versus[:1] if each.line == each.base):
        said = [said for _, said in _sides(scene, versus)]
        if said[1:] and said[0] != said[1]:
            found[scene.quantity.here(versus.line).name] = f" ({rest(said[1].label, said[0].label)}: {said[1].value})"
    return found


def _pair(sides: list[tuple[float, Reading]], relation: str) -> str:
    """The larger over the smaller, unless they hardly differ; only the value where both are the same."""
    if sides[0] == sides[1]:
        return "{}: {}{}".format(*sides[0][1])
    (large, most), (small, least) = sorted(sides, key=lambda side: -side[0])
    if not small:  # of nothing, nothing is a multiple
        return f"{most.label}: {most.value}; {least.label}: {least.value}"
    if large < ALIKE * small:
        (_, most), (_, least) = sides
        within = f"(within {units.percent(ALIKE - 1)})"
        return f"{did(most.label, relation)} {relation} {rest(least.label, most.label)} {within}"
    return f"{did(most.label, relation)} {ratio(large / small)} {relation} {rest(least.label, most.label)}"


def rest(label: str, other: str) -> str:
    """A label without the parts that it begins with as the other one does.

    >>> rest("GPU, clock stopped without waiting", "GPU, clock stopped after synchronize()"), rest("relu", "relu out")
    ('clock stopped without waiting', 'relu')
    """
    parts = label.split(", ")
    pairs = enumerate(zip(parts, other.split(", "), strict=False))
    return ", ".join(parts[next((n for n, (one, two) in pairs if one != two), 0) :])


def _stack_verdict(scene: Scene) -> str:
    most = max(parts := stacked(scene), key=lambda part: part.value)
    if is_full(scene):
        return f"Out of memory: it needs at least {scene.quantity.short(parts[-1].end)}."
    return f"{most.label}: {share(most.share)} of {scene.quantity.short(parts[-1].end)}."


def _absent(scene: Scene, names: Sequence[str]) -> str:
    if not scene.lines:
        return nothing_here(scene)
    if not scene.on:
        return "No line is switched on."
    if not names:
        return ""
    lines = list(map(scene.experiment.line, names))
    said = "Not measured yet" if scene.source.live else "Not recorded here"
    why = dict.fromkeys(refused(scene, line) for line in lines)
    return " ".join(filter(None, (f"{said}: {'; '.join(line.label for line in lines)}.", *why)))


def refused(scene: Scene, line: Line) -> str:
    """Why a line has no value where the sliders stand: a recording tells what was tried in vain."""
    found = getattr(scene.source, "refused", None)
    return str(found(scene.experiment, line.variant, scene.point)) if found else ""


def drifted(experiment: Experiment, source: Source, lines: Iterable[Line]) -> str:
    """By how much the lines' times were others when anchors were measured again; empty where none drifted."""
    drifts = source.drifts(experiment)
    found = [(drifts[line.variant, line.field], line) for line in lines if (line.variant, line.field) in drifts]
    if not found:
        return ""
    most, line = max(found, key=lambda drift: drift[0])
    return f"Measured again later, times differ by up to {units.percent(most, 2)} ({line.label})."


def lacking(scene: Scene) -> str:
    """Which of the lines asked for cannot be measured on the accelerator that is here, and what it lacks for them."""
    kind, found = scene.source.kind if scene.source.live else gpu_here(), scene.experiment
    lacks = {line.label: found.lacks(found.variant(line.variant), kind) for line in scene.asked} if kind else {}
    named = {what: "; ".join(label for label in lacks if lacks[label] == what) for what in HAVE}
    return " ".join(f"This GPU has no {what}, which these need: {named[what]}." for what in HAVE if named[what])


def nothing_here(scene: Scene) -> str:
    """What is said where the source has none of the lines that the view is made of."""
    labels = "; ".join(scene.experiment.line(name).label for name in scene.view.only)
    return f"{scene.source.name} has none of the lines of this figure: {labels}."


def no_datasheet(scene: Scene) -> str:
    """Why a datasheet's line is missing."""
    names = [guide.label for guide in scene.guides.unknown if guide not in scene.guides.drawn]
    return f"No datasheet of this device is known, so there is no line for: {'; '.join(names)}." if names else ""


def alt(scene: Scene) -> str:
    """The alternative text of the picture: the same wherever the sliders stand."""
    lines = "; ".join(line.label for line in scene.lines)
    form = "ladder" if scene.view.form == "lines" and scene.x_axis.scale == "category" else scene.view.form
    said = _CHARTS[form].format(what=scene.y_label, x=scene.x_axis.title, lines=lines)
    dashed = [label(guide) for guide in scene.guides.drawn] if scene.view.form != "stack" else []
    parts = [said, *([f"Dashed: {'; '.join(dashed)}."] if dashed else []), scene.source_said]
    return " ".join(parts)


# ---------------------------------------------------------------------------------------------------------------------
# The predictions below a figure: for each line its time, what limits it, and measured over predicted.

HEADER = ("line", "PREDICTED", "bound", "measured", "over predicted")
_NOTHING = "–"


def cells(row: LinePrediction) -> tuple[str, str, str, str, str]:
    """One line's row, as text.

    >>> cells(LinePrediction("relu", "relu", 2e-6, "memory", None))
    ('relu', '2 µs', 'memory', '–', '–')
    """
    predicted = _NOTHING if row.predicted_s is None else units.seconds(row.predicted_s)
    measured = _NOTHING if row.measured is None else units.seconds(row.measured.median)
    over = _NOTHING if row.residual is None else ratio(row.residual)
    return row.label, predicted, row.bound or _NOTHING, measured, over


def origin(scene: Scene) -> str:
    """What stands below the table: the badge of the predictions, and what is missing."""
    return scene.predictions.origin(scene.experiment.line(name) for name in scene.on)


def as_bundle(scene: Scene) -> dict[str, str]:
    """The table for an edition that is read: as HTML, and as text."""
    rows = [cells(row) for row in scene.predicted_here]
    if not rows:
        return {"text/markdown": origin(scene), "text/plain": origin(scene)}
    return {
        "text/html": folded_html("Predictions", table_html(HEADER, rows, f"At {place(scene)}. {origin(scene)}")),
        "text/plain": table_text(HEADER, rows, f"At {place(scene)}. {origin(scene)}"),
    }
