"""Timers that people write and use, each a few lines and named for its mistake; beside them `measure` tells the truth.

All return seconds. `call` is a function of no arguments, `wait` what synchronises its device.
"""

import time
from collections.abc import Callable
from typing import Any

Call = Callable[[], Any]
Wait = Callable[[], None]
REPEATS = 20


def no_sync(call: Call, wait: Wait) -> list[float]:
    """Stops the clock when the call returns: the device may not even have begun."""
    call()
    wait()
    return [_clocked(call) for _ in range(REPEATS)]


def no_warm_up(call: Call, wait: Wait) -> list[float]:
    """Times the very first call only, with loading, compiling and allocating in it."""
    return [_clocked(call, wait)]


def sync_each_call(call: Call, wait: Wait) -> list[float]:
    """Waits after each call: true for a single caller, but in a loop the launches would have hidden behind the work."""
    call()
    wait()
    return [_clocked(call, wait) for _ in range(REPEATS)]


def event_pair_each_call(call: Call, wait: Wait) -> list[float]:
    """Events around each call on an idle GPU: the first is stamped at once, so launching is timed with the work."""
    import torch

    call()
    samples = []
    for _ in range(REPEATS):
        wait()
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        call()
        last.record()
        wait()
        samples.append(first.elapsed_time(last) * 1e-3)
    return samples


def _clocked(call: Call, wait: Wait | None = None) -> float:
    start = time.perf_counter()
    call()
    if wait is not None:
        wait()
    return time.perf_counter() - start
