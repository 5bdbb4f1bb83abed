"""What a claim may look at, and the verdict that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate

if TYPE_CHECKING:
    from brrr.core.values import Value
    from brrr.course.nouns.experiment import Experiment
    from brrr.course.nouns.source import Source

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
