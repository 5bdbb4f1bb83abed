"""Scaling by powers of two before a fast product and back after it: it helps inputs whose blocks differ much in size.

What the drawing `strassen-errors` multiplies, with every product's sums as one thread of a GPU makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from brrr.core.errors import ArgumentError
from brrr.strassen.algebra.reference import post_add, pre_add

if TYPE_CHECKING:
    from brrr.strassen.algebra.forms import BilinearForm

STEPS = {"outer": ("outer",), "inner": ("inner",), "outer-inner": ("outer", "inner"), "inner-outer": ("inner", "outer")}
"""Each way, and its steps in order."""

_SMALLEST = -(2**20)
"""Stands for the exponent of a row of zeros."""


@dataclass(frozen=True, eq=False)
class RowScaling:
    """Exponents of two: rows of A (m,), the inner index (k,) and columns of B (n,), int32.

    A scaled is A * 2^(inner - rows), B scaled is B * 2^(-inner - columns), and C is their product * 2^(rows + columns).
    """

    rows: torch.Tensor
    inner: torch.Tensor
    columns: torch.Tensor

    @classmethod
    def of(cls, a: torch.Tensor, b: torch.Tensor, way: str = "outer-inner") -> RowScaling:
        """The scaling for A (m, k) and B (k, n), floating point; zeros and what is not finite are left out.

        ArgumentError for another way than those in STEPS, for shapes that do not fit, and for integers.
        """
        if way not in STEPS:
            raise ArgumentError("Scaling.of", "way", way, f"one of {', '.join(STEPS)}")
        _fits(a, b)
        left, right = _exponents(a), _exponents(b)
        rows, inner, columns = (left.new_zeros(size) for size in (a.shape[0], a.shape[1], b.shape[1]))
        for each in STEPS[way]:
            if each == "outer":
                rows, columns = _largest(left + inner, 1), _largest(right - inner[:, None], 0)
            else:
                inner = _between(_largest(left - rows[:, None], 0), _largest(right - columns, 1))
        return cls(rows, inner, columns)

    def apply(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A and B scaled, new tensors."""
        return shifted(a, self.inner - self.rows[:, None]), shifted(b, -self.inner[:, None] - self.columns)

    def undo(self, c: torch.Tensor) -> torch.Tensor:
        """The product of the unscaled A and B from that of the scaled; beyond the type's range it is infinite or 0."""
        return shifted(c, self.rows[:, None] + self.columns)


def shifted(x: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
    """x * 2^exponents, also where that factor is no number of x's type.

    >>> shifted(torch.tensor([2.0**-100]), torch.tensor([200])) == 2.0**100
    tensor([True])
    """
    # 2^200 is infinite in float32, and 2^200 * 2^-100 is not. Three steps reach from a type's smallest number to its
    # largest, and none of them leaves the range between x and the result.
    third = torch.div(exponents, 3, rounding_mode="trunc")
    return _times(_times(_times(x, third), third), exponents - 2 * third)


def _times(x: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
    lowest, highest = _range(x.dtype)
    return x * torch.exp2(exponents.clamp(lowest, highest).to(x.dtype))


def _range(dtype: torch.dtype) -> tuple[int, int]:
    """The exponents of the powers of two that are normal numbers of a type."""
    lowest = torch.tensor(torch.finfo(dtype).smallest_normal, dtype=torch.float64)
    highest = torch.tensor(torch.finfo(dtype).max, dtype=torch.float64)
    return int(torch.log2(lowest).round()), int(torch.log2(highest).ceil()) - 1


def _exponents(x: torch.Tensor) -> torch.Tensor:
    """Each element's exponent e, 2^e at most its size and 2^(e + 1) above; very small for 0 and what is not finite."""
    found = torch.frexp(x.double()).exponent - 1
    return torch.where((x != 0) & torch.isfinite(x), found, _SMALLEST).to(torch.int32)


def _largest(exponents: torch.Tensor, axis: int) -> torch.Tensor:
    """The largest along an axis; 0 where there is none, so that rows of zeros stay."""
    if exponents.shape[axis] == 0:
        return exponents.new_zeros(exponents.shape[1 - axis])
    found = exponents.amax(axis)
    return torch.where(found > _SMALLEST // 2, found, 0)


def _between(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """What makes both sizes alike: the root of right over left, rounded down to a power of two."""
    return torch.div(right - left, 2, rounding_mode="floor")


def _fits(a: torch.Tensor, b: torch.Tensor) -> None:
    for name, x in (("a", a), ("b", b)):
        if not isinstance(x, torch.Tensor) or x.dim() != 2 or not x.dtype.is_floating_point:
            found = f"{x.dtype} {tuple(x.shape)}" if isinstance(x, torch.Tensor) else type(x).__name__
            raise ArgumentError("Scaling.of", name, found, "a floating-point tensor of two dimensions")
    if a.shape[1] != b.shape[0]:
        raise ArgumentError("Scaling.of", "b", tuple(b.shape), f"{a.shape[1]} rows, as a has columns")


def scaled_product(
    a: torch.Tensor, b: torch.Tensor, form: BilinearForm, level: int, scaling: str | None
) -> torch.Tensor:
    """a @ b by sums from left to right, the inputs scaled before and the result scaled back where asked for."""
    if scaling is None:
        return summed_product(a, b, form, level)
    found = RowScaling.of(a, b, scaling)
    return found.undo(summed_product(*found.apply(a, b), form, level))


def summed_product(a: torch.Tensor, b: torch.Tensor, form: str | BilinearForm, level: int) -> torch.Tensor:
    """a @ b by a form, every product's sums from left to right, as one thread of a GPU makes them."""
    left, right = pre_add(a, "left", form, level), pre_add(b, "right", form, level)
    total = left.new_zeros(left.shape[0], left.shape[1], right.shape[2])
    for j in range(left.shape[2]):
        total += left[:, :, j, None] * right[:, j, None, :]
    return post_add(total, form, level, (a.shape[0], b.shape[1]))
