"""What a guess is compared with, of any experiment: times, growth, speed-ups, memory."""

from collections.abc import Mapping
from itertools import pairwise, product
from typing import Any, cast

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Estimate, Measurement, Point, Value
from brrr_course.lessons.answers import Answer, Choice, Quantity
from brrr_course.lessons.comparison import Subject, lines_here, measured_at
from brrr_course.lessons.waiting import Comparison
from brrr_course.nouns.experiment import Line
from brrr_course.view.arguments import reachable
from brrr_course.view.predictions import Predictions

TIE = 1.1
"""Neighbours in a ranking that differ by less than this factor share their place."""


def times(subject: Subject) -> Comparison:
    """The lines' times at the nearest point; with a truth, how far off each reading is.

    A quantity is compared with the first line, a choice with the fastest, a ranking with the order from the fastest;
    with a truth, with the order of the errors, the least first.
    """
    described, lines, truth = subject.experiment, subject.lines, subject.truth
    point = reachable(described, subject.source, subject.point)
    named = lines if isinstance(lines, Mapping) else {name: name for name in lines}
    drawn = [line.variant for line in lines_here(described, subject.source, [*named.values(), *filter(None, [truth])])]
    subject.source.measure_together(described, drawn, point)
    found = {name: timed for name, line in named.items() if (timed := subject.timed(line, point))}
    true = subject.timed(truth, point) if truth else None
    if not found:
        return subject.missing(point)
    if truth and not true:
        return Comparison(f"{subject.badge} tells no truth to judge by: {described.line(truth).label}.")
    form, guessed = subject.form, subject.guessed
    far = {name: _error(time, true[1]) if true else time.median for name, (_, time) in found.items()}
    order = list(found) if isinstance(form, Quantity) else sorted(far, key=lambda name: far[name])
    tied = ""
    shown = [found[name] for name in order]
    header: tuple[str, ...] = ("", "time")
    rows: list[tuple[str, ...]] = [(line.label, str(time)) for line, time in shown]
    if isinstance(form, Quantity):
        right: Answer = shown[0][1].median
        if isinstance(guessed, int | float):
            header = ("", "time", "your guess is")
            distances = [form.distance(guessed, time.median) for _, time in shown]
            rows = [("your guess", form.show(guessed), ""), *((*r, d) for r, d in zip(rows, distances, strict=True))]
    else:
        right = order[0]
        if not isinstance(form, Choice):
            right, tied = _ranked(order, far, guessed)
        if true:
            header = ("", "reads", "off by")
            rows = [(line.label, units.seconds(time.median), _off(time, true[1])) for line, time in shown]
            rows.insert(0, (f"truth: {true[0].label}", units.seconds(true[1].median), ""))
    told = [line for line, _ in (*found.values(), *filter(None, [true]))]
    return subject.table(f"At {described.place(point)}, {subject.judged(right)}{tied}.", header, rows, told)


def _error(time: Estimate, truth: Estimate) -> float:
    """How far a reading is from the truth, as a factor of one or more."""
    low, high = sorted((max(time.median, 1e-12), max(truth.median, 1e-12)))
    return high / low


def _ranked(order: list[str], far: Mapping[str, float], guessed: object) -> tuple[tuple[str, ...], str]:
    """The order, with neighbours that differ by less than a tenth placed as the student placed them; and these ties."""
    place = {name: at for at, name in enumerate(guessed)} if isinstance(guessed, tuple) else {}
    ties = [pair for pair in pairwise(order) if far[pair[1]] < TIE * far[pair[0]]]
    for one, other in ties:
        at = order.index(one)
        if order[at + 1] == other and place.get(other, 0) < place.get(one, 0):
            order[at : at + 2] = other, one
    return tuple(order), "".join(f"; {one} = {other} (a tie)" for one, other in ties)


def _off(time: Estimate, truth: Estimate) -> str:
    """The error of a reading in words: 12 % too long, 40x too short."""
    ratio = time.median / truth.median if truth.median > 0 else 1.0
    word = "long" if ratio > 1 else "short"
    if 0.5 <= ratio <= 2:
        return f"{units.percent(abs(ratio - 1), 2)} too {word}"
    return f"{units.ratio(max(ratio, 1 / ratio) if ratio > 0 else float('inf'))} too {word}"


def growth(subject: Subject) -> Comparison:
    """The lines' times at two points of one axis, the factor between them, and the predicted one."""
    growing = [name for name, value in subject.at.items() if isinstance(value, tuple)]
    if len(growing) != 1:
        raise ArgumentError("compare", "at", dict(subject.at), "two values for one axis at most")
    axis, described, source = growing[0], subject.experiment, subject.source
    both: list[Any] = [{**subject.at, axis: value} for value in cast("tuple[Value, Value]", subject.at[axis])]
    points = [reachable(described, source, described.point(**point)) for point in both]
    if points[0] == points[1]:
        return Comparison(f"{subject.badge} has only one of the two points: {described.place(points[0])}.")
    ends = [described.place({axis: point[axis]}) for point in points]
    same = described.place(points[0], but=axis)
    where = f"From {ends[0]} to {ends[1]}" + (f", at {same}" if same else "")
    predictions = Predictions(described, source, on=True)
    found: dict[Line, Estimate] = {}
    rows = []
    for line in lines_here(described, source, list(subject.lines)):
        first, second = (subject.time(line, point) for point in points)
        if first and second:
            found[line] = second / first
            one, other = (predictions.time_s(line, point) for point in points)
            predicted = units.ratio(other / one) if one and other else ""
            shown = [units.seconds(each.median) for each in (first, second)]
            rows.append((line.label, *shown, f"{found[line]:x}", predicted))
    if not found:
        return Comparison(f"{subject.badge} has none of these lines at both points. {where}.")
    said = f"{where}: {subject.judged(next(iter(found.values())).median)}."
    columns = 5 if any(row[-1] for row in rows) else 4  # no column of predictions where nothing predicts them
    head = ("", *ends, "times: second over first", "PREDICTED")[:columns]
    return subject.table(said, head, [row[:columns] for row in rows], found)


def speedups(subject: Subject) -> Comparison:
    """For each line the time of its base over its own, at the nearest point at which the source has all of them."""
    described, source = subject.experiment, subject.source
    bases = cast("Mapping[str, str]", subject.lines)
    both = [[lines_here(described, source, [name]) for name in pair] for pair in bases.items()]
    pairs = [(fast[0], slow[0]) for fast, slow in both if fast and slow]
    variants = [line.variant for pair in pairs for line in pair]
    point = _nearest(subject, set(variants))
    source.measure_together(described, variants, point)
    timed = [(pair, [subject.time(line, point) for line in pair]) for pair in pairs]
    found = {pair: slow / fast for pair, (fast, slow) in timed if fast and slow}
    if not found:
        return subject.missing(point)
    rows = [(fast.label, f"{ratio:x}", slow.label) for (fast, slow), ratio in found.items()]
    said = f"At {described.place(point)}, {subject.judged(next(iter(found.values())).median)}."
    return subject.table(said, ("", "speed-up", "over"), rows, [line for pair in found for line in pair])


def _nearest(subject: Subject, variants: set[str]) -> Point:
    """The point nearest to the one wanted at which the source has all the variants, or may measure them."""
    described, source, wanted = subject.experiment, subject.source, subject.point
    values = product(*(source.values(described, axis.name) for axis in described.axes))
    points = [dict(zip(wanted, each, strict=True)) for each in values]
    if source.live:
        there = [point for point in points if all(described.has(variant, point) for variant in variants)]
    else:
        known = [source.known(described, variant) for variant in variants]
        there = [point for point in points if all(tuple(point.values()) in each for each in known)]
    return min(there, key=lambda point: described.distance(wanted, point), default=wanted)


def memory(subject: Subject) -> Comparison:
    """How long a call takes and how much memory it takes at most, for each line, and over the first line's."""
    point = reachable(subject.experiment, subject.source, subject.point)
    wanted = lines_here(subject.experiment, subject.source, list(subject.lines))
    found = {line: each for line in wanted if (each := measured_at(subject.experiment, subject.source, line, point))}
    if not found:
        return subject.missing(point)
    base, first = next((line.label, each.peak_bytes) for line, each in found.items())
    said = f"At {subject.experiment.place(point)}: time of a call, and the memory that it takes beside its inputs."
    rows = [_memory_row(line, each, first) for line, each in found.items()]
    return subject.table(said, ("", "time", "memory at most", f"over {base}"), rows, found)


def _memory_row(line: Line, measured: Measurement, first: int | None) -> tuple[str, ...]:
    time, peak = measured.get(line.field), measured.peak_bytes
    shown = units.seconds(time.median) if time is not None else "–"
    if peak is None:
        return (line.label, shown, "not measured", "–")
    return (line.label, shown, units.quantity(peak, "B"), units.ratio(peak / first) if first else "–")
