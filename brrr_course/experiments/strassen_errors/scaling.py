"""Scaling by powers of two before a fast product and back after it: it helps inputs whose blocks differ much in size.

>>> a, b = torch.tensor([[1024.0, 2048.0], [0.5, 0.25]]), torch.eye(2)
>>> scaling = Scaling.of(a, b, "outer")
>>> scaling.rows, scaling.apply(a, b)[0]
(tensor([11, -1], dtype=torch.int32), tensor([[0.5000, 1.0000], [1.0000, 0.5000]]))

A fast product's error in every element is bounded by the largest blocks, not by that element's row and column: a small
row beside a large one is lost. "outer" divides each row of A and each column of B by its largest element. "inner" gives
column i of A and row i of B the same size. "outer-inner" and "inner-outer" do both, one after the other.

Source: G. Ballard, A. Benson, A. Druinsky, B. Lipshitz and O. Schwartz, "Improving the numerical stability of fast
matrix multiplication", SIAM J. Matrix Anal. Appl. 37, 2016. Factors here are rounded to powers of two, so that scaling
itself rounds nothing, but for numbers that it makes smaller than the type's smallest normal one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from brrr.core.errors import ArgumentError

STEPS = {"outer": ("outer",), "inner": ("inner",), "outer-inner": ("outer", "inner"), "inner-outer": ("inner", "outer")}
"""Each way, and its steps in order."""

_SMALLEST = -(2**20)
"""Stands for the exponent of a row of zeros."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """Exponents of two: rows of A (m,), the inner index (k,) and columns of B (n,), int32.

    A scaled is A * 2^(inner - rows), B scaled is B * 2^(-inner - columns), and C is their product * 2^(rows + columns).
    """

    rows: torch.Tensor
    inner: torch.Tensor
    columns: torch.Tensor

    @classmethod
    def of(cls, a: torch.Tensor, b: torch.Tensor, way: str = "outer-inner") -> Scaling:
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
