"""What the claims on Strassen's algorithm call beside the notation's own functions: the fastest way, and clocks."""

import math
from typing import Any

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr_course.experiments.strassen.frontier import apart, picks
from brrr_course.experiments.strassen.ways import CPU, MEASURED, ON_CPU, flop_share, way_of
from brrr_course.nouns.expression import Key, Table
from brrr_course.nouns.source import Evidence


def quickest(
    evidence: Evidence, inner: str, *, size: int, prepared: bool | None = None, fewest: int = 1, error: float = math.inf
) -> str:
    """The fastest variant over an inner product of those with so many levels at least and no larger an error.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("strassen"), Recorded("h200"))
    >>> quickest(evidence, "sgemm", size=8192, prepared=True)
    'sgemm-strassen-3-prepared'

    Empty where none is as accurate; NotRecordedError where none was measured.
    """
    names = [way.name for way in MEASURED
             if way.inner == inner and way.level >= fewest and prepared in (None, way.prepared)]  # fmt: skip
    times = {name: time.median for name in names if (time := _at(evidence, name, "span_s", size))}
    if not times:
        raise NotRecordedError(f"no way of {inner} with its levels was measured at size {size}")
    accurate = [name for name in times if (_at(evidence, name, "error", size) or 0.0) <= error]
    return min(accurate, key=times.__getitem__, default="")


def _at(evidence: Evidence, variant: str, column: str, size: int) -> Any:
    """A cell of a column; None where it is not there."""
    return evidence.table(variant, column, {"size": size}).values.get(())


def compared(evidence: Evidence, one: str, other: str, *, size: int, other_size: int = 0) -> Estimate:
    """One variant's time over another's, 0 where there is no other.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("strassen"), Recorded("h200"))
    >>> f"{compared(evidence, 'sgemm', 'sgemm-strassen-3', size=8192):x}"
    '1.4x (1.37x to 1.4x)'

    Where their SM clocks are apart, the interval holds the ratio in cycles too: nothing is decided by clocks alone.
    """
    if not other:
        return Estimate(0.0, 0.0, 0.0, 1)
    (a, x), (b, y) = _timed(evidence, one, size), _timed(evidence, other, other_size or size)
    ratio = a / b
    if not (x and y and apart((x, y))):
        return ratio
    cycles = ratio * (x / y)
    return Estimate(ratio.median, min(ratio.low, cycles.low), max(ratio.high, cycles.high), ratio.n)


def _timed(evidence: Evidence, variant: str, size: int) -> tuple[Estimate, float | None]:
    """The time and the SM clock, if it is known."""
    column = "span_s" if evidence.experiment.variant(variant).on_gpu else "period_s"
    time, clock = _at(evidence, variant, column, size), _at(evidence, variant, "sm_clock_hz", size)
    if time is None:
        raise NotRecordedError(f"{variant} at size {size} was not measured")
    return time, clock


def multiplied(evidence: Evidence, variant: str) -> float:
    """What a way multiplies over what the textbook's product does.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("strassen"), Recorded("h200"))
    >>> multiplied(evidence, "sgemm-strassen-1")
    0.875
    """
    way = way_of(variant)
    assert way is not None
    return flop_share(way)


def growth(evidence: Evidence, form: str) -> Table:
    """By variant and size, how much a level of a form makes SGEMM's error grow, on the GPU or else on the CPU.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("strassen"), Recorded("h200"))
    >>> f"{max(growth(evidence, 'strassen').listed()):.3g}x"
    '2.82x'
    """
    found: dict[Key, float] = {}
    for place, ways in (("", MEASURED), (CPU, ON_CPU)):
        plain = evidence.table(f"{place}sgemm", "error", {}).values
        for way in ways:
            if way.inner == "sgemm" and way.form == form and way.level:
                name, level = place + way.name, way.level
                errors = evidence.table(name, "error", {}).values.items()
                found |= {(name, *at): (error / plain[at]) ** (1 / level) for at, error in errors if at in plain}
        if found:
            return Table(("way", "size"), found)
    raise NotRecordedError(f"no errors of {form}'s form and of the library's own product were measured")


def choices(evidence: Evidence) -> Table:
    """By what `matmul` was asked for and the size, its time over that of the fastest way that it could have taken.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("strassen"), Recorded("h200"))
    >>> len(choices(evidence).listed())
    33
    """
    chosen = picks(evidence.source)
    found: dict[Key, Estimate] = {(mine, n): compared(evidence, mine, best, size=n) for mine, n, best in chosen}
    if not found:
        raise NotRecordedError("no choice of matmul was measured beside the ways")
    return Table(("choice", "size"), found)
