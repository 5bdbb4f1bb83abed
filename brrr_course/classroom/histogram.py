"""A class's guesses as rows to draw: what each stands for, how many guessed it, whether the measurement is there."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from statistics import median_low
from typing import NamedTuple

from brrr_course.lessons.answers import Answer, Choice, Quantity, Ranking

Form = Choice | Quantity | Ranking
MOST, STEPS = 11, (1, 2, 5)
"""Rows of a quantity, more than which nobody reads in the last bench; where the classes of each decade begin."""


class Bin(NamedTuple):
    """A row of the histogram; `right` where what was measured belongs to it."""

    label: str
    students: int
    right: bool


def rows(form: Form, given: Mapping[Answer, int], measured: Answer | None) -> list[Bin]:
    """The histogram of what was guessed how often.

    >>> rows(Choice(("the CPU", "the GPU")), {"the GPU": 3}, "the CPU")
    [Bin(label='the CPU', students=0, right=True), Bin(label='the GPU', students=3, right=False)]
    >>> [row.label for row in rows(Quantity("s"), {2e-6: 1, 7e-6: 2}, None)]
    ['2 µs to 5 µs', '5 µs to 10 µs']

    Quantities stand in classes from 1 to 2, to 5 and to 10, the outermost of them open where they would be too many. Of
    an order, what stands first is counted.
    """
    if isinstance(form, Quantity):
        places = sorted(_place(value) for value, count in given.items() for _ in range(count))
        return _classes(form, places, None if measured is None else _place(measured))
    items = form.options if isinstance(form, Choice) else form.items
    named = Counter[str]()
    for answer, count in given.items():
        named[_named(answer)] += count
    right = None if measured is None else _named(measured)
    return [Bin(item, named[item], item == right) for item in items]


def _named(answer: Answer) -> str:
    return answer[0] if isinstance(answer, tuple) else str(answer)


def _classes(form: Quantity, guessed: list[int], measured: int | None) -> list[Bin]:
    every = guessed if measured is None else [*guessed, measured]
    if not every:
        return []
    low, high = min(every), max(every)
    first = max(low, min(median_low(guessed or every) - MOST // 2, high - MOST + 1))  # who is far off: in an open class
    last = min(high, first + MOST - 1)
    counts = Counter(min(max(place, first), last) for place in guessed)
    right = None if measured is None else min(max(measured, first), last)

    def label(place: int) -> str:
        start, end = (form.show(STEPS[each % 3] * math.pow(10, each // 3)) for each in (place, place + 1))
        if place == first > low:
            return f"under {end}"
        return f"{start} or more" if place == last < high else f"{start} to {end}"

    return [Bin(label(place), counts[place], place == right) for place in range(first, last + 1)]


def _place(value: Answer) -> int:
    """The number of the class that a quantity lies in: counted from the one that begins at 1."""
    assert isinstance(value, int | float)
    mantissa, _, power = f"{value:.3e}".partition("e")
    return 3 * int(power) + bisect_right(STEPS, float(mantissa)) - 1
