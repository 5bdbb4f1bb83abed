"""A cost as a table of its operators."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from brrr import units
from brrr.counting.cost import Cost, OperatorCost

_HEAD = ("calls", "operator", "kind", "dtype", "shapes", "FLOP", "read", "written")


def details(cost: Cost) -> str:
    """One line for each different call, with how often it was made and what all of those cost together.

    >>> op = OperatorCost("aten.mul", 4.0, 16, 16, "float32", ((4,),))
    >>> print(details(Cost(8, 32, 64, operators=(op, op))))
    calls  operator  kind       dtype    shapes  FLOP    read  written
        2  aten.mul  pointwise  float32  (4,)    8 FLOP  32 B  32 B
    compulsory 32 B, eager 64 B (2 times as much), working set 32 B
    """
    moving = Counter(each for each in cost.operators if each.kind != "view")
    lines = _aligned([_HEAD, *(_line(each, calls) for each, calls in moving.items())])
    return "\n".join([*lines, *_notes(cost), _total(cost)])


def _line(each: OperatorCost, calls: int) -> tuple[str, ...]:
    flop = "unknown" if each.flop is None else units.quantity(calls * each.flop, "FLOP")
    read, written = (units.quantity(calls * moved, "B") for moved in (each.read_bytes, each.written_bytes))
    return str(calls), each.name, each.kind, each.dtype, _shapes(each), flop, read, written


def _shapes(each: OperatorCost) -> str:
    """Its shapes, equal ones after each other as one with their number."""
    runs = [(shape, len(list(same))) for shape, same in groupby(each.shapes)]
    return " ".join(f"{count} x {shape}" if count > 2 else " ".join([str(shape)] * count) for shape, count in runs)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their widest cell, the calls to the right, the rest to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_padded(row, widths).rstrip() for row in rows]


def _padded(row: tuple[str, ...], widths: list[int]) -> str:
    calls, *rest = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return "  ".join([calls.strip().rjust(widths[0]), *rest])


def _notes(cost: Cost) -> list[str]:
    notes = []
    if views := sum(each.kind == "view" for each in cost.operators):
        notes.append(f"and {views} view{'s' * (views > 1)} or allocation{'s' * (views > 1)}: 0 FLOP, 0 B")
    if cost.random:
        notes.append(f"random numbers count 0 FLOP: {', '.join(cost.random)}")
    if cost.unknown:
        notes.append(f"FLOP unknown, not in the sum: {', '.join(cost.unknown)}")
    return notes


def _total(cost: Cost) -> str:
    compulsory, eager, touched = (
        units.quantity(moved, "B") for moved in (cost.bytes, cost.eager_bytes, cost.working_set_bytes)
    )
    ratio = f" ({units.quantity(cost.eager_bytes / cost.bytes, '')} times as much)" if cost.bytes else ""
    return f"compulsory {compulsory}, eager {eager}{ratio}, working set {touched}"
