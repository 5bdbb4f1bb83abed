"""A claim: a sentence of a lesson as a predicate over measurements; its verdict is computed, per device.

A verdict is *holds*, *fails* (with the numbers), *undecided* (the interval straddles) or *not measured*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    ratio = over / under
    return Verdict(not_below(ratio, at_least), f"{what} is {ratio:x}, at least {units.ratio(at_least)} was claimed")


def band_verdict(value: Estimate, low: float, high: float, text: str) -> Verdict:
    """Whether a value lies inside `low` to `high` with its whole interval."""
    if low <= value.low and value.high <= high:
        return Verdict("holds", text)
    return Verdict("fails" if value.high < low or value.low > high else "undecided", text)


def not_below(value: Estimate, bound: float) -> Status:
    """*holds* if the whole interval reaches the bound, *fails* if none of it does, else *undecided*."""
    if value.low >= bound:
        return "holds"
    return "fails" if value.high < bound else "undecided"


def not_above(value: Estimate, bound: float) -> Status:
    """*holds* if the whole interval stays at or below the bound, *fails* if none of it does, else *undecided*."""
    if value.high <= bound:
        return "holds"
    return "fails" if value.low > bound else "undecided"


def opposite(status: Status) -> Status:
    """The verdict on the contrary: *holds* and *fails* change places."""
    return {"holds": "fails", "fails": "holds"}.get(status, status)  # type: ignore[return-value]


def weakest(statuses: Iterable[Status]) -> Status:
    """The verdict on "all of them": *fails* if one does, *holds* if all do.

    >>> weakest(["holds", "undecided"])
    'undecided'
    """
    return min(statuses, key=("fails", "undecided", "holds").index)
