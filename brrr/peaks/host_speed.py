"""The same peaks on a host that is faster or slower just now: its costs go together, the device's do not follow.

>>> from brrr.peaks.peak import Peak
>>> times = {"host.relu": Peak(5e-6, 5e-6, 5e-6, "s"), "host.matmul": Peak(8e-6, 8e-6, 8e-6, "s")}
>>> slower = at_host_speed(Peaks("Some GPU", "cuda", "2026-01-01", measured=times), relu_s=10e-6)
>>> slower.get("host.matmul").value
1.6e-05
"""

from __future__ import annotations

from dataclasses import replace

from brrr.errors import ArgumentError
from brrr.peaks.peak import Curve, Peak
from brrr.peaks.peaks import Peaks

REFERENCE = "host.relu"
"""The call whose cost stands for the host's speed: a relu of 8 x 8 numbers."""
REPLAY = "graph-replay"


def at_host_speed(peaks: Peaks, relu_s: float) -> Peaks:
    """The peaks with every host cost times `relu_s` over the calibrated cost of the same call, in seconds.

    A processor that others share is not equally fast from one minute to the next; a figure taken a moment before tells
    how fast it is now. MissingPeakError where the reference was not calibrated; ArgumentError for a time not above 0.
    """
    if not 0 < relu_s < float("inf"):
        raise ArgumentError("at_host_speed", "relu_s", relu_s, "a time in seconds, above 0")
    by = relu_s / peaks.get(REFERENCE).value
    measured = {name: _times(peak, by) if name.startswith("host.") else peak for name, peak in peaks.measured.items()}
    curves = {name: _curve(curve, by) if name == REPLAY else curve for name, curve in peaks.curves.items()}
    return replace(peaks, measured=measured, curves=curves)


def without_host(peaks: Peaks) -> Peaks:
    """The device's own figures, equal whatever the host's speed, so that what rests on them can be kept.

    >>> relu = Peak(5e-6, 5e-6, 5e-6, "s")
    >>> dict(without_host(Peaks("Some GPU", "cuda", "2026-01-01", measured={"host.relu": relu})).measured)
    {}
    """
    measured = {name: peak for name, peak in peaks.measured.items() if not name.startswith("host.")}
    return replace(
        peaks, measured=measured, curves={name: peaks.curves[name] for name in peaks.curves if name != REPLAY}
    )


def _curve(curve: Curve, by: float) -> Curve:
    return replace(curve, points=tuple((place, _times(peak, by)) for place, peak in curve.points))


def _times(peak: Peak, by: float) -> Peak:
    return replace(peak, value=peak.value * by, low=peak.low * by, high=peak.high * by)
