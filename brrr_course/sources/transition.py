"""`find_transition`: where along an axis does something stop, or start, to be true? Asked of noisy measurements.

>>> find_transition("pseudo_linear", "width", pays("pseudo graph", over="pseudo eager", at_least=1.05),
...                 at={"batch": 2048, "direction": "forward"}, source="recorded:h200")  # doctest: +SKIP
"pseudo graph" is at least 1.05x as fast as "pseudo eager" up to width 1024, and no longer from 4096 on ...

A measurement has an interval, so a predicate may answer that it cannot tell. Such a value never becomes an end: the
answer changes between two clear ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.measurement import Estimate, Point, Value
from brrr_course.experiments import experiment as experiment_named
from brrr_course.nouns.experiment import Experiment, Line

if TYPE_CHECKING:
    from brrr_course.nouns.source import Source


Answer = bool | None


@dataclass(frozen=True)
class Pays:
    """A predicate: is one line at least so many times faster than another? None where the intervals do not tell.

    >>> from brrr.core.measurement import Estimate
    >>> fast, slow = Estimate(1.0, 0.9, 1.1, 9), Estimate(2.0, 1.9, 2.1, 9)
    >>> pays("graph", over="eager", at_least=1.5)({"graph": fast, "eager": slow})
    True
    """

    line: str
    over: str
    at_least: float

    @property
    def lines(self) -> tuple[str, ...]:
        """What must be measured together."""
        return (self.line, self.over)

    def __call__(self, readings: Mapping[str, Estimate]) -> Answer:
        gain = readings[self.over] / readings[self.line]
        if gain.low >= self.at_least:
            return True
        return False if gain.high < self.at_least else None

    def __str__(self) -> str:
        return f'"{self.line}" is at least {units.ratio(self.at_least)} as fast as "{self.over}"'


def pays(line: str, *, over: str, at_least: float = 1.05) -> Pays:
    """Make the question "is this line at least so many times as fast as that one?" for `find_transition`.

    >>> print(pays("graph", over="eager", at_least=1.5))
    "graph" is at least 1.5x as fast as "eager"

    Parameters
    ----------
    line : str
        The line that should be faster.
    over : str
        The line that it is compared with.
    at_least : float
        The factor, above 0.

    Returns
    -------
    Pays
        The predicate. It answers None if the interval of the ratio contains the factor.

    Raises
    ------
    ArgumentError
        If the factor is not above 0.
    """
    if isinstance(at_least, bool) or not isinstance(at_least, int | float) or not 0 < at_least < math.inf:
        raise ArgumentError("pays", "at_least", at_least, "a factor above 0, as 1.05")
    return Pays(line, over, at_least)


@dataclass(frozen=True)
class Transition:
    """Two values of an axis between which an answer changes.

    >>> found = Transition("width", 256, 512, True, True, ((256, True), (512, False)), "the graph pays", "")
    >>> found.undecided
    ()

    `find_transition` returns it; it prints as a sentence.

    Attributes
    ----------
    axis : str
        The axis.
    low, high : int or float
        The last value before the change, and the first one behind it.
    below : bool
        The answer at `low`, and below it as far as was measured.
    monotone : bool
        False if the answer changes again behind `high`.
    measured : tuple
        Every value, in order, with its answer; None if the noise left it open.
    says : str
        The question in words.
    badge : str
        Where the measurements come from.
    """

    axis: str
    low: Value
    high: Value
    below: bool
    monotone: bool
    measured: tuple[tuple[Value, Answer], ...]
    says: str
    badge: str

    @property
    def undecided(self) -> tuple[Value, ...]:
        """The values between `low` and `high` at which the noise left the answer open."""
        inside = {value: answer for value, answer in self.measured if float(self.low) < float(value) < float(self.high)}
        return tuple(sorted((value for value, answer in inside.items() if answer is None), key=float))

    def holds(self, value: float) -> bool:
        """Whether low < value <= high, so that it may be the first one after the change."""
        return float(self.low) < value <= float(self.high)

    def __str__(self) -> str:
        first, then = ("up to", "no longer from") if self.below else ("not up to", "from")
        text = f"{self.says} {first} {self.axis} {self.low}, and {then} {self.high} on"
        if self.undecided:
            text += f" (open at {', '.join(map(str, self.undecided))})"
        if not self.monotone:
            text += "; but it changes back: there is more than one transition"
        count = len(self.measured)
        return f"{text}: {count} measurement{'s' * (count != 1)} · {self.badge}"

    __repr__ = __str__


def find_transition(
    experiment: str | Experiment, axis: str, predicate: Pays, *, at: Mapping[str, Value] | None = None,
    source: str | Source | None = None, low: Value | None = None, high: Value | None = None,
) -> Transition:  # fmt: skip
    """Find the place along an axis where an answer changes, by asking at each of its values.

    >>> find_transition("pseudo_linear", "width", pays("pseudo graph", over="pseudo eager"), at={...})  # doctest: +SKIP

    Parameters
    ----------
    experiment : str or Experiment
        The experiment.
    axis : str
        A numeric axis.
    predicate : Pays
        The question, which `pays` makes.
    at : mapping of str, optional
        The values of all other axes.
    source : str or Source, optional
        As for `explore`.
    low, high : int or float, optional
        The ends among the source's values. By default all are asked.

    Returns
    -------
    Transition
        The two values between which the answer changes first, and all that was measured.

    Raises
    ------
    ArgumentError
        If the axis is a category, if `at` lacks values, or if the answer changes nowhere.
    NotRecordedError
        If the data have no two points to compare.

    Notes
    -----
    On a machine without a GPU the CPU queue's line stands in.
    """
    from brrr_course.sources import source_for

    found = experiment_named(experiment) if isinstance(experiment, str) else experiment
    along, at = found.axis(axis), at or {}
    if not isinstance(predicate, Pays):
        raise ArgumentError("find_transition", "predicate", predicate, "what pays(...) makes")
    if along.scale == "category":
        numeric = [each.name for each in found.axes if each.scale != "category"]
        raise ArgumentError("find_transition", "axis", axis, f"a numeric axis: {', '.join(numeric) or 'none'}")
    others = [each.name for each in found.axes if each.name != axis]
    if set(at) != set(others):
        raise ArgumentError("find_transition", "at", dict(at), f"a value for each other axis: {', '.join(others)}")
    origin = source_for(source, found.name, predicate.lines)
    found = found.on(origin.kind)
    lines = _lines(found, origin, predicate.lines)
    first, last = (other if end is None else float(along.checked("find_transition", end))
                   for end, other in ((low, -math.inf), (high, math.inf)))  # fmt: skip
    values = sorted((each for each in origin.values(found, axis) if first <= float(each) <= last), key=float)
    readings = {each: _readings(found, origin, lines, found.point(**{**at, axis: each})) for each in values}
    asked = tuple((value, predicate(read)) for value, read in readings.items() if read)
    if len(asked) < 2:
        has = f"{origin.name} has {len(asked)} values of {axis!r} with {', '.join(lines)} at {dict(at)}"
        raise NotRecordedError(f"find_transition: {has}; expected at least two")
    clear = [each for each in asked if each[1] is not None]
    changes = [(below, above) for below, above in pairwise(clear) if below[1] != above[1]]
    if not changes:
        same = f"{'yes' if clear[0][1] else 'no'} at {clear[0][0]} and at {clear[-1][0]}" if clear else "never clear"
        hint = f"Whether {predicate}: {same}. Look beyond, at other values of the other axes, or ask for another factor"
        ends = asked[0][0], asked[-1][0]
        raise ArgumentError("find_transition", "low, high", ends, "values with different answers", hint)
    (below, answer), (above, _) = changes[0]
    badge = str(origin.badge(found))
    return Transition(axis, below, above, bool(answer), len(changes) == 1, asked, str(predicate), badge)


def _lines(experiment: Experiment, source: Source, names: Sequence[str]) -> dict[str, Line]:
    """By their names: the lines, or the CPU queue's in their place."""
    variants = source.variants(experiment)
    found = {name: there for name in names if (there := experiment.available(name, variants)) is not None}
    if missing := [name for name in names if name not in found]:
        here = ", ".join(line.name for line in experiment.lines if line.variant in variants) or "none"
        lacks = f"{source.name} has no line {', '.join(missing)} of {experiment.name!r}; it has {here}"
        raise NotRecordedError(f"find_transition: {lacks}")
    return found


def _readings(experiment: Experiment, source: Source, lines: Mapping[str, Line], point: Point) -> dict[str, Estimate]:
    """The lines' times at a point; nothing where one is missing."""
    if not all(experiment.has(line.variant, point) for line in lines.values()):
        return {}
    source.measure_together(experiment, [line.variant for line in lines.values()], point)
    try:
        found = {name: source.measure(experiment, each.variant, point).get(each.field) for name, each in lines.items()}
    except NotRecordedError:
        return {}
    times = {name: time for name, time in found.items() if time is not None}
    return times if len(times) == len(lines) else {}
