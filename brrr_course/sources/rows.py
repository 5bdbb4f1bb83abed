"""A row of a recording: a variant at a point, its six times, and the rules that every row must keep."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Any, NoReturn, get_args

from brrr.core.errors import ArgumentError
from brrr.core.measurement import FIELDS, Cache, Estimate, Field, Measurement, Point, Value
from brrr.counting.cost import Cost
from brrr_course.nouns.experiment import Axis, Experiment
from brrr_course.nouns.source import SLACK_S, broken

SHORTEST_S, LONGEST_S = 1e-9, 1e4
"""Times outside are a slip of the unit: microseconds or nanoseconds written where seconds belong."""
LIMITS: Mapping[str, tuple[float, float, str]] = {
    "sm_clock_hz": (1e7, 1e10, "Hz"), "power_w": (1.0, 1e4, "W"), "estimated_s": (SHORTEST_S, LONGEST_S, "seconds"),
    "n": (1, 1e9, ""), "kernels": (0, 1e9, ""), "peak_bytes": (0, 1e15, "bytes"), "flop": (0, 1e30, "FLOP"),
    "bytes": (0, 1e18, "bytes"), "error": (0, 1e4, ""), "cpu_cores": (1, 1e5, ""),
    "anchor_s": (0, LONGEST_S, "seconds"), "tick_s": (SHORTEST_S, 1.0, "seconds"),
    "bytes_per_s": (1e7, 1e15, "B/s"), "flop_per_s": (1e6, 1e18, "FLOP/s"), "ratio": (1e-3, 1e3, ""),
}  # fmt: skip
"""What a number of a recording can be on any machine; most outside are slips of the unit, as MHz for Hz."""
SLOWEST_ALONE = 200
"""A call alone takes at most so many times as long as all that is measured of it in a loop (16 times was seen)."""

MAY_BE_ZERO: frozenset[Field] = frozenset({"kernel_s", "busy_s", "span_s"})
"""A function that launches nothing has no device time."""


@dataclass(frozen=True)
class Timed:
    """What measuring a variant at a point gives: the times, the cost, and the result's relative error."""

    measurement: Measurement
    cost: Cost
    error: float


@dataclass(frozen=True)
class Row:
    """A variant at a point, measured in one run; it holds exactly what the CSV holds."""

    point: tuple[Value, ...]
    variant: str
    measurement: Measurement
    cost: Cost
    error: float
    run: str

    @property
    def key(self) -> tuple[object, ...]:
        """What may occur only once in a recording."""
        return (self.point, self.variant, self.measurement.cache, self.run)

    @classmethod
    def of(cls, point: Point, variant: str, timed: Timed, run: str, device: str) -> Row:
        """The row of a finished measurement: what a CSV cannot hold is left out, but for the samples.

        The low end of an interval may reach below zero where the clock's tick is longer than the time; no time is
        negative, so it is cut there.
        """
        times: dict[str, Any] = {
            name: Estimate(float(e.median), max(0.0, float(e.low)), float(e.high), e.n)
            for name in FIELDS
            if (e := timed.measurement.get(name)) is not None
        }
        error, cost = float(timed.error), Cost(float(timed.cost.flop), float(timed.cost.bytes))
        kept = replace(timed.measurement, **times, device=device, kernel_times_from="", notes=())
        return cls(tuple(point.values()), variant, replace(kept, error=error), cost, error, run)


# ---------------------------------------------------------------------------------------------------------------------
# The columns of a CSV: the axes, `variant`, four for each time, then these. To add one: the value in `Measurement`, a
# line here, and whoever measures it.


@dataclass(frozen=True)
class Column:
    """A column: the value of a `Row` that it holds, and its type; a tuple of texts has semicolons between.

    A file does without an `optional` column where no row fills it, and one without it reads as empty.
    """

    where: str
    kind: type
    may_be_empty: bool = False
    optional: bool = False

    @cached_property
    def name(self) -> str:
        """The header: the last word of where the value is."""
        return self.where.rpartition(".")[2]


COLUMNS = (
    Column("measurement.kernels", int, may_be_empty=True),
    Column("measurement.cache", str),
    Column("measurement.sm_clock_hz", float, may_be_empty=True),
    Column("cost.flop", float),
    Column("cost.bytes", float),
    Column("error", float),
    Column("measurement.flags", tuple, may_be_empty=True),
    Column("run", str),
    Column("measurement.peak_bytes", int, may_be_empty=True, optional=True),
    Column("measurement.estimated_s", float, may_be_empty=True, optional=True),
    Column("measurement.launched", tuple, may_be_empty=True, optional=True),
    Column("measurement.power_w", float, may_be_empty=True, optional=True),
)
ENDS = {"": float, "_low": float, "_high": float, "_n": int}
"""What follows a time's name in its four columns, and the types."""
CELLS = {name: itemgetter(*(f"{name}{end}" for end in ENDS)) for name in FIELDS}
"""The four cells of each time."""


def columns(experiment: Experiment) -> dict[str, bool]:
    """The columns of the experiment's CSV, in the order in which they are written; whether each must be there."""
    times = [f"{name}{end}" for name in FIELDS for end in ENDS]
    always = dict.fromkeys([axis.name for axis in experiment.axes] + ["variant", *times], True)
    return {**always, **{column.name: not column.optional for column in COLUMNS}}


def to_cells(row: Row, experiment: Experiment) -> dict[str, str]:
    """The row's cells by column; a float is written so that reading gives the same float."""
    cells: dict[str, Any] = dict(zip([axis.name for axis in experiment.axes], row.point, strict=True))
    cells["variant"] = row.variant
    for name in FIELDS:
        e = row.measurement.get(name)
        values = (None,) * len(ENDS) if e is None else (float(e.median), float(e.low), float(e.high), e.n)
        cells |= {f"{name}{end}": value for end, value in zip(ENDS, values, strict=True)}
    cells |= {column.name: attrgetter(column.where)(row) for column in COLUMNS}
    return {name: _text(value) for name, value in cells.items()}


def _text(value: Value | tuple[str, ...] | None) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ";".join(value)
    return "" if value is None else repr(float(value) if isinstance(value, float) else int(value))


class Reader:
    """Reads the rows of an experiment's CSV, and checks them; a cell that stood in a row before is not read again."""

    def __init__(self, experiment: Experiment, device: str) -> None:
        self._axes = [(axis, dict[str, Value]()) for axis in experiment.axes]
        self._columns: list[tuple[Column, dict[str, Any]]] = [(column, {}) for column in COLUMNS]
        self._cache_at = [place for place, axis in enumerate(experiment.axes) if axis.name == "cache"]
        self._device = device

    def row(self, cells: Mapping[str, str]) -> Row:
        """The row from its cells by column; ValueError says which column is wrong and why."""
        try:
            return self._row(cells)
        except ArgumentError as error:
            raise ValueError(str(error).removeprefix("row: ")) from None

    def _row(self, cells: Mapping[str, str]) -> Row:
        point: list[Value] = []
        for axis, values in self._axes:
            cell = cells[axis.name]
            if cell not in values:
                values[cell] = axis.checked("row", _axis_value(axis, cell))
            point.append(values[cell])
        told: dict[str, Any] = {"device": self._device}
        rest: dict[str, Any] = {}
        for column, seen in self._columns:
            cell = cells.get(column.name, "")
            if cell not in seen:
                seen[cell] = _value(column, cell)
                _check_value(column.name, seen[cell])
            rest[column.name] = seen[cell]
            if column.where.startswith("measurement."):
                told[column.name] = seen[cell]
        measurement = Measurement(**_times(cells), **told, error=rest["error"])
        _check_times(measurement)
        row = Row(tuple(point), cells["variant"], measurement, Cost(rest["flop"], rest["bytes"]), rest["error"],
                  rest["run"])  # fmt: skip
        _check_cache(self._cache_at, row)
        _check_text("variant", row.variant)
        return row


def from_cells(cells: Mapping[str, str], experiment: Experiment, device: str) -> Row:
    """The row from its cells by column, checked; ValueError says which column is wrong and why."""
    return Reader(experiment, device).row(cells)


def _value(column: Column, cell: str) -> Any:
    if column.kind is tuple:
        return tuple(cell.split(";")) if cell else ()
    value = _read(column.name, cell, column.kind)
    if value is None and not column.may_be_empty:
        raise ValueError(f"{column.name} is empty; expected {KINDS[column.kind]}")
    return value


NUMBER = re.compile(r"[-+.0-9a-z]*")
"""Python also takes spaces, underscores and the digits of every script."""
KINDS: Mapping[type, str] = {int: "a whole number", float: "a number", str: "a text"}


def _read(name: str, cell: str, kind: type) -> Any:
    """The cell as a value of its kind, None where it is empty."""
    try:
        if kind is not str and not NUMBER.fullmatch(cell):
            raise ValueError
        return kind(cell) if cell else None
    except ValueError:
        raise ValueError(f"{name} is {cell!r}; expected {KINDS[kind]}") from None


def _axis_value(axis: Axis, cell: str) -> Value:
    if axis.scale == "category":
        values = {str(value): value for value in axis.values}
        if cell not in values:
            raise ValueError(f"{axis.name} is {cell!r}; expected one of {', '.join(values)}")
        return values[cell]
    kind = int if axis.integer else float
    if not cell:
        raise ValueError(f"{axis.name} is ''; expected {KINDS[kind]}")
    return _read(axis.name, cell, kind)  # type: ignore[no-any-return]


def _times(cells: Mapping[str, str]) -> dict[str, Any]:
    """The times that the row has."""
    found: dict[str, Any] = {}
    for name, get in CELLS.items():
        four = get(cells)
        text = "".join(four)
        if text:
            if "" in four or not NUMBER.fullmatch(text):
                _refuse_time(name, four)
            try:
                found[name] = Estimate(float(four[0]), float(four[1]), float(four[2]), int(four[3]))
            except ValueError:
                _refuse_time(name, four)
    return found


def _refuse_time(name: str, four: Sequence[str]) -> NoReturn:
    """ValueError that says which of a time's four cells is wrong."""
    for (end, kind), cell in zip(ENDS.items(), four, strict=True):
        _read(f"{name}{end}", cell, kind)
    raise ValueError(f"{name}: the median, one end of its interval or n is empty; expected all four or none")


def within(call: str, name: str, value: float | None, limits: str = "") -> None:
    """ArgumentError unless it is None, or a number that such a one can be; `limits` are those of another name."""
    low, high, unit = LIMITS[limits or name]
    if value is not None and not low <= value <= high:
        hint = ": is it in another unit?" if unit else ""
        raise ArgumentError(call, name, value, f"{low:g} to {high:g} {unit}".rstrip() + hint)


def check_row(row: Row, experiment: Experiment) -> None:
    """ValueError that says what is wrong, unless the row is one that a machine can have measured."""
    try:
        for axis, value in zip(experiment.axes, row.point, strict=True):
            axis.checked("row", value)
        _check_cache([place for place, axis in enumerate(experiment.axes) if axis.name == "cache"], row)
        _check_times(row.measurement)
        for column in COLUMNS:
            _check_value(column.name, attrgetter(column.where)(row))
        _check_text("variant", row.variant)
    except ArgumentError as error:
        raise ValueError(str(error).removeprefix("row: ")) from None


def _check_cache(places: Sequence[int], row: Row) -> None:
    for place in places:
        if row.point[place] != row.measurement.cache:
            raise ValueError(f"cache is {row.measurement.cache!r}; expected that of the point, {row.point[place]!r}")


def _check_times(m: Measurement) -> None:
    found: dict[Field, Estimate] = {}
    for name in FIELDS:
        e: Estimate | None = getattr(m, name)
        if e is not None:
            found[name] = e
            in_order = 0 <= e.low <= e.median <= e.high <= LONGEST_S and e.median >= SHORTEST_S
            if not in_order or not 1 <= e.n <= LIMITS["n"][1]:
                _check_estimate(name, e)
    if not found and m.estimated_s is None and m.peak_bytes is None:
        raise ValueError("holds no time at all")
    # No file has a row whose busy_s is above its span_s; what breaks the other pairs is in old ones.
    if m.busy_s and m.span_s and m.busy_s.low > m.span_s.high and ("busy_s", "span_s") in broken(m):
        raise ValueError(f"busy_s is {m.busy_s.median!r}, more than span_s, {m.span_s.median!r}: expected at most that")
    if m.latency_s:
        others_s = sum([each.median for name, each in found.items() if name != "latency_s"])
        alone = found.keys() == {"host_s", "latency_s"}  # a call that only submits returns however long the work is
        if others_s and not alone and m.latency_s.median > SLOWEST_ALONE * others_s + SLACK_S:
            raise ValueError(
                f"latency_s is {m.latency_s.median!r}, and the other times {others_s!r}: is one in another unit?"
            )


def _check_estimate(name: Field, e: Estimate) -> None:
    if not all(math.isfinite(value) for value in (e.median, e.low, e.high)):
        raise ValueError(f"{name} is {e.median!r}, {e.low!r} to {e.high!r}; expected finite numbers")
    if not e.low <= e.median <= e.high:
        raise ValueError(f"{name} is {e.median!r}, outside its interval {e.low!r} to {e.high!r}")
    if e.low < 0:
        raise ValueError(f"{name}_low is {e.low!r}; expected at least 0")
    shortest = 0.0 if name in MAY_BE_ZERO and e.median == 0 else SHORTEST_S
    if e.median < shortest or e.high > LONGEST_S:
        raise ValueError(
            f"{name} is {e.median!r} (up to {e.high!r}); expected {SHORTEST_S:g} to {LONGEST_S:g} seconds: "
            "is it in another unit?"
        )
    within("row", f"{name}_n", e.n, "n")


def _check_value(name: str, value: Any) -> None:
    """ValueError, or ArgumentError, unless a column that is no time may hold the value."""
    if name == "cache" and value not in get_args(Cache):
        raise ValueError(f"cache is {value!r}; expected hot or cold")
    if name in LIMITS:
        within("row", name, value)
    for text in value if isinstance(value, tuple) else (value,) if name == "run" else ():
        _check_text(name, text)
        if name != "run" and ";" in text:
            raise ValueError(f"{name} holds {text!r}; a text of these may not hold a semicolon, which parts them")


def _check_text(name: str, text: str) -> None:
    if not text or not text.isprintable():
        raise ValueError(f"{name} is {text!r}; expected printable text")
