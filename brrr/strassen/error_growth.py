"""How rounding errors grow with every level: what is expected of random inputs, and what cannot be exceeded.

>>> for name in FORMS:
...     print(f"{name}: {growth(name):.2f} expected, {bound_growth(name):.1f} at most")
strassen: 1.41 expected, 3.0 at most
winograd: 1.87 expected, 4.5 at most

The expectation treats rounding errors as independent random numbers (N. Higham and T. Mary, "A new approach to
probabilistic rounding error analysis", 2019) and the inputs as independent with mean 0. With l, r, w a product's signs
on the left, on the right and in the result, a relative error e of all products becomes e * amplification there:

    amplification^2 = sum over products of |l|^2 |r|^2 |w|^2, over 8

8 is what the classical form has. The products are half as long, so that by sums from left to right, whose error grows
with the root of the length, one level multiplies the error by amplification / sqrt(2). Rounding in the additions of
blocks is left out: it adds a few roundings to the length of a product. What a given way's error comes to, its products'
type and order of sums included, is in `accuracy.py`.
"""

from __future__ import annotations

import math
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from brrr.errors import ArgumentError
from brrr.strassen.forms import FORMS as FORMS
from brrr.strassen.forms import Form, Signs, form_of
from brrr.strassen.shapes import level_of

FLOAT32 = 2.0**-24
"""Half the distance from 1 to the next float32: the largest relative error of rounding to nearest."""

RMS = math.sqrt(1 / (8 * math.log(2)))
"""The root mean square of such errors over the largest, for numbers whose logarithms are spread evenly."""


def amplification(form: str | Form) -> float:
    """Relative error of the result over that of the products, for inputs of mean 0; 1 would be the classical form's.

    >>> amplification("strassen"), round(amplification("winograd"), 3)
    (2.0, 2.646)
    """
    form = form_of(form, "amplification")
    sizes = _squares(form.left) * _squares(form.right) * _squares(form.result.T)
    return math.sqrt(float(sizes.sum()) / 8)


def growth(form: str | Form) -> float:
    """Expected growth of the error a level, where the products are summed from left to right in the result's type."""
    return amplification(form) / math.sqrt(2)


def stability_factor(form: str | Form) -> float:
    """The largest growth of a block's error bound a level: the largest sum of |l|_1 |r|_1 over a result's products.

    >>> stability_factor("strassen"), stability_factor("winograd")
    (12.0, 18.0)

    Ballard, Benson, Druinsky, Lipshitz and Schwartz, "Improving the numerical stability of fast matrix multiplication",
    2016; the two values are Higham's (theorems 23.2 and 23.3).
    """
    form = form_of(form, "stability_factor")
    sizes = abs(form.left).sum(axis=1, dtype=float) * abs(form.right).sum(axis=1, dtype=float)
    return float((abs(form.result).astype(float) @ sizes).max())


def bound_growth(form: str | Form) -> float:
    """Growth of the bound a level, over the classical product's, which is 4 times larger for twice the length."""
    return stability_factor(form) / 4


def bound(form: str | Form, level: SupportsIndex, inner: int, unit: float = FLOAT32) -> float:
    """The largest possible error of an element, over the largest element of A times the largest of B; to first order.

    >>> bound("strassen", 0, 1024, unit=2.0**-24) == 1024**2 * 2.0**-24
    True

    N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, theorems 23.2 (Strassen) and 23.3
    (Winograd), with `inner` the matrices' inner size. It holds for every input: weaker than the classical bound, which
    holds for each element by its own row and column (equation 3.13).
    """
    form, level = form_of(form, "bound"), level_of(level, "bound")
    if form.name not in _ADDITIONS:
        raise ArgumentError("bound", "form", form.name, f"one of {', '.join(_ADDITIONS)}")
    part, extra = -(-inner // (1 << level)), _ADDITIONS[form.name]
    if level == 0:
        return inner * inner * unit
    grown = stability_factor(form) ** level * part * (part + extra)
    return (grown - extra * (part << level)) * unit


_ADDITIONS = {"strassen": 5, "winograd": 6}
"""Each theorem's constant for the additions of blocks."""


def _squares(signs: Signs) -> npt.NDArray[np.float64]:
    squares: npt.NDArray[np.float64] = (signs.astype(np.float64) ** 2).sum(axis=1)
    return squares
