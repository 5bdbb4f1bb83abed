"""Guesses as forms of a page, and comparisons that fill themselves in with whatever a reader guessed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.course.lessons.answers import CLOSE, Answer, Choice, Quantity, Ranking
from brrr.course.lessons.comparison import Comparison
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
    with suppress(ArgumentError):
        asked.parse(given + (" " + asked.unit if given == "0" else ""))
        return ""
    try:
        asked.parse(given + (" " + asked.unit if given == "0" else ""))
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


def comparison(waiting: Waiting, pieces: Pieces) -> dict[str, Any]:
    """What a comparison says of every choice and every order; of a quantity, with the guess's places left open."""
    guess = waiting.guess
    kept = guess.form, guess.value
    try:
        if isinstance(guess.form, Quantity):
            guess.form, guess.value = _Open(guess.form.unit), 0.0
            return {"open": pieces.add(_html(waiting.compared()))}
        answers = guess.form.options if isinstance(guess.form, Choice) else permutations(_items(guess.form))
        found: dict[str, int] = {}
        for answer in answers:
            guess.value = answer
            key = answer if isinstance(answer, str) else "|".join(answer)
            found[key] = pieces.add(_html(waiting.compared()))
        return {"by": found}
    finally:
        guess.form, guess.value = kept


def _items(form: Any) -> tuple[str, ...]:
    assert isinstance(form, Ranking)
    return form.items


def _html(found: Comparison) -> str:
    return found._repr_html_()


def numbers() -> dict[str, Any]:
    """What the script needs to write numbers as `units` does, and to judge a quantity."""
    return {"prefixes": units.PREFIXES, "ranges": units.RANGES, "counts": units.COUNTS, "seconds": units.SECONDS,
            "close": CLOSE}  # fmt: skip
