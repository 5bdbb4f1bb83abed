"""Exercises whose answers are numbers or words: `data/exercises.toml` holds them, and what marks them all is here."""

from __future__ import annotations

import ast
import math
import operator
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from string import Formatter
from typing import Any

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr_course.lessons.marks import Exercise, Wrong, is_number
from brrr_course.nouns.places import share

Names = Mapping[str, Any]
Table = Mapping[str, Any]
"""An exercise, or one of its answers, as the file has it."""

KINDS: Mapping[str, Callable[[Any], bool]] = {
    "above 0": lambda answer: is_number(answer) and 0 < answer < math.inf,
    "finite": lambda answer: is_number(answer) and math.isfinite(answer),
    "number": is_number,
    "whole": lambda answer: is_number(answer) and isinstance(answer, int),
}


@cache
def tables() -> dict[str, dict[str, Any]]:
    """All of the file, by the exercises' names; what is written for an exercise stands in each of its answers too.

    >>> tables()["01-events"]["answers"]["pair_us"]["within"]
    0.01
    """
    found = tomllib.loads((share("data") / "exercises.toml").read_text(encoding="utf-8"))
    for exercise in found.values():
        usual = {key: value for key, value in exercise.items() if key not in ("given", "names", "right", "answers")}
        exercise["answers"] = {name: {**usual, **table} for name, table in exercise["answers"].items()}
    return found


def calculated(lesson: str = "") -> dict[str, Exercise]:
    """The exercises of a lesson, or of all, by name.

    >>> calculated("01")["01-events"].marked(call_us=4.6, pair_us=10.6)
    Not yet: `pair_us` is 10.6.
    Hint: What the pair around one call says, less one call.
    """
    return {name: Exercise(name, tuple(table["answers"]), partial(_grade, table))
            for name, table in tables().items() if name.startswith(f"{lesson}-" if lesson else "")}  # fmt: skip


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


def rules(exercise: Table, answers: Names) -> dict[str, list[Rule]]:
    """For each answer what is said of it: the first rule that takes it holds, the last one if none does.

    >>> [(rule.low, rule.right) for rule in rules(tables()["00-launches"], {})["microseconds"]]
    [(1000, True), (1200, False), (200, False), (-inf, False)]
    """
    module, _, function = exercise.get("names", "").partition(":")
    cases = [dict(each) for each in getattr(import_module(module), function)(answers)] if module else [{}]
    for names in cases:
        for name, formula in exercise.get("given", {}).items():
            names[name] = value_of(formula, names)
    return {name: [*_rules(name, table, cases)] for name, table in exercise["answers"].items()}


def _rules(name: str, table: Table, cases: list[dict[str, Any]]) -> Iterator[Rule]:
    usual = {key: value for key, value in table.items() if key in ("text", "hint", "within")}
    rows = [
        *((True, names, table) for names in cases),
        *((False, cases[0], row) for row in (*table.get("slips", []), {})),
    ]
    for right, names, row in rows:
        told_of = {"text": f"`{name}` is {{{name}:g}}.", "within": 0, "multiple_of": 1, **usual, **row}
        low, high = (row.get("is"),) * 2 if "words" in table else _bounds(told_of, names)
        yield Rule(right, low, high, told_of["multiple_of"], told_of["text"], told_of["hint"], names)


def _bounds(row: Table, names: Names) -> tuple[float, float]:
    """The first and the last number that a row of the file speaks of."""
    if "is" in row:
        middle, near = value_of(row["is"], names), row["within"]
        return middle * (1 - near), middle / (1 - near)
    return value_of(row.get("from", -math.inf), names), value_of(row.get("to", math.inf), names)


def _grade(exercise: Table, **answers: Any) -> str:
    for name, table in exercise["answers"].items():
        fits = (
            answers[name] in table["words"] if "words" in table else KINDS[table.get("kind", "above 0")](answers[name])
        )
        if not fits:
            text = table.get("junk", f"`{name}` is {{{name}!r}}.")
            raise Wrong(told(text, answers), table.get("junk_hint", "Write a number above 0."))
    names: Names = {}
    for name, found in rules(exercise, answers).items():
        rule = next((each for each in found[:-1] if each.takes(answers[name])), found[-1])
        names = {**rule.names, **answers}
        if not rule.right:
            raise Wrong(told(rule.text, names), told(rule.hint, names))
    return told(exercise["right"], names)


# ---------------------------------------------------------------------------------------------------------------------
# Formulas and texts of the file.

_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: pow,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "ceil": math.ceil, "floor": math.floor, "log2": math.log2, "max": max, "min": min, "sqrt": math.sqrt,
}  # fmt: skip


def value_of(formula: str | float, names: Names) -> Any:
    """What a formula of numbers and names comes to.

    >>> value_of("ceil(n / 8) * 8", {"n": 50257})
    50264

    ArgumentError for anything but numbers, names that are known, + - * / **, and the functions of the file's head.
    """

    def of(node: ast.AST) -> Any:
        match node:
            case ast.Constant(value=int() | float() as number) if is_number(number):
                return number
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](of(left), of(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -of(operand)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                return _FUNCTIONS[name](*map(of, args))
        known = f"numbers, {', '.join([*names, *_FUNCTIONS])}, and + - * / **"
        raise ArgumentError("exercises.toml", "formula", formula, known)

    if not isinstance(formula, str):
        return formula
    try:
        return of(ast.parse(formula, mode="eval").body)
    except SyntaxError as error:
        raise ArgumentError("exercises.toml", "formula", formula, f"a formula ({error.msg})") from error


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
