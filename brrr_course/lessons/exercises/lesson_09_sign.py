"""Exercise 09-sign: fix the one wrong sign in the sums that make the result's blocks out of Strassen's seven products.

It is marked in whole numbers: a wrong sum is written out in products of blocks, so that what fails to cancel shows.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from brrr.strassen.algebra.blocks import BLOCKS, signed_sum
from brrr.strassen.algebra.forms import STRASSEN
from brrr_course.lessons.marks import Wrong, ask, exercise

NAMES = tuple(f"M{number + 1}" for number in range(7))
Numbers = npt.NDArray[np.int64]


@exercise("09-sign")
def one_sign(recombine: Any) -> str:
    """`recombine(m1, ..., m7)` returns C11, C12, C21 and C22."""
    given = coefficients_of(recombine)
    for block, mine, right in zip(BLOCKS, given, STRASSEN.result, strict=True):
        if not np.array_equal(mine, right):
            raise _block_wrong(block, mine, right)
    if not _fits_matrices(recombine):
        raise Wrong("with numbers it is right, with matrices it is not.", "Only add and subtract.")
    return (
        "the four blocks are those of A B, with seven products. All else cancels: that is the whole "
        "trick, and a sum that cancels is also where digits are lost."
    )


def coefficients_of(recombine: Callable[..., Any]) -> Numbers:
    """The signs of the seven products in each block, found by giving the function one 1 at a time."""
    hint = "It returns the four blocks: c11, c12, c21, c22."
    columns = []
    for number in range(7):
        result = ask(recombine, *[int(other == number) for other in range(7)])
        if not isinstance(result, Sequence) or len(result) != len(BLOCKS):
            raise Wrong(f"`recombine` returned {result!r} for seven numbers.", hint)
        if any(isinstance(value, bool) or not isinstance(value, int) for value in result):
            raise Wrong(f"`recombine` returned {result!r} for seven whole numbers.", hint)
        columns.append(list(result))
    return np.array(columns, dtype=np.int64).T


def expanded(signs: Any) -> Numbers:
    """A sum of products as a sum of A's blocks (rows) times B's (columns).

    >>> expanded([0, 0, 1, 0, 1, 0, 0]).tolist()   # C12 = M3 + M5 = A11 B12 + A12 B22
    [[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    """
    factors = (np.asarray(each, dtype=np.int64) for each in (signs, STRASSEN.left, STRASSEN.right))
    made: Numbers = np.einsum("p,pa,pb->ab", *factors)
    return made


def wanted(block: str) -> Numbers:
    """What a block of A B is: two products of blocks."""
    row, column = int(block[0]) - 1, int(block[1]) - 1
    found = np.zeros((4, 4), dtype=np.int64)
    for inner in range(2):
        found[2 * row + inner, 2 * inner + column] = 1
    return found


def in_words(blocks: Numbers) -> str:
    """A sum of products of blocks.

    >>> in_words(wanted("12"))
    'A11 B12 + A12 B22'
    """
    parts = [(int(blocks[i, j]), f"A{BLOCKS[i]} B{BLOCKS[j]}") for i, j in np.argwhere(blocks)]
    text = " ".join(
        f"{'+' if count > 0 else '-'} {'' if abs(count) == 1 else f'{abs(count)} '}{name}" for count, name in parts
    )
    return text.removeprefix("+ ") or "nothing"


def _block_wrong(block: str, mine: Numbers, right: Numbers) -> Wrong:
    """Which block is wrong, what it comes to, and which of its products to look at."""
    rest = expanded(mine) - wanted(block)
    words = signed_sum(mine.tolist(), NAMES) if np.abs(mine).max() <= 1 and mine.any() else str(mine.tolist())
    doubtful = [name for name, a, b in zip(NAMES, mine, right, strict=True) if a != b]
    return Wrong(f"C{block} = {words} comes to {in_words(wanted(block))}, and besides {in_words(rest)}.",
                f"Look at {' and '.join(doubtful)} in C{block}: what has to cancel?")  # fmt: skip


def _fits_matrices(recombine: Callable[..., Any]) -> bool:
    """Whether it makes A B of random whole matrices, whose products do not commute."""
    numbers = np.random.default_rng()
    a, b = numbers.integers(-9, 10, (4, 2, 2)), numbers.integers(-9, 10, (4, 2, 2))
    lefts, rights = np.tensordot(STRASSEN.left, a, axes=1), np.tensordot(STRASSEN.right, b, axes=1)
    result = ask(recombine, *(left @ right for left, right in zip(lefts, rights, strict=True)))
    c11, c12, c21, c22 = (np.asarray(each) for each in result)
    right = (a[0] @ b[0] + a[1] @ b[2], a[0] @ b[1] + a[1] @ b[3], a[2] @ b[0] + a[3] @ b[2], a[2] @ b[1] + a[3] @ b[3])
    return all(np.array_equal(mine, its) for mine, its in zip((c11, c12, c21, c22), right, strict=True))
