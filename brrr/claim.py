"""A claim: a sentence of a lesson as a predicate over measurements; its verdict is computed, per device.

A verdict is *holds*, *fails* (with the numbers), *undecided* (the interval straddles) or *not measured*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from brrr import units
from brrr.errors import NotRecordedError
from brrr.measurement import Estimate

if TYPE_CHECKING:
    from brrr.experiment import Experiment, Value
    from brrr.source import Source

SINGLE_CALL = 0.1
Status = Literal["holds", "fails", "undecided", "not measured"]


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds on a device, with the measured value that decides it.

    >>> print(Verdict("holds", "2.4x at size 4096"))
    holds: 2.4x at size 4096
    """

    status: Status
    measured: str

    def __str__(self) -> str:
        return f"{self.status}: {self.measured}"


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


@dataclass(frozen=True)
class Claim:
    """A sentence with its source and the predicate that judges it.

    `judge` takes an `Evidence` and returns a `Verdict`; `decides` says in words what is compared, with its tolerance,
    the field and the cache state.
    """

    name: str
    text: str
    source: str
    decides: str
    judge: Callable[[Evidence], Verdict]

    def verdict(self, experiment: Experiment, source: Source) -> Verdict:
        """The verdict on the measurements that `source` has; *not measured* where it lacks one."""
        try:
            return self.judge(Evidence(experiment, source))
        except NotRecordedError as missing:
            return Verdict("not measured", str(missing))


def ratio_verdict(over: Estimate, under: Estimate, at_least: float, what: str) -> Verdict:
    """Whether `over / under >= at_least`, on the 95 % intervals: the verdict of "A is at least k times B".

    >>> ratio_verdict(Estimate(4.0, 3.9, 4.1, 9), Estimate(2.0, 1.9, 2.1, 9), 1.5, "eager over graph")
    Verdict(status='holds', measured='eager over graph is 2x (1.86x to 2.16x), at least 1.5x was claimed')
    """
    middle, low = over.median / under.median, over.low / under.high
    high = over.high / under.low if under.low else float("inf")  # a clock's tick may reach down to zero
    text = f"{what} is {units.ratio(middle)} ({units.ratio(low)} to {units.ratio(high)})"
    return Verdict(three_way(low, high, at_least), f"{text}, at least {units.ratio(at_least)} was claimed")


def band_verdict(value: tuple[float, float, float], low: float, high: float, text: str) -> Verdict:
    """Whether a value `(middle, low, high)` lies inside `low` to `high` with its whole interval."""
    if low <= value[1] and value[2] <= high:
        return Verdict("holds", text)
    if value[2] < low or value[1] > high:
        return Verdict("fails", text)
    return Verdict("undecided", text)


def three_way(low: float, high: float, threshold: float) -> Status:
    """*holds* if the whole interval reaches the threshold, *fails* if none of it does, else *undecided*."""
    if low >= threshold:
        return "holds"
    return "fails" if high < threshold else "undecided"
