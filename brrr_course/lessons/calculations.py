"""Exercises whose answers are numbers or words: `data/exercises.toml` holds them, and what marks them all is here."""

import math
import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from string import Formatter
from typing import Any

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr_course.lessons.answers import parsed
from brrr_course.lessons.marks import Exercise, Wrong, ask, is_number
from brrr_course.nouns.expression import ExpressionError, Scope, compute, middle
from brrr_course.nouns.places import share

Names = Mapping[str, Any]
Table = Mapping[str, Any]
"""An exercise, or one of its answers, as the file has it."""

TRIALS = 5
KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "above 0": (lambda answer: is_number(answer) and 0 < answer < math.inf, "Write a number above 0."),
    "finite": (lambda answer: is_number(answer) and math.isfinite(answer), "Write a number."),
    "number": (is_number, "Write a number."),
    "whole": (lambda answer: is_number(answer) and isinstance(answer, int), "Write a whole number."),
}
"""What an answer must be at all, and the hint for one that is not."""


@cache
def tables() -> dict[str, dict[str, Any]]:
    """All of the file, by the exercises' names; what is written for an exercise stands in each of its answers too.

    >>> tables()["01-events"]["answers"]["extra_us"]["within"]
    0.01
    """
    found = tomllib.loads((share("data") / "exercises.toml").read_text(encoding="utf-8"))
    for exercise in found.values():
        usual = {key: value for key, value in exercise.items() if key not in ("given", "names", "right", "answers")}
        exercise["answers"] = {name: {**usual, **table} for name, table in exercise["answers"].items()}
    return found


def calculated(lesson: str = "") -> dict[str, Exercise]:
    """The exercises of a lesson, or of all, by name.

    >>> calculated("01")["01-events"].marked(call_us=4.6, extra_us=10.6)
    Not yet: You wrote 10.6 for `extra_us`.
    Hint: That is all of it. How much of it is not the call itself? Subtract one call.
    """
    names = [name for name in tables() if name.startswith(lesson)]
    return {name: exercise_of(name, tables()[name]) for name in names}


def exercise_of(name: str, table: Table) -> Exercise:
    """What marks an exercise of the file, or one that has its form."""
    functions = tuple(name for name, answer in table["answers"].items() if "arguments" in answer)
    return Exercise(name, tuple(table["answers"]), partial(_grade, table), functions)


@dataclass(frozen=True)
class Rule:
    """What is said of answers from `low` to `high` that are multiples of `multiple_of`; `names` are for its texts."""

    right: bool
    low: Any
    high: Any
    multiple_of: int
    text: str
    hint: str
    names: Names

    def takes(self, answer: Any) -> bool:
        """Whether it speaks of this answer: a number, or for a choice a word."""
        return bool(self.low <= answer <= self.high) and (self.multiple_of == 1 or answer % self.multiple_of == 0)


def cases(exercise: Table, answers: Names) -> list[dict[str, Any]]:
    """The names that an exercise's formulas and texts may use, once for each measurement.

    >>> cases(tables()["00-launches"], {})
    [{'kernels': 100, 'launch_us': 10, 'kernel_us': 2}]
    """
    module, _, function = exercise.get("names", "").partition(":")
    found = [dict(each) for each in getattr(import_module(module), function)(answers)] if module else [{}]
    for names in found:
        for name, formula in exercise.get("given", {}).items():
            names[name] = value_of(formula, names)
    return found


def rules(name: str, table: Table, names: Sequence[Names]) -> list[Rule]:
    """What is said of one answer: the first rule that takes it holds, the last one if none does.

    >>> launches = tables()["00-launches"]
    >>> found = rules("microseconds", launches["answers"]["microseconds"], cases(launches, {}))
    >>> [(rule.low, rule.right) for rule in found]
    [(1002, True), (1200, False), (200, False), (1000, False), (-inf, False)]
    """
    rows = [(True, each, table) for each in names]
    rows += [(False, names[0], row) for row in (*table.get("slips", []), {})]
    return [Rule(right, *_bounds(table, row, each), *_said(name, table, row), each) for right, each, row in rows]


def _bounds(table: Table, row: Table, names: Names) -> tuple[Any, Any, int]:
    """The first and the last answer that a row of the file speaks of, and whose multiples."""
    multiple_of = row.get("multiple_of", 1)
    if "is" not in row:
        return value_of(row.get("from", -math.inf), names), value_of(row.get("to", math.inf), names), multiple_of
    if "words" in table:
        return row["is"], row["is"], multiple_of
    middle, near = value_of(row["is"], names), row.get("within", table.get("within", 0))
    return middle * (1 - near), middle / (1 - near), multiple_of


def _said(name: str, table: Table, row: Table) -> tuple[str, str]:
    return row.get("text", table.get("text", f"you wrote {{{name}:.9g}} for `{name}`.")), row.get("hint", table["hint"])


def _read(table: Table, answer: Any) -> Any:
    """An answer as it counts: a text such as "4,6 µs" is a number in the answer's unit, and 59.0 may be whole."""
    if isinstance(answer, float) and answer.is_integer() and table.get("kind") == "whole":
        return int(answer)
    if not isinstance(answer, str) or "words" in table:
        return answer
    value = parsed(answer, table.get("unit", ""))
    return answer if math.isnan(value) else int(value) if value.is_integer() else value


def _tried(name: str, table: Table, names: Names, function: Callable[..., Any]) -> Rule:
    """What is said of an answer that is a function: it is tried on random numbers, where no two formulas agree."""
    spans = table["arguments"].items()
    tried = [{each: float(random.randint(*span)) for each, span in spans} for _ in range(TRIALS)]
    returned = [ask(function, *given.values()) for given in tried]

    def expected(row: Table) -> list[float]:
        return [value_of(row["is"], {**names, **given}) for given in tried]

    def fits(row: Table) -> bool:
        pairs = zip(returned, expected(row), strict=True)
        return all(is_number(one) and math.isclose(one, other) for one, other in pairs)

    row: Table = next((row for row in (table, *table["slips"]) if fits(row)), {})
    seen = {"arguments": (*tried[0].values(),), "returned": returned[0], "expected": expected(table)[0]}
    return Rule(row is table, None, None, 1, *_said(name, table, row), {**names, **seen})


def _grade(exercise: Table, **given: Any) -> str:
    answers = {name: _read(table, given[name]) for name, table in exercise["answers"].items()}
    for name, table in exercise["answers"].items():
        words = table.get("words", [])
        fits, hint = (
            (words.__contains__, f"One of {', '.join(words)}.") if words else KINDS[table.get("kind", "above 0")]
        )
        if "arguments" not in table and not fits(answers[name]):
            text = table.get("junk", f"you wrote {{{name}!r}} for `{name}`.")
            raise Wrong(told(text, answers), table.get("junk_hint", hint))
    names, seen = cases(exercise, answers), answers
    for name, table in exercise["answers"].items():
        if "arguments" in table:
            rule = _tried(name, table, names[0], answers[name])
        else:
            found = rules(name, table, names)
            rule = next((each for each in found[:-1] if each.takes(answers[name])), found[-1])
        seen = {**rule.names, **answers}
        if not rule.right:
            raise Wrong(told(rule.text, seen), rule.hint)
    return told(exercise["right"], seen)


# ---------------------------------------------------------------------------------------------------------------------
# Formulas and texts of the file.

_ROUNDED: Mapping[str, Callable[..., Any]] = {
    "ceil": lambda _, number: math.ceil(middle(number)), "floor": lambda _, number: math.floor(middle(number)),
}  # fmt: skip


def value_of(formula: str | float, names: Names) -> Any:
    """What a formula of numbers and names comes to: what decides a claim, where nothing is measured.

    >>> value_of("ceil(n / 8) * 8", {"n": 50257})
    50264

    ArgumentError for anything but a number, made of numbers, of names that are known, and of functions.
    """
    if not isinstance(formula, str):
        return formula
    try:
        found = middle(compute(formula, Scope(names=dict(names), functions=_ROUNDED)))
    except (ExpressionError, TypeError) as error:
        raise ArgumentError("exercises.toml", "formula", formula, f"a formula ({error})") from error
    if not is_number(found):
        raise ArgumentError("exercises.toml", "formula", formula, "a formula of a number")
    return found


class _Texts(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        unit = re.fullmatch(r"(\d?)(s|x|B|B/s|%)", format_spec)
        if unit is None or type(value) not in (int, float):  # the pages of the site leave places open
            return format(value, format_spec)
        digits = int(unit[1] or 3)
        if unit[2] == "x":
            return units.ratio(value, digits)
        return units.percent(value, digits) if unit[2] == "%" else units.quantity(value, unit[2], digits)


def told(text: str, names: Names) -> str:
    """A text of the file with its names filled in.

    >>> told("{gain:x} in {time_s:s}, {share:2%} of it", {"gain": 2.345, "time_s": 1.5e-6, "share": 0.999})
    '2.35x in 1.5 µs, 100 % of it'
    """
    return _Texts().vformat(text, (), names)
