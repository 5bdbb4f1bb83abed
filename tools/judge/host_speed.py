"""The same peaks on a host that is faster or slower just now: its costs go together, the device's do not follow."""

from dataclasses import replace

from brrr.core.errors import ArgumentError
from brrr.roofline.device_model import REFERENCE_CALL
from brrr.roofline.figures import REPLAY
from brrr.roofline.peak import Peak
from brrr.roofline.peaks import Peaks


def at_host_speed(peaks: Peaks, relu_s: float) -> Peaks:
    """The peaks with every host cost times `relu_s` over the calibrated cost of the same call, in seconds.

    A processor that others share is not equally fast from one minute to the next; a figure taken a moment before tells
    how fast it is now. MissingPeakError where the reference was not calibrated; ArgumentError for a time not above 0.
    """
    if not 0 < relu_s < float("inf"):
        raise ArgumentError("at_host_speed", "relu_s", relu_s, "a time in seconds, above 0")
    by = relu_s / peaks.get(REFERENCE_CALL).value
    measured = {name: _times(peak, by) if name.startswith("host.") else peak for name, peak in peaks.measured.items()}
    found = ((name, curve) for name, curve in peaks.curves.items() if name == REPLAY)
    replay = {name: replace(it, points=tuple((at, _times(peak, by)) for at, peak in it.points)) for name, it in found}
    return replace(peaks, measured=measured, curves={**peaks.curves, **replay})


def _times(peak: Peak, by: float) -> Peak:
    return replace(peak, value=peak.value * by, low=peak.low * by, high=peak.high * by)
