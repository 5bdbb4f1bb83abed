"""Time against error: every way of multiplying at one size, which of them others beat in both, and errors by level.

>>> [p.variant for p in undominated([Place("a", 1.0, 1e-3), Place("b", 2.0, 1e-3), Place("c", 3.0, 1e-6)])]
['a', 'c']
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from brrr.core import units
from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.measurement import Estimate, Measurement, Value
from brrr.course.experiments.strassen.ways import CPU, accuracy_of, asked, operand_of, way_of
from brrr.course.nouns.experiment import Experiment, Line
from brrr.course.nouns.source import Evidence, Source

CLOSE = 1.05
"""Two errors this near count as equal, as `brrr.strassen.accuracy` has it."""

PROMISED = {"fp32": "sgemm", "tf32": "tf32", "bf16": "bf16"}
"""Whose error an accuracy's name stands for."""

IN_ORDER = "ffma"
"""The classical product that sums over k in order, whatever the size."""

Known = dict[tuple[Value, ...], Measurement]
Errors = dict[tuple[Value, ...], float]

APART = 0.05
"""Clocks that differ by more than this share of the higher one are two clocks."""


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


def growths(source: Source, experiment: Experiment, form: str, inners: Sequence[str], base: str = "") -> list[Growth]:
    """The growth of a form's error at every point, over a classical product: with L levels the L-th root of the ratio.

    `base`: over that product, for ways on the same device (`sgemm`, cuBLAS's own, may sum k in parts with a smaller
    error than `ffma`, which sums in order); without it over that with the same inner product.
    """
    ordered = _errors_of(source, experiment, base) if base else {}
    on_cpu = base.startswith(CPU)
    found = []
    for name in source.variants(experiment):
        way = way_of(name)
        if way is None or way.form != form or way.inner not in inners or (base and name.startswith(CPU) != on_cpu):
            continue
        plain = ordered if base else _errors_of(source, experiment, classical(name))
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


# ---- the frontier ----


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

    Nothing prepared, on operands of the same type, with an error at most a twentieth above the named product's. Where a
    GPU was measured, its choices alone.
    """
    here = evidence.source.variants(evidence.experiment)
    on_gpu = any(not name.startswith(CPU) for name in here)
    for line in evidence.experiment.lines:
        accuracy = accuracy_of(line.variant)
        if not accuracy or (on_gpu and line.variant.startswith(CPU)):
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
