"""Guesses as forms of a page, and comparisons that fill themselves in with whatever a reader guessed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

from brrr_course.lessons.answers import CLOSE, Answer, Choice, Quantity, Ranking, powers_of
from brrr_course.lessons.guessing import CHANGE, GIVE, ORDER, UNITS, Guess
from brrr_course.lessons.marks import TITLES
from brrr_course.lessons.waiting import Waiting
from brrr_course.site.frame import reachable
from brrr_course.site.vector import Pieces

OPEN, CLOSED = "\ue000", "\ue001"
"""What stands around what the script fills in; no text has these."""


def form(guess: Guess) -> dict[str, Any]:
    """A guess as what `site.js` reads: its question, and what may be answered."""
    told = {"question": guess.question, **vars(guess.form)}  # the options, the items or the unit
    if isinstance(guess.form, Quantity):
        unit = guess.form.unit
        told["hint"] = UNITS.get(unit, f"a number in {unit}")
        told["powers"] = {each: power for each, power in powers_of(unit).items() if each or unit != "s"}
    return told


@dataclass(frozen=True)
class _Open(Quantity):
    """A quantity that says in place of a sentence what the script is to put there."""

    def show(self, answer: Answer) -> str:
        return super().show(answer) if answer else f"{OPEN}said|{self.unit}{CLOSED}"

    def distance(self, answer: float, measured: float) -> str:
        said = super().distance
        if measured <= 0:
            return said(answer, measured)
        far = (said(other, measured).partition(" ")[2] for other in (measured / 2, measured * 2))
        return f"{OPEN}far|{measured!r}|{said(measured, measured)}|{'|'.join(far)}{CLOSED}"


def comparison(waiting: Waiting, pieces: Pieces) -> dict[str, Any]:
    """What a comparison says: with the guessed quantity's places left open, or of every choice or order.

    `measured` is what the guess is held against.
    """
    guess, told = waiting.guess, dict[str, Any]()
    kept = asked, _ = guess.form, guess.value

    def said(value: Answer) -> int:
        guess.value = value
        found = waiting.compared()
        told["measured"] = found.measured
        return pieces.add(reachable(found._repr_html_()))

    try:
        if isinstance(asked, Quantity):
            guess.form = _Open(asked.unit)
            told["open"] = said(0.0)
        elif isinstance(asked, Choice):
            told["by"] = {option: said(option) for option in asked.options}
        else:
            assert isinstance(asked, Ranking)
            told["by"] = {", ".join(order): said(order) for order in permutations(asked.items)}
    finally:
        guess.form, guess.value = kept
    return told


def rules() -> dict[str, Any]:
    """What the script needs to judge a quantity, and what it says as a notebook does."""
    return {"close": CLOSE, "words": {"give": GIVE, "change": CHANGE, "order": ORDER, **TITLES}}
