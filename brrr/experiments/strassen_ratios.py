"""What the claims and pictures on Strassen's algorithm share: the fastest way of several, errors, growth by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brrr.claim import Evidence
from brrr.errors import NotRecordedError
from brrr.experiment import Experiment, Value
from brrr.experiments.strassen_ways import way_of
from brrr.measurement import Estimate, Measurement
from brrr.source import Source

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
