"""What the claims and pictures on Strassen's algorithm share: the fastest way of several, errors, growth by level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Measurement
from brrr.core.values import Value
from brrr.course.experiments.strassen.ways import way_of
from brrr.course.nouns.claim import Status, not_above, not_below
from brrr.course.nouns.evidence import Evidence
from brrr.course.nouns.experiment import Experiment
from brrr.course.nouns.source import Source

IN_ORDER = "ffma"
"""The classical product that sums over k in order, whatever the size."""

Known = dict[tuple[Value, ...], Measurement]
Errors = dict[tuple[Value, ...], float]


@dataclass(frozen=True)
class Timed:
    """A line at a size: its time."""

    line: str
    time: Estimate


def fastest(evidence: Evidence, lines: Sequence[str], n: int) -> Timed:
    """The fastest of several lines at a size, of those measured there; NotRecordedError where none was."""
    found, missing = [], ""
    for line in lines:
        try:
            found.append(Timed(line, evidence.get(line, size=n)))
        except NotRecordedError as error:
            missing = missing or str(error)
    if not found:
        raise NotRecordedError(missing or f"there is no line to measure at size {n}")
    return min(found, key=lambda timed: timed.time.median)


def all_known(source: Source, experiment: Experiment, variant: str) -> Known:
    """What is known of a variant; taken whole, so that a recording's plan sees no single point asked for."""
    return dict(source.known(experiment, variant).items())


def error_at(source: Source, experiment: Experiment, variant: str, point: tuple[Value, ...]) -> float | None:
    """The relative error of a variant's result at a point; None where it was not measured."""
    measured = all_known(source, experiment, variant).get(point)
    return measured.error if measured is not None else None


def error_of(evidence: Evidence, line: str, n: int) -> float:
    """The relative error of a line's result at a size; NotRecordedError where nobody told it."""
    variant = evidence.experiment.line(line).variant
    found = error_at(evidence.source, evidence.experiment, variant, (n,))
    if found is None:
        raise NotRecordedError(f"the error of {line} at size {n} was not measured")
    return found


def clock_of(evidence: Evidence, line: str, n: int) -> float | None:
    """The SM clock that a line ran at, in Hz; None where nobody told it."""
    variant = evidence.experiment.line(line).variant
    measured = all_known(evidence.source, evidence.experiment, variant).get((n,))
    return measured.sm_clock_hz if measured is not None else None


@dataclass(frozen=True)
class Growth:
    """How many times larger the error is a level, against the classical product's at the same point."""

    variant: str
    point: tuple[Value, ...]
    per_level: float


def growths(
    source: Source, experiment: Experiment, form: str, inners: Sequence[str], *, in_order: bool = True
) -> list[Growth]:
    """The growth of a form's error at every point, over a classical product: with L levels the L-th root of the ratio.

    `in_order`: over the product that sums k in order (`ffma`) where its error was measured, and then of GPU ways alone;
    else over that with the same inner product, which a library may sum in parts: a smaller error to start from.
    """
    ordered = _errors_of(source, experiment, IN_ORDER) if in_order else {}
    found = []
    for name in source.variants(experiment):
        way = way_of(name)
        if way is None or way.form != form or way.inner not in inners or (ordered and name != way.name):
            continue
        plain = _errors_of(source, experiment, classical(name)) | ordered
        found += _growths_of(source, experiment, name, way.level, plain)
    return found


def _growths_of(source: Source, experiment: Experiment, variant: str, level: int, known: Errors) -> list[Growth]:
    found = []
    for point, measured in all_known(source, experiment, variant).items():
        plain = known.get(point)
        if plain and measured.error is not None:
            found.append(Growth(variant, point, (measured.error / plain) ** (1 / level)))
    return found


def _errors_of(source: Source, experiment: Experiment, variant: str) -> Errors:
    """A variant's error at every point where it was measured."""
    if variant not in source.variants(experiment):
        return {}
    known = all_known(source, experiment, variant)
    return {point: measured.error for point, measured in known.items() if measured.error is not None}


def classical(variant: str) -> str:
    """The variant without levels that has the same inner product on the same device.

    >>> classical("cpu-sgemm-winograd-2-prepared")
    'cpu-sgemm'
    """
    way = way_of(variant)
    assert way is not None
    return variant[: variant.index(way.name)] + way.inner


def largest_growth(found: Sequence[Growth]) -> Growth:
    """The point where the error grows most; NotRecordedError where there is none."""
    if not found:
        raise NotRecordedError("no error of a way with levels was measured beside the classical product's")
    return max(found, key=lambda each: each.per_level)


# ---------------------------------------------------------------------------------------------------------------------
# Two times that were measured at different clocks: their ratio as measured, and in cycles.

APART = 0.05
"""Clocks that differ by more than this share of the higher one are two clocks."""

DECIDES = ("; where their SM clocks are over 5 % apart, in cycles (time x clock) too: the less favourable of both "
           "ratios counts")  # fmt: skip
"""What a claim on such a ratio adds to what it says it compares."""

TOO_FAR = "at clocks so far apart it is not decided"


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
    """The ratio of two times: as measured, and in cycles where their clocks are apart."""

    measured: Estimate
    cycles: Estimate | None
    clocks: str

    @classmethod
    def of(cls, one: Clocked, other: Clocked) -> Compared:
        """One time over the other."""
        measured = one.time / other.time
        if not one.clock_hz or not other.clock_hz or not apart((one.clock_hz, other.clock_hz)):
            return cls(measured, None, "")
        told = [f"{each.line} at {units.quantity(each.clock_hz or 0.0, 'Hz')}" for each in (one, other)]
        return cls(measured, measured * (one.clock_hz / other.clock_hz), ", ".join(told))

    @property
    def ratios(self) -> tuple[Estimate, ...]:
        """Both ratios, or the one where the clocks are alike."""
        return (self.measured,) if self.cycles is None else (self.measured, self.cycles)

    @property
    def told(self) -> str:
        """The ratio, or both with the two clocks."""
        if self.cycles is None:
            return f"{self.measured:x}"
        return f"{self.cycles:x} in cycles, {self.measured:x} as measured ({self.clocks})"

    @property
    def smaller(self) -> float:
        """The smaller of the ratios: no more than this is certain."""
        return min(ratio.median for ratio in self.ratios)

    def at_least(self, threshold: float) -> Status:
        """Whether the ratio reaches a threshold: *holds* and *fails* only where both ratios say so."""
        return agreed(not_below(ratio, threshold) for ratio in self.ratios)

    def at_most(self, threshold: float) -> Status:
        """Whether the ratio stays at or below a threshold, by both ratios."""
        return agreed(not_above(ratio, threshold) for ratio in self.ratios)

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
