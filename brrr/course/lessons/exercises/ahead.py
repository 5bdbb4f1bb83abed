"""Exercise 03-ahead: from which operator size on does the GPU no longer wait for the CPU?

The mark comes from measurements: this session's, if it measured both sides of that size, else the recording.
"""

from __future__ import annotations

from typing import Any

from brrr.core import units
from brrr.core.errors import BrrrError, NotRecordedError
from brrr.course.experiments import experiment
from brrr.course.experiments.judging import curve
from brrr.course.experiments.run_ahead import HIDDEN, hidden_from, idle_share
from brrr.course.lessons.checking import Mark
from brrr.course.lessons.exercises.crossover import Bracket
from brrr.course.nouns.evidence import Evidence
from brrr.course.sources.named import source

RECORDING = "recorded:h200"


def grade(elements: Any) -> Mark:
    """The answer must lie above the last size at which the device waits, up to the first from which it never does."""
    if isinstance(elements, bool) or not isinstance(elements, int | float):
        return Mark("wrong", f"`elements` is {elements!r}.", "Write a number of elements, as in 2**16.")
    where, bracket = measured_bracket()
    if bracket.holds(elements):
        return Mark("right", f"from there on it is idle for less than {_hidden()} of the time ({where}).")
    text = f"`elements={elements}` does not fit ({where})."
    if elements <= bracket.loses:
        return Mark("wrong", text, f"At this size or a larger one it is still idle for {_hidden()} or more.")
    return Mark("wrong", text, f"It is idle for less than {_hidden()} already below this size.")


def _hidden() -> str:
    return units.percent(HIDDEN, 2)


def measured_bracket() -> tuple[str, Bracket]:
    """The badge and the sizes between which the device stops waiting, from the first source that shows both."""
    described = experiment("run_ahead")
    here = source()
    for found in [here] if here.name == RECORDING else [here, source(RECORDING)]:
        try:
            bracket = waiting_ends(Evidence(described, found))
            return str(found.badge(described)), bracket
        except BrrrError:
            continue
    raise NotRecordedError("check('03-ahead'): no source here holds sizes at which the device waits and does not")


def waiting_ends(evidence: Evidence) -> Bracket:
    """From the last size at which the device is idle for a tenth of the loop or more to the next one measured.

    NotRecordedError where no size was measured on one of the two sides.
    """
    busy, period = curve(evidence, "busy", "elements"), curve(evidence, "period", "elements")
    start = hidden_from(busy, period)
    waits = [size for size in busy if size in period and idle_share(busy[size], period[size]).median >= HIDDEN]
    if start is None or not waits:
        raise NotRecordedError(f"the sizes measured, {sorted(busy)}, do not show where the device stops waiting")
    return Bracket(max(waits), start)
