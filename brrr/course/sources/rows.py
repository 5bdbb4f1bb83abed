"""One row of a recording: a variant at a point, its six times, and the rules that every row must keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from brrr.core.errors import ArgumentError
from brrr.core.measurement import FIELDS, Estimate, Field, Measurement
from brrr.core.values import Point, Value
from brrr.counting.cost import Cost
from brrr.course.nouns.experiment import Axis, Experiment

REST = ("n", "kernels", "cache", "sm_clock_hz", "flop", "bytes", "error", "flags", "run")
MEMORY = "peak_bytes"
"""The last column of a file in which some row tells its memory; other files do without it."""

SHORTEST_S, LONGEST_S = 1e-9, 1e4
"""Times outside are a slip of the unit: microseconds or nanoseconds written where seconds belong."""
LOWEST_HZ, HIGHEST_HZ = 1e7, 1e10
"""Clocks outside are a slip of the unit: MHz written where Hz belongs."""
SPAN_SLACK, SPAN_SLACK_S = 0.03, 0.5e-6
"""How far the busy time may exceed the span: the accuracy that the two timers promise, for they are measured apart."""

MAY_BE_ZERO: frozenset[Field] = frozenset({"kernel_s", "busy_s", "span_s"})
"""A function that launches nothing has no device time."""


class Ran(Protocol):
    """What measuring one variant at one point gives (`brrr.course.sources.timers.Run`)."""

    @property
    def measurement(self) -> Measurement:
        """The six times."""

    @property
    def cost(self) -> Cost:
        """FLOP and bytes."""

    @property
    def error(self) -> float:
        """The relative error against the reference."""


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
    def of(cls, point: Point, variant: str, ran: Ran, run: str, device: str) -> Row:
        """The row of a finished measurement: what a CSV cannot hold is left out, n is the smallest of the fields'.

        The low end of an interval may reach below zero where the clock's tick is longer than the time; no time is
        negative, so it is cut there.
        """
        found: Mapping[str, Estimate | None] = {name: ran.measurement.get(name) for name in FIELDS}
        n = min((estimate.n for estimate in found.values() if estimate is not None), default=0)
        times: dict[str, Any] = {
            name: None if e is None else Estimate(float(e.median), max(0.0, float(e.low)), float(e.high), n)
            for name, e in found.items()
        }
        kept = replace(ran.measurement, **times, device=device, kernel_times_from="", notes=(), samples={})
        kept = replace(kept, error=float(ran.error))
        cost = Cost(float(ran.cost.flop), float(ran.cost.bytes))
        return cls(tuple(point.values()), variant, kept, cost, float(ran.error), run)


def columns(experiment: Experiment, *, memory: bool = False) -> tuple[str, ...]:
    """The columns of the experiment's CSV, in order, with that of the memory or without."""
    times = (f"{name}{end}" for name in FIELDS for end in ("", "_low", "_high"))
    return (*(axis.name for axis in experiment.axes), "variant", *times, *REST, *([MEMORY] if memory else []))


def to_cells(row: Row, *, memory: bool = False) -> list[str]:
    """The row's cells as text, as `columns` orders them; a float is written so that reading gives the same float."""
    m = row.measurement
    cells = [_text(value) for value in row.point] + [row.variant]
    for name in FIELDS:
        e = m.get(name)
        cells += [_text(e.median), _text(e.low), _text(e.high)] if e is not None else ["", "", ""]
    cells += [str(_smallest_n(m)), _text(m.kernels), m.cache, _text(m.sm_clock_hz)]
    cells += [_text(row.cost.flop), _text(row.cost.bytes), _text(row.error), ";".join(m.flags), row.run]
    return [*cells, _text(m.peak_bytes)] if memory else cells


def _text(value: Value | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else repr(float(value) if isinstance(value, float) else int(value))


def _smallest_n(m: Measurement) -> int:
    return min((e.n for name in FIELDS if (e := m.get(name)) is not None), default=0)


def from_cells(cells: Sequence[str], experiment: Experiment, device: str) -> Row:
    """The row from its cells; ValueError says which column is wrong and why."""
    names = columns(experiment, memory=len(cells) > len(columns(experiment)))
    by_name = dict(zip(names, cells, strict=True))
    point = tuple(_axis_value(axis, by_name[axis.name]) for axis in experiment.axes)
    n = _whole(by_name, "n")
    if n is None:
        raise ValueError("n is empty; expected a whole number")
    cache = by_name["cache"]
    if cache not in ("hot", "cold"):
        raise ValueError(f"cache is {cache!r}; expected hot or cold")
    times: dict[str, Any] = {name: _estimate(by_name, name, n) for name in FIELDS}
    measurement = Measurement(
        **times,
        kernels=_whole(by_name, "kernels"),
        cache="hot" if cache == "hot" else "cold",
        sm_clock_hz=_number(by_name, "sm_clock_hz"),
        peak_bytes=_whole({MEMORY: "", **by_name}, MEMORY),
        device=device,
        flags=tuple(by_name["flags"].split(";")) if by_name["flags"] else (),
    )
    flop, moved, error = (_required(by_name, name) for name in ("flop", "bytes", "error"))
    return Row(point, by_name["variant"], replace(measurement, error=error), Cost(flop, moved), error, by_name["run"])


def _axis_value(axis: Axis, cell: str) -> Value:
    if axis.scale == "category":
        values = {str(value): value for value in axis.values}
        if cell not in values:
            raise ValueError(f"{axis.name} is {cell!r}; expected one of {', '.join(values)}")
        return values[cell]
    try:
        return int(cell) if axis.integer else float(cell)
    except ValueError:
        kind = "a whole number" if axis.integer else "a number"
        raise ValueError(f"{axis.name} is {cell!r}; expected {kind}") from None


def _number(cells: Mapping[str, str], name: str) -> float | None:
    if not cells[name]:
        return None
    try:
        return float(cells[name])
    except ValueError:
        raise ValueError(f"{name} is {cells[name]!r}; expected a number") from None


def _required(cells: Mapping[str, str], name: str) -> float:
    value = _number(cells, name)
    if value is None:
        raise ValueError(f"{name} is empty; expected a number")
    return value


def _whole(cells: Mapping[str, str], name: str) -> int | None:
    if not cells[name]:
        return None
    try:
        return int(cells[name])
    except ValueError:
        raise ValueError(f"{name} is {cells[name]!r}; expected a whole number") from None


def _estimate(cells: Mapping[str, str], name: Field, n: int) -> Estimate | None:
    median, low, high = (_number(cells, name + end) for end in ("", "_low", "_high"))
    if median is None and low is None and high is None:
        return None
    if median is None or low is None or high is None:
        raise ValueError(f"{name}: the median or one end of its interval is empty; expected all three or none")
    return Estimate(median, low, high, n)


def check_row(row: Row, experiment: Experiment) -> None:
    """ValueError that says what is wrong, unless the row is one that a machine can have measured."""
    for axis, value in zip(experiment.axes, row.point, strict=True):
        try:
            axis.checked("row", value)
        except ArgumentError as error:
            raise ValueError(str(error).removeprefix("row: ")) from None
    if row.variant not in (names := [variant.name for variant in experiment.variants]):
        raise ValueError(f"variant is {row.variant!r}; expected one of {', '.join(names)}")
    _check_times(row.measurement)
    _check_rest(row)
    _check_texts(row)


def _check_times(m: Measurement) -> None:
    found = {name: e for name in FIELDS if (e := m.get(name)) is not None}
    if not found:
        raise ValueError("holds no time at all")
    for name, e in found.items():
        _check_estimate(name, e)
    busy, span = m.busy_s, m.span_s
    if busy and span and busy.low > span.high * (1 + SPAN_SLACK) + SPAN_SLACK_S:
        raise ValueError(f"busy_s is {busy.median!r}, more than span_s, {span.median!r}; expected at most the span")


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
    if e.n < 1:
        raise ValueError(f"n is {e.n}; expected at least 1")


def _check_rest(row: Row) -> None:
    m = row.measurement
    if m.kernels is not None and m.kernels < 0:
        raise ValueError(f"kernels is {m.kernels}; expected at least 0")
    if m.peak_bytes is not None and m.peak_bytes < 0:
        raise ValueError(f"{MEMORY} is {m.peak_bytes}; expected at least 0")
    if m.sm_clock_hz is not None and not LOWEST_HZ <= m.sm_clock_hz <= HIGHEST_HZ:
        raise ValueError(
            f"sm_clock_hz is {m.sm_clock_hz!r}; expected {LOWEST_HZ:g} to {HIGHEST_HZ:g} Hz: is it in another unit?"
        )
    for name, value in (("flop", row.cost.flop), ("bytes", row.cost.bytes), ("error", row.error)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {value!r}; expected a finite number of at least 0")


def _check_texts(row: Row) -> None:
    texts = [("flags", flag) for flag in row.measurement.flags] + [("run", row.run)]
    for name, text in texts + [("axis", value) for value in row.point if isinstance(value, str)]:
        if not text or not text.isprintable():
            raise ValueError(f"{name} is {text!r}; expected printable text")
    for flag in row.measurement.flags:
        if ";" in flag:
            raise ValueError(f"flags holds {flag!r}; a flag may not hold a semicolon, which parts the flags")
