"""What torch's own estimator says of a case: `RuntimeEstimator` in its roofline mode, which runs nothing.

It takes the larger of a kernel's bytes over the memory's bandwidth and its FLOP over three quarters of the peak, and
adds up the kernels; it knows no launches. It asks the CUDA device for both figures, so it works on a GPU only.
"""

from __future__ import annotations

import functools
import io
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import torch

from brrr.errors import UnavailableError
from brrr.experiments.prediction_calls import dtype_of, function_of, shapes, surroundings
from brrr.experiments.prediction_cases import Case
from brrr.machines import clocks
from brrr.measurement import Estimate, Measurement

LEAST_S = 1e-9
"""Shorter estimates are kept as a nanosecond, the shortest time that a recording holds."""


def estimated(case: Case, device: str) -> Measurement:
    """The estimate under the name of what it estimates, the kernels' own time; UnavailableError where it fails."""
    try:
        seconds = max(LEAST_S, estimate_s(case, device))
    except Exception as error:  # it asserts what it knows, and divides by what the driver tells
        raise UnavailableError(f"torch's estimator fails for {case.name}: {type(error).__name__}: {error}") from error
    return Measurement(kernel_s=Estimate(seconds, seconds, seconds, 1), device=device)


def estimate_s(case: Case, device: str) -> float:
    """Seconds by torch's estimator, on fake tensors of that device."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.runtime_estimator import RuntimeEstimator

    with surroundings(case), _asking_once(), FakeTensorMode():
        dtype = dtype_of(case)
        tensors = [torch.empty(shape, dtype=dtype, device=device) for shape in shapes(case).values()]
        estimator = RuntimeEstimator()
        with redirect_stdout(io.StringIO()), estimator(estimate_mode_type="operator-level-cost-model"):
            function_of(case)(*tensors)
    return float(estimator.total_runtime) * 1e-3


@functools.cache
def _clock_mhz() -> Any:
    """The highest clock as torch asks for it, by nvidia-smi; by the same driver's library where that is missing."""
    import torch._utils_internal as internal

    try:
        return internal.max_clock_rate()
    except (OSError, subprocess.SubprocessError, ValueError):
        highest = clocks.max_sm_clock_hz()
        if highest is None:
            raise
        return highest / 1e6


@contextmanager
def _asking_once() -> Iterator[None]:
    """Let torch ask for the clock once, which starts nvidia-smi, and forget rates: float32 and TF32 share one there."""
    import torch._inductor.utils as utils
    import torch._utils_internal as internal

    forget = getattr(utils.get_device_tflops, "cache_clear", None)
    if forget is not None:
        forget()
    if not torch.cuda.is_available():  # the clock is asked for on a GPU only
        yield
        return
    module: Any = internal
    asks, clock = module.max_clock_rate, _clock_mhz()
    module.max_clock_rate = lambda: clock
    try:
        yield
    finally:
        module.max_clock_rate = asks
