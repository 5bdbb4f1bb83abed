"""Exercises that take numbers or words: `check`'s own marks as a table, by the answers at which they change."""

from __future__ import annotations

import inspect
import itertools
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import brrr
from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.course.lessons.checking import Exercise, Mark, exercises

Answers = Mapping[str, Any]

_DECADES, _IN_DECADE = range(-16, 22), 80
"""The answers that are tried, on a log scale: nearer to each other than any tolerance is wide."""
_FEW = 12  # constants of a module of which the products are tried too
_AROUND = 600  # whole numbers to each side of the right one, where marks go by divisors
_FACTORS = sorted({2.0**n for n in range(-6, 7)} | {10.0 ** (3 * n) for n in range(-4, 5)})
_SHOWN: Mapping[str, Callable[[float], str]] = {
    "B": lambda value: units.quantity(value, "B"), "g": lambda value: f"{value:g}", "4g": lambda value: f"{value:.4g}",
    "repr": repr, "8g": lambda value: f"{8 * value:g}",
}  # fmt: skip
"""How a mark may show an answer, under the names that `site.js` knows."""


def right_answers(solution: Path) -> dict[str, Answers]:
    """What a notebook of solutions hands to each of its checks, none of which is made."""
    found: dict[str, Answers] = {}

    def kept(exercise: str, /, **answers: Any) -> None:
        found[exercise] = answers

    names: dict[str, Any] = {"__name__": "solutions", "display": lambda *_: None}
    with patch.object(brrr, "check", kept):
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
    are above 0. BrrrError where a mark shows
    its answer in a form that the pages do not know.
    """
    found = exercises()[exercise]
    module = sys.modules[found.grade.__module__]
    with patch.dict(vars(module), _read_once(module)):
        right = found.grade(**answers)
        if not right.right:
            raise BrrrError(f"site: {exercise} does not take its own solution: {right}")
        fields = [_field(found, name, answers) for name in answers]
        signs_first = _marks_signs_first(found, answers)
    return {"name": exercise, "fields": fields, "signsFirst": signs_first}


def _marks_signs_first(found: Exercise, answers: Answers) -> bool:
    """Whether an answer that is not above 0 is marked before a wrong one that stands in front of it."""
    first, last = next(iter(answers)), list(answers)[-1]
    if first == last or isinstance(answers[first], str) or isinstance(answers[last], str):
        return False
    both = found.grade(**{**answers, first: 1e9 * answers[first], last: -1})
    return both == found.grade(**{**answers, last: -1})


def _read_once(module: ModuleType) -> dict[str, Callable[[], Any]]:
    """The module's own functions without arguments: what they say of the recording is the same for every answer."""
    own = {name: each for name, each in vars(module).items() if inspect.isfunction(each)}
    return {name: cache(each) for name, each in own.items()
            if each.__module__ == module.__name__ and not inspect.signature(each).parameters}  # fmt: skip


def _field(found: Exercise, name: str, answers: Answers) -> dict[str, Any]:
    def mark(value: Any) -> Mark:
        return found.grade(**{**answers, name: value})

    right = answers[name]
    if isinstance(right, str):
        words = found.words[name]
        return {"name": name, "words": {word: _said(mark(word)) for word in words}}
    known = sorted(_tried(right, found.grade))
    if mark(right + 0.5).text == f"`{name}` is {right + 0.5!r}." and isinstance(right, int):  # whole numbers only
        ints = [-1, 0, *range(right - _AROUND, right + _AROUND + 1)]
        segments = list(_segments(mark, ints, whole=True))
        return {"name": name, "whole": _said(mark(0.5))[2], "segments": segments, "to": ints[-1]}
    return {"name": name, "segments": list(_segments(mark, known))}


def _said(mark: Mark) -> list[str]:
    return [mark.status, mark.text, mark.hint]


def typed(value: float) -> float:
    """A number as it is typed: 25 and not 25.0."""
    return int(value) if float(value).is_integer() and abs(value) < 1e15 else value


def _segments(mark: Callable[[Any], Mark], values: Sequence[float], *, whole: bool = False) -> Iterator[list[Any]]:
    """From which number on a mark holds, up to the next; with what is said, the answer in it as `{g}` or the like."""
    edges = [values[0]]
    for low, high in itertools.pairwise(values):
        if _kind(mark, low) != _kind(mark, high):
            edges += [high] if whole else _edges(mark, low, high)
    for start, end in zip(edges, [*edges[1:], values[-1]], strict=True):
        yield [start, *_template(mark, start, end, whole)]


def _tried(right: float, grade: Any) -> set[float]:
    """Answers close enough to each other to see every tolerance, and those that usual mistakes come to."""
    grid = {10.0 ** (decade + n / _IN_DECADE) for decade in _DECADES for n in range(_IN_DECADE)}
    known = set(_numbers(vars(sys.modules[grade.__module__]).values()))
    scales = {*_FACTORS, *known, *(a * b for a in known for b in known if len(known) <= _FEW)}
    near = {abs(float(value)) for each in scales for value in (each, right * each, right / each if each else 0)}
    around = {round(value) + step for value in near if value < 1e15 for step in (-1, 0, 1)}
    every = {-1.0, 0.0} | grid | near | {float(n) for n in range(1, 300)} | {float(value) for value in around}
    return {value for value in every if value <= 0 or 1e-16 <= value < 1e21}


def _numbers(values: Any) -> Iterator[float]:
    """The numbers among a module's constants."""
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield float(value)
        elif isinstance(value, dict | tuple | list):
            yield from _numbers(value)


def _kind(mark: Callable[[Any], Mark], value: float) -> tuple[str, str, str]:
    """What is said, but for the answer itself: where it changes, so does the mark."""
    found = mark(typed(value))
    text = found.text
    for show in _SHOWN.values() if not found.right else ():
        text = _replaced(text, show(typed(value)), "{}")
    return found.status, text, found.hint


def _replaced(text: str, number: str, by: str) -> str:
    """The text with a number replaced where it stands alone."""
    if number not in text:
        return text
    return re.sub(rf"(?<![\w.-]){re.escape(number)}(?!\w|\.\d)", by, text)


def _edges(mark: Callable[[Any], Mark], low: float, high: float) -> list[float]:
    """The first numbers of other marks between two that differ, the last of them of the second one's mark."""
    first, last, end = _kind(mark, low), _kind(mark, high), high
    while math.nextafter(low, math.inf) < high:
        middle = (low + high) / 2
        low, high = (middle, high) if _kind(mark, middle) == first else (low, middle)
    return [high] if _kind(mark, high) == last else [high, *_edges(mark, high, end)]


def _template(mark: Callable[[Any], Mark], start: float, end: float, whole: bool) -> list[str]:
    """Status, text and hint between two numbers, with the answer's place in the text marked."""
    status, text, hint = _said(mark(typed(start)))
    inside = [start + (end - start) * share for share in (0.137182818284, 0.591421356237, 0.823606797749)]
    inside = [math.floor(value) for value in inside] if whole else inside
    said = {value: mark(typed(value)).text for value in inside if start < value < end}
    if all(each == text for each in said.values()):
        return [status, text, hint]
    for shown in (text, *said.values()):
        value = start if shown == text else next(v for v, each in said.items() if each == shown)
        for kinds in _kinds_of(shown, typed(value)):
            if all(filled(kinds, typed(v)) == each for v, each in {**said, start: text}.items()):
                return [status, kinds, hint]
    raise BrrrError(f"site: no table shows the answer as {said} does.")


def _kinds_of(text: str, value: float) -> Iterator[str]:
    """The text with the answer's places marked, in each of the forms that it may have."""
    for kind, show in _SHOWN.items():
        marked = _replaced(text, show(value), f"{{{kind}}}")
        if marked != text:
            yield marked
            yield from _kinds_of(marked, value)


def filled(template: str, value: float) -> str:
    """A template with the answer in its places.

    >>> filled("`batch` is {g}.", 25)
    '`batch` is 25.'
    """
    return re.sub(r"\{(\w+)\}", lambda found: _SHOWN[found[1]](value), template)
