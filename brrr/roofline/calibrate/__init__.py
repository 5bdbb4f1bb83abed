"""`calibrate`: measure what this device can do at best, for every prediction to rest on.

>>> peaks = calibrate("cpu", quick=True)              # doctest: +SKIP
>>> peaks.bandwidth(64e6), peaks.matmul("fp32")       # doctest: +SKIP
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from brrr.core import __version__
from brrr.core.errors import ArgumentError, UnavailableError, extras
from brrr.core.measurement import Processor
from brrr.gpu import CUDA, is_cuda, is_gpu, synchronize
from brrr.gpu.device import processor_for
from brrr.gpu.precision import float32_products
from brrr.roofline.peak import Curve, Peak
from brrr.roofline.peaks import MissingPeakError, Peaks
from brrr.roofline.reference import REFERENCE

__all__ = ["Curve", "MissingPeakError", "Peak", "Peaks", "calibrate"]

QUICK_S = {"cpu": 6.0}
QUICK_GPU_S = 10.0
"""What a quick calibration takes at most, once torch is loaded and what a GPU's first use costs is paid."""

INSTEAD = "The recorded peaks are there: brrr.roofline.peaks.recorded_peaks('h200'); or calibrate the CPU: device='cpu'"


@extras("calibrate")
@float32_products()  # whatever the user has set; a part that wants TF32 asks for it
def calibrate(
    device: str | None = None,
    *,
    budget_s: float = 100.0,
    quick: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Peaks:
    """Measure what a device can do at best: bandwidth, arithmetic, launches, and what the host costs.

    >>> peaks = calibrate()                                        # doctest: +SKIP
    >>> print(peaks.matmul("bf16"))                                # doctest: +SKIP
    802 TFLOP/s (801 TFLOP/s to 803 TFLOP/s)
    >>> predict(lambda x: x * 2, array(2**26), device=peaks)       # doctest: +SKIP
    PREDICTED: about 130 µs, memory-bound (NVIDIA H200, eager, peaks: measured)

    These are an H200's. ``brrr calibrate`` in a shell also keeps them, and `predict` and `diagnose` then use them.

    Parameters
    ----------
    device : str, optional
        A kind of device, as `measure` takes it: torch's current GPU, or the CPU. By default the GPU if there is one.
        Without CUDA its rates are those of torch's operators by the host's clock, and kernels' starts are assumed.
    budget_s : float
        The limit in seconds, at least 1. What does not fit is left out, and the result's `notes` say so.
    quick : bool
        Measure fewer sizes and compile nothing, in a few seconds: for tests.
    progress : callable, optional
        Called with the name of each part as it begins.

    Returns
    -------
    Peaks
        The measured figures, each with its 95 % interval.

    Raises
    ------
    ArgumentError
        If the device or the budget cannot be used.
    WrongResultError
        If a kernel's result is wrong: results are checked before anything is timed.
    UnavailableError
        If a GPU is asked for and there is none.

    Notes
    -----
    A short sweep of matmuls and operators adapts a reference device's long sweep to this one (docs/predictor_model.md).
    """

    if isinstance(budget_s, bool) or not isinstance(budget_s, int | float) or not 1 <= budget_s < float("inf"):
        raise ArgumentError("calibrate", "budget_s", budget_s, "a number of seconds, at least 1")
    chosen = processor_for("calibrate", device, INSTEAD)
    seconds = min(budget_s, QUICK_S.get(chosen, QUICK_GPU_S)) if quick else float(budget_s)
    return measured_peaks(chosen, seconds, quick=quick, progress=progress or (lambda part: None))


def measured_peaks(device: Processor, budget_s: float, *, quick: bool, progress: Callable[[str], None]) -> Peaks:
    """Run all parts of the device's calibration within the budget."""
    import torch  # its loading is not the device's doing, and so not in the budget

    from brrr.gpu.device import this_device
    from brrr.roofline.calibrate.part import Findings, run_parts

    if is_cuda(device):
        _require_compiler()
        if quick:  # whose few seconds the first uses would take up
            _first_uses()
        from brrr.roofline.calibrate.gpu import PARTS as parts
    else:
        from brrr.roofline.calibrate.cpu import PARTS, parts_on

        parts = parts_on(device) if is_gpu(device) else PARTS
    here = this_device(device)
    found = Findings(time.perf_counter() + budget_s, quick, here.name)
    run_parts(parts, found, progress)
    if is_cuda(device):
        torch.cuda.empty_cache()
    return Peaks(
        here.name, device, datetime.now(UTC).isoformat(timespec="seconds"), brrr=__version__,
        driver=here.driver_version or "", cuda=here.cuda_version or "", torch=here.torch_version or "",
        measured=found.measured, curves=found.curves, assumed=found.assumed, sweeps=found.sweeps,
        notes=tuple(found.notes), reference=REFERENCE if is_gpu(device) else "",
    )  # fmt: skip


def _require_compiler() -> None:
    """UnavailableError unless CUDA C++ can be compiled here: every time on the GPU is taken behind a gate of it."""
    from brrr.gpu.nvrtc import probe_kernel

    try:
        probe_kernel("brrr_marker")
    except (ImportError, UnavailableError) as error:
        raise UnavailableError(
            f"calibrate: the GPU's peaks need NVRTC and cuda-bindings, which come with torch's CUDA builds: {error}. "
            "Install cuda-bindings; until then the recorded peaks are there, and calibrate('cpu')"
        ) from error


def _first_uses() -> None:
    """What a process pays once on a GPU: the timers' calibration, the profiler's start, the library of products."""
    import torch

    from brrr.roofline.calibrate.gpu_times import own_times
    from brrr.timing.calibration import calibration

    calibration(torch.cuda.current_device())
    x = torch.ones(64, 64, device=CUDA)
    own_times([lambda: torch.relu(x)])
    torch.matmul(x, x)
    synchronize()
