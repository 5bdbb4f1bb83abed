"""`compare`: the guess and the measurements side by side, with their ratio and the badge."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from brrr.core import units
from brrr.core.errors import ArgumentError, DeviceMemoryError, NotRecordedError, UnavailableError
from brrr.core.measurement import Estimate, Measurement, Value
from brrr_course.experiments import experiment as experiment_named
from brrr_course.lessons.answers import Answer, Choice, Quantity
from brrr_course.lessons.guessing import Guess
from brrr_course.lessons.waiting import UNANSWERED, Comparison, fills_in
from brrr_course.nouns.experiment import Axis, Experiment, Line
from brrr_course.nouns.source import Source
from brrr_course.sources import source as default_source
from brrr_course.view.words import drifted

TIE = 1.1
"""Two timers whose errors differ by less than this factor share their place in a ranking."""


def judged(guess: Guess, measured: Answer, verb: str = "measured") -> str:
    """The guess beside what it should have been, of an order only what was measured; without a guess, that alone."""
    if guess.value is None:  # the edition for reading: nobody has guessed
        return f"no guess given; {verb}: {guess.form.show(measured)}"
    value = guess.value
    if isinstance(value, tuple) and isinstance(measured, tuple):
        value = tuple(item for item in value if item in measured)
    return guess.form.judge(value, measured).replace("measured", verb)


def with_drifts(text: str, experiment: Experiment, source: Source, lines: Iterable[Line]) -> str:
    """The sentence, and behind it by how much the lines' times were others when they were measured again."""
    return f"{text} {drifted(experiment, source, lines)}".rstrip()


def checked_factor(call: str, guess: Guess) -> None:
    """ArgumentError for a guess that is no factor."""
    if not isinstance(guess.form, Quantity) or guess.form.unit != "x":
        raise ArgumentError(call, "guess", guess.form, 'a guess of a factor: guess(..., unit="x")')


def lines_here(experiment: Experiment, source: Source, names: Sequence[str]) -> list[Line]:
    """The lines that a source has, or those of the CPU queue that stand in for them; each once."""
    variants = source.variants(experiment)
    found = dict.fromkeys(experiment.available(name, variants) for name in names)
    return [line for line in found if line is not None]


@dataclass(frozen=True)
class Shown:
    """One line of the comparison: the name a student reads, and the time."""

    name: str
    line: Line
    time: Estimate

    @property
    def label(self) -> str:
        """What the line is called."""
        return self.line.label


@fills_in
def compare(
    guess: Guess,
    experiment: str,
    lines: Sequence[str] | Mapping[str, str],
    *,
    truth: str = "",
    source: Source | None = None,
    **at: Value,
) -> Comparison:
    """The guess against lines of an experiment at a point; a live source measures them now.

    >>> from brrr_course.lessons.guessing import guess
    >>> g = guess("Which is faster?", options=["the CPU", "the GPU"])
    Which is faster?
    Not answered yet.
    >>> compare(g, "matmul", {"the CPU": "cpu", "the GPU": "synchronized"}, size=1)
    Not answered yet: give your guess above, then run this cell again.

    `lines` names the lines, or maps each option of the guess to its line. Where a source lacks a line and has its twin
    on the CPU queue (`queue synchronized` for `synchronized`), that one stands in; else the line is left out. The point
    snaps to the nearest one that the source has. A quantity is compared with the first line, a choice with the
    fastest, a ranking with the order from the fastest; with `truth`, with the order of the errors, the least first.
    """
    if not guess.answered:
        return UNANSWERED
    described, origin = experiment_named(experiment), source or default_source()
    point = reachable(experiment, source=origin, **described.point(**at))
    named = lines if isinstance(lines, Mapping) else {name: name for name in lines}
    drawn = [each for line in (*named.values(), truth) for each in described.twins(line)]
    origin.measure_together(described, [each.variant for each in drawn], point)
    shown = [found for name in named if (found := _time(described, origin, name, named[name], point))]
    if not shown:
        return Comparison(f"{origin.badge(described)} has none of these lines at {where_text(point)}.")
    true = _time(described, origin, "truth", truth, point) if truth else None
    header, rows = _table(guess, shown, true)
    told = [each.line for each in (*shown, true) if each]
    text = with_drifts(_text(guess, shown, true, point), described, origin, told)
    return Comparison(text, header, rows, str(origin.badge(described)))


def reachable(experiment: str, *, source: Source | None = None, **at: Value | Sequence[Value]) -> dict[str, Value]:
    """The point nearest to `at` that a source has: what `explore(at=)` and `compare` take, whatever the source is.

    >>> reachable("matmul", size=2048)  # doctest: +SKIP
    {'size': 2048}

    A list stands for the first of its values that the source has, as `function=["relu-64x1024", "product-512"]`.
    """
    described, origin = experiment_named(experiment), source or default_source()
    return {axis.name: _nearest(described, origin, axis, at[axis.name]) for axis in described.axes if axis.name in at}


def _nearest(experiment: Experiment, source: Source, axis: Axis, wanted: Value | Sequence[Value]) -> Value:
    """The source's value of an axis closest to the wanted one, or the first of the wanted ones that it has."""
    here = tuple(source.values(experiment, axis.name))
    for value in (wanted,) if isinstance(wanted, str | int | float) else wanted:
        axis.checked("reachable", value)
        if axis.scale != "category":
            return _closest(experiment, source, axis, value, here)
        if value in here and _exists(experiment, source, axis, value):
            return value
    return here[0]


def _closest(experiment: Experiment, source: Source, axis: Axis, value: Value, here: tuple[Value, ...]) -> Value:
    """The closest value; a live source has the axis's own ones, also those at which nothing runs on its device."""
    found = axis.nearest(value, here)
    if not source.live or _exists(experiment, source, axis, found):
        return found
    variants = source.variants(experiment)
    there = {p[axis.name] for p in experiment.points() if any(experiment.has(variant, p) for variant in variants)}
    return axis.nearest(value, tuple(each for each in here if each in there) or here)


def _exists(experiment: Experiment, source: Source, axis: Axis, value: Value) -> bool:
    """Whether any variant of the source exists at any point with this value."""
    points = (point for point in experiment.points() if point[axis.name] == value)
    return any(experiment.has(variant, point) for variant in source.variants(experiment) for point in points)


def _time(experiment: Experiment, source: Source, name: str, line: str, point: Mapping[str, Value]) -> Shown | None:
    """The line's time at the point, or its twin's on the CPU queue; None where the source has neither."""
    experiment.line(line)
    for drawn in experiment.twins(line):
        if (time := time_at(experiment, source, drawn, point)) is not None:
            return Shown(name, drawn, time)
    return None


def _error(time: Estimate, truth: Estimate) -> float:
    """How far a reading is from the truth, as a factor of one or more."""
    low, high = sorted((max(time.median, 1e-12), max(truth.median, 1e-12)))
    return high / low


def _measured(guess: Guess, shown: Sequence[Shown], truth: Shown | None) -> Answer:
    """What the guess should have been."""
    if isinstance(guess.form, Quantity):
        return shown[0].time.median
    if truth:
        far = {line.name: _error(line.time, truth.time) for line in shown}
    else:
        far = {line.name: line.time.median for line in shown}
    order = sorted(far, key=lambda name: far[name])
    return order[0] if isinstance(guess.form, Choice) else _ties_as_guessed(order, far, guess.value)


def _ties_as_guessed(order: list[str], far: Mapping[str, float], guessed: Answer | None) -> tuple[str, ...]:
    """The order, with neighbours that differ by less than a tenth placed as the student placed them."""
    place = {name: at for at, name in enumerate(guessed)} if isinstance(guessed, tuple) else {}
    for first in range(len(order) - 1):
        one, other = order[first : first + 2]
        if far[other] < TIE * far[one] and place.get(other, 0) < place.get(one, 0):
            order[first : first + 2] = other, one
    return tuple(order)


def _text(guess: Guess, shown: Sequence[Shown], truth: Shown | None, point: Mapping[str, Value]) -> str:
    return f"At {where_text(point)}, {judged(guess, _measured(guess, shown, truth))}."


def _table(
    guess: Guess, shown: Sequence[Shown], truth: Shown | None
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    if isinstance(guess.form, Quantity):
        form, said = guess.form, guess.value
        if isinstance(said, int | float):
            rows = [(line.label, str(line.time), form.distance(said, line.time.median)) for line in shown]
            return ("", "time", "your guess is"), (("your guess", form.show(said), ""), *rows)
        return ("", "time"), tuple((line.label, str(line.time)) for line in shown)
    if truth is None:
        ranked = sorted(shown, key=lambda line: line.time.median)
        return ("", "time"), tuple((line.label, str(line.time)) for line in ranked)
    ranked = sorted(shown, key=lambda line: _error(line.time, truth.time))
    rows = [(line.label, units.seconds(line.time.median), _off(line.time, truth.time)) for line in ranked]
    return ("", "reads", "off by"), ((f"truth: {truth.label}", units.seconds(truth.time.median), ""), *rows)


def _off(time: Estimate, truth: Estimate) -> str:
    """The error of a reading in words: 12 % too long, 40x too short."""
    ratio = time.median / truth.median if truth.median > 0 else 1.0
    word = "long" if ratio > 1 else "short"
    if 0.5 <= ratio <= 2:
        return f"{units.percent(abs(ratio - 1), 2)} too {word}"
    return f"{units.ratio(max(ratio, 1 / ratio) if ratio > 0 else float('inf'))} too {word}"


def where_text(point: Mapping[str, Value]) -> str:
    """The point in words, sizes as the sliders show them."""
    from brrr.drawing.style import readable

    return ", ".join(f"{name} {readable(value)}" for name, value in point.items())


# ---------------------------------------------------------------------------------------------------------------------
# `measured_at`: what a lesson's comparison asks of a source, which may lack it.


def measured_at(experiment: Experiment, source: Source, line: Line, point: Mapping[str, Value]) -> Measurement | None:
    """The measurement behind a line at a point, measured now by a live source; None where the source has none.

    >>> measured_at(experiment, source, experiment.line("eager"), {"elements": 1024})    # doctest: +SKIP

    None, too, where a live source lacks what the line needs (a library, a device, memory): a comparison leaves it out.
    """
    if line.variant not in source.variants(experiment) or not experiment.has(line.variant, point):
        return None
    with suppress(NotRecordedError, UnavailableError, DeviceMemoryError):
        return source.measure(experiment, line.variant, point)
    return None


def time_at(experiment: Experiment, source: Source, line: Line, point: Mapping[str, Value]) -> Estimate | None:
    """The time that the line shows, in seconds; None where there is none."""
    measured = measured_at(experiment, source, line, point)
    return measured.get(line.field) if measured is not None else None


# ---------------------------------------------------------------------------------------------------------------------
# `first_available`: which of several sets of lines to show, by what the source has.

Lines = TypeVar("Lines", bound=Collection[str])


def first_available(experiment: str, *choices: Lines, source: Source | None = None) -> Lines:
    """The first of the choices (lists of lines, or mappings from them) of which the source has a line; else the first.

    >>> first_available("cos_cos", ["compile", "triton"], ["cpu blocks"])  # doctest: +SKIP
    ['compile', 'triton']

    So a figure shows a GPU's lines where there are some, and the CPU's own on a laptop, but never both in one ratio.
    ArgumentError for a line that does not exist, and without any choice.
    """
    if not choices:
        raise ArgumentError("first_available", "choices", (), "at least one list of lines")
    described, origin = experiment_named(experiment), source or default_source()
    there = set(origin.variants(described))
    variants = [{described.line(name).variant for name in names} for names in choices]
    return next((names for names, own in zip(choices, variants, strict=True) if own & there), choices[0])
