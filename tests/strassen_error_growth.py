"""How errors grow a level, by theorems, for tests."""

import math

from brrr.core.errors import ArgumentError
from brrr.strassen.accuracy import amplification
from brrr.strassen.algebra.forms import BilinearForm, form_of

FLOAT32 = 2.0**-24
"""Half the distance from 1 to the next float32: the largest relative error of rounding to nearest."""


def growth(form: str) -> float:
    """Expected growth of the error a level, where the products are summed from left to right in the result's type."""
    return amplification(form) / math.sqrt(2)


def stability_factor(form: str | BilinearForm) -> float:
    """The largest growth of a block's error bound a level: the largest sum of |l|_1 |r|_1 over a result's products.

    >>> stability_factor("strassen"), stability_factor("winograd")
    (12.0, 18.0)

    Ballard, Benson, Druinsky, Lipshitz and Schwartz, "Improving the numerical stability of fast matrix multiplication",
    2016; the two values are Higham's (theorems 23.2 and 23.3).
    """
    form = form_of(form, "stability_factor")
    sizes = abs(form.left).sum(axis=1, dtype=float) * abs(form.right).sum(axis=1, dtype=float)
    return float((abs(form.result).astype(float) @ sizes).max())


def bound(form: str | BilinearForm, level: int, inner: int, unit: float = FLOAT32) -> float:
    """The largest possible error of an element, over the largest element of A times the largest of B; to first order.

    >>> bound("strassen", 0, 1024, unit=2.0**-24) == 1024**2 * 2.0**-24
    True

    N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, theorems 23.2 (Strassen) and 23.3
    (Winograd), with `inner` the matrices' inner size. It holds for every input: weaker than the classical bound, which
    holds for each element by its own row and column (equation 3.13).
    """
    form, level = form_of(form, "bound"), int(level)
    if form.name not in _ADDITIONS:
        raise ArgumentError("bound", "form", form.name, f"one of {', '.join(_ADDITIONS)}")
    part, extra = -(-inner // (1 << level)), _ADDITIONS[form.name]
    if level == 0:
        return inner * inner * unit
    grown = stability_factor(form) ** level * part * (part + extra)
    return (grown - extra * (part << level)) * unit


_ADDITIONS = {"strassen": 5, "winograd": 6}
"""Each theorem's constant for the additions of blocks."""
