"""Where blocks lie, how they are numbered, and how large the buffers of all products are; loads nothing.

>>> block_shape(1000, 1000, 3)
(125, 128)
"""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from brrr.core.errors import ArgumentError

PRODUCTS, BLOCK_COUNT = 7, 4
"""A level makes seven products of the four blocks."""

MAX_LEVEL = 3
"""The most levels in one pass over memory: 343 products of eighths. Further levels lie outside (`nested.py`)."""

COLUMN_MULTIPLE = 8
"""Blocks' columns are a multiple of this, so that a row of the narrowest type, 2 bytes, starts at 16 bytes."""


def level_of(level: SupportsIndex, call: str = "level_of") -> int:
    """`level` if it is 0..3; otherwise an ArgumentError in the name of `call`."""
    if isinstance(level, bool) or not isinstance(level, SupportsIndex) or not 0 <= index(level) <= MAX_LEVEL:
        raise ArgumentError(call, "level", level, f"a whole number from 0 (classical) to {MAX_LEVEL}")
    return index(level)


def transposed_block(block: int, level: int) -> int:
    """The number of the block with row and column exchanged.

    >>> [transposed_block(b, 1) for b in range(4)]
    [0, 2, 1, 3]
    """
    digits = [block // BLOCK_COUNT**place % BLOCK_COUNT for place in range(level)]
    return sum((digit % 2 * 2 + digit // 2) * BLOCK_COUNT**place for place, digit in enumerate(digits))


def block_place(block: int, level: int) -> tuple[int, int]:
    """A block's row and column in the 2^L x 2^L grid.

    >>> block_place(0b0110, 2)  # digits 01 and 10: right in the outer level, below in the inner
    (1, 2)
    """
    row = column = 0
    for place in reversed(range(level)):
        digit = block // BLOCK_COUNT**place % BLOCK_COUNT
        row, column = 2 * row + digit // 2, 2 * column + digit % 2
    return row, column


def block_shape(rows: int, columns: int, level: int) -> tuple[int, int]:
    """The blocks' size: divided by 2^L and rounded up, columns to a multiple of 8; beyond its end an operand is 0.

    >>> block_shape(1001, 1001, 1)
    (501, 504)
    """
    level = level_of(level, "block_shape")
    for name, size in (("rows", rows), ("columns", columns)):
        if size < 0:
            raise ArgumentError("block_shape", name, size, "0 or more")
    return _parts(rows, level), _rounded(columns, level)


def buffer_shape(rows: int, columns: int, side: str, level: int, transposed: bool = False) -> tuple[int, int, int]:
    """The shape of all products' factors for an operand of (rows, columns).

    >>> buffer_shape(100, 60, "left", 1), buffer_shape(60, 100, "right", 1), buffer_shape(100, 60, "right", 1, True)
    ((7, 50, 32), (7, 32, 56), (7, 56, 32))

    k, and n too, are columns of some buffer: both sides round k, and a right operand rounds n, however it lies.
    """
    if side not in ("left", "right"):
        raise ArgumentError("buffer_shape", "side", side, "'left' or 'right'")
    if transposed and side == "left":
        raise ArgumentError("buffer_shape", "transposed", transposed, "False for a left operand")
    block_rows, block_columns = block_shape(rows, columns, level)
    return PRODUCTS**level, block_rows if side == "left" else _rounded(rows, level), block_columns


def products_shape(rows: int, columns: int, level: int) -> tuple[int, int, int]:
    """The shape of all products for a result of (rows, columns).

    >>> products_shape(100, 60, 2)
    (49, 25, 16)
    """
    return (PRODUCTS**level, *block_shape(rows, columns, level))


def _parts(size: int, level: int) -> int:
    return -(-size // (1 << level))


def _rounded(size: int, level: int) -> int:
    return -(-_parts(size, level) // COLUMN_MULTIPLE) * COLUMN_MULTIPLE
