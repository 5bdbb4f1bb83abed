"""Comparisons of more than times at a point: along an axis, of speed-ups, of memory, of an axis's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Estimate, Measurement, Point, Value
from brrr_course.experiments import experiment as experiment_named
from brrr_course.lessons.answers import Ranking
from brrr_course.lessons.comparison import (
    checked_factor,
    judged,
    lines_here,
    measured_at,
    reachable,
    time_at,
    where_text,
    with_drifts,
)
from brrr_course.lessons.guessing import Guess
from brrr_course.lessons.waiting import UNANSWERED, Comparison, fills_in
from brrr_course.nouns.experiment import Experiment, Line
from brrr_course.nouns.source import Source
from brrr_course.sources import source as default_source
from brrr_course.view.predictions import Predictions

_Place = dict[str, Value]
Of = Literal["time", "rate"]

# ---------------------------------------------------------------------------------------------------------------------
# `compare_growth`: a guessed factor along one axis, the predicted one and the measured ones, with the badge.


@dataclass(frozen=True)
class Growth:
    """One line at both points: its times, the factor between what is compared, and the predicted factor."""

    line: Line
    times: tuple[Estimate, Estimate]
    factor: Estimate
    predicted: float | None


@fills_in
def compare_growth(
    guess: Guess,
    experiment: str,
    lines: Sequence[str],
    *,
    of: Of = "time",
    source: Source | None = None,
    **at: Value | tuple[Value, Value],
) -> Comparison:
    """A guessed factor between two points of an axis, against the prediction and the measurements of the lines.

    >>> from brrr_course.lessons.guessing import guess
    >>> g = guess("32 multiplications instead of one take ... times as long", unit="x")
    32 multiplications instead of one take ... times as long
    Not answered yet.
    >>> compare_growth(g, "repeat", ["cuda mul"], repeat=(1, 32), elements=2**26, dtype="float32")
    Not answered yet: give your guess above, then run this cell again.

    The axis that is given two values is the one that grows: compared is the second over the first. `of` says what is
    compared, the times or the rates. The first line that the source has is what was guessed; a line's twin on the CPU
    queue stands in for it. Both points snap to the nearest ones that the source has. ArgumentError for a guess that is
    no factor, for a line or an axis that does not exist, and unless exactly one axis has two values.
    """
    checked_factor("compare_growth", guess)
    if not guess.answered:
        return UNANSWERED
    described, origin = experiment_named(experiment), source or default_source()
    points, badge = _points(described, origin, at), str(origin.badge(described))
    if points[0] == points[1]:
        return Comparison(f"{badge} has only one of the two points: {where_text(points[0])}.")
    here = lines_here(described, origin, lines)
    found = [growth for line in here if (growth := _growth(described, origin, line, points, of))]
    where = _where(points)
    if not found:
        return Comparison(f"{badge} has none of these lines at both points. {where}.")
    said = f"{where}: {judged(guess, found[0].factor.median)}."
    text = with_drifts(said, described, origin, [growth.line for growth in found])
    header = ("", *(where_text(point) for point in _differing(points)), f"{of}s: second over first", "PREDICTED")
    return Comparison(text, header, tuple(map(_growth_row, found)), badge)


def _points(
    described: Experiment, origin: Source, at: Mapping[str, Value | tuple[Value, Value]]
) -> tuple[_Place, _Place]:
    """Both points, as the source has them."""
    growing = [name for name, value in at.items() if isinstance(value, tuple)]
    if len(growing) != 1:
        hint = 'As in compare_growth(g, "repeat", ["cuda mul"], repeat=(1, 32), elements=2**26, dtype="float32").'
        raise ArgumentError("compare_growth", "at", dict(at), "two values for exactly one axis", hint)
    both = [{name: value[end] if isinstance(value, tuple) else value for name, value in at.items()} for end in (0, 1)]
    one, other = (reachable(described.name, source=origin, **described.point(**point)) for point in both)
    return one, other


def _growth(described: Experiment, origin: Source, line: Line, points: tuple[_Place, _Place], of: Of) -> Growth | None:
    """The line at both points; None where the source lacks one of them."""
    times = [time for point in points if (time := time_at(described, origin, line, point))]
    if len(times) < 2:
        return None
    scale = _scale(described, line, points) if of == "rate" else 1.0
    foretold = [Predictions(described, origin, on=True).time_s(line, point) for point in points]
    predicted = foretold[1] / foretold[0] if foretold[0] and foretold[1] else None
    factor = times[1] / times[0]
    if of == "rate":
        factor = times[0] / times[1] * scale
        predicted = scale / predicted if predicted else None
    return Growth(line, (times[0], times[1]), factor, predicted)


def _scale(described: Experiment, line: Line, points: tuple[_Place, _Place]) -> float:
    """What is done at the second point over what is done at the first, in the unit of the experiment's rate."""
    rate = described.rate_of()
    costs = [described.cost_at(line.variant, point) for point in points]
    amounts = [float(getattr(cost, rate.of)) for cost in costs if cost is not None and rate is not None]
    if len(amounts) < 2:
        raise ArgumentError("compare_growth", "of", "rate", "an experiment that names a rate and a cost")
    return amounts[1] / amounts[0]


def _differing(points: tuple[_Place, _Place]) -> tuple[_Place, _Place]:
    """What the two points differ in."""
    one, other = points
    differs = [name for name in one if one[name] != other[name]]
    return {name: one[name] for name in differs}, {name: other[name] for name in differs}


def _where(points: tuple[_Place, _Place]) -> str:
    first, second = (where_text(point) for point in _differing(points))
    common = {name: value for name, value in points[0].items() if points[1][name] == value}
    return f"From {first} to {second}" + (f", at {where_text(common)}" if common else "")


def _growth_row(growth: Growth) -> tuple[str, ...]:
    predicted = units.ratio(growth.predicted) if growth.predicted else "not known"
    return growth.line.label, *(units.seconds(time.median) for time in growth.times), f"{growth.factor:x}", predicted


# ---------------------------------------------------------------------------------------------------------------------
# `compare_speedup`: a guessed speed-up and the measured ones side by side, with the badge.

Pairs = Sequence[tuple[Line, Line]]
"""Each line with its base."""


@fills_in
def compare_speedup(
    guess: Guess, experiment: str, lines: Mapping[str, str], *, source: Source | None = None, **at: Value
) -> Comparison:
    """A guessed factor against the measured ones: for each line, the time of its base over its own.

    >>> from brrr_course.lessons.guessing import guess
    >>> g = guess("How much faster?", unit="x")
    How much faster?
    Not answered yet.
    >>> compare_speedup(g, "pseudo_linear", {"pseudo eager": "linear eager"}, width=64, batch=128, direction="forward")
    Not answered yet: give your guess above, then run this cell again.

    `lines` maps a line to its base; the first pair is what was guessed. Where a source lacks a line and has its twin on
    the CPU queue, that one stands in; else the pair is left out. The point snaps to the nearest one that the source
    has all lines at. ArgumentError for a guess that is no factor, and for a line that does not exist.
    """
    checked_factor("compare_speedup", guess)
    if not guess.answered:
        return UNANSWERED
    described, origin = experiment_named(experiment), source or default_source()
    pairs = _pairs(described, origin, lines)
    point = _nearest(described, origin, pairs, described.point(**at))
    origin.measure_together(described, [line.variant for pair in pairs for line in pair], point)
    found = [(fast, slow, ratio) for fast, slow in pairs if (ratio := _speedup(described, origin, fast, slow, point))]
    where, badge = where_text(point), str(origin.badge(described))
    if not found:
        return Comparison(f"{badge} has none of these lines at {where}.")
    rows = tuple((fast.label, slow.label, f"{ratio:x}") for fast, slow, ratio in found)
    said = f"At {where}, {judged(guess, found[0][-1].median)}."
    text = with_drifts(said, described, origin, [line for fast, slow, _ in found for line in (fast, slow)])
    return Comparison(text, ("", "against", "speed-up"), rows, badge)


def _nearest(experiment: Experiment, source: Source, pairs: Pairs, wanted: Point) -> dict[str, Value]:
    """The point nearest to the one wanted at which the source has all the lines, or may measure them."""
    values = [source.values(experiment, axis.name) for axis in experiment.axes]
    points = [dict(zip(wanted, each, strict=True)) for each in product(*values)]
    variants = {line.variant for pair in pairs for line in pair}
    there = [point for point in points if all(_there(experiment, source, variant, point) for variant in variants)]
    return min(there, key=lambda point: experiment.apart(wanted, point), default=dict(wanted))


def _there(experiment: Experiment, source: Source, variant: str, point: Point) -> bool:
    if source.live:
        return experiment.has(variant, point)
    return tuple(point.values()) in source.known(experiment, variant)


def _pairs(experiment: Experiment, source: Source, lines: Mapping[str, str]) -> list[tuple[Line, Line]]:
    """The lines and their bases as this source has them."""
    pairs = [[lines_here(experiment, source, [name]) for name in pair] for pair in lines.items()]
    return [(fast[0], base[0]) for fast, base in pairs if fast and base]


def _speedup(
    experiment: Experiment, source: Source, fast: Line, slow: Line, point: Mapping[str, Value]
) -> Estimate | None:
    """The base's time over the line's, None where the source has not both."""
    times = [time for line in (slow, fast) if (time := time_at(experiment, source, line, point)) is not None]
    return times[0] / times[1] if len(times) == 2 else None


# ---------------------------------------------------------------------------------------------------------------------
# `compare_memory`: the time and the memory of a call side by side, line by line, with the badge.


@fills_in
def compare_memory(
    guess: Guess, experiment: str, lines: Sequence[str], *, source: Source | None = None, **at: Value
) -> Comparison:
    """How long a call takes and how much memory it takes at most, for each line, and over the first line's.

    >>> from brrr_course.lessons.guessing import guess
    >>> g = guess("Computed again, the chain is faster by ...", unit="x")
    Computed again, the chain is faster by ...
    Not answered yet.
    >>> compare_memory(g, "remat", ["eager"], activation="hardswish", depth=8, elements=2**16)
    Not answered yet: give your guess above, then run this cell again.

    Lines that the source lacks are left out; so is the memory of those measured without it. ArgumentError for a line or
    an axis that does not exist.
    """
    if not guess.answered:
        return UNANSWERED
    described, origin = experiment_named(experiment), source or default_source()
    point = described.point(**at)
    wanted = [described.line(name) for name in lines]
    found = [(line, each) for line in wanted if (each := measured_at(described, origin, line, point))]
    where, badge = where_text(point), str(origin.badge(described))
    if not found:
        return Comparison(f"{badge} has none of these lines at {where}.")
    first = found[0][1].peak_bytes
    header = ("", "time", "memory at most", f"over {found[0][0].label}")
    said = f"At {where}: time of a call, and the memory that it takes beside its inputs."
    text = with_drifts(said, described, origin, [line for line, _ in found])
    return Comparison(text, header, tuple(_memory_row(line, each, first) for line, each in found), badge)


def _memory_row(line: Line, measured: Measurement, first: int | None) -> tuple[str, ...]:
    time, peak = measured.get(line.field), measured.peak_bytes
    shown = units.seconds(time.median) if time is not None else "–"
    if peak is None:
        return (line.label, shown, "not measured", "–")
    return (line.label, shown, units.quantity(peak, "B"), units.ratio(peak / first) if first else "–")


# ---------------------------------------------------------------------------------------------------------------------
# `compare_values`: a guessed order of an axis's values against how long each takes, with the badge.


@fills_in
def compare_values(
    guess: Guess, experiment: str, lines: Sequence[str], axis: str, *, source: Source | None = None, **at: Value
) -> Comparison:
    """A guessed ranking of an axis's values, the longest first, against the times that are known.

    >>> from brrr_course.lessons.guessing import guess
    >>> g = guess("Which takes longest?", ranking=["memory", "copy"])
    Which takes longest?
    Not answered yet.
    >>> compare_values(g, "first_call", ["first", "cpu first"], "part")
    Not answered yet: give your guess above, then run this cell again.

    Of `lines` the first that the source has is taken. Nothing is measured here: a live source is asked for what the
    figure above has measured, and values without a time are left out. ArgumentError for a guess that is no ranking,
    and for a line or an axis that does not exist.
    """
    described, origin = experiment_named(experiment), source or default_source()
    described.axis(axis)
    drawn = [described.line(name) for name in lines]
    if not isinstance(guess.form, Ranking):
        raise ArgumentError("compare_values", "guess", guess.form, "a ranking: guess(..., ranking=[...])")
    if not guess.answered:
        return UNANSWERED
    badge = str(origin.badge(described))
    line = next((line for line in drawn if line.variant in origin.variants(described)), None)
    times = _times(described, origin, line, axis, at, guess.form.items) if line is not None else {}
    if len(times) < 2:
        return Comparison(
            f"{badge}: fewer than two of them are measured. Measure the points above, then run this again."
        )
    order = tuple(sorted(times, key=lambda value: -times[value].median))
    rows = tuple((value, str(times[value])) for value in order)
    said = judged(guess, order, "measured, the longest first")
    text = with_drifts(f"{said[:1].upper()}{said[1:]}.", described, origin, [line] if line else [])
    return Comparison(text, ("the longest first", "time"), rows, badge)


def _times(
    experiment: Experiment, source: Source, line: Line, axis: str, at: Mapping[str, Value], wanted: Sequence[str]
) -> dict[str, Estimate]:
    """The known times of a line along the axis, by value."""
    names = [each.name for each in experiment.axes]
    found: dict[str, Estimate] = {}
    for key, measured in source.known(experiment, line.variant).items():
        point = dict(zip(names, key, strict=True))
        value, time = str(point.pop(axis)), measured.get(line.field)
        if value in wanted and time is not None and point == dict(at):
            found[value] = time
    return found
