"""Exercises that take numbers or words: `check`'s own marks as a table, by the answers at which they change."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import brrr_course
from brrr.core import units
from brrr.core.errors import BrrrError
from brrr_course.lessons.checking import Exercise, exercises
from brrr_course.site.guesses import CLOSED, OPEN

Answers = Mapping[str, Any]
_GRID = [10.0 ** (n / 8) for n in range(-128, 169)] + list(map(float, range(1, 301)))
"""Answers that are tried beside those that a mark compares with: slips are told by rounded numbers too."""
_AROUND, _PERIOD = 800, 64  # whole numbers to each side of the right one, where marks go by divisors below the other
_ROUNDS = 2  # what a mark compares with may depend on the answer


def right_answers(solution: Path) -> dict[str, Answers]:
    """What a notebook of solutions hands to each of its checks, none of which is made."""
    found: dict[str, Answers] = {}

    def kept(exercise: str, /, **answers: Any) -> None:
        found[exercise] = answers

    names: dict[str, Any] = {"__name__": "solutions", "display": lambda *_: None}
    with patch.object(brrr_course, "check", kept):
        for cell in json.loads(solution.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                with suppress(BrrrError):  # what it looks at was not recorded
                    exec(compile("".join(cell["source"]), str(solution.name), "exec"), names)
    return found


def is_tabulated(answers: Answers) -> bool:
    """Whether all that an exercise takes is numbers and words."""
    return all(isinstance(answer, int | float | str) and not isinstance(answer, bool) for answer in answers.values())


def table_of(exercise: str, answers: Answers) -> dict[str, Any]:
    """The marks of an exercise as what `site.js` reads: for each answer, the values at which its mark changes.

    An exercise marks its answers one after the other: the first that is not right decides; some look first whether all
    are above 0. BrrrError for an exercise that does not take its own solution.
    """
    found = exercises()[exercise]
    right = found.grade(**answers)
    if not right.right:
        raise BrrrError(f"site: {exercise} does not take its own solution: {right}")
    with patch.object(units, "quantity", _quantity), patch.object(math, "isclose", _is_close):
        fields = [_field(found, name, answers) for name in answers]
    first, below = next(iter(answers)), {**answers, list(answers)[-1]: -1}
    signs_first = len(answers) > 1 and found.grade(**below) == found.grade(**below | {first: 1e-12})
    return {"name": exercise, "fields": fields, "signsFirst": signs_first}


def _field(found: Exercise, name: str, answers: Answers) -> dict[str, Any]:
    @cache
    def mark(value: Any) -> list[str]:
        said = found.grade(**{**answers, name: value if isinstance(value, str) else _ASKED[type(typed(value))](value)})
        return [said.status, said.text, said.hint]

    right = answers[name]
    if isinstance(right, str):
        return {"name": name, "words": {word: mark(word) for word in found.words[name]}}
    if isinstance(right, int) and mark(right + 0.5)[1] == f"`{name}` is {_ASKED[int](right)!r}.":  # it is to be whole
        values = [-1, 0, *range(right - _AROUND, right + _AROUND + 1)]
        said = [mark(value) for value in values]
        starts = [high for (_, one), (high, other) in pairwise(zip(values, said, strict=True)) if one != other]
        every = next(n for n in range(1, _PERIOD) if said[-2 * _PERIOD :] == said[-2 * _PERIOD - n : -n])
        more = {"whole": mark(right + 0.5), "to": values[-1], "every": every}
    else:
        _compared.clear()
        for _ in range(_ROUNDS):
            values = sorted({-1.0, 0.0, right, *_GRID, *(value for value in _compared if 1e-16 <= value < 1e21)})
            starts = [edge for low, high in pairwise(values) for edge in _edges(mark, low, high)]
        more = {}
    return {"name": name, "segments": [[start, *mark(start)] for start in (values[0], *starts)], **more}


def _edges(mark: Callable[[float], list[str]], low: float, high: float) -> list[float]:
    """The first numbers of other marks between two numbers, the last of them of the second one's mark."""
    first, last, end = mark(low), mark(high), high
    if first == last:
        return []
    while math.nextafter(low, math.inf) < high:
        middle = (low + high) / 2
        low, high = (middle, high) if mark(middle) == first else (low, middle)
    return [high, *_edges(mark, high, end)]


def typed(value: float) -> float:
    """A number as it is typed: 25 and not 25.0."""
    return int(value) if float(value).is_integer() and abs(value) < 1e15 else value


# ---------------------------------------------------------------------------------------------------------------------
# Numbers that show themselves as a place for the script to fill, and note what they are compared with.

_compared: set[float] = set()


def _watched(base: type) -> Any:
    def noting(name: str) -> Callable[[Any, Any], Any]:
        def compare(self: Any, other: Any) -> Any:
            _compared.update([float(other)] if isinstance(other, int | float) else [])
            return getattr(base, name)(self, other)

        return compare

    shown = {"__format__": lambda _, kind: f"{OPEN}{kind}{CLOSED}", "__repr__": lambda _: f"{OPEN}{CLOSED}"}
    compares = {name: noting(name) for name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__")}
    return type(base.__name__, (base,), {**shown, **compares, "__hash__": base.__hash__})


_ASKED = {base: _watched(base) for base in (int, float)}
_usual_quantity, _usual_is_close = units.quantity, math.isclose


def _quantity(value: float, unit: str, digits: int = 3) -> str:
    return f"{value:{unit}}" if type(value) in _ASKED.values() else _usual_quantity(value, unit, digits)


def _is_close(one: float, other: float, **near: float) -> bool:
    _compared.update((float(one), float(other)))
    return _usual_is_close(one, other, **near)
