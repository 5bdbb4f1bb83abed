"""The forms that an answer may take: a number with its unit, one of several options, or an order of several items."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import permutations
from typing import Protocol

from brrr.core import units
from brrr.core.errors import ArgumentError

Answer = float | str | tuple[str, ...]

CLOSE = 1.25
"""A guess within this factor of the measurement is a good one: nobody can do better by thinking."""


class Form(Protocol):
    """What may be answered, how it reads, and how it compares with what was measured."""

    def parse(self, given: object) -> Answer:
        """The answer in `given`; an ArgumentError that says in plain words what is missing."""

    def show(self, answer: Answer) -> str:
        """The answer as a person writes it."""

    def judge(self, answer: Answer, measured: Answer) -> str:
        """The answer and the measurement in one sentence."""


@dataclass(frozen=True)
class Quantity:
    """A positive number with a unit.

    >>> Quantity("s").judge(25e-6, 3.1e-3)
    'you said 25 µs, measured 3.1 ms: 124x too short'
    """

    unit: str

    def parse(self, given: object) -> float:
        """A number from text such as `25 µs`, or seconds as a number; other units than a time's may be left out."""
        bare = isinstance(given, str) and not re.search(r"[a-zµμ]\s*$", given.strip(), re.I)
        value = math.nan if bare and self.unit == "s" else parsed(given, self.unit)
        if not 0 < value < math.inf:
            such = "'25 µs', '3 ms' or '2 s'" if self.unit == "s" else f"'{f'12 {self.unit}'.strip()}'"
            wanted = "a time with its unit" if self.unit == "s" else "a number"
            raise ArgumentError("guess", "answer", given, f"{wanted}, such as {such}, greater than 0")
        return value

    def show(self, answer: Answer) -> str:
        """With the prefix that fits: 25 µs."""
        assert isinstance(answer, int | float)
        return units.ratio(answer) if self.unit == "x" else units.quantity(answer, self.unit)

    def judge(self, answer: Answer, measured: Answer) -> str:
        """Both, and the ratio between them."""
        assert isinstance(answer, int | float)
        assert isinstance(measured, int | float)
        none = " (no difference)" if self.unit == "x" and abs(measured - 1) < 0.05 else ""
        text = f"you said {self.show(answer)}, measured {self.show(measured)}{none}"
        return f"{text}: {self.distance(answer, measured)}"

    def distance(self, answer: float, measured: float) -> str:
        """How far the guess is from the measurement, as a factor."""
        if measured <= 0:
            return "nothing to compare with"
        factor = max(answer / measured, measured / answer)
        if factor <= CLOSE:
            return "a good guess"
        small, large = ("short", "long") if self.unit == "s" else ("small", "large")
        return f"{units.ratio(factor)} too {small if answer < measured else large}"


@dataclass(frozen=True)
class Choice:
    """One of several options.

    >>> Choice(("the CPU", "the GPU")).judge("the GPU", "the CPU")
    'you said the GPU, but it is the CPU'
    """

    options: tuple[str, ...]

    def parse(self, given: object) -> str:
        """The option that was named, capitals or not."""
        for option in self.options:
            if str(given).strip().casefold() == option.casefold():
                return option
        raise ArgumentError("guess", "answer", given, f"one of: {', '.join(self.options)}")

    def show(self, answer: Answer) -> str:
        """The option."""
        return str(answer)

    def judge(self, answer: Answer, measured: Answer) -> str:
        """Whether the option is the one that was measured."""
        return f"you said {answer}, and so it is" if answer == measured else f"you said {answer}, but it is {measured}"


@dataclass(frozen=True)
class Ranking:
    """An order of several items.

    >>> Ranking(("a", "b", "c")).judge(("a", "c", "b"), ("a", "b", "c"))
    '1 of 3 stand in the right place; the order is a, b, c'
    """

    items: tuple[str, ...]

    def parse(self, given: object) -> tuple[str, ...]:
        """The items in an order: each of them once."""
        if isinstance(given, str):  # as `show` writes it, which is not split at commas: an item may have one
            given = next((each for each in permutations(self.items) if self.show(each) == given), given)
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ArgumentError("guess", "answer", given, f"a list of these in an order: {', '.join(self.items)}")
        order = tuple(str(item) for item in given)
        missing = [item for item in self.items if item not in order]
        if missing:
            raise ArgumentError("guess", "answer", list(order), f"each item once; {', '.join(missing)} is missing")
        if len(order) != len(self.items):
            raise ArgumentError("guess", "answer", list(order), f"each of the {len(self.items)} items exactly once")
        return order

    def show(self, answer: Answer) -> str:
        """The items, first to last."""
        assert isinstance(answer, tuple)
        return ", ".join(answer)

    def judge(self, answer: Answer, measured: Answer) -> str:
        """How many items stand in their place."""
        assert isinstance(answer, tuple)
        assert isinstance(measured, tuple)
        if answer == measured:
            return f"all {len(measured)} stand in the right place"
        hits = sum(a == b for a, b in zip(answer, measured, strict=False))
        return f"{hits} of {len(measured)} stand in the right place; the order is {self.show(measured)}"


# ---------------------------------------------------------------------------------------------------------------------
# What a reader types, as a number.

SECONDS = {"ps": -12, "ns": -9, "us": -6, "µs": -6, "μs": -6, "ms": -3, "s": 0}  # powers of ten
_NUMBER = re.compile(r"\s*([+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:e[+-]?\d+)?)\s*(\D*?)\s*", re.IGNORECASE | re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")


def powers_of(unit: str) -> dict[str, int]:
    """What may stand behind a number in a unit, with the power of ten that it stands for: another unit of time, too.

    >>> powers_of("x"), powers_of("ms")["s"]
    ({'': 0, 'x': 0}, 3)
    """
    times = {each: power - SECONDS[unit] for each, power in SECONDS.items()} if unit in SECONDS else {}
    return {**times, "": 0, unit.lower(): 0}


def parsed(text: object, unit: str) -> float:
    """The number that a text or a number stands for; a time in `unit`, which a bare number is too; NaN for neither.

    >>> parsed("4,6 ms", "us"), parsed("3x", "x"), parsed(2, "")
    (4600.0, 3.0, 2.0)

    A comma is a decimal point, but in "1,000", which may be a thousand.
    """
    try:
        if not isinstance(text, str):
            return math.nan if isinstance(text, bool) else float(text)  # type: ignore[arg-type]
        match = _NUMBER.fullmatch(text)
        if match is None or _THOUSANDS.fullmatch(match[1]):
            return math.nan
        number = Decimal(match[1].replace(",", "."))
        return float(number.scaleb(powers_of(unit)[match[2].lower()]))
    except (TypeError, ValueError, KeyError, ArithmeticError):
        return math.nan
