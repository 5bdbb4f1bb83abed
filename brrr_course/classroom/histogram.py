"""A class's guesses as rows to draw: what each stands for, how many guessed it, whether the measurement is there."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from statistics import median_low
from typing import NamedTuple

from brrr.core.errors import ArgumentError
from brrr_course.lessons.answers import Answer, Choice, Quantity, Ranking
from brrr_course.lessons.sharing import line

Form = Choice | Quantity | Ranking
MOST = 10
"""Rows of a quantity: more than these nobody reads in the last bench."""


class Row(NamedTuple):
    """A row of the histogram; `right` where what was measured belongs to it."""

    label: str
    students: int
    right: bool


def read(form: Form, text: str) -> Answer:
    """An answer as a notebook sent it; ArgumentError for what the question cannot have.

    >>> read(Ranking(("a", "b")), "b, a")
    ('b', 'a')
    """
    if not isinstance(form, Ranking):
        return form.parse(text)
    for order in permutations(form.items):  # not split at commas: an item may have one
        if text == line(form.show(order)):
            return order
    raise ArgumentError("guess", "answer", text, "an order of the items")


def rows(form: Form, given: Mapping[Answer, int], measured: Answer | None) -> list[Row]:
    """The histogram of what was guessed how often.

    >>> rows(Choice(("the CPU", "the GPU")), {"the GPU": 3}, "the CPU")
    [Row(label='the CPU', students=0, right=True), Row(label='the GPU', students=3, right=False)]
    >>> [row.label for row in rows(Quantity("s"), {2e-6: 1, 7e-6: 2}, None)]
    ['2 µs to 5 µs', '5 µs to 10 µs']

    Quantities stand in classes from 1 to 2, to 5 and to 10, in decades where these would be too many; where decades are
    too many as well, the outermost classes are open. Of an order, what stands first is counted.
    """
    if isinstance(form, Quantity):
        numbers = {value: count for value, count in given.items() if isinstance(value, float)}
        return _classes(form, numbers, measured if isinstance(measured, int | float) else None)
    items = form.options if isinstance(form, Choice) else form.items
    named = Counter[str]()
    for answer, count in given.items():
        named[_named(answer)] += count
    right = None if measured is None else _named(measured)
    return [Row(item, named[item], item == right) for item in items]


def _named(answer: Answer) -> str:
    return answer[0] if isinstance(answer, tuple) else str(answer)


def _classes(form: Quantity, given: Mapping[float, int], measured: float | None) -> list[Row]:
    values = [*given, *([] if measured is None else [measured])]
    if not values:
        return []
    places: Sequence[int] = ()
    for steps in ((1, 2, 5), (1,)):
        places = [_place(value, steps) for value in values]
        if max(places) - min(places) < MOST:
            break
    low, high = min(places), max(places)
    if high - low >= MOST:  # somebody is far off: the middle stays
        each = [place for place, value in zip(places, values, strict=True) for _ in range(given.get(value, 1))]
        low = min(max(low, median_low(each) - MOST // 2), high - MOST + 1)
    counts, last = Counter[int](), low + min(MOST - 1, high - low)
    for place, count in zip(places, given.values(), strict=False):  # what was measured comes last
        counts[min(max(place, low), last)] += count
    right = None if measured is None else min(max(places[-1], low), last)

    def label(place: int) -> str:
        start, end = (form.show(_edge(each, steps)) for each in (place, place + 1))
        if place == low > min(places):
            return f"under {end}"
        return f"{start} or more" if place == last < max(places) else f"{start} to {end}"

    return [Row(label(place), counts[place], place == right) for place in range(low, last + 1)]


def _place(value: float, steps: tuple[int, ...]) -> int:
    """The number of the class that a value lies in: counted from the one that begins at 1."""
    mantissa, _, power = f"{value:.3e}".partition("e")
    return len(steps) * int(power) + bisect_right(steps, float(mantissa)) - 1


def _edge(place: int, steps: tuple[int, ...]) -> float:
    """Where a class begins."""
    power, step = divmod(place, len(steps))
    return steps[step] * math.pow(10, power)
