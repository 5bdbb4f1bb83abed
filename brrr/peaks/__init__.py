"""`calibrate`: measure what this device can do at best, for every prediction to rest on.

>>> peaks = calibrate("cpu", quick=True)              # doctest: +SKIP
>>> peaks.bandwidth(64e6), peaks.matmul("fp32")       # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable

from brrr.errors import ArgumentError, UnavailableError
from brrr.peaks.peak import Curve, Peak
from brrr.peaks.peaks import MissingPeakError, Peaks

__all__ = ["Curve", "MissingPeakError", "Peak", "Peaks", "calibrate"]

QUICK_S = {"cpu": 6.0, "cuda": 10.0}
"""What a quick calibration takes at most, once torch is loaded and what a GPU's first use costs is paid."""


def calibrate(
    device: str | None = None,
    *,
    budget_s: float = 60.0,
    quick: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Peaks:
    """Measure the peaks of a device: bandwidth by working set, arithmetic by data type, launches, host costs.

    >>> calibrate("tpu")
    Traceback (most recent call last):
    brrr.errors.ArgumentError: calibrate: device is 'tpu'; expected 'cuda', 'cpu' or None ...

    `device` is "cuda" (torch's current device), "cpu", or None for the GPU if there is one. It takes less than
    `budget_s` seconds; what does not fit is left out, and `notes` of the result say so. `quick` measures fewer sizes,
    compiles nothing, and takes a few seconds: for tests. `progress` is told the name of each part as it begins.

    Every kernel's result is checked before it is timed: WrongResultError. UnavailableError where there is no GPU.
    """
    from brrr.peaks.parts import measured_peaks

    if isinstance(budget_s, bool) or not isinstance(budget_s, int | float) or not 1 <= budget_s < float("inf"):
        raise ArgumentError("calibrate", "budget_s", budget_s, "a number of seconds, at least 1")
    chosen = _chosen(device)
    seconds = min(budget_s, QUICK_S[chosen]) if quick else float(budget_s)
    return measured_peaks(chosen, seconds, quick=quick, progress=progress or _silent)


def _chosen(device: str | None) -> str:
    if device not in (None, "cuda", "cpu"):
        raise ArgumentError(
            "calibrate", "device", device, "'cuda', 'cpu' or None", "None takes the GPU if there is one"
        )
    if device == "cpu":
        return "cpu"
    from brrr.device import cuda_problem

    problem = cuda_problem()
    if device == "cuda" and problem:
        raise UnavailableError(
            f"calibrate: device is 'cuda', but CUDA does not work here: {problem}. The recorded peaks are there "
            "instead: brrr.peaks.peaks_file.recorded_peaks('h200'); or calibrate the CPU: device='cpu'"
        )
    return "cpu" if problem else "cuda"


def _silent(part: str) -> None:
    """Nobody wants to know how far it is."""
