"""Where measurements come from: `Live("mps")`, `Live("cpu")` or `Recorded("h200")`, one interface;
and `Evidence`, what a claim may look at.

A recorded source has only the points that were recorded: it never invents one between.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import FIELDS, Badge, DeviceKind, Estimate, Field, Measurement, Point, Value
from brrr.gpu import is_queue
from brrr.gpu.datasheet import Hardware, find_hardware, hardware
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.expression import Table

if TYPE_CHECKING:
    from brrr.tracing.timeline import Timeline


Key = tuple[Value, ...]
"""A point's values in the order of the axes."""
Shown = Mapping[str, Collection[Key]]
"""What a figure shows of an experiment: of each variant the points."""


class Source(Protocol):
    """One interface over measuring now and having measured before."""

    @property
    def name(self) -> str:
        """`recorded:h200`, `cuda`, `mps` or `cpu`: what `BRRR_SOURCE` takes."""

    @property
    def kind(self) -> DeviceKind:
        """The kind of its machine: that of its accelerator, else "cpu"."""

    @property
    def live(self) -> bool:
        """Whether asking for a point may start a measurement."""

    def badge(self, experiment: Experiment, shown: Shown | None = None) -> Badge:
        """What stands on the figure: of all that there is of the experiment, or of what is shown."""

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        """The variants that this source can show, in the experiment's order."""

    def values(self, experiment: Experiment, axis: str) -> tuple[Value, ...]:
        """The values that a slider of this axis snaps to."""

    def known(self, experiment: Experiment, variant: str) -> Mapping[tuple[Value, ...], Measurement]:
        """What is there without measuring: from the point's values, in the order of the axes, to the measurement."""

    def measure(self, experiment: Experiment, variant: str, point: Point) -> Measurement:
        """The measurement at the point; NotRecordedError (naming the nearest) where a recording lacks it."""

    def measure_together(self, experiment: Experiment, variants: Sequence[str], point: Point) -> None:
        """Measure what is not known yet of a point, the variants in turn, so that their ratios come from one run.

        `measure` then gives each; what could not be measured raises there.
        """

    def drifts(self, experiment: Experiment) -> Mapping[tuple[str, str], float]:
        """Which times were another when measured again later: from variant and field to the largest share it was."""

    def traced(self, experiment: Experiment, variant: str) -> tuple[dict[str, Value], ...]:
        """The points whose timeline is there without tracing, in the order of `Experiment.traces`."""

    def timeline(self, experiment: Experiment, variant: str, point: Point) -> Timeline:
        """The timeline at the point, traced now where the source is live; else NotRecordedError where there is none."""


class Turn(Protocol):
    """A measurement that waits for its turn on a device that others use too."""

    @property
    def said(self) -> str:
        """Where it stands: its place in the queue, or that it runs."""

    def done(self) -> bool:
        """Whether it has ended, well or not; may take some seconds to say so."""

    def cancel(self) -> None:
        """Take it back, also while it runs."""


@runtime_checkable
class Shared(Protocol):
    """A source whose device others use too, so that measuring there means waiting."""

    def turn(self, experiment: Experiment, variants: Sequence[str], point: Point) -> Turn:
        """Ask for variants of a point, without waiting; the source knows them when the turn is done."""


def quick() -> bool:
    """Whether `BRRR_QUICK=1` asks for small live grids."""
    return os.environ.get("BRRR_QUICK", "") not in ("", "0")


# ---------------------------------------------------------------------------------------------------------------------
# What a claim may look at, and the verdict that follows from it.

SINGLE_CALL = 0.1

Pair = tuple[Field, Field]
AT_MOST: list[Pair] = [
    ("host_s", "latency_s"), ("host_s", "period_s"), ("busy_s", "span_s"), ("span_s", "latency_s"),
    ("busy_s", "period_s"),
]  # fmt: skip
"""Of each pair the first is at most the second; `busy_s` and `period_s` only where no kernels overlap, for calls whose
kernels do may overlap each other in a loop. `kernel_s` stands in none: kernels of several streams add up to more than
the device is busy, and copies are no kernels."""
SLACK, SLACK_S = 0.03, 0.5e-6
"""How far it may be above, beyond both intervals: the accuracy that the two timers promise, for they measure apart."""


def broken(m: Measurement) -> list[Pair]:
    """The pairs of `AT_MOST` that a measurement breaks.

    >>> broken(Measurement(busy_s=Estimate(4e-6, 4e-6, 4e-6, 9), period_s=Estimate(3e-6, 3e-6, 3e-6, 9)))
    [('busy_s', 'period_s')]
    """
    found = [pair for pair in AT_MOST
             if (less := getattr(m, pair[0])) and (more := getattr(m, pair[1])) and less.low > more.high
             and _above(less, more)]  # fmt: skip
    if ("busy_s", "period_s") in found and _above(m.kernel_s, m.busy_s):
        found.remove(("busy_s", "period_s"))
    return found


def _above(one: Estimate | None, other: Estimate | None) -> bool:
    return one is not None and other is not None and one.low - other.high > max(SLACK * other.high, SLACK_S)


@dataclass(frozen=True)
class Evidence:
    """What a claim may look at: the measurements that a source already has of one experiment."""

    experiment: Experiment
    source: Source
    doubts: dict[tuple[str, Key, Pair], None] = field(default_factory=dict, compare=False, repr=False)
    """The times read so far that break a pair of `AT_MOST`: variant, point and pair."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "experiment", self.experiment.on(self.source.kind))

    @property
    def doubted(self) -> str:
        """How many of the rows read so far cannot be right, and why; empty where all can."""
        pairs = Counter(pair for *_, pair in self.doubts)
        said = [f"in {n} of its rows {less} is longer than {more}" for (less, more), n in pairs.items()]
        return f"{', '.join(said)}, which cannot be: distrust a verdict near its bound." if said else ""

    def _time(self, variant: str, key: Key, measured: Measurement, name: str) -> Estimate | None:
        found = measured.get(name)
        if found is not None:
            self.doubts.update(((variant, key, pair), None) for pair in broken(measured) if name in pair)
        return found and _widened(found)

    def known(self, variant: str) -> Mapping[Key, Measurement]:
        """All that the source has of a variant."""
        return self.source.known(self.experiment, variant)

    def get(self, line: str, **at: Value) -> Estimate:
        """The time that a line shows at a point; NotRecordedError where it was not measured."""
        point = self.experiment.point(**at)
        found: Mapping[Key, Estimate] = self._of_line(line, point).values
        if not found:
            where = ", ".join(f"{name} {value}" for name, value in point.items())
            raise NotRecordedError(f"{line} at {where} was not measured")
        return found[()]

    def everywhere(self, line: str) -> Mapping[Key, Estimate]:
        """A line at every point that was measured: from the point's values, in the order of the axes, to the time."""
        return self._of_line(line, {}).values

    def curve(self, line: str, axis: str, **at: Value) -> dict[Value, Estimate]:
        """A line along one axis, the other axes held at `at`: from the axis's value to the time."""
        along, found = self.experiment.axis(axis), self._of_line(line, at)
        if not found.values or found.axes != (axis,):
            raise NotRecordedError(f"no point of {line} was measured")
        order = along.values.index if along.scale == "category" else float
        return {value: found.values[value,] for value in sorted((value for (value,) in found.values), key=order)}

    def _of_line(self, line: str, at: Mapping[str, Any]) -> Table:
        drawn = self.experiment.line(line)
        return self.table(drawn.variant, drawn.field, at, alone=True)

    def table(self, variant: str, column: str, at: Mapping[str, Any], alone: bool = False) -> Table:
        """A column of a variant, or of what stands in for it, by the axes that `at` gives no single value for.

        `at` gives an axis a value, a list of values, or a function that says which values are meant. Nothing stands in
        for a variant that is read `alone`.
        """
        for name in at:
            self.experiment.axis(name)
        axes = [axis.name for axis in self.experiment.axes]
        is_open = [isinstance(at.get(axis, []), list) or callable(at[axis]) for axis in axes]
        found: dict[Key, Any] = {}
        for each, its_column in [(variant, column)] if alone else self._stands_for(variant, column):
            for key, measured in self._points(each, at).items():
                value = self._value(each, its_column, key, measured)
                if value is not None:
                    found[tuple(value for value, free in zip(key, is_open, strict=True) if free)] = value
            if found:
                break
        queue = bool(found) and is_queue(self.experiment.variant(each).device)
        return Table(tuple(axis for axis, free in zip(axes, is_open, strict=True) if free), found, queue)

    def _points(self, variant: str, at: Mapping[str, Any]) -> Mapping[Key, Measurement]:
        """What is known of a variant where `at` says to look."""
        known = self.source.known(self.experiment, variant)
        wanted: Any = tuple(at.get(axis.name) for axis in self.experiment.axes)
        if all(isinstance(value, int | float | str) for value in wanted):  # most claims name points, of very many
            return {wanted: known[wanted]} if wanted in known else {}
        keys = list(known)
        for place, this in enumerate(wanted):
            meant = {value for value in {key[place] for key in keys} if fits(value, this)}
            keys = [key for key in keys if key[place] in meant]
        return {key: known[key] for key in keys}

    def _value(self, variant: str, column: str, key: Key, measured: Measurement) -> Any:
        if column in ("flop", "bytes"):
            cost = self.experiment.cost_at(variant, self.experiment.point(**self._named(key)))
            return cost and float(getattr(cost, column))
        if column not in FIELDS:
            return getattr(measured, column)
        return self._time(variant, key, measured, column)

    def _named(self, key: Key) -> dict[str, Value]:
        return {axis.name: value for axis, value in zip(self.experiment.axes, key, strict=True)}

    def _stands_for(self, variant: str, column: str) -> list[tuple[str, str]]:
        """A variant and its column; those of the line that stands in for it where there is no GPU."""
        self.experiment.variant(variant)
        if self.source.known(self.experiment, variant):
            return [(variant, column)]
        here = self.source.variants(self.experiment)
        lines = [line for line in self.experiment.lines if line.variant == variant]
        lines = [line for line in lines if line.field == column] or lines
        twins = [twin for line in lines if (twin := self.experiment.available(line.name, here))]
        return [(twin.variant, twin.field if column in FIELDS else column) for twin in twins]

    def twin_curve(self, line: str, axis: str, **at: Value) -> dict[int, Estimate]:
        """A line along a numeric axis, the others held; that of the CPU queue where the line itself is missing."""
        there = self.experiment.available(line, self.source.variants(self.experiment))
        return {int(size): time for size, time in self.curve(there.name if there else line, axis, **at).items()}

    def traced(self, variant: str, figure: str, **at: Value) -> float:
        """A figure of a variant's `Timeline`, or of the CPU queue's, at its first point; of `streams` their number.

        >>> from brrr_course.experiments import experiment
        >>> from brrr_course.sources import source
        >>> evidence = Evidence(experiment("nested_sine"), source("recorded:h200"))
        >>> evidence.traced("gpu-transfers", "streams", elements=2**28)
        1

        NotRecordedError where it was not traced before: a claim traces nothing.
        """
        twins = [each.name for each in self.experiment.variants if variant in self.experiment.stands_for(each.name)]
        for name in (variant, *twins):
            for point in self.source.traced(self.experiment, name):
                if at.items() <= point.items():
                    found = getattr(self.source.timeline(self.experiment, name, point), figure)
                    return len(found) if isinstance(found, tuple) else found or 0.0
        raise NotRecordedError(f"there is no timeline of {variant} at {', '.join(f'{k} {v}' for k, v in at.items())}")

    def datasheet(self) -> Hardware:
        """The datasheet of the device that was measured; NotRecordedError where the course has none of it."""
        device = self.source.badge(self.experiment).device
        found = find_hardware(device)
        if found is None:
            raise NotRecordedError(f"there is no datasheet of {device or 'this device'} here")
        return found

    def sheet(self, *names: str) -> float:
        """A figure of the device's datasheet, or of the one named before it: a peak by its type, or a field of it."""
        *device, figure = names
        found = hardware(device[0]) if device else self.datasheet()
        if figure == "host_link_bytes_per_s" and found.host_link:
            return found.host_link.bytes_per_s
        if hasattr(found, figure) and not getattr(found, figure):
            raise NotRecordedError(f"the datasheet of {found.name} does not tell {figure}")
        return float(getattr(found, figure, None) or found.peak(figure))


def fits(value: Value, wanted: Any) -> bool:
    """Whether an axis's value is the one meant, or one of those."""
    if wanted is None or callable(wanted):
        return wanted is None or bool(wanted(value))
    return value in wanted if isinstance(wanted, list) else value == wanted


def _widened(estimate: Estimate) -> Estimate:
    """A single call has no interval; a claim allows it a tenth either way, so that it cannot hold by a hair."""
    if estimate.n > 1:
        return estimate
    low, high = (1 - SINGLE_CALL) * estimate.median, (1 + SINGLE_CALL) * estimate.median
    return Estimate(estimate.median, min(estimate.low, low), max(estimate.high, high), estimate.n)
