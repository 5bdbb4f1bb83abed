"""Exercises that take numbers or words: `check`'s own marks as a table, by the answers at which they change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from brrr_course.lessons.answers import powers_of
from brrr_course.lessons.calculations import calculated, cases, exercise_of, rules, tables
from brrr_course.site.guesses import CLOSED, OPEN


def is_tabulated(exercise: str) -> bool:
    """Whether all that an exercise takes is numbers and words."""
    return exercise in tables() and not calculated()[exercise].functions


def table_of(exercise: str) -> dict[str, Any]:
    """The marks of an exercise as what `site.js` reads: for each answer, the values at which its mark changes.

    An exercise marks its answers one after the other: the first that is not right decides; those that are to be above 0
    are looked at first.
    """
    table = tables()[exercise]
    numbers = [each for each in table["answers"].values() if "words" not in each]
    signs_first = len(table["answers"]) > 1 and any(each.get("kind", "above 0") == "above 0" for each in numbers)
    fields = [_field(name, {**table, "answers": {name: each}}) for name, each in table["answers"].items()]
    return {"name": exercise, "fields": fields, "signsFirst": signs_first}


def _field(name: str, alone: Mapping[str, Any]) -> dict[str, Any]:
    """The marks of one answer, by an exercise that has no other."""

    def mark(value: Any) -> list[str]:
        said = found.marked(**{name: value if isinstance(value, str) else _open(typed(value))})
        return [said.status, said.text, said.hint]

    found, table = exercise_of("", alone), alone["answers"][name]
    if "words" in table:
        return {"name": name, "words": {word: mark(word) for word in table["words"]}}
    told = rules(name, table, cases(alone, {}))
    ends = {end for rule in told for end in (rule.low, math.nextafter(rule.high, math.inf)) if math.isfinite(end)}
    places = sorted({-1.0, 0.0, math.ulp(0.0), *ends})
    more: dict[str, Any] = {"powers": powers_of(table.get("unit", ""))}
    if table.get("kind") == "whole":  # further up the marks repeat
        every = math.lcm(*(rule.multiple_of for rule in told))
        last = math.ceil(max(ends)) + 2 * every - 1
        near = [math.floor(end) + n for end in ends for n in (0, 1)]
        between = range(math.floor(min(ends)), last) if every > 1 else near
        places = sorted({-1, *between, last})
        more |= {"whole": mark(0.5), "to": places[-1], "every": every}
    starts = groupby(places, key=mark)
    return {"name": name, "segments": [[next(of), *said] for said, of in starts], **more}


def typed(value: float) -> float:
    """A number as it is typed: 25 and not 25.0."""
    return int(value) if float(value).is_integer() and abs(value) < 1e15 else value


# ---------------------------------------------------------------------------------------------------------------------
# Numbers that show themselves as a place for the script to fill.


class _Whole(int):
    def __format__(self, kind: str) -> str:
        return f"{OPEN}{kind}{CLOSED}"

    def __repr__(self) -> str:
        return f"{OPEN}{CLOSED}"


class _Number(float):
    __format__, __repr__ = _Whole.__format__, _Whole.__repr__


def _open(value: float) -> float:
    return (_Whole if isinstance(value, int) else _Number)(value)
