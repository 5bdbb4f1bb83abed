"""Where blocks lie, how they are numbered, and how large the buffers of all products are; loads nothing.

>>> block_shape(1000, 1000, 3)
(125, 128)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, NamedTuple, SupportsIndex

from brrr.core.errors import ArgumentError

PRODUCTS, BLOCK_COUNT = 7, 4
"""A level makes seven products of the four blocks."""

MAX_LEVEL = 3
"""The most levels, all in one pass over memory: 343 products of eighths."""

COLUMN_MULTIPLE = 8
"""Blocks' columns are a multiple of this, so that a row of the narrowest type, 2 bytes, starts at 16 bytes."""


def level_of(level: SupportsIndex, call: str = "level_of") -> int:
    """`level` if it is 0..3; otherwise an ArgumentError in the name of `call`."""
    if isinstance(level, bool) or not isinstance(level, SupportsIndex) or not 0 <= index(level) <= MAX_LEVEL:
        raise ArgumentError(call, "level", level, f"a whole number from 0 (classical) to {MAX_LEVEL}")
    return index(level)


def block_shape(rows: int, columns: int, level: int) -> tuple[int, int]:
    """The blocks' size: divided by 2^L and rounded up, columns to a multiple of 8; beyond its end an operand is 0.

    >>> block_shape(1001, 1001, 1)
    (501, 504)
    """
    return -(-rows // (1 << level)), aligned_size(-(-columns // (1 << level)))


def aligned_size(size: int) -> int:
    """A size rounded up to whole words of the narrowest type.

    >>> aligned_size(4097)
    4104
    """
    return -(-size // COLUMN_MULTIPLE) * COLUMN_MULTIPLE


def buffer_shape(rows: int, columns: int, side: str, level: int) -> tuple[int, int, int]:
    """The shape of all products' factors for an operand of (rows, columns).

    >>> buffer_shape(100, 60, "left", 1), buffer_shape(60, 100, "right", 1)
    ((7, 50, 32), (7, 32, 56))

    k, and n too, are columns of some buffer: both sides round k, and a right operand rounds n, however it lies.
    """
    high, wide = block_shape(rows, columns, level)
    return PRODUCTS**level, high if side == "left" else aligned_size(high), wide


def products_shape(rows: int, columns: int, level: int) -> tuple[int, int, int]:
    """The shape of all products for a result of (rows, columns).

    >>> products_shape(100, 60, 2)
    (49, 25, 16)
    """
    return (PRODUCTS**level, *block_shape(rows, columns, level))


# ---------------------------------------------------------------------------------------------------------------------
# A schedule: one level of a fast product as a list of additions, each of two names, and seven products.

BLOCKS = ("11", "12", "21", "22")
"""The four blocks of a matrix, in rows."""


class Assignment(NamedTuple):
    """One addition, subtraction or product of two things that are known by then."""

    target: str
    first: str
    operator: str
    second: str


@dataclass(frozen=True)
class Schedule:
    """Steps from A11..A22 and B11..B22 through M1..M7 to C11..C22."""

    steps: tuple[Assignment, ...]

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Read steps that are divided by lines or semicolons: 'NEW = KNOWN + KNOWN', with +, - or *."""
        words = (part.split() for part in re.split(r"[;\n]", text) if part.strip())
        return cls(tuple(Assignment(target, first, sign, second) for target, _, first, sign, second in words))

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
            return np.eye(PRODUCTS, dtype=int)[len(products) - 1]

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
    text = "".join(f" {'-' if sign < 0 else '+'} {name}" for sign, name in terms)
    return (text[3:] if text.startswith(" +") else "-" + text[3:]) or "0"
