"""What the `working_set` experiment runs: passes over a set of memory, by our kernels or by one torch operator."""

import math
from collections.abc import Callable
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.gpu import is_cpu
from brrr_course.experiments.checked import queued, refuse_too_large, warmed
from brrr_course.experiments.energy import energy_launched
from brrr_course.experiments.working_set import cost, set_bytes
from brrr_course.nouns.experiment import Variant, Workload

SUM_TOLERANCE = 1e-5
CHUNK = 2**24
BLOCKS_A_MULTIPROCESSOR = 4
"""Blocks of 512 threads: as many as a multiprocessor holds at once, so that none waits for its turn."""


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's passes over fresh random numbers."""
    how, kind = variant.way, variant.kind
    nbytes, device = int(point["nbytes"]), variant.processor
    refuse_too_large(2 * nbytes + 4 * 8 * min(nbytes // 4, CHUNK), device, f"{variant.label} within {nbytes} bytes")
    if how == "sustained":
        return _sustained(variant, point, kind, nbytes)
    run, error, tolerance = _copy(set_bytes(kind, nbytes) // 4, device)
    made = Workload(run, cost(variant, point), error, tolerance)
    return queued(made) if is_cpu(device) else warmed(made, device)


def _sustained(variant: Variant, point: Point, kind: str, nbytes: int) -> Workload:
    """A kernel of `peaks.cu`; its own check compares every word (WrongResultError), so nothing is left to tolerate."""
    from brrr.roofline.calibrate.gpu_bandwidth import Streams

    streams = Streams(nbytes)
    wanted = BLOCKS_A_MULTIPROCESSOR * torch.cuda.get_device_properties().multi_processor_count
    stream = min(streams.of(kind, nbytes, once=False), key=lambda each: abs(each.blocks - wanted))
    described = cost(variant, point)
    assert stream.moved_bytes == described.bytes, f"{stream.moved_bytes} bytes moved, {described.bytes} counted"

    def error(result: Any) -> float:
        stream.check()
        return 0.0

    told = {"measured": lambda: energy_launched(stream.call)} if variant.timer == "own" else {}
    return Workload(stream.call, described, error, 0.0, synchronize=torch.cuda.synchronize, others=told)


Once = tuple[Callable[[], Any], Callable[[Any], float], float]


def _copy(numbers: int, device: str) -> Once:
    """An array of random numbers into one of NaN, which together are the working set."""
    x = torch.randn(numbers // 2, device=device)
    y = torch.full_like(x, math.nan)
    return lambda: y.copy_(x), lambda found: 0.0 if torch.equal(found, x) else math.nan, 0.0
