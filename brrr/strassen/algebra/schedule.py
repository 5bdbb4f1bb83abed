"""A schedule: one level of a fast product as a list of additions, each of two names, and seven products.

>>> lines = Schedule.parse("S1 = A11 + A22; M1 = S1 * B11")
>>> lines.additions
(Step(target='S1', first='A11', operator='+', second='A22'),)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from brrr.core.errors import ArgumentError

BLOCKS = ("11", "12", "21", "22")
"""The four blocks of a matrix, in rows."""

_STEP = re.compile(r"(\w+) = (\w+) ([+*-]) (\w+)")


@dataclass(frozen=True)
class Step:
    """One addition, subtraction or product of two things that are known by then."""

    target: str
    first: str
    operator: str
    second: str

    def __str__(self) -> str:
        return f"{self.target} = {self.first} {self.operator} {self.second}"


@dataclass(frozen=True)
class Schedule:
    """Steps from A11..A22 and B11..B22 through M1..M7 to C11..C22."""

    steps: tuple[Step, ...]

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Read steps that are divided by lines or semicolons; ArgumentError for a name used before it is known."""
        known = {operand + block for operand in "AB" for block in BLOCKS}
        steps = []
        for part in filter(None, map(str.strip, re.split(r"[;\n]", text))):
            found = _STEP.fullmatch(part)
            if not found or not {found[2], found[4]} <= known or found[1] in known:
                raise ArgumentError("Schedule.parse", "text", part, "'NEW = KNOWN + KNOWN', with +, - or *")
            steps.append(Step(found[1], found[2], found[3], found[4]))
            known.add(found[1])
        return cls(tuple(steps))

    @property
    def additions(self) -> tuple[Step, ...]:
        """Its additions and subtractions."""
        return tuple(step for step in self.steps if step.operator != "*")

    @property
    def products(self) -> tuple[Step, ...]:
        """Its products, in order."""
        return tuple(step for step in self.steps if step.operator == "*")

    def run(self, blocks: Mapping[str, Any], multiply: Callable[[Any, Any], Any]) -> dict[str, Any]:
        """Follow the steps on anything that can be added; every name's value, the blocks' included.

        >>> Schedule.parse("S = A11 - A22; P = S * B11").run({"A11": 5, "A22": 2, "B11": 4}, int.__mul__)["P"]
        12
        """
        values = dict(blocks)
        for step in self.steps:
            first, second = values[step.first], values[step.second]
            if step.operator == "*":
                values[step.target] = multiply(first, second)
            else:
                values[step.target] = first + second if step.operator == "+" else first - second
        return values

    def coefficients(self) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
        """left (7, 4), right (7, 4) and result (4, 7): the signs that the steps come to, found by following them."""
        import numpy as np

        products: list[tuple[Any, Any]] = []

        def multiply(first: Any, second: Any) -> Any:
            products.append((first, second))
            return np.eye(len(self.products), dtype=int)[len(products) - 1]

        unit = np.eye(len(BLOCKS), dtype=int)
        values = self.run({x + b: unit[i] for x in "AB" for i, b in enumerate(BLOCKS)}, multiply)
        left, right = zip(*((a.tolist(), b.tolist()) for a, b in products), strict=True)
        return list(left), list(right), [values["C" + block].tolist() for block in BLOCKS]


def signed_sum(signs: Iterable[float], names: Iterable[str]) -> str:
    """A sum as text; one that would start with a minus names what is added first.

    >>> signed_sum([-1, 0, 1], ["x", "y", "z"]), signed_sum([-1, 0], ["x", "y"])
    ('z - x', '-x')
    """
    terms = [(sign, name) for sign, name in zip(signs, names, strict=True) if sign]
    if terms and terms[0][0] < 0:
        terms.sort(key=lambda term: -term[0])
    sizes = ["" if abs(sign) == 1 else f"{abs(sign)} " for sign, _ in terms]
    text = "".join(f" {'-' if s < 0 else '+'} {size}{name}" for size, (s, name) in zip(sizes, terms, strict=True))
    return (text[3:] if text.startswith(" +") else "-" + text[3:]) or "0"
