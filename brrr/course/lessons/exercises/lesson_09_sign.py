"""Exercise 09-sign: one sign of Strassen's seven products, and a recombination to mend.

Both are marked in whole numbers: a wrong one is written out in products of blocks, so that what fails to cancel shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from brrr.core.errors import ArgumentError
from brrr.course.lessons.checking import Exercise, Mark, ask
from brrr.strassen.algebra.blocks import BLOCKS, PRODUCTS, signed_sum
from brrr.strassen.algebra.forms import STRASSEN, Form, form_of

SEVENTH, ASKED = 6, 3
"""Of the seventh product's left factor, A12 ? A22, the sign of A22 is asked for."""

NAMES = tuple(f"M{number + 1}" for number in range(7))
Numbers = npt.NDArray[np.int64]


def grade(sign: Any, recombine: Any) -> Mark:
    """The sign is +1 or -1; `recombine(m1, ..., m7)` returns C11, C12, C21 and C22."""
    wrong = _sign_wrong(sign)
    if wrong is not None:
        return wrong
    if not callable(recombine):
        return Mark("wrong", f"`recombine` is {recombine!r}.", "Write the function's name: recombine=recombine.")
    given = coefficients_of(recombine)
    if isinstance(given, str):
        return Mark("wrong", given, "It returns the four blocks: c11, c12, c21, c22.")
    for block, mine, right in zip(BLOCKS, given, STRASSEN.result, strict=True):
        if not np.array_equal(mine, right):
            return _block_wrong(block, mine, right)
    if not _fits_matrices(recombine):
        return Mark("wrong", "with numbers it is right, with matrices it is not.", "Only add and subtract.")
    return Mark("right", "the four blocks are those of A B, with seven products. All else cancels: that is the whole "
                "trick, and a sum that cancels is also where digits are lost.")  # fmt: skip


EXERCISE = Exercise("09-sign", grade)


def _sign_wrong(sign: Any) -> Mark | None:
    right = int(STRASSEN.left[SEVENTH, ASKED])
    if isinstance(sign, bool) or sign not in (1, -1):
        return Mark("wrong", f"`sign` is {sign!r}.", "Write +1 or -1.")
    if sign == right:
        return None
    left = STRASSEN.left.astype(np.int64)
    left[SEVENTH, ASKED] = sign
    rest = expanded(STRASSEN.result[0], left) - wanted("11")
    said = f"with A12 {'+' if sign > 0 else '-'} A22, C11 = M1 + M4 - M5 + M7 has {in_words(rest)} too much."
    return Mark("wrong", said, "Write out A22 B22 in M1, M4 and M7: it must cancel.")


def coefficients_of(recombine: Callable[..., Any]) -> Numbers | str:
    """The signs of the seven products in each block, found by giving the function one 1 at a time; or what is wrong."""
    columns = []
    for number in range(7):
        result = ask(recombine, *[int(other == number) for other in range(7)])
        if not isinstance(result, Sequence) or len(result) != len(BLOCKS):
            return f"`recombine` returned {result!r} for seven numbers."
        if any(isinstance(value, bool) or not isinstance(value, int) for value in result):
            return f"`recombine` returned {result!r} for seven whole numbers."
        columns.append(list(result))
    return np.array(columns, dtype=np.int64).T


def expanded(signs: Any, left: Any = None) -> Numbers:
    """A sum of products as a sum of A's blocks (rows) times B's (columns).

    >>> expanded([0, 0, 1, 0, 1, 0, 0]).tolist()   # C12 = M3 + M5 = A11 B12 + A12 B22
    [[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    """
    mine = STRASSEN.left if left is None else left
    each = [np.outer(a, b).astype(np.int64) for a, b in zip(mine, STRASSEN.right, strict=True)]
    return sum((int(sign) * product for sign, product in zip(signs, each, strict=True)), np.zeros((4, 4), np.int64))


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


def _block_wrong(block: str, mine: Numbers, right: Numbers) -> Mark:
    """Which block is wrong, what it comes to, and which of its products to look at."""
    rest = expanded(mine) - wanted(block)
    words = signed_sum(mine.tolist(), NAMES) if np.abs(mine).max() <= 1 and mine.any() else str(mine.tolist())
    doubtful = [name for name, a, b in zip(NAMES, mine, right, strict=True) if a != b]
    return Mark("wrong", f"C{block} = {words} comes to {in_words(wanted(block))}, and besides {in_words(rest)}.",
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


# ---------------------------------------------------------------------------------------------------------------------
# What a wrong sign does: a form checked exactly, and the terms that come out wrong, in words.


@dataclass(frozen=True)
class SignCheck:
    """Whether a form multiplies, and each term of the result that is wrong."""

    right: bool
    wrong: tuple[str, ...]


def tensor(left: npt.ArrayLike, right: npt.ArrayLike, result: npt.ArrayLike) -> npt.NDArray[Any]:
    """How often block a of A times block b of B is in block c of C: [a, b, c], for any level's signs."""
    exact = (np.asarray(signs, dtype=np.float64) for signs in (left, right, result))  # quarters and small integers
    made: npt.NDArray[Any] = np.einsum("pa,pb,cp->abc", *exact)
    return made


def matrix_tensor(size: int = 2) -> npt.NDArray[np.int64]:
    """The same of the matrix product itself: C_ij is the sum of A_ik B_kj, blocks numbered in rows.

    >>> int(matrix_tensor().sum())  # eight products
    8
    """
    made = np.zeros((size**2,) * 3, dtype=np.int64)
    for i, j, k in product(range(size), repeat=3):
        made[i * size + k, k * size + j, i * size + j] = 1
    return made


def check_form(form: str | Form) -> SignCheck:
    """Whether a form multiplies all matrices, exactly: 64 numbers compared.

    >>> check_form("winograd")
    SignCheck(right=True, wrong=())
    """
    form = form_of(form, "check_form")
    away = tensor(form.left, form.right, form.result) - matrix_tensor()
    places = sorted(zip(*np.nonzero(away), strict=True), key=lambda place: (place[2], place[0], place[1]))
    return SignCheck(not places, tuple(_term(float(away[a, b, c]), a, b, c) for a, b, c in places))


def check_sign(product: str, place: str, sign: object, form: str | Form = "strassen") -> SignCheck:
    """Put a student's sign into one of the seven products, or of a result's sum, and check the whole form.

    product: "M1".."M7". place: a block in it, "A11".."B22", or of the result that it is in, "C11".."C22". sign: +1, -1,
    "+" or "-". ArgumentError for a place where the product has no sign, or a sign that is none.
    """
    return check_form(with_sign(product, place, sign, form))


def with_sign(product: str, place: str, sign: object, form: str | Form = "strassen") -> Form:
    """The form with one sign replaced.

    >>> with_sign("M2", "C22", "+").result[3]
    array([1, 1, 1, 0, 0, 1, 0], dtype=int8)
    """
    form, value = form_of(form, "with_sign"), _sign(sign)
    number, block = _number(product), _block(place)
    parts = {"A": form.left.copy(), "B": form.right.copy(), "C": form.result.T.copy()}
    signs = parts[place[0]]
    if not signs[number, block]:
        raise ArgumentError("check_sign", "place", place, f"a block that {product} = {form.product_text(number)} has")
    signs[number, block] = value
    return Form(form.name, parts["A"], parts["B"], parts["C"].T)


def _term(away: float, a: int, b: int, c: int) -> str:
    much = "too much" if away > 0 else "too little"
    count = "" if abs(away) == 1 else f"{abs(away):g} "
    return f"C{BLOCKS[c]} has {count}A{BLOCKS[a]} B{BLOCKS[b]} {much}"


def _sign(sign: object) -> int:
    if isinstance(sign, str):
        sign = {"+": 1, "-": -1, "−": -1}.get(sign.strip(), sign)
    if isinstance(sign, bool) or sign not in (1, -1):
        raise ArgumentError("check_sign", "sign", sign, "+1 or -1")
    return 1 if sign == 1 else -1


def _number(product: str) -> int:
    names = [f"M{p + 1}" for p in range(PRODUCTS)]
    if product not in names:
        raise ArgumentError("check_sign", "product", product, f"one of {', '.join(names)}")
    return names.index(product)


def _block(place: str) -> int:
    if place[:1] not in ("A", "B", "C") or place[1:] not in BLOCKS:
        raise ArgumentError("check_sign", "place", place, "A, B or C with 11, 12, 21 or 22, as in 'A22'")
    return BLOCKS.index(place[1:])
