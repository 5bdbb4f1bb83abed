"""`compare_growth`: a guessed factor along one axis, the predicted one and the measured ones, with the badge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Estimate
from brrr.core.values import Value
from brrr.course.experiments import experiment as experiment_named
from brrr.course.experiments.judging import stand_in
from brrr.course.lessons.answers import Quantity
from brrr.course.lessons.comparison import Comparison, reachable, time_at, where_text
from brrr.course.lessons.guessing import Guess
from brrr.course.nouns.experiment import Experiment, Line
from brrr.course.nouns.source import Source
from brrr.course.sources.named import source as default_source
from brrr.course.view.predictions import Predictions

Point = dict[str, Value]
Of = Literal["time", "rate"]


@dataclass(frozen=True)
class Growth:
    """One line at both points: its times, the factor between what is compared, and the predicted factor."""

    line: Line
    times: tuple[Estimate, Estimate]
    factor: Estimate
    predicted: float | None


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

    >>> from brrr.course.lessons.guessing import guess
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
    if not isinstance(guess.form, Quantity) or guess.form.unit != "x":
        raise ArgumentError("compare_growth", "guess", guess.form, 'a guess of a factor: guess(..., unit="x")')
    if not guess.answered:
        return Comparison("Not answered yet: give your guess above, then run this cell again.")
    described, origin = experiment_named(experiment), source or default_source()
    points, badge = _points(described, origin, at), str(origin.badge(described))
    if points[0] == points[1]:
        return Comparison(f"{badge} has only one of the two points: {where_text(points[0])}.")
    here = _here(described, origin, lines)
    found = [growth for line in here if (growth := _growth(described, origin, line, points, of))]
    where = _where(points)
    if not found:
        return Comparison(f"{badge} has none of these lines at both points. {where}.")
    said = f"{where}: {_judged(guess, found[0])}"
    header = ("", *(where_text(point) for point in _apart(points)), f"{of}s: second over first", "PREDICTED")
    return Comparison(f"{said}.", header, tuple(map(_row, found)), badge)


def _points(
    described: Experiment, origin: Source, at: Mapping[str, Value | tuple[Value, Value]]
) -> tuple[Point, Point]:
    """Both points, as the source has them."""
    growing = [name for name, value in at.items() if isinstance(value, tuple)]
    if len(growing) != 1:
        hint = 'As in compare_growth(g, "repeat", ["cuda mul"], repeat=(1, 32), elements=2**26, dtype="float32").'
        raise ArgumentError("compare_growth", "at", dict(at), "two values for exactly one axis", hint)
    both = [{name: value[end] if isinstance(value, tuple) else value for name, value in at.items()} for end in (0, 1)]
    one, other = (reachable(described.name, source=origin, **described.point(**point)) for point in both)
    return one, other


def _here(described: Experiment, origin: Source, lines: Sequence[str]) -> list[Line]:
    """The lines that the source has, or their twins."""
    here = origin.variants(described)
    names = {line.name for line in described.lines if line.variant in here}
    found = dict.fromkeys(stand_in(described.line(name).name, names) for name in lines)
    return [described.line(name) for name in found if name is not None]


def _growth(described: Experiment, origin: Source, line: Line, points: tuple[Point, Point], of: Of) -> Growth | None:
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


def _scale(described: Experiment, line: Line, points: tuple[Point, Point]) -> float:
    """What is done at the second point over what is done at the first, in the unit of the experiment's rate."""
    rate = described.rate_of()
    costs = [described.cost_at(line.variant, point) for point in points]
    amounts = [float(getattr(cost, rate.of)) for cost in costs if cost is not None and rate is not None]
    if len(amounts) < 2:
        raise ArgumentError("compare_growth", "of", "rate", "an experiment that names a rate and a cost")
    return amounts[1] / amounts[0]


def _apart(points: tuple[Point, Point]) -> tuple[Point, Point]:
    """What the two points differ in."""
    one, other = points
    differs = [name for name in one if one[name] != other[name]]
    return {name: one[name] for name in differs}, {name: other[name] for name in differs}


def _where(points: tuple[Point, Point]) -> str:
    first, second = (where_text(point) for point in _apart(points))
    common = {name: value for name, value in points[0].items() if points[1][name] == value}
    return f"From {first} to {second}" + (f", at {where_text(common)}" if common else "")


def _judged(guess: Guess, growth: Growth) -> str:
    if guess.value is None:  # the edition for reading: nobody has guessed
        return f"no guess given; measured: {guess.form.show(growth.factor.median)}"
    return guess.form.judge(guess.value, growth.factor.median)


def _row(growth: Growth) -> tuple[str, ...]:
    factor = growth.factor
    shown = f"{units.ratio(factor.median)} ({units.ratio(factor.low)} to {units.ratio(factor.high)})"
    predicted = units.ratio(growth.predicted) if growth.predicted else "not known"
    return growth.line.label, *(units.seconds(time.median) for time in growth.times), shown, predicted
