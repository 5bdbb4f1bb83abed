"""`measured_at`: what a lesson's comparison asks of a source, which may lack it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from brrr.errors import DeviceMemoryError, NotRecordedError, UnavailableError
from brrr.experiment import Experiment, Line, Value
from brrr.measurement import Estimate, Measurement
from brrr.source import Source


def measured_at(experiment: Experiment, source: Source, line: Line, point: Mapping[str, Value]) -> Measurement | None:
    """The measurement behind a line at a point, measured now by a live source; None where the source has none.

    >>> measured_at(experiment, source, experiment.line("eager"), {"elements": 1024})    # doctest: +SKIP

    None, too, where a live source lacks what the line needs (a library, a device, memory): a comparison leaves it out.
    """
    if line.variant not in source.variants(experiment) or not experiment.has(line.variant, point):
        return None
    with suppress(NotRecordedError, UnavailableError, DeviceMemoryError):
        return source.measure(experiment, line.variant, point)
    return None


def time_at(experiment: Experiment, source: Source, line: Line, point: Mapping[str, Value]) -> Estimate | None:
    """The time that the line shows, in seconds; None where there is none."""
    measured = measured_at(experiment, source, line, point)
    return measured.get(line.field) if measured is not None else None
