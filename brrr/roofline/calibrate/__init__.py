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
from brrr.gpu import GPU, is_cpu, is_gpu
from brrr.gpu.precision import float32_products
from brrr.roofline.peak import Curve, Peak
from brrr.roofline.peaks import MissingPeakError, Peaks
from brrr.roofline.reference import REFERENCE

__all__ = ["Curve", "MissingPeakError", "Peak", "Peaks", "calibrate"]

QUICK_S = {"cpu": 6.0, GPU: 10.0}
"""What a quick calibration takes at most, once torch is loaded and what a GPU's first use costs is paid."""


@extras("calibrate")
@float32_products()  # whatever the user has set; a part that wants TF32 asks for it
def calibrate(
    device: str | None = None,
    *,
    budget_s: float = 100.0,
    quick: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Peaks:
    """Measure the peaks of a device: bandwidth by working set, arithmetic by data type, launches, host costs; and on a
    GPU, as long as there is time, calls that correct what is carried over from the reference's sweep.

    >>> calibrate("tpu")
    Traceback (most recent call last):
    brrr.core.errors.ArgumentError: calibrate: device is 'tpu'; expected 'cuda', 'cpu' or None ...

    `device` is "cuda" (torch's current device), "cpu", or None for the GPU if there is one. It takes less than
    `budget_s` seconds; what does not fit is left out, and `notes` of the result say so. `quick` measures fewer sizes,
    compiles nothing, and takes a few seconds: for tests. `progress` is told the name of each part as it begins.

    Every kernel's result is checked before it is timed: WrongResultError. UnavailableError where there is no GPU.
    """

    if isinstance(budget_s, bool) or not isinstance(budget_s, int | float) or not 1 <= budget_s < float("inf"):
        raise ArgumentError("calibrate", "budget_s", budget_s, "a number of seconds, at least 1")
    chosen = _chosen(device)
    seconds = min(budget_s, QUICK_S[chosen]) if quick else float(budget_s)
    return measured_peaks(chosen, seconds, quick=quick, progress=progress or (lambda part: None))


def _chosen(device: str | None) -> Processor:
    if device not in (None, *QUICK_S):
        raise ArgumentError("calibrate", "device", device, "'cuda', 'cpu' or None", "None: the GPU if there is one")
    if is_cpu(device):
        return "cpu"
    from brrr.gpu.device import cuda_problem

    problem = cuda_problem()
    if device and problem:
        raise UnavailableError(
            f"calibrate: device is 'cuda', but CUDA does not work here: {problem}. The recorded peaks are there "
            "instead: brrr.roofline.peaks.recorded_peaks('h200'); or calibrate the CPU: device='cpu'"
        )
    return "cpu" if problem else GPU


def measured_peaks(device: Processor, budget_s: float, *, quick: bool, progress: Callable[[str], None]) -> Peaks:
    """Run all parts of the device's calibration within the budget."""
    import torch  # its loading is not the device's doing, and so not in the budget

    from brrr.gpu.device import this_device
    from brrr.roofline.calibrate.part import Findings, run_parts

    if is_gpu(device):
        _require_compiler()
        if quick:  # whose few seconds the first uses would take up
            _first_uses()
        from brrr.roofline.calibrate.gpu import PARTS
    else:
        from brrr.roofline.calibrate.cpu import PARTS
    here = this_device(device)
    found = Findings(time.perf_counter() + budget_s, quick, here.name)
    run_parts(PARTS, found, progress)
    if is_gpu(device):
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
    x = torch.ones(64, 64, device=GPU)
    own_times([lambda: torch.relu(x)])
    torch.matmul(x, x)
    torch.cuda.synchronize()
