"""A row of a recording: a variant at a point, its six times, and the rules that every row must keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from brrr.core.measurement import FIELDS, Cache, Estimate, Field, Measurement, Point, Value
from brrr.counting.cost import Cost
from brrr_course.nouns.experiment import LARGEST, Axis, Experiment
from brrr_course.nouns.source import SLACK_S, broken
from brrr_course.nouns.table import Column, cells_of, values_of

SHORTEST_S, LONGEST_S = 1e-9, 1e4
"""Times outside are a slip of the unit: microseconds or nanoseconds written where seconds belong."""
HZ = (1e7, 1e10, "Hz")
"""What a clock can be on any machine; as all limits here, most outside are slips of the unit, as MHz for Hz."""
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

COLUMNS = (
    Column("kernels", int, 0, 1e9, may_be_empty=True),
    Column("cache", among={each: each for each in get_args(Cache)}),
    Column("sm_clock_hz", float, *HZ, may_be_empty=True),
    Column("flop", float, 0, 1e30, "FLOP"),
    Column("bytes", float, 0, 1e18, "bytes"),
    Column("error", float, 0, 1e4),
    Column("flags", tuple, may_be_empty=True),
    Column("run"),
    Column("peak_bytes", int, 0, 1e15, "bytes", may_be_empty=True, optional=True),
    Column("estimated_s", float, SHORTEST_S, LONGEST_S, "seconds", may_be_empty=True, optional=True),
    Column("launched", tuple, may_be_empty=True, optional=True),
    Column("power_w", float, 1.0, 1e4, "W", may_be_empty=True, optional=True),
)
OF_ROW = ("flop", "bytes", "run")
"""What stands in the row itself, and not in its measurement."""
TIMES = {
    name: (
        Column(name, float, SHORTEST_S, LONGEST_S, "seconds", may_be_zero=name in MAY_BE_ZERO, may_be_empty=True),
        Column(f"{name}_low", float, 0, LONGEST_S, "seconds", may_be_empty=True),
        Column(f"{name}_high", float, 0, LONGEST_S, "seconds", may_be_empty=True),
        Column(f"{name}_n", int, 1, 1e9, may_be_empty=True),
    )
    for name in FIELDS
}
"""The four columns of each time."""


def columns(experiment: Experiment) -> list[Column]:
    """The columns of the experiment's CSV, in the order in which they are written."""
    times = (each for four in TIMES.values() for each in four)
    every = (*map(_of_axis, experiment.axes), Column("variant"), *times, *COLUMNS)
    return [*{each.name: each for each in every}.values()]  # one of the axes may be `cache`


def _of_axis(axis: Axis) -> Column:
    if axis.scale == "category":
        return Column(axis.name, among={str(value): value for value in axis.values})
    return Column(axis.name, int, 1, LARGEST) if axis.integer else Column(axis.name, float, 1e-300, LARGEST)


def to_cells(row: Row, experiment: Experiment) -> dict[str, str]:
    """The row's cells by column, from which `from_cells` makes it again; ValueError where they cannot be such."""
    m, point = row.measurement, dict(zip([axis.name for axis in experiment.axes], row.point, strict=True))
    if point.get("cache", m.cache) != m.cache:
        raise ValueError(f"cache is {m.cache!r}; expected that of the point, {point['cache']!r}")
    told = {"flop": row.cost.flop, "bytes": row.cost.bytes, "error": row.error, "run": row.run}
    values: dict[str, Any] = {**vars(m), **told, **point, "variant": row.variant}
    for name, four in TIMES.items():
        e = m.get(name)
        values |= zip([each.name for each in four], (e.median, e.low, e.high, e.n) if e else [None] * 4, strict=True)
    return cells_of(columns(experiment), values)


def row_of(values: Mapping[str, Any], experiment: Experiment, device: str) -> Row:
    """The row of the values by column; ValueError unless a machine can have measured it."""
    fours = {name: [values[each.name] for each in four] for name, four in TIMES.items()}
    times: dict[str, Any] = {name: Estimate(*four) for name, four in fours.items() if in_order(name, *four)}
    told = {each.name: values[each.name] for each in COLUMNS if each.name not in OF_ROW}
    measurement = Measurement(**times, **told, device=device)
    _check_times(measurement, times)
    cost = Cost(values["flop"], values["bytes"])
    point = tuple([values[axis.name] for axis in experiment.axes])
    return Row(point, values["variant"], measurement, cost, values["error"], values["run"])


def from_cells(cells: Mapping[str, str], experiment: Experiment, device: str) -> Row:
    """The row from its cells by column, checked; ValueError says which column is wrong and why."""
    return row_of(values_of(columns(experiment), cells), experiment, device)


def check_row(row: Row, experiment: Experiment) -> dict[str, str]:
    """The row's cells; ValueError says what is wrong, unless the row is one that a machine can have measured."""
    cells = to_cells(row, experiment)
    from_cells(cells, experiment, row.measurement.device)
    return cells


def in_order(name: str, *parts: Any) -> bool:
    """Whether a figure is there: its median, the ends of its interval, and n; ValueError where only a part is."""
    if None in parts:
        if any(each is not None for each in parts):
            raise ValueError(f"{name}: the median, one end of its interval or n is empty; expected all of them or none")
        return False
    median, low, high, *_ = parts
    if not low <= median <= high:
        raise ValueError(f"{name} is {median!r}; expected it in its interval, {low!r} to {high!r}")
    return True


def _check_times(m: Measurement, found: Mapping[str, Estimate]) -> None:
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
