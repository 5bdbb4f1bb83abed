"""Exercises that take numbers or words: `check`'s own marks as a table, by the answers at which they change."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest.mock import patch

import brrr_course
from brrr.core.errors import BrrrError
from brrr_course.lessons.calculations import Rule, calculated, rules, tables
from brrr_course.lessons.marks import Exercise
from brrr_course.site.guesses import CLOSED, OPEN

Answers = Mapping[str, Any]


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


def table_of(exercise: str, answers: Answers) -> dict[str, Any]:
    """The marks of an exercise as what `site.js` reads: for each answer, the values at which its mark changes.

    An exercise marks its answers one after the other: the first that is not right decides; those that are to be above 0
    are looked at first. `answers` are right ones; BrrrError where they are not.
    """
    found, table = calculated()[exercise], tables()[exercise]
    if not (right := found.marked(**answers)).right:
        raise BrrrError(f"site: {exercise} does not take its own solution: {right}")
    by_name, numbers = rules(table, answers), [each for each in table["answers"].values() if "words" not in each]
    fields = [_field(found, name, each, by_name[name], answers) for name, each in table["answers"].items()]
    signs_first = len(fields) > 1 and any(each.get("kind", "above 0") == "above 0" for each in numbers)
    return {"name": exercise, "fields": fields, "signsFirst": signs_first}


def _field(found: Exercise, name: str, table: Mapping[str, Any], told: list[Rule], answers: Answers) -> dict[str, Any]:
    def mark(value: Any) -> list[str]:
        said = found.marked(**{**answers, name: value if isinstance(value, str) else _open(typed(value))})
        return [said.status, said.text, said.hint]

    if "words" in table:
        return {"name": name, "words": {word: mark(word) for word in table["words"]}}
    ends = [(rule.low, math.nextafter(rule.high, math.inf)) for rule in told]
    places = {-1.0, 0.0, math.ulp(0.0), *(end for both in ends for end in both if math.isfinite(end))}
    more: dict[str, Any] = {}
    if table.get("kind") == "whole":  # further up the marks repeat
        every = math.lcm(*(rule.multiple_of for rule in told))
        places = {-1, *range(math.floor(min(places - {-1.0, 0.0, math.ulp(0.0)})), math.ceil(max(places)) + 2 * every)}
        more = {"whole": mark(min(places) + 0.5), "to": max(places), "every": every}
    starts = groupby(sorted(places), key=mark)
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
