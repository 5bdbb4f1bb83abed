"""Bandwidth by working set on a GPU: sustained, in a single pass, and through torch's own operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from brrr.core.measurement import Estimate
from brrr.core.values import Value
from brrr.roofline.calibrate import part as checks
from brrr.roofline.calibrate.gpu_streams import BLOCK, KINDS, Stream, Streams
from brrr.roofline.calibrate.gpu_times import clock_conditions, times_of
from brrr.roofline.calibrate.part import Findings
from brrr.roofline.peaks.peak import Curve, Peak, better, steps

SMALLEST, LARGEST, QUICK_LARGEST = 64 * 2**10, 4 * 2**30, 256 * 2**20
MEMORY_SHARE = 4
"""The arena takes at most a quarter of the free memory, so that the checks have theirs."""
PAGE = 4096
"""Sets are whole pages, so that no half of one begins inside a line of the cache."""


def measure_bandwidth(found: Findings) -> None:
    """The curves copy, read, write and triad, each sustained and once; `torch-copy` and `torch-pointwise`, once.

    Sustained, a kernel goes over the working set again and again, so that the rate is that of the memory level which
    holds it. Once is what an operator does on a hot cache: the kernel's start and end weigh on small sets.
    """
    sizes = working_sets(found.quick)
    streams = Streams(sizes[-1])
    for kind in KINDS:
        for once in (False, True):
            _measure_kind(streams, kind, sizes, once, found)
    streams.refill()
    _measure_torch(streams.arena, sizes, found)


def working_sets(quick: bool) -> list[int]:
    """From 64 KiB to 4 GiB, or a quarter of the free memory; twice as dense about the size of the L2."""
    free, _ = torch.cuda.mem_get_info()
    l2 = torch.cuda.get_device_properties().L2_cache_size
    largest = min(QUICK_LARGEST if quick else LARGEST, free // MEMORY_SHARE)
    sizes = steps(SMALLEST, largest, 8 if quick else 2, fine=None if quick else (l2 / 4, l2 * 3))
    return [size // PAGE * PAGE for size in sizes]


def _measure_kind(streams: Streams, kind: str, sizes: Sequence[int], once: bool, found: Findings) -> None:
    tried = [stream for size in sizes for stream in streams.of(kind, size, once=once)]
    for stream in tried:
        stream.check()
    estimates, origin = times_of([stream.call for stream in tried])
    best: dict[int, Peak] = {}
    for stream, estimate in zip(tried, estimates, strict=True):
        if estimate is not None:
            best[stream.set_bytes] = better(best.get(stream.set_bytes), _rate(stream, estimate))
    how = "a single pass on a hot cache" if once else "passes over the set until at least 256 MiB are moved"
    by = f"brrr_stream_{kind} with {BLOCK} threads a block, the best of its launch shapes: {how}"
    _keep(f"{kind}-once" if once else kind, best, len(sizes), by, origin, found)


def _rate(stream: Stream, estimate: Estimate) -> Peak:
    return Peak.rate(stream.moved_bytes, estimate, "B/s", blocks=stream.blocks)


def _keep(name: str, best: dict[int, Peak], wanted: int, by: str, origin: str, found: Findings) -> None:
    if len(best) < wanted:
        found.note(f"{name}: {wanted - len(best)} small sets left out, since only CUPTI can time their kernels")
    if best:
        conditions: dict[str, Value] = {"by": by, "times_from": origin, **clock_conditions()}
        found.curves[name] = Curve("working_set_bytes", tuple(sorted(best.items())), conditions)


def _measure_torch(arena: torch.Tensor, sizes: Sequence[int], found: Findings) -> None:
    """torch's own copy and its own pointwise product on the same sets, once each."""
    for name, by, prepare in (
        ("torch-copy", "y.copy_(x)", _copied),
        ("torch-pointwise", "torch.mul(x, factor, out=y)", _multiplied),
    ):
        calls = [prepare(arena[: size // 8], arena[size // 8 : size // 4]) for size in sizes]
        estimates, origin = times_of(calls)
        best = {
            size: Peak.rate(size, estimate, "B/s")
            for size, estimate in zip(sizes, estimates, strict=True)
            if estimate is not None
        }
        _keep(name, best, len(sizes), by, origin, found)


def _copied(x: torch.Tensor, y: torch.Tensor) -> Callable[[], Any]:
    kept = y.clone()
    y.fill_(torch.nan)
    y.copy_(x)
    checks.same(y, lambda first, last: x[first:last], "torch's copy_")
    y.copy_(kept)  # the larger sets read what was here
    return lambda: y.copy_(x)


def _multiplied(x: torch.Tensor, y: torch.Tensor) -> Callable[[], Any]:
    kept, factor = y.clone(), 1.0 + 2.0**-10
    y.fill_(torch.nan)
    torch.mul(x, factor, out=y)
    for first in range(0, len(x), checks.BLOCK):
        part = slice(first, first + checks.BLOCK)
        checks.close(y[part], x[part].double() * factor, 1e-6, "torch.mul")
    y.copy_(kept)
    return lambda: torch.mul(x, factor, out=y)
