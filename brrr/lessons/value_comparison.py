"""`compare_values`: a guessed order of an axis's values against how long each takes, with the badge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brrr.errors import ArgumentError
from brrr.experiment import Experiment, Line, Value
from brrr.experiments import experiment as experiment_named
from brrr.lessons.answers import Ranking
from brrr.lessons.comparison import Comparison
from brrr.lessons.guessing import Guess
from brrr.measurement import Estimate
from brrr.source import Source
from brrr.source import source as default_source


def compare_values(
    guess: Guess, experiment: str, lines: Sequence[str], axis: str, *, source: Source | None = None, **at: Value
) -> Comparison:
    """A guessed ranking of an axis's values, the longest first, against the times that are known.

    >>> from brrr.lessons.guessing import guess
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
        return Comparison("Not answered yet: give your guess above, then run this cell again.")
    badge = str(origin.badge(described))
    line = next((line for line in drawn if line.variant in origin.variants(described)), None)
    times = _times(described, origin, line, axis, at, guess.form.items) if line is not None else {}
    if len(times) < 2:
        return Comparison(
            f"{badge}: fewer than two of them are measured. Measure the points above, then run this again."
        )
    order = tuple(sorted(times, key=lambda value: -times[value].median))
    rows = tuple((value, str(times[value])) for value in order)
    return Comparison(_text(guess, order), ("the longest first", "time"), rows, badge)


def _text(guess: Guess, order: tuple[str, ...]) -> str:
    assert isinstance(guess.form, Ranking)
    if not isinstance(guess.value, tuple):
        return f"No guess given; measured, the longest first: {guess.form.show(order)}."
    judged = guess.form.judge(tuple(item for item in guess.value if item in order), order)
    return f"{judged[:1].upper()}{judged[1:]}."


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
