"""Two times that were measured at different clocks: their ratio as measured, and in cycles.

A power limit pulls the SM clock down, for what comes right behind the work that drew the power too. A ratio of two
times then compares clocks as well as ways. Products are bound by arithmetic, whose time goes as 1 / clock, so that
time x clock, in cycles, puts both at one clock.

>>> slow, fast = Clocked("sgemm", Estimate(3.0, 3.0, 3.0, 9), 1.4e9), Clocked("S1", Estimate(1.5, 1.5, 1.5, 9), 2e9)
>>> print(Compared.of(slow, fast).told)
1.4x (1.4x to 1.4x) in cycles, 2x (2x to 2x) as measured (sgemm at 1.4 GHz, S1 at 2 GHz)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from brrr import units
from brrr.claim import Evidence, Status, three_way
from brrr.experiments.judging import over, shown
from brrr.experiments.strassen_ratios import clock_of
from brrr.measurement import Estimate

APART = 0.05
"""Clocks that differ by more than this share of the higher one are two clocks."""

DECIDES = ("; where their SM clocks are over 5 % apart, in cycles (time x clock) too: the less favourable of both "
           "ratios counts")  # fmt: skip
"""What a claim on such a ratio adds to what it says it compares."""

TOO_FAR = "at clocks so far apart it is not decided"

Ratio = tuple[float, float, float]


@dataclass(frozen=True)
class Clocked:
    """A line's time, and the SM clock it ran at in Hz; None where nobody told it."""

    line: str
    time: Estimate
    clock_hz: float | None

    @classmethod
    def of(cls, evidence: Evidence, line: str, n: int, time: Estimate) -> Clocked:
        """A line's time at a size, with its clock."""
        return cls(line, time, clock_of(evidence, line, n))


@dataclass(frozen=True)
class Compared:
    """The ratio of two times as (middle, low, high): as measured, and in cycles where their clocks are apart."""

    measured: Ratio
    cycles: Ratio | None
    clocks: str

    @classmethod
    def of(cls, one: Clocked, other: Clocked) -> Compared:
        """One time over the other."""
        measured = over(one.time, other.time)
        if not one.clock_hz or not other.clock_hz or not apart((one.clock_hz, other.clock_hz)):
            return cls(measured, None, "")
        change = one.clock_hz / other.clock_hz
        low, middle, high = (change * measured[i] for i in (1, 0, 2))
        told = [f"{each.line} at {units.quantity(each.clock_hz or 0.0, 'Hz')}" for each in (one, other)]
        return cls(measured, (middle, low, high), ", ".join(told))

    @property
    def ratios(self) -> tuple[Ratio, ...]:
        """Both ratios, or the one where the clocks are alike."""
        return (self.measured,) if self.cycles is None else (self.measured, self.cycles)

    @property
    def told(self) -> str:
        """The ratio, or both with the two clocks."""
        if self.cycles is None:
            return shown(self.measured)
        return f"{shown(self.cycles)} in cycles, {shown(self.measured)} as measured ({self.clocks})"

    @property
    def smaller(self) -> float:
        """The smaller of the ratios: no more than this is certain."""
        return min(ratio[0] for ratio in self.ratios)

    def at_least(self, threshold: float) -> Status:
        """Whether the ratio reaches a threshold: *holds* and *fails* only where both ratios say so."""
        return agreed([three_way(low, high, threshold) for _, low, high in self.ratios])

    def at_most(self, threshold: float) -> Status:
        """Whether the ratio stays at or below a threshold, by both ratios."""
        return agreed([three_way(-high, -low, -threshold) for _, low, high in self.ratios])

    def reason(self, status: Status) -> str:
        """Why nothing is decided, if the clocks are why."""
        return f"; {TOO_FAR}" if status == "undecided" and self.cycles is not None else ""


def agreed(found: Iterable[Status]) -> Status:
    """The verdict that all share, else *undecided*.

    >>> agreed(["holds", "fails"]), agreed(["holds", "holds"])
    ('undecided', 'holds')
    """
    each = set(found)
    return each.pop() if len(each) == 1 else "undecided"


def apart(clocks: Iterable[float | None]) -> bool:
    """Whether the lowest of some clocks is further below the highest than `APART`; those unknown are left out.

    >>> apart([1.98e9, 1.90e9, None]), apart([1.98e9, 1.40e9])
    (False, True)
    """
    known = [each for each in clocks if each]
    return bool(known) and min(known) < (1 - APART) * max(known)


def clocks_note(clocks: Iterable[float | None]) -> str:
    """A sentence for times that stand beside each other though they were measured at different clocks, else nothing.

    >>> clocks_note([1.98e9, 1.40e9])
    ' As measured, at SM clocks of 1.4 GHz to 1.98 GHz: a power limit held some back.'
    """
    known = [each for each in clocks if each]
    if not apart(known):
        return ""
    low, high = (units.quantity(each, "Hz") for each in (min(known), max(known)))
    return f" As measured, at SM clocks of {low} to {high}: a power limit held some back."
