"""One figure with its interval, its origin and its conditions; and a curve of them.

>>> Peak(4.2e12, 4.1e12, 4.3e12, "B/s").share_of(Peak.stated(4.8e12, "B/s", "datasheet", source="NVIDIA"))
0.875
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Estimate, Value

Kind = Literal["measured", "datasheet", "assumed"]
Unit = Literal["B/s", "FLOP/s", "IOP/s", "s"]

# What a rate or a time can be on any machine; anything else is in another unit.
LIMITS: Mapping[str, tuple[float, float]] = {
    "B/s": (1e6, 1e15), "FLOP/s": (1e6, 1e18), "IOP/s": (1e6, 1e18), "s": (1e-10, 1e3),
}  # fmt: skip


@dataclass(frozen=True)
class Peak:
    """One figure of a device, such as a bandwidth, with its 95 % interval and its unit.

    >>> print(Peak(51.26e12, 51.1e12, 51.4e12, "FLOP/s"))
    51.3 TFLOP/s (51.1 TFLOP/s to 51.4 TFLOP/s)

    Parameters
    ----------
    value : float
        The figure.
    low, high : float
        Its interval; both are `value` if the figure was not measured.
    unit : {"B/s", "FLOP/s", "IOP/s", "s"}
        Bytes, floating-point or integer operations per second, or seconds.
    kind : {"measured", "datasheet", "assumed"}
        Where it comes from.
    conditions : mapping
        Under which conditions it was measured, for example the size.

    Raises
    ------
    ArgumentError
        If `value` lies outside its interval, or outside what any machine can do in that unit.
    """

    value: float
    low: float
    high: float
    unit: Unit
    kind: Kind = "measured"
    conditions: Mapping[str, Value] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.unit not in LIMITS:
            raise ArgumentError("Peak", "unit", self.unit, f"one of {', '.join(LIMITS)}")
        if self.kind not in ("measured", "datasheet", "assumed"):
            raise ArgumentError("Peak", "kind", self.kind, "measured, datasheet or assumed")
        least, most = LIMITS[self.unit]
        if not least <= self.value <= most:
            raise ArgumentError("Peak", "value", self.value, f"{least:g} to {most:g} {self.unit}", "Another unit?")
        if not 0 <= self.low <= self.value <= self.high <= most:
            raise ArgumentError("Peak", "low and high", (self.low, self.high), f"an interval around {self.value!r}")

    @classmethod
    def rate(cls, amount: float, time: Estimate, unit: Unit, **conditions: Value) -> Peak:
        """A rate from an amount and the time it took.

        >>> Peak.rate(1e9, Estimate(1.0, 0.5, 2.0, 9), "B/s")
        Peak(value=1000000000.0, low=500000000.0, high=2000000000.0, unit='B/s', kind='measured', conditions={'n': 9})
        """
        middle, low, high = (amount / each for each in (time.median, time.high, max(time.low, time.median / 1e3)))
        return cls(middle, low, high, unit, conditions={**conditions, "n": time.n})

    @classmethod
    def time(cls, time: Estimate, **conditions: Value) -> Peak:
        """Make a figure from a time in seconds; less than 0.1 ns counts as 0.1 ns."""
        least = LIMITS["s"][0]
        middle, high = max(time.median, least), max(time.high, least)
        return cls(middle, max(0.0, min(time.low, middle)), high, "s", conditions={**conditions, "n": time.n})

    @classmethod
    def stated(cls, value: float, unit: Unit, kind: Kind, **conditions: Value) -> Peak:
        """Make a figure that was not measured, and so has no interval."""
        return cls(value, value, value, unit, kind, conditions)

    def share_of(self, other: Peak) -> float:
        """This figure divided by another one in the same unit."""
        if self.unit != other.unit:
            raise ArgumentError("Peak.share_of", "other", other.unit, f"a figure in {self.unit}")
        return self.value / other.value

    def __str__(self) -> str:
        value, low, high = (units.quantity(each, self.unit) for each in (self.value, self.low, self.high))
        return f"{value} ({low} to {high})" if low != high else value


def better(one: Peak | None, other: Peak) -> Peak:
    """The larger of two figures; the other where there is no one yet."""
    return other if one is None or other.value > one.value else one


@dataclass(frozen=True)
class Curve:
    """Peaks along an axis: bandwidth by working set in bytes, matrix products by size, graph launches by nodes.

    >>> low, high = (Peak(v, v, v, "B/s") for v in (1e9, 4e9))
    >>> curve = Curve("working_set_bytes", ((1e6, low), (4e6, high)))
    >>> curve.at(2e6), curve.at(1), curve.at(1e12), curve.best.value
    (2000000000.0, 1000000000.0, 4000000000.0, 4000000000.0)
    """

    axis: str
    points: tuple[tuple[float, Peak], ...]
    conditions: Mapping[str, Value] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        places = [x for x, _ in self.points]
        if not places or places[0] <= 0 or any(a >= b for a, b in pairwise(places)):
            raise ArgumentError("Curve", "points", places, "at least one, their places above zero and rising")
        if len({(peak.unit, peak.kind) for _, peak in self.points}) != 1:
            raise ArgumentError("Curve", "points", [p.unit for _, p in self.points], "one unit and one kind")

    def at(self, x: float) -> float:
        """The value between the points, on straight lines in log-log; beyond the ends, that of the end."""
        return through([(place, peak.value) for place, peak in self.points], x)

    @property
    def best(self) -> Peak:
        """The largest of the peaks."""
        return self.best_point[1]

    @property
    def best_point(self) -> tuple[float, Peak]:
        """Where the largest of the peaks lies, and itself."""
        return max(self.points, key=lambda point: point[1].value)


# ---------------------------------------------------------------------------------------------------------------------
# Between measured points: straight lines in log-log, since sizes and rates span decades.


def through(points: Sequence[tuple[float, float]], x: float) -> float:
    """The value at x of the line through the points in log-log; beyond the ends it stays what it is there.

    >>> through([(1.0, 10.0), (100.0, 1000.0)], 10.0)
    100.0
    >>> through([(1.0, 10.0), (100.0, 1000.0)], 1e6)
    1000.0

    `points` are (x, y) with rising x, all above zero. Raises ArgumentError for an x that is not above zero.
    """
    if not 0 < x < math.inf:
        raise ArgumentError("through", "x", x, "a number above 0")
    right = bisect.bisect_left([place for place, _ in points], x)
    if right == 0 or right == len(points):
        return points[min(right, len(points) - 1)][1]
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    if x == x1:
        return y1
    share = math.log(x / x0) / math.log(x1 / x0)
    return float(f"{y0 * (y1 / y0) ** share:.12g}")  # the last digits are only those of the logarithms


def sizes_between(first: float, last: float, factor: float, *, fine: tuple[float, float] | None = None) -> list[int]:
    """Sizes from the first to the last, each `factor` times the one before; twice as dense inside `fine`.

    >>> sizes_between(64, 1024, 4)
    [64, 256, 1024]
    >>> sizes_between(64, 1024, 4, fine=(200, 600))
    [64, 256, 512, 1024]
    """
    sizes, size = [], float(first)
    while size <= last * 1.001:
        sizes.append(round(size))
        half = size * math.sqrt(factor)
        if fine is not None and fine[0] <= half <= fine[1] and half <= last:
            sizes.append(round(half))
        size *= factor
    return sizes


# ---------------------------------------------------------------------------------------------------------------------
# Sweeps: the times of many calls, measured one after the other, with what was called. A model is corrected by them.

SHORTEST_S, LONGEST_S = 1e-8, 1e3
FIT = 1e-6, 1e6
"""Of hyperparameters: with others a regression has no solution."""
Row = tuple[int | str, ...]


@dataclass(frozen=True)
class SweptCalls:
    """What was called, a column for each of its sizes and names, and its seconds on the device.

    >>> sweep = SweptCalls.of(("m", "n"), [(64, 64), (64, 128)], [2e-6, 3e-6])
    >>> sweep.columns["n"], list(sweep)[1]
    ((64, 128), ({'m': 64, 'n': 128}, 3e-06))

    `fits`: of each group of alike calls, the hyperparameters of its regression (`tools.reference.fitting`).
    ArgumentError for columns of another length than the seconds, and for times that cannot be.
    """

    columns: Mapping[str, tuple[int | str, ...]]
    seconds: tuple[float, ...]
    conditions: Mapping[str, Value] = field(default_factory=dict, hash=False)
    fits: Mapping[str, tuple[float, ...]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, column in self.columns.items():
            if len(column) != len(self.seconds):
                expected = f"{len(self.seconds)} values, as there are seconds"
                raise ArgumentError("SweptCalls", f"columns.{name}", len(column), expected)
        odd = next((time_s for time_s in self.seconds if not SHORTEST_S <= time_s <= LONGEST_S), None)
        if odd is not None:
            raise ArgumentError("SweptCalls", "seconds", odd, f"{SHORTEST_S:g} to {LONGEST_S:g} s")
        for name, fit in self.fits.items():
            for place, value in enumerate(fit, 1 - len(fit)):
                if not (FIT[0] <= value <= FIT[1] or (value == 0 and place == -1)):  # a name's own noise may be none
                    raise ArgumentError("SweptCalls", f"fits.{name}", value, f"{FIT[0]:g} to {FIT[1]:g}")

    @classmethod
    def of(cls, names: Sequence[str], rows: Sequence[Row], seconds: Sequence[float], **rest: Any) -> SweptCalls:
        """From a row a call, with a value for each column; `rest` are the other fields."""
        columns = zip(*rows, strict=True) if rows else ((),) * len(names)
        return cls(dict(zip(names, columns, strict=True)), tuple(seconds), **rest)

    def __iter__(self) -> Iterator[tuple[dict[str, int | str], float]]:
        rows = zip(*self.columns.values(), strict=True)
        named = (dict(zip(self.columns, row, strict=True)) for row in rows)
        return zip(named, self.seconds, strict=True)

    def __len__(self) -> int:
        return len(self.seconds)

    def part(self, places: Sequence[int]) -> SweptCalls:
        """The calls at those places alone."""
        columns = {name: tuple(column[each] for each in places) for name, column in self.columns.items()}
        return replace(self, columns=columns, seconds=tuple(self.seconds[each] for each in places))


def whole_nanoseconds(seconds: Iterable[float]) -> tuple[float, ...]:
    """Times as a file holds them: the middle of two times of a profiler, which are whole nanoseconds, need not be one.

    >>> whole_nanoseconds([2.0005e-6, 3e-6])
    (2.001e-06, 3e-06)
    """
    return tuple(round(time_s * 1e9) / 1e9 for time_s in seconds)
