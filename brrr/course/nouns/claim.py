"""A claim: a sentence of a lesson as a predicate over measurements; its verdict is computed, per device.

A verdict is *holds*, *fails* (with the numbers), *undecided* (the interval straddles) or *not measured*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate

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
class Claim:
    """A sentence with its source and the predicate that judges it.

    `judge` takes an `Evidence` and returns a `Verdict`; `decides` says in words what is compared, with its tolerance,
    the field and the cache state.
    """

    name: str
    text: str
    source: str
    decides: str
    judge: Callable[[Any], Verdict]  # of an `Evidence`, which knows experiments and sources

    def verdict(self, evidence: Any) -> Verdict:
        """The verdict on this evidence; *not measured* where it lacks what the claim looks at."""
        try:
            return self.judge(evidence)
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
