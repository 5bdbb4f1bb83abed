"""Bisection where an answer may stay open: for questions that are put to noisy measurements.

>>> search = Search(lambda x: None if abs(x - 37) < 3 else x < 37, whole_numbers_between(1.1), most=12)
>>> search.run(1, 1000)
(34, 40, True)
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

Number = int | float
Answer = bool | None
Middle = Callable[[Number, Number], Number | None]


class SameAnswer(Exception):
    """Both ends give the same answer, or one gives none: there is nothing to search between."""


class Search:
    """Bisection between two ends with different answers, with at most `most` questions.

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

    def run(self, low: Number, high: Number) -> tuple[Number, Number, bool]:
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


def whole_numbers_between(close: float, *, log: bool = True) -> Middle:
    """The next whole number to ask: the geometric mean (or the mean), until the ends differ by less than `close`.

    >>> whole_numbers_between(1.1)(10, 1000), whole_numbers_between(1.1)(100, 105)
    (100, None)
    """

    def middle(low: Number, high: Number) -> Number | None:
        if high <= low * close:
            return None
        value = round(math.sqrt(low * high) if log else (low + high) / 2)
        return value if low < value < high else None

    return middle


def numbers_between(close: float, *, log: bool = True) -> Middle:
    """As `whole_numbers_between`, for an axis that takes any number."""

    def middle(low: Number, high: Number) -> Number | None:
        value = math.sqrt(low * high) if log else (low + high) / 2
        return value if high > low * close and low < value < high else None

    return middle
