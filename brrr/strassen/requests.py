"""What is asked of a product: sizes, type, accuracy, levels, memory; checked once.

>>> checked(8, 8, 8, "float32", None, 1, None, "sgemm", None).inner
('sgemm',)

Importing this loads no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import SupportsIndex

from brrr.core.errors import ArgumentError
from brrr.strassen.accuracy import accuracy_limit
from brrr.strassen.ways import FORM_NAMES, INNERS, LEVELS

PLAIN = {"float64": "fp64", "float32": "sgemm", "float16": "fp16", "bfloat16": "bf16"}
"""The library's product of each type."""

Inners = str | Sequence[str] | None


@dataclass(frozen=True)
class Request:
    """What is asked of a product, checked; hashable, so that what is asked again is not planned again.

    eager: the host issues each launch. whole: odd sizes are rounded up, as in a chain of layers.
    """

    m: int
    n: int
    k: int
    operand: str
    accuracy: float | str | None = None
    level: int | None = None
    form: str | None = None
    inner: tuple[str, ...] = ()
    workspace_bytes: int | None = None
    prepared: bool = False
    free_bytes: int | None = None
    eager: bool = False
    whole: bool = False

    @property
    def limit_bytes(self) -> int | None:
        """The workspace that may be taken: what is given, and no more than is free."""
        given = [each for each in (self.workspace_bytes, self.free_bytes) if each is not None]
        return min(given, default=None)


def checked(
    m: int, n: int, k: int, dtype: str, accuracy: float | str | None, level: int | None, form: str | None,
    inner: Inners, workspace_bytes: int | None, prepared: bool = False, free_bytes: int | None = None,
    eager: bool = False, whole: bool = False,
) -> Request:  # fmt: skip
    """A request, or the ArgumentError that says what is wrong with it."""
    operand = str(dtype).removeprefix("torch.")
    if operand not in PLAIN:
        raise ArgumentError("matmul", "dtype", operand, f"one of {', '.join(PLAIN)}")
    level = None if level is None else _level(level)
    if form is not None and form not in FORM_NAMES:
        raise ArgumentError("matmul", "form", form, f"one of {', '.join(FORM_NAMES)}")
    if workspace_bytes is not None and (isinstance(workspace_bytes, bool) or workspace_bytes < 0):
        raise ArgumentError("matmul", "workspace_bytes", workspace_bytes, "a number of bytes, 0 or more")
    accuracy_limit(accuracy, k, operand)
    inners = _inners(inner, operand)
    return Request(m, n, k, operand, accuracy, level, form, inners, workspace_bytes, prepared, free_bytes, eager, whole)


def _level(level: SupportsIndex) -> int:
    if isinstance(level, bool) or not isinstance(level, SupportsIndex) or index(level) not in LEVELS:
        raise ArgumentError("matmul", "level", level, f"a whole number from 0 (classical) to {LEVELS[-1]}")
    return index(level)


def _inners(inner: Inners, operand: str) -> tuple[str, ...]:
    names = () if inner is None else (inner,) if isinstance(inner, str) else tuple(inner)
    for name in names:
        if name not in INNERS:
            raise ArgumentError("matmul", "inner", name, f"one of {', '.join(INNERS)}")
        if operand not in INNERS[name].operands:
            raise ArgumentError("matmul", "inner", name, f"an inner product of {operand}")
    return names
