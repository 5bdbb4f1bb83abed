"""Work as a tree of modules."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from brrr.core import units

ROOT = "(all)"
Seconds = Sequence[tuple[str, float]]
"""Of a module's own kernels, each with the name of its module."""


@dataclass(frozen=True)
class Branch:
    """A module with all that lies in it: its name ("" for the whole), FLOP, bytes, predicted and measured seconds.

    Bytes are those of each operator by itself. Seconds are None where nobody predicted or measured them.
    """

    name: str
    flop: float
    nbytes: float
    predicted_s: float | None = None
    measured_s: float | None = None


class ByModule(tuple[Branch, ...]):
    """Work by module, each beside all that lies in it; prints as a tree."""

    def __repr__(self) -> str:
        head = ("module", "FLOP", "share", "eager bytes", "predicted", "measured")
        whole, rows = self[0], [head]
        for each in self:
            name = "  " * (each.name.count(".") + 1) + each.name.rpartition(".")[2] if each.name else ROOT
            share = units.percent(each.flop / whole.flop) if whole.flop else ""
            times = ("" if time is None else units.seconds(time) for time in (each.predicted_s, each.measured_s))
            rows.append((name, units.quantity(each.flop, "FLOP"), share, units.nbytes(each.nbytes), *times))  # type: ignore[arg-type]
        told = [place for place, title in enumerate(head) if place < 4 or any(row[place] for row in rows[1:])]
        return "\n".join(units.table([[row[place] for place in told] for row in rows]))


def by_module(operators: Sequence[Any], predicted_s: Seconds = (), measured_s: Seconds = ()) -> ByModule:
    """The operators as a tree, with the seconds of the kernels that they run as."""
    sums: dict[str, list[float]] = {"": [0.0] * 4}

    def add(module: str, place: int, value: float) -> None:
        parts = module.split(".") if module else []
        for depth in range(len(parts) + 1):
            sums.setdefault(".".join(parts[:depth]), [0.0] * 4)[place] += value

    for each in operators:
        add(each.module, 0, each.counted_flop)
        add(each.module, 1, each.bytes)
    for place, times in enumerate((predicted_s, measured_s), 2):
        for module, seconds in times:
            add(module, place, seconds)

    def below(name: str) -> list[str]:
        inner = (each for each in sums if each and each.rpartition(".")[0] == name)
        return [name, *chain.from_iterable(map(below, inner))]

    return ByModule(
        Branch(name, flop, nbytes, predicted if predicted_s else None, measured if measured_s else None)
        for name in below("")
        for flop, nbytes, predicted, measured in [sums[name]]
        if not name or flop or nbytes or predicted or measured
    )
