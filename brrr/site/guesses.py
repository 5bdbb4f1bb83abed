"""Guesses as forms of a page, and comparisons that fill themselves in with whatever a reader guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.course.lessons.answers import CLOSE, Answer, Choice, Quantity, Ranking
from brrr.course.lessons.guessing import UNITS, Guess
from brrr.course.lessons.waiting import Waiting
from brrr.site.vector import Pieces

_OPEN, _CLOSE = "\ue000", "\ue001"  # around what the script fills in
_UNFIT = {"no unit": "12", "no number": "nonsense", "too small": "0"}


def form(guess: Guess) -> dict[str, Any]:
    """A guess as what `site.js` reads: its question, and what may be answered."""
    asked = guess.form
    told: dict[str, Any] = {"question": guess.question}
    if isinstance(asked, Choice):
        return told | {"options": asked.options}
    if isinstance(asked, Ranking):
        return told | {"items": asked.items}
    assert isinstance(asked, Quantity)
    return told | {"unit": asked.unit, "hint": UNITS.get(asked.unit, f"a number in {asked.unit}"),
                   "unfit": {name: _expected(asked, given) for name, given in _UNFIT.items()}}  # fmt: skip


def _expected(asked: Quantity, given: str) -> str:
    """What Python says that it expected in place of an answer; empty where it takes it."""
    try:
        asked.parse(f"{given} {asked.unit}" if given == "0" else given)
    except ArgumentError as unfit:
        return f"Expected {unfit.expected}."
    return ""


@dataclass(frozen=True)
class _Open(Quantity):
    """A quantity that says in place of a sentence what the script is to put there."""

    def show(self, answer: Answer) -> str:
        return super().show(answer) if answer else f"{_OPEN}said|{self.unit}{_CLOSE}"

    def judge(self, answer: Answer, measured: Answer) -> str:
        return f"you said {_OPEN}said|{self.unit}{_CLOSE}, measured {self.show(measured)}: {self._distance(measured)}"

    def distance(self, answer: float, measured: float) -> str:
        return self._distance(measured)

    def _distance(self, measured: Answer) -> str:
        return f"{_OPEN}far|{self.unit}|{measured!r}{_CLOSE}"


@dataclass(frozen=True)
class _OpenRanking(Ranking):
    """An order that says in place of a sentence what was measured, for the script to count what stands in its place."""

    def judge(self, answer: Answer, measured: Answer) -> str:
        assert isinstance(measured, tuple)
        return f"{_OPEN}order|{'|'.join(measured)}{_CLOSE}"


def comparison(waiting: Waiting, pieces: Pieces) -> dict[str, Any]:
    """What a comparison says, with the guess's places left open; of a choice for each option.

    Of an order, for each order of those items that share a place in what was measured.
    """
    guess = waiting.guess
    kept = guess.form, guess.value

    def said(value: Answer) -> int:
        guess.value = value
        return pieces.add(waiting.compared()._repr_html_())

    try:
        if isinstance(guess.form, Quantity):
            guess.form = _Open(guess.form.unit)
            return {"open": said(0.0)}
        if isinstance(guess.form, Choice):
            return {"by": {option: said(option) for option in guess.form.options}}
        assert isinstance(guess.form, Ranking)
        guess.form = _OpenRanking(guess.form.items)
        ties = _ties(waiting, guess.form.items)
        others = tuple(item for item in guess.form.items if item not in ties)
        return {"ties": ties, "by": {"|".join(order): said((*order, *others)) for order in permutations(ties)}}
    finally:
        guess.form, guess.value = kept


def _ties(waiting: Waiting, items: tuple[str, ...]) -> list[str]:
    """The items that change places in what was measured when a guess has them the other way."""
    order = _order(waiting, items)
    tied: dict[str, None] = {}
    for first in range(len(order) - 1):
        one, other = order[first : first + 2]
        swapped = (*order[:first], other, one, *order[first + 2 :])
        if _order(waiting, order) != _order(waiting, swapped):
            tied |= {one: None, other: None}
    return list(tied)


def _order(waiting: Waiting, answer: tuple[str, ...]) -> tuple[str, ...]:
    """What was measured, said to who gave that answer."""
    items = waiting.guess.form.items if isinstance(waiting.guess.form, Ranking) else ()
    waiting.guess.value = (*answer, *(item for item in items if item not in answer))
    found = re.search(f"{_OPEN}order\\|(.*?){_CLOSE}", waiting.compared().text)
    return tuple(found[1].split("|")) if found else ()


def numbers() -> dict[str, Any]:
    """What the script needs to write numbers as `units` does, and to judge a quantity."""
    return {"prefixes": units.PREFIXES, "ranges": units.RANGES, "counts": units.COUNTS, "seconds": units.SECONDS,
            "close": CLOSE}  # fmt: skip
