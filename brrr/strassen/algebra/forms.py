"""Strassen's and Winograd's form: which sums of blocks are multiplied, and which products make the result's blocks.

>>> print(STRASSEN)
M1 = (A11 + A22) (B11 + B22)
M2 = (A21 + A22) B11
M3 = A11 (B12 - B22)
M4 = A22 (B21 - B11)
M5 = (A11 + A12) B22
M6 = (A21 - A11) (B11 + B12)
M7 = (A12 - A22) (B21 + B22)
C11 = M1 + M4 - M5 + M7
C12 = M3 + M5
C21 = M2 + M4
C22 = M1 - M2 + M3 + M6

Sources: V. Strassen, "Gaussian elimination is not optimal", 1969; S. Winograd, "On multiplication of 2 x 2 matrices",
1971, as given by N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 23.1. A third form,
with halves among its signs and the smallest errors of all, stands below them. Only numpy is needed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from brrr.core.errors import ArgumentError
from brrr.strassen.algebra.blocks import BLOCK_COUNT, BLOCKS, PRODUCTS, Schedule, level_of, signed_sum, transposed_block

Signs = npt.NDArray[Any]
"""int8; float32 for a form that has halves."""

ALLOWED = (-1, -0.5, -0.25, 0, 0.25, 0.5, 1)
"""What a sign may be: nothing that a product with it rounds."""


@dataclass(frozen=True, eq=False)
class Form:
    """Seven products of sums of blocks; blocks are numbered 0..3 in rows: 11, 12, 21, 22.

    >>> STRASSEN.left[5]  # M6's left factor: A21 - A11
    array([-1,  0,  1,  0], dtype=int8)

    left, right: (7, 4), each factor's signs of the blocks of A and of B; result: (4, 7), each block's signs of the
    products. schedule: an order of additions that shares partial sums, if it has one.
    """

    name: str
    left: Signs
    right: Signs
    result: Signs
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        wanted = {"left": (PRODUCTS, BLOCK_COUNT), "right": (PRODUCTS, BLOCK_COUNT), "result": (BLOCK_COUNT, PRODUCTS)}
        for name, shape in wanted.items():
            given = np.asarray(getattr(self, name))
            if given.shape != shape or not np.isin(given, ALLOWED).all():
                raise ArgumentError("Form", name, given.tolist(), f"-1, 0, 1 (or halves) in an array of shape {shape}")
            object.__setattr__(self, name, _read_only(given.astype(np.int8 if _whole(given) else np.float32)))

    @classmethod
    def of(cls, name: str, schedule: Schedule) -> Form:
        """The form that a schedule computes."""
        left, right, result = schedule.coefficients()
        return cls(name, np.array(left), np.array(right), np.array(result), schedule)

    @property
    def whole(self) -> bool:
        """Whether all signs are -1, 0 or 1, so that integers stay integers."""
        return all(_whole(signs) for signs in (self.left, self.right, self.result))

    @property
    def additions(self) -> int:
        """Additions of blocks a level, by the schedule; without one, every sum by itself."""
        return len(self.schedule.additions) if self.schedule else self.flat_additions

    @property
    def flat_additions(self) -> int:
        """Additions of blocks a level if no partial sum is shared: what one pass that keeps nothing does."""
        return sum(int(np.count_nonzero(signs)) - len(signs) for signs in (self.left, self.right, self.result))

    def product_text(self, product: int) -> str:
        """One of the seven, 0..6, as text.

        >>> WINOGRAD.product_text(5)
        '(A21 + A22 - A11) (B11 - B12 + B22)'
        """
        return f"{_factor(self.left[product], 'A')} {_factor(self.right[product], 'B')}"

    def __str__(self) -> str:
        products = [f"M{p + 1} = {self.product_text(p)}" for p in range(PRODUCTS)]
        names = [f"M{p + 1}" for p in range(PRODUCTS)]
        return "\n".join(
            products + [f"C{b} = {signed_sum(r, names)}" for b, r in zip(BLOCKS, self.result, strict=True)]
        )


@dataclass(frozen=True, eq=False)
class Coefficients:
    """A form applied `level` times: signs of 4^L blocks in 7^L products, int8 (float32 for a form that has halves).

    >>> coefficients("winograd", 3).result.shape
    (64, 343)

    left, right: (7^L, 4^L); result: (4^L, 7^L). The outermost level is the most significant digit: of a product's
    number in base 7, and of a block's in base 4, whose digits are 2 * (its row's bit) + (its column's bit).
    """

    form: str
    level: int
    left: Signs
    right: Signs
    result: Signs

    @property
    def right_transposed(self) -> Signs:
        """`right` for an operand that lies transposed, (n, k): its block (j, i) has the sign of block (i, j)."""
        columns = [transposed_block(b, self.level) for b in range(BLOCK_COUNT**self.level)]
        return _read_only(self.right[:, columns])


def form_of(form: str | Form, call: str = "form_of") -> Form:
    """The form of that name, or the one given; ArgumentError in the name of `call` for any other."""
    known = form if isinstance(form, Form) else ALL_FORMS.get(form)
    if known is None:
        raise ArgumentError(call, "form", form, f"one of {', '.join(ALL_FORMS)}")
    return known


def coefficients(form: str | Form, level: int) -> Coefficients:
    """The signs after `level` levels, Kronecker powers of the form's.

    >>> c = coefficients("strassen", 0)
    >>> c.left, c.right, c.result
    (array([[1]], dtype=int8), array([[1]], dtype=int8), array([[1]], dtype=int8))
    """
    return _coefficients(form_of(form, "coefficients"), level_of(level, "coefficients"))


@lru_cache(maxsize=32)
def _coefficients(form: Form, level: int) -> Coefficients:
    powers = (_read_only(_power(signs, level)) for signs in (form.left, form.right, form.result))
    return Coefficients(form.name, level, *powers)


def _power(signs: Signs, level: int) -> Signs:
    total: Signs = np.ones((1, 1), dtype=signs.dtype)
    for _ in range(level):
        total = np.kron(total, signs).astype(signs.dtype)
    return total


def _factor(signs: Signs, operand: str) -> str:
    text = signed_sum(signs, [operand + block for block in BLOCKS])
    return f"({text})" if " " in text else text


def _whole(signs: Signs) -> bool:
    return bool((signs == np.round(signs)).all())


def _read_only(signs: Signs) -> Signs:
    signs.setflags(write=False)
    return signs


STRASSEN = Form.of(
    "strassen",
    Schedule.parse(
        """
        S1 = A11 + A22; S2 = A21 + A22; S3 = A11 + A12; S4 = A21 - A11; S5 = A12 - A22
        T1 = B11 + B22; T2 = B12 - B22; T3 = B21 - B11; T4 = B11 + B12; T5 = B21 + B22
        M1 = S1 * T1; M2 = S2 * B11; M3 = A11 * T2; M4 = A22 * T3; M5 = S3 * B22; M6 = S4 * T4; M7 = S5 * T5
        U1 = M1 + M4; U2 = U1 - M5; C11 = U2 + M7; C12 = M3 + M5
        C21 = M2 + M4; U3 = M1 - M2; U4 = U3 + M3; C22 = U4 + M6
        """
    ),
)
"""Strassen's own form: 18 additions, none shared, and sums of at most two blocks before the products."""

WINOGRAD = Form.of(
    "winograd",
    Schedule.parse(
        """
        S1 = A21 + A22; S2 = S1 - A11; S3 = A11 - A21; S4 = A12 - S2
        T1 = B12 - B11; T2 = B22 - T1; T3 = B22 - B12; T4 = T2 - B21
        M1 = A11 * B11; M2 = A12 * B21; M3 = S4 * B22; M4 = A22 * T4; M5 = S1 * T1; M6 = S2 * T2; M7 = S3 * T3
        U1 = M1 + M6; U2 = U1 + M7; U3 = U1 + M5
        C11 = M1 + M2; C12 = U3 + M3; C21 = U2 - M4; C22 = U2 + M5
        """
    ),
)
"""Winograd's form: 15 additions by sharing, at the price of sums of up to four blocks."""

FORMS: Mapping[str, Form] = {"strassen": STRASSEN, "winograd": WINOGRAD}
"""Both forms by name."""


# ---------------------------------------------------------------------------------------------------------------------
# The form with the smallest errors: Strassen's, in a basis where its products are more alike in size.

BASIS = ((1.0, 0.5), (0.0, 1.0))
"""P: block row 1 gets half of block row 2."""


def in_basis(form: Form, name: str, basis: tuple[tuple[float, float], tuple[float, float]]) -> Form:
    """The form that makes `form`'s products of P A P^-1 and P B P^-1, and takes the result back.

    >>> bool((in_basis(STRASSEN, "same", ((1, 0), (0, 1))).left == STRASSEN.left).all())
    True

    ArgumentError where its signs are not among those a Form can have.
    """
    p = np.array(basis)
    q = np.linalg.inv(p)
    left, right = (_matrices(signs, p.T, q.T) for signs in (form.left, form.right))
    return Form(name, left, right, _matrices(form.result.T, q, p).T)


def _matrices(signs: Signs, before: Signs, after: Signs) -> Signs:
    """Each row of signs as a 2 x 2 matrix, multiplied from both sides."""
    return np.asarray(before @ signs.reshape(-1, 2, 2) @ after).reshape(-1, 4)


BALANCED = in_basis(STRASSEN, "balanced", BASIS)
"""Signs -1, -1/2, -1/4, 0, 1/4, 1/2 and 1: for floating-point numbers only."""

ALL_FORMS: Mapping[str, Form] = {**FORMS, "balanced": BALANCED}
"""All three by name."""
