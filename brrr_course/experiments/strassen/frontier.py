"""Time against error: every way of multiplying at one size, and which of them others beat in both.

>>> [p.variant for p in judged([Place("a", 1.0, 1e-3), Place("b", 2.0, 1e-3), Place("c", 3.0, 1e-6)])
...  if not p.dominated_by]
['a', 'c']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from brrr.core import units
from brrr.core.measurement import Measurement, Value
from brrr_course.experiments.strassen.ways import NAMED, accuracy_of, asked, operand, way_of
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Source

CLOSE = 1.05
"""Two errors this near count as equal, as `brrr.strassen.accuracy` has it."""

PROMISED = {"fp32": "sgemm", "tf32": "tf32", "bf16": "bf16"}
"""Whose error an accuracy's name stands for."""

APART = 0.05
"""Clocks that differ by more than this share of the higher one are two clocks."""


def all_known(source: Source, experiment: Experiment, variant: str) -> dict[tuple[Value, ...], Measurement]:
    """What is known of a variant; taken whole, so that a recording's plan sees no single point asked for."""
    return dict(source.known(experiment, variant).items())


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


def judged(found: Sequence[Place]) -> list[Place]:
    """Each place with the fastest other one that beats it, the fastest first."""
    ordered = sorted(found, key=lambda place: (place.time_s, place.error))
    return [replace(p, dominated_by=next((o.variant for o in ordered if o.beats(p)), "")) for p in ordered]


def frontier(source: Source, size: int, *, prepared: bool = False) -> list[Place]:
    """All ways that a source has at a size, judged: those that time everything, or those with a prepared right side.

    With `prepared` a way that has a prepared twin is left out for it; what `matmul` chose is never among them.
    """
    found = [(place, way_of(place.variant)) for place in places(source, size) if not accuracy_of(place.variant)]
    ready = {way for _, way in found if way is not None and way.prepared}
    left_out = {replace(way, prepared=False) for way in ready} if prepared else ready
    return judged([place for place, way in found if way not in left_out])


def chosen(source: Source, size: int) -> list[Place]:
    """What `matmul(accuracy=)` took, by accuracy; on no frontier itself."""
    return [place for place in places(source, size) if accuracy_of(place.variant)]


def places(source: Source, size: int) -> list[Place]:
    """Every way with time and error at a size: a GPU's where the source has one, else the CPU's."""
    described = _described()
    variants = [described.variant(name) for name in source.variants(described)]
    gpu, found = any(each.on_gpu for each in variants), []
    for each in variants:
        measured = all_known(source, described, each.name).get((size,))
        if each.on_gpu != gpu or measured is None or not measured.error:
            continue
        time = measured.span_s if gpu else measured.period_s
        if time is not None:
            found.append(Place(each.name, time.median, measured.error, clock_hz=measured.sm_clock_hz))
    return found


def sizes(source: Source) -> list[int]:
    """The sizes at which the source has at least two ways with time and error."""
    described = _described()
    there = {int(point[0]) for name in source.variants(described) for point in source.known(described, name)}
    return [size for size in sorted(there) if len(places(source, size)) > 1]


def _described() -> Experiment:
    from brrr_course.experiments import experiment

    return experiment("strassen")


def picks(source: Source) -> Iterator[tuple[str, int, str]]:
    """What `matmul` was asked for at each size, and the fastest way that it could have taken.

    Nothing prepared, on operands of the same type, with an error at most a twentieth above the named product's.
    """
    for size in sizes(source):
        found = places(source, size)
        errors = {way.name: place.error for place in found if (way := way_of(place.variant)) is not None}
        for mine in chosen(source, size):
            wanted = asked(accuracy_of(mine.variant))
            bound = CLOSE * errors.get(PROMISED[wanted], 0.0) if isinstance(wanted, str) else wanted
            may = [place for place in found if _may(place.variant, mine.variant) and place.error <= bound]
            if may:
                yield mine.variant, size, min(may, key=lambda place: place.time_s).variant


def _may(name: str, variant: str) -> bool:
    """Whether `matmul` could have taken a way in a variant's place."""
    way = way_of(name)
    return way is not None and not way.prepared and operand(NAMED[name]) == operand(NAMED[variant])
