"""What an explorer can show of an experiment with a source: which lines, which values, and the ratio of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.values import Value
from brrr.course.experiments.judging import stand_in
from brrr.course.nouns.experiment import Axis, Experiment, Line
from brrr.course.nouns.source import Source


def available(
    experiment: Experiment, source: Source, lines: Sequence[str] | None, only: Sequence[str] = ()
) -> list[Line]:
    """The lines asked for that this source can show; all that it can show, where it has none of them.

    `queue unsynchronized` stands in for `unsynchronized` where there is no GPU, and so with every line of the queue.
    `only` names, in order, the lines that alone make sense in this view: then there may be none.
    """
    here = source.variants(experiment)
    can = [line for line in experiment.lines if line.variant in here]
    names = {line.name for line in can}
    wanted = [found for name in lines or only if (found := stand_in(name, names))]
    if only:
        order = [stand_in(name, names) for name in only]
        return [experiment.line(name) for name in order if name is not None and name in wanted]
    return [line for line in can if line.name in wanted] or can


def slider_values(
    experiment: Experiment, source: Source, lines: Sequence[Line], keep: Mapping[str, Sequence[Value]]
) -> dict[str, tuple[Value, ...]]:
    """The values that each slider takes: those of the source at which at least one line may have a point.

    `keep` holds, by axis, the values to keep; where the source has none of them, it has no say. Raises
    NotRecordedError where an axis has none.
    """
    values = {axis.name: source.values(experiment, axis.name) for axis in experiment.axes}
    values = {name: tuple(v for v in all_ if v in keep.get(name, all_)) or all_ for name, all_ in values.items()}
    if experiment.supports and lines:
        variants = dict.fromkeys(line.variant for line in lines)
        points = [dict(zip(values, each, strict=True)) for each in product(*values.values())]
        there = [point for point in points if any(experiment.has(variant, point) for variant in variants)]
        found = {name: {point[name] for point in there} for name in values}
        values = {name: tuple(v for v in all_ if v in found[name]) for name, all_ in values.items()}
    for name, left in values.items():
        if not left:
            raise NotRecordedError(f"explore: {source.name} has no point of {experiment.name!r} along {name!r}")
    return values


def looks(experiment: Experiment, lines: Sequence[Line]) -> dict[str, int]:
    """The number of each line's look: its place in the experiment, so that it looks the same in every figure.

    Where two of the lines would then have the same colour, their places among themselves.
    """
    from brrr.drawing.style import COLOURS

    places = {line.name: experiment.lines.index(line) for line in lines}
    if len({place % len(COLOURS) for place in places.values()}) == min(len(places), len(COLOURS)):
        return places
    return {line.name: place for place, line in enumerate(lines)}


def snap(axis: Axis, values: Sequence[Value], value: Value) -> Value:
    """The value of the source closest to the one asked for: by ratio on a log axis."""
    axis.checked("explore", value)
    if axis.scale == "category" or value in values:
        if value not in values:
            raise ArgumentError("explore", axis.name, value, f"one of {', '.join(map(str, values))}")
        return value
    number = float(value)
    if axis.scale == "log":
        return min(values, key=lambda v: max(float(v) / number, number / float(v)))
    return min(values, key=lambda v: abs(float(v) - number))
