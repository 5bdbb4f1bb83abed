"""What the claims of several experiments share: a line or its stand-in, the largest size in common, the datasheet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr.core.values import Value
from brrr.course.nouns.claim import Status, Verdict, band_verdict
from brrr.course.nouns.evidence import Evidence
from brrr.gpu.datasheet import Hardware, find_hardware

if TYPE_CHECKING:
    from brrr.tracing.timeline import Timeline


def stand_in(name: str, names: Collection[str]) -> str | None:
    """The line itself where it is among the names, else the queue's of the same name, if that is.

    >>> stand_in("unsynchronized", {"cpu", "queue unsynchronized"})
    'queue unsynchronized'
    """
    return next((each for each in (name, f"queue {name}") if each in names), None)


Curve = dict[int, Estimate]


def curve(evidence: Evidence, line: str, axis: str) -> Curve:
    """A line along a numeric axis; that of the toy accelerator (`queue LINE`) where the line itself is missing."""
    names = [name for name in (line, f"queue {line}") if any(each.name == name for each in evidence.experiment.lines)]
    for name in names:
        try:
            return {int(size): time for size, time in evidence.curve(name, axis).items()}
        except NotRecordedError:
            continue
    raise NotRecordedError(f"no point of {' or '.join(names)} was measured")


def at(evidence: Evidence, line: str, **point: Value) -> Estimate:
    """The time of a line at a point; that of the toy accelerator where the line itself is missing."""
    try:
        return evidence.get(line, **point)
    except NotRecordedError:
        if not any(each.name == f"queue {line}" for each in evidence.experiment.lines):
            raise
        return evidence.get(f"queue {line}", **point)


def toy_named(judge: Callable[[Evidence], Verdict]) -> Callable[[Evidence], Verdict]:
    """The same judgement, which says so where it was made on the toy accelerator, for want of a GPU."""

    @wraps(judge)
    def judged(evidence: Evidence) -> Verdict:
        found = judge(evidence)
        here = evidence.source.variants(evidence.experiment)
        if any(evidence.experiment.variant(name).device == "cuda" for name in here):
            return found
        return Verdict(found.status, f"on the toy accelerator: {found.measured}")

    return judged


def largest(curves: Mapping[str, Curve], at_least: int = 1) -> int:
    """The largest size at which all curves have a point; NotRecordedError where there is none of `at_least` or more.

    >>> time = Estimate(1.0, 1.0, 1.0, 9)
    >>> largest({"a": {1: time, 64: time}, "b": {1: time, 64: time, 512: time}})
    64
    """
    common = set.intersection(*(set(each) for each in curves.values()))
    if not common or max(common) < at_least:
        raise NotRecordedError(f"{', '.join(curves)} were not measured together at {at_least} or more")
    return max(common)


def datasheet(evidence: Evidence) -> Hardware:
    """The datasheet of the device that was measured; NotRecordedError where the course has none of it."""
    device = evidence.source.badge(evidence.experiment).device
    found = find_hardware(device)
    if found is None:
        raise NotRecordedError(f"there is no datasheet of {device or 'this device'} here")
    return found


def over(one: Estimate, other: Estimate) -> tuple[float, float, float]:
    """The ratio of two times as (middle, low, high), with the widest interval that theirs allow.

    >>> over(Estimate(4.0, 3.0, 5.0, 9), Estimate(2.0, 1.0, 2.5, 9))
    (2.0, 1.2, 5.0)
    """
    high = one.high / other.low if other.low > 0 else float("inf")
    return one.median / other.median, one.low / other.high, high


def shown(ratio: tuple[float, float, float]) -> str:
    """A ratio with its interval.

    >>> shown((2.0, 1.2, 5.0))
    '2x (1.2x to 5x)'
    """
    middle, low, high = map(units.ratio, ratio)
    return f"{middle} ({low} to {high})"


def share(part: tuple[float, float, float]) -> str:
    """A share with its interval.

    >>> share((0.5, 0.45, 0.55))
    '50 % (45 % to 55 %)'
    """
    middle, low, high = (units.percent(each, 2) for each in part)
    return f"{middle} ({low} to {high})"


def traced(evidence: Evidence, variant: str, **point: Value) -> Timeline:
    """The timeline of a variant at a point, if it was traced before: a claim traces nothing. Else NotRecordedError."""
    full = evidence.experiment.point(**point)
    if full not in evidence.source.traced(evidence.experiment, variant):
        where = ", ".join(f"{name} {value}" for name, value in full.items())
        raise NotRecordedError(f"there is no timeline of {variant} at {where}")
    return evidence.source.timeline(evidence.experiment, variant, full)


# ---------------------------------------------------------------------------------------------------------------------
# Several values against one band: the verdict of "all of these are about that".

ORDER: tuple[Status, ...] = ("fails", "undecided", "holds")


def all_within(values: Iterable[tuple[float, float, float]], low: float, high: float, text: str) -> Verdict:
    """*fails* if one value (middle, low, high) lies outside with its whole interval, *holds* if all lie inside.

    >>> all_within([(1.0, 0.9, 1.1), (1.6, 1.5, 1.7)], 0.8, 1.2, "two ratios").status
    'fails'
    >>> all_within([(1.0, 0.9, 1.1), (1.1, 1.0, 1.3)], 0.8, 1.2, "two ratios").status
    'undecided'
    """
    found = [band_verdict(value, low, high, text).status for value in values]
    return Verdict(min(found, key=ORDER.index), text)
