"""What claims, drawings and exercises of several experiments share: a line or its stand-in, datasheet, timeline."""

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
