"""`compare_speedup`: a guessed speed-up and the measured ones side by side, with the badge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

from brrr.core.errors import ArgumentError
from brrr.core.measurement import Estimate
from brrr.core.values import Point, Value
from brrr.course.experiments import experiment as experiment_named
from brrr.course.experiments.judging import stand_in
from brrr.course.lessons.answers import Quantity
from brrr.course.lessons.comparison import Comparison, time_at, where_text
from brrr.course.lessons.guessing import Guess
from brrr.course.nouns.experiment import Experiment, Line
from brrr.course.nouns.source import Source
from brrr.course.sources.named import source as default_source

Pairs = Sequence[tuple[Line, Line]]
"""Each line with its base."""


def compare_speedup(
    guess: Guess, experiment: str, lines: Mapping[str, str], *, source: Source | None = None, **at: Value
) -> Comparison:
    """A guessed factor against the measured ones: for each line, the time of its base over its own.

    >>> from brrr.course.lessons.guessing import guess
    >>> g = guess("How much faster?", unit="x")
    How much faster?
    Not answered yet.
    >>> compare_speedup(g, "pseudo_linear", {"pseudo eager": "linear eager"}, width=64, batch=128, direction="forward")
    Not answered yet: give your guess above, then run this cell again.

    `lines` maps a line to its base; the first pair is what was guessed. Where a source lacks a line and has its twin on
    the CPU queue, that one stands in; else the pair is left out. The point snaps to the nearest one that the source
    has all lines at. ArgumentError for a guess that is no factor, and for a line that does not exist.
    """
    if not isinstance(guess.form, Quantity) or guess.form.unit != "x":
        raise ArgumentError("compare_speedup", "guess", guess.form, 'a guess of a factor: guess(..., unit="x")')
    if not guess.answered:
        return Comparison("Not answered yet: give your guess above, then run this cell again.")
    described, origin = experiment_named(experiment), source or default_source()
    pairs = _pairs(described, origin, lines)
    point = _nearest(described, origin, pairs, described.point(**at))
    origin.measure_together(described, [line.variant for pair in pairs for line in pair], point)
    found = [(fast, slow, ratio) for fast, slow in pairs if (ratio := _speedup(described, origin, fast, slow, point))]
    where, badge = where_text(point), str(origin.badge(described))
    if not found:
        return Comparison(f"{badge} has none of these lines at {where}.")
    rows = tuple((fast.label, slow.label, f"{ratio:x}") for fast, slow, ratio in found)
    return Comparison(f"At {where}, {_judged(guess, found[0][-1])}.", ("", "against", "speed-up"), rows, badge)


def _nearest(experiment: Experiment, source: Source, pairs: Pairs, wanted: Point) -> dict[str, Value]:
    """The point nearest to the one wanted at which the source has all the lines, or may measure them."""
    values = [source.values(experiment, axis.name) for axis in experiment.axes]
    points = [dict(zip(wanted, each, strict=True)) for each in product(*values)]
    variants = {line.variant for pair in pairs for line in pair}
    there = [point for point in points if all(_there(experiment, source, variant, point) for variant in variants)]
    return min(there, key=lambda point: _apart(experiment, wanted, point), default=dict(wanted))


def _there(experiment: Experiment, source: Source, variant: str, point: Point) -> bool:
    if source.live:
        return experiment.has(variant, point)
    return tuple(point.values()) in source.known(experiment, variant)


def _apart(experiment: Experiment, one: Point, other: Point) -> float:
    """How far two points are apart: in octaves, and a long way for another category."""
    distance = 0.0
    for axis in experiment.axes:
        here, there = one[axis.name], other[axis.name]
        same = here == there
        distance += 0 if same else 100 if axis.scale == "category" else abs(math.log2(float(here) / float(there)))
    return distance


def _judged(guess: Guess, ratio: Estimate) -> str:
    if guess.value is None:  # the edition for reading: nobody has guessed
        return f"no guess given; measured: {guess.form.show(ratio.median)}"
    return guess.form.judge(guess.value, ratio.median)


def _pairs(experiment: Experiment, source: Source, lines: Mapping[str, str]) -> list[tuple[Line, Line]]:
    """The lines and their bases as this source has them."""
    variants = source.variants(experiment)
    here = {line.name for line in experiment.lines if line.variant in variants}
    found: list[tuple[Line, Line]] = []
    for pair in lines.items():
        names: Sequence[str | None] = [stand_in(experiment.line(name).name, here) for name in pair]
        if names[0] is not None and names[1] is not None:
            found.append((experiment.line(names[0]), experiment.line(names[1])))
    return found


def _speedup(
    experiment: Experiment, source: Source, fast: Line, slow: Line, point: Mapping[str, Value]
) -> Estimate | None:
    """The base's time over the line's, None where the source has not both."""
    times = [time for line in (slow, fast) if (time := time_at(experiment, source, line, point)) is not None]
    return times[0] / times[1] if len(times) == 2 else None
