"""What the claims of several experiments share: a line or its stand-in, the largest size in common, the datasheet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple
from functools import wraps
from typing import TYPE_CHECKING

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Value
from brrr.gpu.datasheet import Hardware, find_hardware
from brrr_course.nouns.claim import Verdict, band_verdict, weakest
from brrr_course.nouns.source import Evidence

if TYPE_CHECKING:
    from brrr.tracing.timeline import Timeline


Curve = dict[int, Estimate]


def curve(evidence: Evidence, line: str, axis: str, **at: Value) -> Curve:
    """A line along a numeric axis, the others held; that of the CPU queue where the line itself is missing."""
    names = [each.name for each in evidence.experiment.twins(line)]
    for name in names:
        try:
            return {int(size): time for size, time in evidence.curve(name, axis, **at).items()}
        except NotRecordedError:
            continue
    raise NotRecordedError(f"no point of {' or '.join(names)} was measured")


def at(evidence: Evidence, line: str, **point: Value) -> Estimate:
    """The time of a line at a point; that of the CPU queue where the line itself is missing."""
    *twins, last = evidence.experiment.twins(line)
    for twin in twins:
        try:
            return evidence.get(twin.name, **point)
        except NotRecordedError:
            continue
    return evidence.get(last.name, **point)


def queue_named(judge: Callable[[Evidence], Verdict]) -> Callable[[Evidence], Verdict]:
    """The same judgement, which says so where it was made on the CPU queue, for want of a GPU."""

    @wraps(judge)
    def judged(evidence: Evidence) -> Verdict:
        found = judge(evidence)
        here = evidence.source.variants(evidence.experiment)
        if any(evidence.experiment.variant(name).on_gpu for name in here):
            return found
        return Verdict(found.status, f"on the CPU queue: {found.measured}")

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


def from_on(sizes: Iterable[int], holds: Callable[[int], bool]) -> int | None:
    """The smallest size from which on something holds at every larger one too; None where it fails at the largest.

    >>> from_on([1, 2, 4, 8], lambda size: size != 2), from_on([1, 2], lambda size: size < 2)
    (4, None)
    """
    found = None
    for size in sorted(sizes, reverse=True):
        if not holds(size):
            break
        found = size
    return found


def wins_from(fast: Curve, slow: Curve) -> int | None:
    """The smallest size from which on `fast`'s interval lies below `slow`'s at every larger size measured."""
    return from_on(set(fast) & set(slow), lambda size: fast[size].high < slow[size].low)


def datasheet(evidence: Evidence) -> Hardware:
    """The datasheet of the device that was measured; NotRecordedError where the course has none of it."""
    device = evidence.source.badge(evidence.experiment).device
    found = find_hardware(device)
    if found is None:
        raise NotRecordedError(f"there is no datasheet of {device or 'this device'} here")
    return found


def minimum(values: Iterable[Estimate]) -> Estimate:
    """The least of several, median and each end on its own: what all of them reach.

    >>> minimum([Estimate(2.0, 1.0, 9.0, 5), Estimate(3.0, 2.0, 4.0, 7)])
    Estimate(median=2.0, low=1.0, high=4.0, n=5)
    """
    return Estimate(*(min(each) for each in zip(*map(astuple, values), strict=True)))


def maximum(values: Iterable[Estimate]) -> Estimate:
    """The greatest of several, median and each end on its own: what none of them exceeds."""
    return Estimate(*(max(each) for each in zip(*map(astuple, values), strict=True)))


def all_within(values: Iterable[Estimate], low: float, high: float, text: str) -> Verdict:
    """*fails* if one value lies outside with its whole interval, *holds* if all lie inside.

    >>> all_within([Estimate(1.0, 0.9, 1.1, 9), Estimate(1.6, 1.5, 1.7, 9)], 0.8, 1.2, "two ratios").status
    'fails'
    """
    return Verdict(weakest(band_verdict(value, low, high, text).status for value in values), text)


def traced(evidence: Evidence, variant: str, **point: Value) -> Timeline:
    """The timeline of a variant at a point, if it was traced before: a claim traces nothing. Else NotRecordedError."""
    full = evidence.experiment.point(**point)
    if full not in evidence.source.traced(evidence.experiment, variant):
        where = ", ".join(f"{name} {value}" for name, value in full.items())
        raise NotRecordedError(f"there is no timeline of {variant} at {where}")
    return evidence.source.timeline(evidence.experiment, variant, full)


# ---- eager and fused lines: where they were measured together, and the ratio there ----

LARGE = {"cuda": 2**24, "cpu": 2**20}
"""Claims about bytes look at arrays from this size on, which no cache holds."""


def together(evidence: Evidence, names: Sequence[str], dtype: str = "float32") -> tuple[int, dict[str, Estimate]]:
    """The most elements at which all lines were measured, at least a large array, and the times there."""
    least = LARGE[evidence.experiment.variant(evidence.experiment.line(names[0]).variant).processor]
    try:
        curves = {name: evidence.curve(name, "elements", dtype=dtype) for name in names}
        common = set.intersection(*(set(each) for each in curves.values()))
        most = max((int(n) for n in common if int(n) >= least), default=None)
    except NotRecordedError:
        most = None
    if most is None:
        raise NotRecordedError(f"{', '.join(names)} were not measured together on arrays that no cache holds")
    return most, {name: curve[most] for name, curve in curves.items()}


def gains(evidence: Evidence, work: str, ways: Sequence[str]) -> tuple[int, dict[str, Estimate]]:
    """Eager over each fused way at the largest size that it shares with eager; on the CPU where there is no GPU.

    `work` is the part of the lines' names before the way, as in `chain eager`, or empty.
    """
    lines = {way: f"{work} {way}".strip() for way in ways}
    eager, blocks = f"{work} eager".strip(), f"cpu {work} blocks".replace("  ", " ")
    found: dict[str, Estimate] = {}
    size = 0
    for way, line in lines.items():
        if not any(each.name == line for each in evidence.experiment.lines):
            continue
        try:
            size, times = together(evidence, (eager, line))
        except NotRecordedError:
            continue
        found[way] = times[eager] / times[line]
    if found:
        return size, found
    if not any(each.name == blocks for each in evidence.experiment.lines):
        raise NotRecordedError(f"{eager} and its fused forms were not measured together on arrays that no cache holds")
    size, times = together(evidence, (blocks.replace("blocks", "eager"), blocks))
    slow, fast = times.values()
    return size, {"blocks": slow / fast}


def counted(size: int) -> str:
    """A number of elements as a reader takes it in.

    >>> counted(2**26), counted(1000)
    ('2^26 elements', '1000 elements')
    """
    return f"{power(size)} elements"


def power(size: int) -> str:
    """A number, as a power of two where it is one."""
    return f"2^{size.bit_length() - 1}" if size & (size - 1) == 0 else str(size)


def best(found: dict[str, Estimate]) -> tuple[str, Estimate]:
    """The way that gains most."""
    return max(found.items(), key=lambda each: each[1].median)
