"""Sweeps: the times of many calls, measured one after the other, with what was called. A model is corrected by them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from brrr.errors import ArgumentError
from brrr.experiment import Value

SHORTEST_S, LONGEST_S = 1e-8, 1e3


@dataclass(frozen=True)
class Sweep:
    """Rows of what was called, and its seconds on the device.

    >>> sweep = Sweep(("m", "n"), ((64, 64), (64, 128)), (2e-6, 3e-6))
    >>> list(sweep)[1]
    ({'m': 64, 'n': 128}, 3e-06)

    Each row has a value for each column. ArgumentError for rows of another length, and for times
    that cannot be.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[int | str, ...], ...]
    seconds: tuple[float, ...]
    conditions: Mapping[str, Value] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        wrong = next((row for row in self.rows if len(row) != len(self.columns)), None)
        if wrong is not None:
            raise ArgumentError("Sweep", "rows", wrong, f"a value for each of {', '.join(self.columns)}")
        if len(self.seconds) != len(self.rows):
            raise ArgumentError("Sweep", "seconds", len(self.seconds), f"one for each of {len(self.rows)} rows")
        odd = next((time_s for time_s in self.seconds if not SHORTEST_S <= time_s <= LONGEST_S), None)
        if odd is not None:
            raise ArgumentError("Sweep", "seconds", odd, f"{SHORTEST_S:g} to {LONGEST_S:g} s")

    def __iter__(self) -> Iterator[tuple[dict[str, int | str], float]]:
        return ((dict(zip(self.columns, row, strict=True)), time_s) for row, time_s in self._pairs())

    def __len__(self) -> int:
        return len(self.rows)

    def _pairs(self) -> Iterator[tuple[tuple[int | str, ...], float]]:
        return zip(self.rows, self.seconds, strict=True)


def whole_nanoseconds(seconds: Iterable[float]) -> tuple[float, ...]:
    """Times as a file holds them: the middle of two times of a profiler, which are whole nanoseconds, need not be one.

    >>> whole_nanoseconds([2.0005e-6, 3e-6])
    (2.001e-06, 3e-06)
    """
    return tuple(round(time_s * 1e9) / 1e9 for time_s in seconds)
