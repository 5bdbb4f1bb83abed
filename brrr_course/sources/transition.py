"""`find_transition`: where along an axis does something stop, or start, to be true? Bisection on noisy measurements.

>>> find_transition("pseudo_linear", "width", pays("pseudo graph", over="pseudo eager", at_least=1.05),
...                 at={"batch": 2048, "direction": "forward"}, source="recorded:h200")  # doctest: +SKIP
"pseudo graph" is at least 1.05x as fast as "pseudo eager" up to width 1024, and no longer from 2048 on: ...

A measurement has an interval, so a predicate may answer that it cannot tell. Such a point never becomes an end of the
bracket: the search goes on to both sides of it, until a clear answer stands on either.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.errors import ArgumentError, BrrrError, NotRecordedError
from brrr.core.measurement import Estimate, Point, Value
from brrr_course.experiments import experiment as experiment_named
from brrr_course.nouns.experiment import Axis, Experiment, Line

if TYPE_CHECKING:
    from brrr_course.nouns.source import Source


Answer = bool | None
Readings = Mapping[str, Estimate]
Predicate = Callable[[Readings], Answer]


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

    def __call__(self, readings: Readings) -> Answer:
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
        False if the answer at a value outside of this interval contradicts it.
    measured : tuple
        Every value that was tried, in order, with its answer; None if the noise left it open.
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
    experiment: str | Experiment, axis: str, predicate: Predicate, *, at: Mapping[str, Value] | None = None,
    source: str | Source | None = None, low: Value | None = None, high: Value | None = None, most: int = 12,
) -> Transition:  # fmt: skip
    """Search along an axis for the place where an answer changes, by measuring and halving the interval.

    >>> find_transition("pseudo_linear", "width", pays("pseudo graph", over="pseudo eager"), at={...})  # doctest: +SKIP

    Parameters
    ----------
    experiment : str or Experiment
        The experiment.
    axis : str
        A numeric axis.
    predicate : callable
        Takes the readings of a point, a mapping from each line's name to its `Estimate`, and returns True, False, or
        None if the noise leaves it open. `pays` makes one. If it has `lines`, only these are measured, else all.
    at : mapping of str, optional
        The values of all other axes.
    source : str or Source, optional
        As for `explore`.
    low, high : int or float, optional
        The ends of the search among the source's values. By default all.
    most : int
        How many points are measured at most.

    Returns
    -------
    Transition
        The two values between which the answer changes, and all that was measured.

    Raises
    ------
    ArgumentError
        If the axis is a category, if `at` lacks values, or if both ends give the same answer.
    NotRecordedError
        If the data have no two points to search between.

    Notes
    -----
    The method is bisection over the source's values, on medians with their intervals. On a machine without a GPU the
    CPU queue's line stands in.
    """
    from brrr_course.sources import source_for

    found = experiment_named(experiment) if isinstance(experiment, str) else experiment
    along = found.axis(axis)
    _check(found, along, at or {}, most)
    origin = source_for(source, found.name, getattr(predicate, "lines", ()))
    asking = Asking(found.on(origin.kind), origin, along, predicate, at or {})
    values = asking.values(low, high)
    search = Search(asking.ask, values, most)
    try:
        bracket = search.bracket()
    except SameAnswer as same:
        hint = f"Whether {_says(predicate)}: {same}. Look beyond these ends, at other values of the other axes, or "
        hint += "ask for another factor"
        ends = values[0], values[-1]
        raise ArgumentError("find_transition", "low, high", ends, "ends with different answers", hint) from None
    badge = str(asking.source.badge(found))
    return Transition(axis, *bracket, search.monotone, tuple(search.asked), _says(predicate), badge)


def _says(predicate: Predicate) -> str:
    """The predicate in words: its own, or its name."""
    return str(predicate) if isinstance(predicate, Pays) else getattr(predicate, "__name__", type(predicate).__name__)


def _check(experiment: Experiment, axis: Axis, at: Mapping[str, Value], most: int) -> None:
    if axis.scale == "category":
        numeric = [each.name for each in experiment.axes if each.scale != "category"]
        raise ArgumentError("find_transition", "axis", axis.name, f"a numeric axis: {', '.join(numeric) or 'none'}")
    others = [each.name for each in experiment.axes if each.name != axis.name]
    if set(at) != set(others):
        raise ArgumentError("find_transition", "at", dict(at), f"a value for each other axis: {', '.join(others)}")
    if isinstance(most, bool) or not isinstance(most, int) or most < 3:
        raise ArgumentError("find_transition", "most", most, "a whole number of measurements, at least 3")


# ---------------------------------------------------------------------------------------------------------------------
# A question put to a source, value by value along an axis: what a predicate says of the measurements there.


class Asking:
    """The predicate's answers on a source, at values of one axis."""

    def __init__(
        self, experiment: Experiment, source: Source, axis: Axis, predicate: Predicate, at: Mapping[str, Value]
    ) -> None:
        self.experiment, self.source, self.axis, self.predicate, self.at = experiment, source, axis, predicate, at
        names: tuple[str, ...] = getattr(predicate, "lines", ())
        self.named = bool(names)
        self.lines = self._lines_here(names)

    def _lines_here(self, names: tuple[str, ...]) -> dict[str, Line]:
        """By the name that the predicate uses: the line, or the CPU queue's in its place."""
        variants = self.source.variants(self.experiment)
        here = {line.name: line for line in self.experiment.lines if line.variant in variants}
        if not names:
            return {**{line.stands_in_for or name: line for name, line in here.items()}, **here}
        found = {name: self.experiment.available(name, variants) for name in names}
        missing = [name for name, there in found.items() if there is None]
        if missing:
            raise NotRecordedError(
                f"find_transition: {self.source.name} has no line {', '.join(missing)} of {self.experiment.name!r}; "
                f"it has {', '.join(here) or 'none'}"
            )
        return {name: there for name, there in found.items() if there is not None}

    def values(self, low: Value | None, high: Value | None) -> list[Value]:
        """The values to search, in order: those of the source from `low` to `high` that have the predicate's lines."""
        ends = [None if end is None else float(self.axis.checked("find_transition", end)) for end in (low, high)]
        first, last = (other if end is None else end for end, other in zip(ends, (-math.inf, math.inf), strict=True))
        there = [v for v in self.source.values(self.experiment, self.axis.name) if self._there(v)]
        kept = sorted((value for value in there if first <= float(value) <= last), key=float)
        if len(kept) < 2:
            names = ", ".join(dict.fromkeys(line.name for line in self.lines.values()))
            raise NotRecordedError(
                f"find_transition: {self.source.name} has {len(there)} values of {self.axis.name!r} with {names} at "
                f"{dict(self.at)}; expected at least two"
            )
        return kept

    def _point(self, value: Value) -> dict[str, Value]:
        return self.experiment.point(**{**self.at, self.axis.name: value})

    def _there(self, value: Value) -> bool:
        """Whether the source has, or can measure, the predicate's lines at a value."""
        point = self._point(value)
        there = [self._has(line, point) for line in self.lines.values()]
        return all(there) if self.named else any(there)

    def _has(self, line: Line, point: Point) -> bool:
        if self.source.live:
            return self.experiment.has(line.variant, point)
        found = self.source.known(self.experiment, line.variant).get(tuple(point.values()))
        return found is not None and found.get(line.field) is not None

    def ask(self, value: Value) -> Answer:
        """What the predicate says of a value."""
        point = self._point(value)
        lines = {name: line for name, line in self.lines.items() if self.experiment.has(line.variant, point)}
        self.source.measure_together(self.experiment, [line.variant for line in lines.values()], point)
        found: dict[str, Estimate] = {}
        for name, line in lines.items():
            try:
                time = self.source.measure(self.experiment, line.variant, point).get(line.field)
            except BrrrError:
                if self.named:
                    raise
                continue
            if time is not None:
                found[name] = time
        return self.predicate(found)


# ---------------------------------------------------------------------------------------------------------------------
# Bisection where an answer may stay open: for questions that are put to noisy measurements.


class SameAnswer(Exception):
    """Both ends give the same answer, or one gives none: there is nothing to search between."""


class Search:
    """Bisection over values whose ends have different answers, with at most `most` questions.

    >>> Search(lambda x: None if x == 8 else x < 8, [1, 2, 4, 8, 16, 32], most=12).bracket()
    (4, 16, True)

    `ask` answers True, False, or None where it cannot tell. `asked` holds all questions with their answers; `monotone`
    is False where one of two last questions outside the bracket contradicts it.

    An open value never becomes an end: the search goes on to both sides of it. So if every True and False is right
    and the truth changes once, it changes inside the bracket.
    """

    def __init__(self, ask: Callable[[Value], Answer], values: Sequence[Value], most: int) -> None:
        self._ask, self.values, self.most = ask, values, most
        self.asked: list[tuple[Value, Answer]] = []
        self.monotone = True

    def bracket(self) -> tuple[Value, Value, bool]:
        """The bracket and the answer at its lower end; SameAnswer where the ends do not differ."""
        first, last = 0, len(self.values) - 1
        first, below = self._clear_end(first, last)
        last, above = self._clear_end(last, first)
        if below == above:
            hidden = [str(value) for value, answer in self.asked if answer is None]
            noise = f", and no clear answer at {', '.join(hidden)}" if hidden else ""
            at = f"{self.values[first]} and at {self.values[last]}"
            raise SameAnswer(f"{'yes' if below else 'no'} at {at}{noise}")
        low, high = self._narrow(first, last, below)
        self._look_outside(first, low, below)
        self._look_outside(high, last, above)
        return self.values[low], self.values[high], below

    @property
    def left(self) -> int:
        """How many questions are left."""
        return self.most - len(self.asked)

    def _question(self, place: int) -> Answer:
        value = self.values[place]
        self.asked.append((value, answer := self._ask(value)))
        return answer

    def _clear_end(self, end: int, other: int) -> tuple[int, bool]:
        """The end, or the first place on the way to the other end, that has a clear answer."""
        place: int | None = end
        while place is not None and self.left > 0:
            answer = self._question(place)
            if answer is not None:
                return place, answer
            place = _between(*sorted((place, other)))
        raise SameAnswer(f"no clear answer at {self.values[end]}")

    def _narrow(self, low: int, high: int, below: bool) -> tuple[int, int]:
        still_open: list[int] = []
        while self.left > 0:
            gaps = [(low, still_open[0]), (still_open[-1], high)] if still_open else [(low, high)]
            place = self._in_the_widest(gaps)
            if place is None:
                break
            answer = self._question(place)
            if answer is None:
                insort(still_open, place)
            else:
                low, high = (place, high) if answer == below else (low, place)
                still_open = [each for each in still_open if low < each < high]
        return low, high

    def _look_outside(self, low: int, high: int, expected: bool) -> None:
        """Ask once more, in the widest gap between the questions on one side: does the answer change back there?"""
        known = [place for place in range(low, high + 1) if any(self.values[place] == value for value, _ in self.asked)]
        place = self._in_the_widest(pairwise(known))
        if place is not None and self.left > 0 and self._question(place) is (not expected):
            self.monotone = False

    def _in_the_widest(self, gaps: Iterable[tuple[int, int]]) -> int | None:
        """A place in the middle of the widest gap that has places inside."""
        wide = sorted(gaps, key=lambda gap: float(self.values[gap[1]]) / float(self.values[gap[0]]), reverse=True)
        return next((place for gap in wide if (place := _between(*gap)) is not None), None)


def _between(low: int, high: int) -> int | None:
    """The place in the middle between two others; None where they are neighbours."""
    return (low + high + 1) // 2 if high > low + 1 else None
