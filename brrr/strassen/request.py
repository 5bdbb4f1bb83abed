"""What is asked of a product: accuracy, levels, form, inner products and memory, checked once; with sizes, a request.

>>> Limits(level=1, inner="sgemm").inners
('sgemm',)

Importing this loads no torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from brrr.core.errors import ArgumentError
from brrr.strassen.accuracy import PLAIN, accuracy_limit
from brrr.strassen.algebra.blocks import level_of
from brrr.strassen.implementations import FORM_NAMES, INNERS, Implementation, Problem

FEW_ROWS = 128
"""With fewer rows no levels and no other product than the type's own are taken by themselves: b is most of the bytes,
and other ways read more. On an H200 neither gained with 64 rows, and split products did with 128."""

SHORT = 2**16
"""With fewer elements in an operand the launch takes longest: the product is the type's own, of rows as they lie."""

Inners = str | Sequence[str] | None
SCHEMA = "float? error, str? accuracy, int? level, str? form, str? inner, int? workspace_bytes"
"""Limits as an operator of torch takes them: an accuracy is a number or a name, inner products are one word."""


@dataclass(frozen=True)
class Limits:
    """What is asked of a product, as `matmul` takes it; what torch traces makes it, and does not check it."""

    accuracy: float | str | None = None
    level: int | None = None
    form: str | None = None
    inner: Inners = None
    workspace_bytes: int | None = None

    def __post_init__(self) -> None:
        names = () if self.inner is None else (self.inner,) if isinstance(self.inner, str) else tuple(self.inner)
        object.__setattr__(self, "inner", names)  # that may be taken; all, where none is named

    def checked(self) -> Limits:
        """The same; ArgumentError for what no product can be asked."""
        if self.form is not None and self.form not in FORM_NAMES:
            raise ArgumentError("matmul", "form", self.form, f"one of {', '.join(FORM_NAMES)}")
        limit = self.workspace_bytes
        if limit is not None and (isinstance(limit, bool) or limit < 0):
            raise ArgumentError("matmul", "workspace_bytes", limit, "a number of bytes, 0 or more")
        for name in self.inners:
            if name not in INNERS:
                raise ArgumentError("matmul", "inner", name, f"one of {', '.join(INNERS)}")
        accuracy_limit(self.accuracy, 1)
        return self if self.level is None else replace(self, level=level_of(self.level, "matmul"))

    @property
    def inners(self) -> tuple[str, ...]:
        """The inner products that may be taken; all, where none is named."""
        return tuple(self.inner or ())

    @property
    def nothing(self) -> bool:
        """Whether the way is left open: levels are then none of those that are taken."""
        return (self.accuracy, self.level, self.form, self.inner) == (None, None, None, ())

    @property
    def typed(self) -> tuple[Any, ...]:
        """As an operator of torch takes them; `of_typed` makes them again."""
        named, inner = isinstance(self.accuracy, str), ",".join(self.inners) or None
        error = None if named or self.accuracy is None else float(self.accuracy)
        return error, self.accuracy if named else None, self.level, self.form, inner, self.workspace_bytes

    @classmethod
    def of_typed(cls, error: float | None, accuracy: str | None, *asked: Any) -> Limits:
        """What `typed` was made of, checked."""
        level, form, inner, workspace_bytes = asked
        names = None if inner is None else tuple(inner.split(","))
        return limits_of(error if accuracy is None else accuracy, level, form, names, workspace_bytes)


NOTHING = Limits()


def limits_of(*asked: Any) -> Limits:
    """Limits that are checked, once; a list of inners cannot be remembered."""
    try:
        return _remembered(*asked)
    except TypeError:
        return Limits(*asked).checked()


@lru_cache(maxsize=256, typed=True)
def _remembered(*asked: Any) -> Limits:
    return Limits(*asked).checked()


@dataclass(frozen=True)
class Request:
    """Sizes and limits of a product, checked; hashable, so that what is asked again is not planned again.

    eager: the host issues each launch. whole: odd sizes are padded, as in a chain of layers.
    """

    m: int
    n: int
    k: int
    operand: str = "float32"
    limits: Limits = NOTHING
    prepared: bool = False
    free_bytes: int | None = None
    eager: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        operand = str(self.operand).removeprefix("torch.")
        object.__setattr__(self, "operand", operand)
        if operand not in PLAIN:
            raise ArgumentError("matmul", "dtype", operand, f"one of {', '.join(PLAIN)}")
        object.__setattr__(self, "limits", self.limits.checked())
        for name in self.limits.inners:
            if operand not in INNERS[name].operands:
                raise ArgumentError("matmul", "inner", name, f"an inner product of {operand}")

    @property
    def short(self) -> bool:
        """Whether nothing is asked, and an operand is so small that the launch takes longest."""
        return self.limits.nothing and not self.whole and self.k * min(self.m, self.n) < SHORT

    @property
    def limit_bytes(self) -> float:
        """The workspace that may be taken: what is given, and no more than is free."""
        return min(math.inf if each is None else each for each in (self.limits.workspace_bytes, self.free_bytes))

    def problem(self, how: Implementation, *, aligned: bool = True) -> Problem:
        """The product in a way; a chain of layers makes no copies of what is in its type already."""
        aligned = aligned and not (self.whole and how.dtype == self.operand) and not self.short
        return Problem(how, self.m, self.n, self.k, self.operand, self.whole, aligned)
