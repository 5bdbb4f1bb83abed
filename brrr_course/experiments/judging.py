"""What the claims of several experiments share: a line or its stand-in, the largest size in common, the datasheet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Value
from brrr.gpu.datasheet import Hardware, find_hardware
from brrr_course.nouns.source import Evidence

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


def datasheet(evidence: Evidence) -> Hardware:
    """The datasheet of the device that was measured; NotRecordedError where the course has none of it."""
    device = evidence.source.badge(evidence.experiment).device
    found = find_hardware(device)
    if found is None:
        raise NotRecordedError(f"there is no datasheet of {device or 'this device'} here")
    return found


def traced(evidence: Evidence, variant: str, figure: str, **at: Value) -> float:
    """A figure of a variant's `Timeline`, or of the CPU queue's, at its first point; of `streams` how many there are.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources import source
    >>> traced(Evidence(experiment("nested_sine"), source("recorded:h200")), "gpu-transfers", "streams", elements=2**28)
    1

    NotRecordedError where it was not traced before: a claim traces nothing.
    """
    for name in (variant, f"queue-{variant}"):
        for point in evidence.source.traced(evidence.experiment, name):
            if at.items() <= point.items():
                found = getattr(evidence.source.timeline(evidence.experiment, name, point), figure)
                return len(found) if isinstance(found, tuple) else found or 0.0
    raise NotRecordedError(f"there is no timeline of {variant} at {', '.join(f'{k} {v}' for k, v in at.items())}")
