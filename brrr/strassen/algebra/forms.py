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
1971, as given by N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 23.1. Only numpy is
needed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from brrr.strassen.algebra.blocks import BLOCKS, PRODUCTS, Schedule, signed_sum

Signs = npt.NDArray[Any]
"""int8: -1, 0 or 1."""


@dataclass(frozen=True, eq=False)
class BilinearForm:
    """Seven products of sums of blocks; blocks are numbered 0..3 in rows: 11, 12, 21, 22.

    >>> STRASSEN.left[5]  # M6's left factor: A21 - A11
    array([-1,  0,  1,  0], dtype=int8)

    left, right: (7, 4), each factor's signs of the blocks of A and of B; result: (4, 7), each block's signs of the
    products: what the schedule, an order of additions that may share partial sums, comes to.
    """

    name: str
    schedule: Schedule
    left: Signs = field(init=False)
    right: Signs = field(init=False)
    result: Signs = field(init=False)

    def __post_init__(self) -> None:
        for name, signs in zip(("left", "right", "result"), self.schedule.coefficients(), strict=True):
            made = np.array(signs, dtype=np.int8)
            made.setflags(write=False)
            object.__setattr__(self, name, made)

    def signs(self, side: str) -> Signs:
        """Of the "left" operand, the "right", or the right that lies "transposed"; or of the "result"."""
        signs: Signs = self.right[:, [0, 2, 1, 3]] if side == "transposed" else getattr(self, side)
        return signs

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


def _factor(signs: Signs, operand: str) -> str:
    text = signed_sum(signs, [operand + block for block in BLOCKS])
    return f"({text})" if " " in text else text


STRASSEN = BilinearForm(
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

WINOGRAD = BilinearForm(
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

FORMS: Mapping[str, BilinearForm] = {"strassen": STRASSEN, "winograd": WINOGRAD}
"""Both forms by name."""
