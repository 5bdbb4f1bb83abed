"""`measure`: the six times of a function, each with its interval, and the conditions they hold under.

>>> m = measure(lambda: sorted(range(1000)), device="cpu", budget_s=0.05)
>>> m.period_s.median > 0
True
"""

import gc
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from brrr.core.callables import require_callable
from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.measurement import Cache, Measurement
from brrr.gpu import GPU, gpu_in_use, is_cpu, is_gpu
from brrr.timing.cpu_queue import CpuQueue, Place
from brrr.timing.sampler import Sampler


def measure(
    fn: Callable[[], Any], *, device: Place | None = None, cache: Cache = "hot", budget_s: float = 0.2
) -> Measurement:
    """Measure a function of no arguments: what it costs to issue, to run, to loop over and to wait for.

    >>> print(measure(lambda: None, device="cpu", budget_s=0.01).kernel_s)
    None

    `device` is "cuda" (torch's current device and stream), "cpu", or a `CpuQueue`, whose worker is the device; None
    takes the GPU if torch is loaded and has one. `cache="cold"` empties the L2 before each call and gives only the
    times that this defines: `kernel_s`, `busy_s` and `span_s`. It takes about `budget_s` seconds, less when all
    intervals are within 0.5 %, more when a few calls take longer. Where long calls take turns with short ones, a loop
    takes their mean, which `period_s` then is, and a note says so. Flags: `host-bound`, `syncs` (the function waits for
    the device, so it has no span), `queue-full`, `single-call`, `no-profiler` (`kernel_s` is the calibrated
    fall-back's), `nan`, `power-capped`, `thermal`, `unstable` (it drifted, measured twice), `shared-gpu` (another
    program computes there).

    Raises ArgumentError for arguments that cannot be used, DeviceMemoryError when `fn` uses up the memory,
    UnavailableError when there is no GPU; what `fn` itself raises passes through.
    """
    return measure_together([fn], device=device, cache=cache, budget_s=budget_s)[0]


def measure_together(
    functions: Sequence[Callable[[], Any]], *, device: Place | None = None, cache: Cache = "hot", budget_s: float = 0.2
) -> list[Measurement]:
    """Measure several functions interleaved, a slice of each in turn, so that a drift of the machine meets them all.

    Arguments, errors and results as those of `measure`; `budget_s` is for each function.
    """
    place = checked(functions, device, cache, budget_s)
    return interleave([Sampler(function, place, cache, budget_s) for function in functions])


def interleave(samplers: Sequence[Sampler]) -> list[Measurement]:
    """Warm up all functions, then sample them in turn until each is precise or its budget is spent.

    One that drifted meanwhile is measured once more; if it drifts again, its measurement carries the flag.
    """
    with no_collection():
        _sample(samplers)
        _sample([each for each in samplers if each.drifted and each.start_again()])
        return [each.finish() for each in samplers]


def _sample(samplers: Sequence[Sampler]) -> None:
    for each in samplers:
        each.warm_up()
    while unfinished := [each for each in samplers if not each.done]:
        for each in unfinished:
            each.round()


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep Python's garbage collector out of the samples."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def checked(functions: Sequence[Any], device: Any, cache: Any, budget_s: Any) -> Place:
    """Where to measure, once all arguments are found good."""
    for fn in functions:
        require_callable("measure", "fn", fn, "a function of no arguments", "Wrap the call: lambda: f(x)")
        _refuse_arguments(fn)
    if cache not in ("hot", "cold"):
        raise ArgumentError("measure", "cache", cache, "'hot' or 'cold'")
    if isinstance(budget_s, bool) or not isinstance(budget_s, int | float) or not 0 < budget_s < math.inf:
        raise ArgumentError("measure", "budget_s", budget_s, "a positive number of seconds")
    place = _placed(device)
    if cache == "cold" and not is_gpu(place):
        raise ArgumentError("measure", "cache", cache, "'hot' on a CPU", "Only a GPU's cache can be emptied")
    return place


def _refuse_arguments(fn: Callable[..., Any]) -> None:
    try:
        inspect.signature(fn).bind()
    except ValueError:
        return  # a builtin without a signature: calling it will tell
    except TypeError as error:
        expected = f"a function of no arguments ({error})"
        raise ArgumentError("measure", "fn", fn, expected, "Wrap the call: lambda: f(x)") from None


def _placed(device: Any) -> Place:
    if isinstance(device, CpuQueue):
        return device
    if device is None:
        return GPU if gpu_in_use() else "cpu"
    if is_cpu(device):
        return "cpu"
    if is_gpu(device):
        from brrr.gpu.device import this_device

        try:
            this_device()
        except UnavailableError as error:  # the reason stays, the call named is the one that the user made
            raise UnavailableError(str(error).replace("this_device: kind", "measure: device", 1)) from None
        return GPU
    raise ArgumentError("measure", "device", device, "'cuda', 'cpu' or a CpuQueue")
