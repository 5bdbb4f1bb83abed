"""`measure`: the six times of a function, each with its interval, and the conditions they hold under.

>>> m = measure(lambda: sorted(range(1000)), device="cpu", budget_s=0.05)
>>> m.period_s.median > 0
True
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from brrr.core.measurement import Cache, Measurement
from brrr.timing.places import Place, checked
from brrr.timing.run import Run


def measure(
    fn: Callable[[], Any], *, device: Place | None = None, cache: Cache = "hot", budget_s: float = 0.2
) -> Measurement:
    """Measure a function of no arguments: what it costs to issue, to run, to loop over and to wait for.

    >>> print(measure(lambda: None, device="cpu", budget_s=0.01).kernel_s)
    None

    `device` is "cuda" (torch's current device and stream), "cpu", or a `CpuQueue`, whose worker plays the device; None
    takes the GPU if torch is loaded and has one. `cache="cold"` empties the L2 before each call and gives only the
    times that this defines: `kernel_s`, `busy_s` and `span_s`. It takes about `budget_s` seconds, less when all
    intervals are within 0.5 %, more when a few calls take longer. Flags: `host-bound`, `syncs` (the function waits for
    the device, so it has no span), `queue-full`, `single-call`, `no-profiler` (`kernel_s` is the calibrated
    fall-back's), `nan`, `power-capped`, `thermal`, `unstable` (it drifted, measured twice), `shared-gpu` (another
    program computes there).

    Raises ArgumentError for arguments that cannot be used, DeviceMemoryError when `fn` uses up the memory,
    UnavailableError when there is no GPU; what `fn` itself raises passes through.
    """
    return measure_together([fn], device=device, cache=cache, budget_s=budget_s)[0]


def measure_together(
    functions: Sequence[Callable[[], Any]],
    *,
    device: Place | None = None,
    cache: Cache = "hot",
    budget_s: float = 0.2,
) -> list[Measurement]:
    """Measure several functions interleaved, a slice of each in turn, so that a drift of the machine meets them all.

    Arguments, errors and results as those of `measure`; `budget_s` is for each function.
    """
    place = checked(functions, device, cache, budget_s)
    runs = [Run(function, place, cache, budget_s) for function in functions]
    return interleave(runs)


def interleave(runs: Sequence[Run]) -> list[Measurement]:
    """Warm up all runs, then sample them in turn until each is precise or its budget is spent.

    A run that drifted meanwhile is measured once more; if it drifts again, its measurement carries the flag.
    """
    with no_collection():
        _sample(runs)
        _sample([run for run in runs if run.drifted and run.start_again()])
        return [run.finish() for run in runs]


def _sample(runs: Sequence[Run]) -> None:
    for run in runs:
        run.warm_up()
    while waiting := [run for run in runs if not run.done]:
        for run in waiting:
            run.round()


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
