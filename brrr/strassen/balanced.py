"""The form with the smallest errors: Strassen's, in a basis where its products are more alike in size.

>>> print(BALANCED.product_text(1))
(0.5 A21 + A22) (B11 + 0.5 B21)
>>> from brrr.strassen.error_growth import growth
>>> f"{growth('strassen'):.2f} a level becomes {growth(BALANCED):.2f}"
'1.41 a level becomes 1.19'

With P any 2 x 2 matrix over the blocks, (P A P^-1) (P B P^-1) = P (A B) P^-1. Strassen's products of the matrices on
the left are other sums of A's and B's own blocks, and rounding errors see the difference. Their expected growth is
least for P = (sqrt(3)/2 1/2; 0 1), at 5 / (3 sqrt(2)), about 1.18. With P = (1 1/2; 0 1), taken here, the signs are
halves and quarters only, which round nothing, and the growth is within one percent of the least.

It takes more additions. A kernel that makes all sums in registers, in one pass, moves no more bytes for it, and it
needs no new tables either: before Strassen's own sums, for every level, half of block row 2 is added to block row 1,
then half of block column 1 taken from block column 2; after them, half of block row 2 is taken from block row 1, then
half of block column 1 added to block column 2. Where additions are made one by one, Winograd's form has fewest.

That Strassen's form is not the most accurate of its kind is shown by J.-G. Dumas, C. Pernet and A. Sedoglavic,
"Strassen's algorithm is not optimally accurate", 2024.
"""

from __future__ import annotations

import numpy as np

from brrr.strassen.forms import STRASSEN, Form, Signs

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
