"""Where a function is measured: on torch's GPU, on the CPU, or on a CPU queue; and what it must be to be measured."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

from brrr.core import units
from brrr.core.errors import ArgumentError, DeviceMemoryError, UnavailableError
from brrr.timing.cpu_queue import CpuQueue

Place = Literal["cuda", "cpu"] | CpuQueue


def checked(functions: Sequence[Any], device: Any, cache: Any, budget_s: Any) -> Place:
    for fn in functions:
        if not callable(fn):
            raise ArgumentError("measure", "fn", fn, "a function of no arguments", "Wrap the call: lambda: f(x)")
        _refuse_arguments(fn)
    if cache not in ("hot", "cold"):
        raise ArgumentError("measure", "cache", cache, "'hot' or 'cold'")
    if isinstance(budget_s, bool) or not isinstance(budget_s, int | float) or not 0 < budget_s < math.inf:
        raise ArgumentError("measure", "budget_s", budget_s, "a positive number of seconds")
    place = placed(device)
    if cache == "cold" and place != "cuda":
        raise ArgumentError("measure", "cache", cache, "'hot' on a CPU", "Only a GPU's cache can be emptied")
    return place


def _refuse_arguments(fn: Callable[..., Any]) -> None:
    try:
        inspect.signature(fn).bind()
    except ValueError:
        return  # a builtin without a signature: calling it will tell
    except TypeError as error:
        raise ArgumentError(
            "measure", "fn", fn, f"a function of no arguments ({error})", "Wrap the call: lambda: f(x)"
        ) from None


def placed(device: Any) -> Place:
    if isinstance(device, CpuQueue):
        return device
    if device is None:
        torch = sys.modules.get("torch")
        return "cuda" if torch is not None and torch.cuda.is_available() else "cpu"
    if device == "cpu":
        return "cpu"
    if device == "cuda":
        from brrr.gpu.device import this_device

        try:
            this_device("cuda")
        except UnavailableError as error:  # the reason stays, the call named is the one that the user made
            raise UnavailableError(str(error).replace("this_device: kind", "measure: device", 1)) from None
        return "cuda"
    raise ArgumentError("measure", "device", device, "'cuda', 'cpu' or a CpuQueue")


def name_of(place: Place) -> str:
    from brrr.gpu.device import this_device

    if place == "cuda":
        return this_device("cuda").name
    name = this_device("cpu").name
    return f"CPU queue on {name}" if isinstance(place, CpuQueue) else name


def wait_for(place: Place) -> Callable[[], None] | None:
    if isinstance(place, CpuQueue):
        return place.synchronize
    if place == "cpu":
        return None
    import torch

    return torch.cuda.synchronize


# ---------------------------------------------------------------------------------------------------------------------
# A function that keeps memory at every call is stopped before it has taken it all.


def refuse_growth(fn: Callable[[], Any], place: Place, call_s: float, budget_s: float) -> None:
    """Stop a function that keeps memory at every call before it has taken it all.

    Four calls tell the growth; DeviceMemoryError if the calls to come would need more than what is free.
    """
    if call_s > budget_s:
        return
    wait = wait_for(place)
    used = []
    for _ in range(4):
        fn()
        if wait is not None:
            wait()
        used.append(_used_bytes(place))
    growth = min(b - a for a, b in pairwise(used))
    calls = 4 * budget_s / max(call_s, 1e-7)
    free = _free_bytes(place)
    if growth > 0 and growth * calls > free:
        raise DeviceMemoryError(
            f"measure: fn keeps {units.nbytes(growth)} more at each call; about {calls:.0f} calls would need "
            f"{units.nbytes(growth * calls)} and {units.nbytes(free)} is free. Let it reuse its memory"
        )


def _used_bytes(place: Place) -> int:
    if place == "cuda":
        import torch

        return int(torch.cuda.memory_allocated())
    import psutil

    return int(psutil.Process().memory_info().rss)


def _free_bytes(place: Place) -> int:
    if place == "cuda":
        import torch

        return int(torch.cuda.mem_get_info()[0])
    import psutil

    return int(psutil.virtual_memory().available)
