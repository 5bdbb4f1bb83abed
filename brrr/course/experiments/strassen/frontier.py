"""Time against error: every way of multiplying at one size, and which of them others beat in both.

>>> [p.variant for p in undominated([Place("a", 1.0, 1e-3), Place("b", 2.0, 1e-3), Place("c", 3.0, 1e-6)])]
['a', 'c']
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.measurement import Estimate
from brrr.course.experiments.strassen.ratios import all_known, error_at
from brrr.course.experiments.strassen.theory import operand_of
from brrr.course.experiments.strassen.ways import CPU, accuracy_of, asked, way_of
from brrr.course.nouns.evidence import Evidence
from brrr.course.nouns.experiment import Experiment, Line
from brrr.course.nouns.source import Source

CLOSE = 1.05
"""Two errors this near count as equal, as `brrr.strassen.accuracy` has it."""

PROMISED = {"fp32": "sgemm", "tf32": "tf32", "bf16": "bf16"}
"""Whose error an accuracy's name stands for."""


@dataclass(frozen=True)
class Place:
    """A way at one size: seconds, the relative error, the variant that beats it in both, if one does, the SM clock."""

    variant: str
    time_s: float
    error: float
    dominated_by: str = ""
    clock_hz: float | None = None

    def beats(self, other: Place) -> bool:
        """Faster and no less accurate, or more accurate and no slower."""
        no_worse = self.time_s <= other.time_s and self.error <= other.error
        return no_worse and (self.time_s < other.time_s or self.error < other.error)


def judged(places: Sequence[Place]) -> list[Place]:
    """Each place with the fastest other one that beats it, the fastest first."""
    ordered = sorted(places, key=lambda place: (place.time_s, place.error))
    return [replace(p, dominated_by=next((o.variant for o in ordered if o.beats(p)), "")) for p in ordered]


def undominated(places: Sequence[Place]) -> list[Place]:
    """The frontier alone, from fast to accurate."""
    return [place for place in judged(places) if not place.dominated_by]


def frontier(source: Source, size: int, *, prepared: bool = False) -> list[Place]:
    """All ways that a source has at a size, judged: those that time everything, or those with a prepared right side.

    With `prepared` a way that has a prepared twin is left out for it; what `matmul` chose is never among them.
    """
    places = _places(source, size)
    there = {place.variant for place in places}
    return judged([place for place in places if way_is(place.variant, prepared, there)])


def chosen(source: Source, size: int) -> list[Place]:
    """What `matmul(accuracy=)` took, by accuracy; on no frontier itself."""
    return [place for place in _places(source, size) if accuracy_of(place.variant)]


def way_is(variant: str, prepared: bool, there: Collection[str]) -> bool:
    """Whether a variant belongs to the picture with prepared right sides, or to the other; `there` is all measured."""
    if accuracy_of(variant):
        return False
    way = way_of(variant)
    if way is None or not prepared:
        return way is None or not way.prepared
    return way.prepared or f"{variant}-prepared" not in there


def _places(source: Source, size: int) -> list[Place]:
    """Every way with time and error at a size: a GPU's where the source has a GPU, else the CPU's, never both."""
    described = _described()
    gpu = any(not name.startswith(CPU) for name in source.variants(described))
    lines = [line for line in described.lines if not (gpu and line.variant.startswith(CPU))]
    found = (_place(source, described, line, size) for line in lines)
    return [place for place in found if place is not None]


def _place(source: Source, described: Experiment, line: Line, size: int) -> Place | None:
    measured = all_known(source, described, line.variant).get((size,))
    time = measured.get(line.field) if measured is not None else None
    error = error_at(source, described, line.variant, (size,))
    if measured is None or time is None or not error:
        return None
    return Place(line.variant, time.median, error, clock_hz=measured.sm_clock_hz)


def sizes(source: Source) -> list[int]:
    """The sizes at which the source has at least two ways with time and error."""
    described = _described()
    there = {int(point[0]) for name in source.variants(described) for point in source.known(described, name)}
    return [size for size in sorted(there) if len(_places(source, size)) > 1]


def checked_size(source: Source, size: int | None) -> int:
    """The size asked for, or 8192 or else the largest there is; errors name what there is."""
    there = sizes(source)
    if not there:
        raise NotRecordedError(f"strassen_frontier: {source.name} has no time with its error; "
                               "`brrr record strassen` measures them")  # fmt: skip
    if size is None:
        return 8192 if 8192 in there else there[-1]
    if size not in there:
        raise ArgumentError("strassen_frontier", "size", size, f"one of {', '.join(map(str, there))}")
    return size


def _described() -> Experiment:
    from brrr.course.experiments import experiment

    return experiment("strassen")


# ---- what matmul picks, against what it could have picked ----


@dataclass(frozen=True)
class Best:
    """The fastest way that is accurate enough."""

    variant: str
    time: Estimate


def picks(evidence: Evidence) -> Iterator[tuple[str, int, Estimate, Best]]:
    """For each accuracy and size: the time of `matmul`, and the fastest way that keeps what is promised.

    Nothing prepared, on operands of the same type, with an error at most a twentieth above the named product's.
    """
    for line in evidence.experiment.lines:
        accuracy = accuracy_of(line.variant)
        if not accuracy:
            continue
        for (size,), mine in evidence.everywhere(line.name).items():
            bound = _promised(evidence, line.variant, int(size))
            best = _fastest_within(evidence, line.variant, bound, int(size)) if bound is not None else None
            if best is not None:
                yield accuracy, int(size), mine, best


def _promised(evidence: Evidence, variant: str, size: int) -> float | None:
    """The largest error that an accuracy allows: a number itself, a name that of its product, as measured here."""
    wanted = asked(accuracy_of(variant))
    if not isinstance(wanted, str):
        return wanted
    place = CPU if variant.startswith(CPU) else ""
    error = error_at(evidence.source, evidence.experiment, f"{place}{PROMISED[wanted]}", (size,))
    return None if error is None else CLOSE * error


def _fastest_within(evidence: Evidence, variant: str, bound: float, size: int) -> Best | None:
    lines = [line for line in evidence.experiment.lines if _may(line.variant, variant)]
    found = [best for line in lines if (best := _best(evidence, line, size, bound)) is not None]
    return min(found, key=lambda best: best.time.median, default=None)


def _may(way: str, variant: str) -> bool:
    """Whether `matmul` could have taken a way in a variant's place."""
    known = way_of(way)
    same_place = way.startswith(CPU) == variant.startswith(CPU)
    return known is not None and not known.prepared and same_place and operand_of(way) == operand_of(variant)


def _best(evidence: Evidence, line: Line, size: int, bound: float) -> Best | None:
    error = error_at(evidence.source, evidence.experiment, line.variant, (size,))
    if error is None or error > bound:
        return None
    return Best(line.variant, evidence.get(line.name, size=size))
