"""A formula: an operator's class, its FLOP from a call, and the matrix products in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from brrr.counting.call import Call
from brrr.counting.cost import Matmul

Count = Callable[[Call], float]


def no_matmuls(call: Call) -> tuple[Matmul, ...]:
    """Of an operator without matrix products."""
    return ()


@dataclass(frozen=True, slots=True)
class Formula:
    """How operators of one name count; `flop` gives None where the arguments are such that nobody here knows."""

    kind: str
    flop: Callable[[Call], float | None]
    matmuls: Callable[[Call], tuple[Matmul, ...]] = no_matmuls


def nothing(call: Call) -> float:
    """No floating-point operation."""
    return 0.0


def table(kind: str, counts: dict[str, Count]) -> dict[str, Formula]:
    """Formulas of one kind, keyed by aten.NAME; a key may hold several names, separated by spaces."""
    return {f"aten.{name}": Formula(kind, count) for names, count in counts.items() for name in names.split()}


def free(kind: str, names: str) -> dict[str, Formula]:
    """Operators of one kind that count nothing, their names separated by spaces."""
    return table(kind, {names: nothing})
