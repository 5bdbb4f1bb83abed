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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from brrr.core import units
from brrr.core.errors import ArgumentError, BrrrError, NotRecordedError
from brrr.core.measurement import Estimate, Point, Value
from brrr_course.experiments import experiment as experiment_named
from brrr_course.nouns.experiment import Axis, Experiment, Line

if TYPE_CHECKING:
    from brrr_course.nouns.source import Source


Number = int | float
Answer = bool | None
Middle = Callable[[Number, Number], Number | None]


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
        False if a value outside of the two contradicts them.
    measured : tuple
        Every value that was asked, in order, with its answer; None if the noise left it open.
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
        """Whether a value lies above `low` and at or below `high`, and so may be the first one behind the change."""
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
        Takes the readings of a point, from each line's name to its `Estimate`, and returns True, False, or None if the
        noise does not tell. `pays` makes one. If it has `lines`, only these are measured, else all.
    at : mapping of str, optional
        The values of all other axes.
    source : str or Source, optional
        As for `explore`. A recording is searched over its values; a live source over all whole numbers between `low`
        and `high`, to within a tenth.
    low, high : int or float, optional
        Between which values to search. By default the axis's ends.
    most : int
        How many points are measured at most; one that is measured again counts twice.

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
    The method is bisection on medians with their intervals. On a machine without a GPU the CPU queue's line stands in.
    """
    from brrr_course.sources import source_for

    found = experiment_named(experiment) if isinstance(experiment, str) else experiment
    along = found.axis(axis)
    _check(found, along, at or {}, most)
    chosen = source_for(source, found.name)
    asking = Asking(found, chosen, along, predicate, at or {})
    ends, middle = asking.reach(low, high)
    search = Search(asking.ask, middle, most, again=asking.ask_again if chosen.live else None)
    try:
        bracket = search.bracket(*ends)
    except SameAnswer as same:
        hint = f"Whether {_says(predicate)}: {same}. Look beyond these ends, at other values of the other axes, or "
        hint += "ask for another factor"
        raise ArgumentError("find_transition", "low, high", ends, "ends with different answers", hint) from None
    return Transition(axis, *bracket, search.monotone, tuple(search.asked), _says(predicate), str(chosen.badge(found)))


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

MORE = 4
"""A live point that cannot be told is measured once more, with so many times the budget."""

CLOSE = 1.1
"""A bracket whose ends differ by less than a tenth is narrow enough, live: the noise of the measurements is as wide."""

Readings = Mapping[str, Estimate]
Predicate = Callable[[Readings], Answer]


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

    def reach(self, low: Value | None, high: Value | None) -> tuple[tuple[Any, Any], Middle]:
        """The two ends of the search, and how to find the next value between two others."""
        limits = [self.axis.checked("find_transition", end) if end is not None else None for end in (low, high)]
        values = [v for v in self.source.values(self.experiment, self.axis.name) if self._there(v)]
        if self.source.live:
            ends = [limit if limit is not None else value for limit, value in zip(limits, _ends(values), strict=True)]
            middle = numbers_between(CLOSE, whole=self.axis.integer, log=self.axis.scale == "log")
        else:
            first, last = ((-math.inf, math.inf)[at] if end is None else float(end) for at, end in enumerate(limits))
            kept = [float(v) if isinstance(v, float) else int(v) for v in values if first <= float(v) <= last]
            ends, middle = list(_ends(kept)), values_between(kept)
        if None in ends or not float(ends[0]) < float(ends[1]):
            names = ", ".join(dict.fromkeys(line.name for line in self.lines.values()))
            raise NotRecordedError(
                f"find_transition: {self.source.name} has {len(values)} values of {self.axis.name!r} with {names} at "
                f"{dict(self.at)}; expected at least two"
            )
        return (ends[0], ends[1]), middle

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
        """What the predicate says of a value, measured now if it was not yet."""
        return self.predicate(self._readings(self.source, value))

    def ask_again(self, value: Value) -> Answer:
        """The same, measured once more and longer."""
        return self.predicate(self._readings(_more_careful(self.source), value))

    def _readings(self, source: Source, value: Value) -> dict[str, Estimate]:
        point = self._point(value)
        lines = {name: line for name, line in self.lines.items() if self.experiment.has(line.variant, point)}
        source.measure_together(self.experiment, [line.variant for line in lines.values()], point)
        found: dict[str, Estimate] = {}
        for name, line in lines.items():
            try:
                time = source.measure(self.experiment, line.variant, point).get(line.field)
            except BrrrError:
                if self.named:
                    raise
                continue
            if time is not None:
                found[name] = time
        return found


def _ends(values: list[Any]) -> tuple[Any, Any]:
    return (min(values, key=float), max(values, key=float)) if values else (None, None)


def _more_careful(source: Source) -> Source:
    """A source that measures everything anew, and longer; a live source of another kind decides for itself."""
    from brrr_course.sources.live import Live

    return Live(source.kind, budget_s=MORE * source.budget_s) if isinstance(source, Live) else source


# ---------------------------------------------------------------------------------------------------------------------
# Bisection where an answer may stay open: for questions that are put to noisy measurements.


class SameAnswer(Exception):
    """Both ends give the same answer, or one gives none: there is nothing to search between."""


class Search:
    """Bisection between two ends with different answers, with at most `most` questions.

    >>> whole = numbers_between(1.1, whole=True)
    >>> Search(lambda x: None if abs(x - 37) < 3 else x < 37, whole, most=12).bracket(1, 1000)
    (34, 40, True)

    `ask` answers True, False, or None where it cannot tell; then `again`, if given, is asked once. `middle` names the
    value to ask next between two others, None where they are close enough. `asked` holds all questions with their
    answers; `monotone` is False where one of two last questions outside the bracket contradicts it.

    An open value never becomes an end: the search goes on to both sides of it. So if every True and False is right
    and the truth changes once, it changes inside the bracket.
    """

    def __init__(
        self, ask: Callable[[Any], Answer], middle: Middle, most: int, again: Callable[[Any], Answer] | None = None
    ) -> None:
        self._ask, self._middle, self.most, self._again = ask, middle, most, again
        self.asked: list[tuple[Number, Answer]] = []
        self.monotone = True

    def bracket(self, low: Number, high: Number) -> tuple[Number, Number, bool]:
        """The bracket and the answer at its lower end; SameAnswer where the ends do not differ."""
        first_low, below = self._clear_end(low, high)
        first_high, above = self._clear_end(high, low)
        if below == above:
            hidden = [str(value) for value, answer in self.asked if answer is None]
            noise = f", and no clear answer at {', '.join(hidden)}" if hidden else ""
            raise SameAnswer(f"{'yes' if below else 'no'} at {first_low} and at {first_high}{noise}")
        low, high = self._narrow(first_low, first_high, below)
        self._look_outside((first_low, low), below)
        self._look_outside((high, first_high), above)
        return low, high, below

    @property
    def left(self) -> int:
        """How many questions are left."""
        return self.most - len(self.asked)

    def _question(self, value: Number) -> Answer:
        answer = self._ask(value)
        self.asked.append((value, answer))
        if answer is None and self._again is not None and self.left > 0:
            answer = self._again(value)
            self.asked.append((value, answer))
        return answer

    def _clear_end(self, end: Number, other: Number) -> tuple[Number, bool]:
        """The end, or the first value on the way to the other end, that has a clear answer."""
        place: Number | None = end
        while place is not None and self.left > 0:
            answer = self._question(place)
            if answer is not None:
                return place, answer
            place = self._middle(*sorted((place, other)))
        raise SameAnswer(f"no clear answer at {end}")

    def _narrow(self, low: Number, high: Number, below: bool) -> tuple[Number, Number]:
        still_open: list[Number] = []
        while self.left > 0 and (value := self._next(low, high, still_open)) is not None:
            answer = self._question(value)
            if answer is None:
                insort(still_open, value)
            elif answer == below:
                low, still_open = value, [each for each in still_open if each > value]
            else:
                high, still_open = value, [each for each in still_open if each < value]
        return low, high

    def _next(self, low: Number, high: Number, still_open: Sequence[Number]) -> Number | None:
        """The middle of the bracket; where values in it are open, of the wider gap on either side of them."""
        gaps = [(low, still_open[0]), (still_open[-1], high)] if still_open else [(low, high)]
        middles = [self._middle(*gap) for gap in sorted(gaps, key=lambda gap: gap[1] / gap[0], reverse=True)]
        return next((value for value in middles if value is not None), None)

    def _look_outside(self, side: tuple[Number, Number], expected: bool) -> None:
        """Ask once more, in the widest gap between the questions on one side: does the answer change back there?"""
        known = sorted({value for value, _ in self.asked if side[0] <= value <= side[1]})
        gaps = sorted(pairwise(known), key=lambda gap: gap[1] / gap[0])
        value = self._middle(*gaps[-1]) if gaps and self.left > 0 else None
        if value is not None and self._question(value) is (not expected):
            self.monotone = False


def values_between(values: Sequence[Number]) -> Middle:
    """The next value to ask, where only these can be: the middle one of those between the two.

    >>> values_between([1, 2, 4, 8, 16])(1, 16), values_between([1, 2, 4])(2, 4)
    (4, None)
    """
    ordered = sorted(values)

    def middle(low: Number, high: Number) -> Number | None:
        inside = [value for value in ordered if low < value < high]
        return inside[len(inside) // 2] if inside else None

    return middle


def numbers_between(close: float, *, whole: bool, log: bool = True) -> Middle:
    """The next number to ask: the geometric mean (or the mean), until the ends differ by less than `close`.

    >>> numbers_between(1.1, whole=True)(10, 1000), numbers_between(1.1, whole=True)(100, 105)
    (100, None)
    """

    def middle(low: Number, high: Number) -> Number | None:
        value = math.sqrt(low * high) if log else (low + high) / 2
        value = round(value) if whole else value
        return value if high > low * close and low < value < high else None

    return middle
