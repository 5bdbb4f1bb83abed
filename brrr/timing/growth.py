"""A function that keeps memory at every call is stopped before it has taken it all."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from brrr import units
from brrr.errors import DeviceMemoryError
from brrr.timing.places import Place, wait_for


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
