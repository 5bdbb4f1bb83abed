"""Guesses as forms of a page, and comparisons that fill themselves in with whatever a reader guessed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

from brrr_course.lessons.answers import CLOSE, SECONDS, Answer, Choice, Quantity, Ranking
from brrr_course.lessons.guessing import UNITS, Guess
from brrr_course.lessons.waiting import Waiting
from brrr_course.site.frame import reachable
from brrr_course.site.vector import Pieces

OPEN, CLOSED = "\ue000", "\ue001"
"""What stands around what the script fills in; no text has these."""


def form(guess: Guess) -> dict[str, Any]:
    """A guess as what `site.js` reads: its question, and what may be answered."""
    told = {"question": guess.question, **vars(guess.form)}  # the options, the items or the unit
    if isinstance(guess.form, Quantity):
        told["hint"] = UNITS.get(guess.form.unit, f"a number in {guess.form.unit}")
    return told


@dataclass(frozen=True)
class _Open(Quantity):
    """A quantity that says in place of a sentence what the script is to put there."""

    def show(self, answer: Answer) -> str:
        return super().show(answer) if answer else f"{OPEN}said|{self.unit}{CLOSED}"

    def distance(self, answer: float, measured: float) -> str:
        return f"{OPEN}far|{self.unit}|{measured!r}{CLOSED}"


def comparison(waiting: Waiting, pieces: Pieces) -> dict[str, Any]:
    """What a comparison says: with the guessed quantity's places left open, or of every choice or order."""
    guess = waiting.guess
    kept = asked, _ = guess.form, guess.value

    def said(value: Answer) -> int:
        guess.value = value
        return pieces.add(reachable(waiting.compared()._repr_html_()))

    try:
        if isinstance(asked, Quantity):
            guess.form = _Open(asked.unit)
            return {"open": said(0.0)}
        if isinstance(asked, Choice):
            return {"by": {option: said(option) for option in asked.options}}
        assert isinstance(asked, Ranking)
        return {"by": {", ".join(order): said(order) for order in permutations(asked.items)}}
    finally:
        guess.form, guess.value = kept


def numbers() -> dict[str, Any]:
    """What the script needs to read a time, and to judge a quantity."""
    return {"close": CLOSE, "seconds": {unit: power for unit, power in SECONDS.items() if unit}}
