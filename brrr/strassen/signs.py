"""What a wrong sign does: a form checked exactly, and the terms that come out wrong, in words.

>>> check_sign("M7", "A22", +1)
SignCheck(right=False, wrong=('C11 has 2 A22 B21 too much', 'C11 has 2 A22 B22 too much'))
>>> check_sign("M7", "A22", -1).right
True
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from brrr.errors import ArgumentError
from brrr.strassen.forms import Form, form_of
from brrr.strassen.schedule import BLOCKS
from brrr.strassen.shapes import PRODUCTS


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
