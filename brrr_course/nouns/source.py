"""Where measurements come from: `Live("cuda")`, `Live("cpu")` or `Recorded("h200")`, one interface;
and `Evidence`, what a claim may look at.

A recorded source has only the points that were recorded: it never invents one between.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Badge, Estimate, Measurement, Point, Value
from brrr_course.nouns.experiment import Experiment

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
        """`recorded:h200`, `cuda` or `cpu`: what `BRRR_SOURCE` takes."""

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


@dataclass(frozen=True)
class Evidence:
    """What a claim may look at: the measurements that a source already has of one experiment."""

    experiment: Experiment
    source: Source

    def get(self, line: str, **at: Value) -> Estimate:
        """The time that a line shows at a point; NotRecordedError where it was not measured."""
        drawn = self.experiment.line(line)
        point = self.experiment.point(**at)
        found = self.source.known(self.experiment, drawn.variant).get(tuple(point.values()))
        estimate = found.get(drawn.field) if found else None
        if estimate is None:
            where = ", ".join(f"{name} {value}" for name, value in point.items())
            raise NotRecordedError(f"{line} at {where} was not measured")
        return _widened(estimate)

    def everywhere(self, line: str) -> dict[tuple[Value, ...], Estimate]:
        """A line at every point that was measured: from the point's values, in the order of the axes, to the time."""
        drawn = self.experiment.line(line)
        known = self.source.known(self.experiment, drawn.variant).items()
        found = {values: measured.get(drawn.field) for values, measured in known}
        return {values: _widened(estimate) for values, estimate in found.items() if estimate is not None}

    def curve(self, line: str, axis: str, **at: Value) -> dict[Value, Estimate]:
        """A line along one axis, the other axes held at `at`: from the axis's value to the time."""
        drawn = self.experiment.line(line)
        names = [a.name for a in self.experiment.axes]
        along = names.index(self.experiment.axis(axis).name)
        curve: dict[Value, Estimate] = {}
        for values, measured in self.source.known(self.experiment, drawn.variant).items():
            rest = {name: value for name, value in zip(names, values, strict=True) if name != axis}
            estimate = measured.get(drawn.field)
            if estimate is not None and rest == at:
                curve[values[along]] = _widened(estimate)
        if not curve:
            raise NotRecordedError(f"no point of {line} was measured")
        if self.experiment.axis(axis).scale == "category":
            return {value: curve[value] for value in self.experiment.axis(axis).values if value in curve}
        return dict(sorted(curve.items(), key=lambda item: float(item[0])))


def _widened(estimate: Estimate) -> Estimate:
    """A single call has no interval; a claim allows it a tenth either way, so that it cannot hold by a hair."""
    if estimate.n > 1:
        return estimate
    low, high = (1 - SINGLE_CALL) * estimate.median, (1 + SINGLE_CALL) * estimate.median
    return Estimate(estimate.median, min(estimate.low, low), max(estimate.high, high), estimate.n)
