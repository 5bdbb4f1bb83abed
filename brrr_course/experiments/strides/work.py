"""What the `strides` experiment runs: one number in every `stride` read or written, and checked exactly."""

import math
from collections.abc import Callable
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.gpu import is_cpu
from brrr_course.experiments.checked import queued, refuse_too_large, warmed
from brrr_course.experiments.strides import ITEMSIZE, cost, touched
from brrr_course.nouns.experiment import Variant, Workload

SUM_TOLERANCE = 1e-5
UNTOUCHED = -1
"""What lies between the numbers that a write touches, and must still lie there afterwards."""

Made = tuple[Callable[[], Any], Callable[[Any], float], float]


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's way over an array of fresh random numbers."""
    device = variant.processor
    refuse_too_large(4 * ITEMSIZE * int(point["numbers"]), device, f"{variant.label} of {point['numbers']} floats")
    run, error, tolerance = (MAKERS if variant.on_gpu else CPU_MAKERS)[variant.way](point, device)
    made = Workload(run, cost(variant, point), error, tolerance)
    return queued(made) if is_cpu(device) else warmed(made, device)


def strided(x: torch.Tensor, point: Point) -> torch.Tensor:
    """The numbers that are touched.

    >>> strided(torch.arange(10), {"offset": 1, "stride": 4}).tolist()
    [1, 5, 9]
    """
    return x[int(point["offset"]) :: int(point["stride"])]


def _cpu_read(point: Point, device: str) -> Made:
    """Numbers from 0 to 1, so that the sum is large beside its rounding, and any part that is missing shows."""
    view = strided(torch.rand(int(point["numbers"])), point)
    expected = float(view.double().sum())
    return view.sum, lambda found: abs(float(found) - expected) / expected, SUM_TOLERANCE


def _cpu_write(point: Point, device: str) -> Made:
    x, value = torch.full((int(point["numbers"]),), float(UNTOUCHED)), float(torch.rand(()))
    view = strided(x, point)

    def error(found: Any) -> float:
        expected = torch.full_like(x, float(UNTOUCHED))
        strided(expected, point).fill_(value)
        return _exact(x, expected)

    return lambda: view.fill_(value), error, 0.0


def _read(point: Point, device: str) -> Made:
    """By `strides.cu`: the sum of all touched words, modulo 2^32."""
    from brrr.kernels.strides import strided_sums

    x = torch.randn(int(point["numbers"]), device=device).view(torch.int32)
    sums, launch = strided_sums(x, touched(point), int(point["stride"]), int(point["offset"]))

    def run() -> torch.Tensor:
        launch()
        return sums

    def error(found: torch.Tensor) -> float:
        difference = int(found.sum(dtype=torch.int64)) - int(strided(x, point).sum(dtype=torch.int64))
        return 0.0 if difference % 2**32 == 0 else math.nan

    return run, error, 0.0


def _write(point: Point, device: str) -> Made:
    """By `strides.cu`: base, base + 1, ... into the touched words, and nothing anywhere else."""
    from brrr.kernels.strides import strided_write

    numbers, base, count = int(point["numbers"]), int(torch.randint(2**30, ())), touched(point)
    x = torch.full((numbers,), UNTOUCHED, dtype=torch.int32, device=device)
    launch = strided_write(x, base, count, int(point["stride"]), int(point["offset"]))

    def run() -> torch.Tensor:
        launch()
        return x

    def error(found: torch.Tensor) -> float:
        expected = torch.full_like(found, UNTOUCHED)
        strided(expected, point).copy_(torch.arange(base, base + count, dtype=torch.int32, device=device))
        return _exact(found, expected)

    return run, error, 0.0


def _exact(found: torch.Tensor, expected: torch.Tensor) -> float:
    return 0.0 if torch.equal(found, expected) else math.nan


MAKERS: dict[str, Callable[[Point, str], Made]] = {"read": _read, "write": _write}
CPU_MAKERS: dict[str, Callable[[Point, str], Made]] = {"read": _cpu_read, "write": _cpu_write}
