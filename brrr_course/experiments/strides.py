"""One number in every `stride`: how much of what the memory moves is of use, and does a crooked start matter?

A multiprocessor asks the L2 cache for sectors of 32 bytes, eight floats; the cache may fetch more than one from memory
at once. A sector of which only a part is written must be read first. What is shown are useful bytes a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from brrr.core.callables import giving
from brrr.core.measurement import Point
from brrr.counting.cost import Cost, OperatorCost
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.checked import must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import BANDWIDTH, ONE_KERNEL, alone
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Variant, Workload

STRIDES = (1, 2, 3, 4, 8, 16, 32)
OFFSETS = (0, 1, 3, 8)
NUMBERS = (2**22, 2**26, 2**28)
ITEMSIZE, SECTOR, PIECE = 4, 32, 64
"""A piece is what the L2 cache of recent GPUs fetches from memory at once: two sectors."""

CACHED_BYTES = 2**27
"""No GPU's L2 holds an array of more."""


def touched(point: Point) -> int:
    """How many numbers there are from `offset` on, one in every `stride`, up to the end of the array.

    >>> touched({"numbers": 10, "stride": 4, "offset": 1})
    3
    """
    numbers, stride, offset = (int(point[name]) for name in ("numbers", "stride", "offset"))
    return max(0, -(-(numbers - offset) // stride))


def sectors(point: Point, nbytes: int = SECTOR) -> int:
    """How many sectors (or larger pieces) hold at least one of them, where the array begins with one.

    >>> [sectors({"numbers": 64, "stride": stride, "offset": 0}) for stride in (1, 2, 8, 16)]
    [8, 8, 8, 4]
    >>> sectors({"numbers": 64, "stride": 8, "offset": 1}, nbytes=64)
    4
    """
    stride, offset, count = int(point["stride"]), int(point["offset"]), touched(point)
    each = nbytes // ITEMSIZE
    if not count:
        return 0
    return count if stride >= each else (offset + (count - 1) * stride) // each - offset // each + 1


def cost(variant: Variant, point: Point) -> Cost:
    """The useful bytes; `eager_bytes` are those of all sectors that are touched."""
    return Cost(0.0, float(ITEMSIZE * touched(point)), eager_bytes=float(SECTOR * sectors(point)))


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """One kernel that moves whole sectors of 32 bytes: all that hold a number which is touched.

    Beyond the caches the memory hands out two sectors at once, and a sector that is written in part is read before.
    """
    whole = float(SECTOR * sectors(point))
    in_memory = ITEMSIZE * int(point["numbers"]) > CACHED_BYTES
    fetched = float(PIECE * sectors(point, PIECE)) if in_memory else whole
    read, written = fetched, 0.0
    if variant.implementation == "write":
        read, written = fetched * _filled_in_part(point) if in_memory else 0.0, whole
    return alone(OperatorCost(f"strided {variant.implementation}", 0.0, read, written, "float32", (), ONE_KERNEL))


def _filled_in_part(point: Point) -> float:
    """The share of the sectors that are written in part, as the threads of a warp fill them.

    Of neighbours none, but where a warp begins inside a sector: it shares one of its four with the warp before.
    """
    if int(point["stride"]) > 1:
        return 1.0
    return 0.25 if int(point["offset"]) % (SECTOR // ITEMSIZE) else 0.0


def by_sectors(hardware: Hardware | None, point: Point) -> float | None:
    """The useful bytes a second of a strided read, if single sectors moved at the datasheet's bandwidth."""
    if hardware is None or not touched(point):
        return None
    return hardware.memory_bytes_per_s * ITEMSIZE * touched(point) / (SECTOR * sectors(point))


EXPERIMENT = Experiment(
    title="Strides and crooked starts",
    question="Who reads one number in eight: does it take an eighth of the time?",
    axes=(
        Axis("stride", STRIDES, label="stride (floats)", quick=(1, 4, 8, 32)),
        Axis("offset", OFFSETS, label="first number", scale="category", quick=(0, 1)),
        Axis("numbers", NUMBERS, label="floats in the array", quick=(2**22,), most={"cpu-queue": 2**24}),
    ),
    variants=(
        Variant("read", "read"),
        Variant("write", "write"),
        Variant.twin("read", "cpu-queue", "x[offset::stride] summed"),
        Variant.twin("write", "cpu-queue", "x[offset::stride] filled"),
    ),
    field="busy_s",
    package=__name__, needs="CUDA",
    anchors=({"stride": 1, "offset": 0, "numbers": 2**26}, {"stride": 8, "offset": 0, "numbers": 2**26}),
    rate=Rate("bytes", "B/s", "useful bytes a second"),
    guides=(
        BANDWIDTH,
        Guide("sectors", "read, by single sectors", "PREDICTED", "rate", by_sectors, ("read",)),
    ),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `strides` experiment runs: one number in every `stride` read or written, and checked exactly.

SUM_TOLERANCE = 1e-5
UNTOUCHED = -1
"""What lies between the numbers that a write touches, and must still lie there afterwards."""

Made = tuple[Callable[[], Any], Callable[[Any], float], float]


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's way over an array of fresh random numbers."""
    device = variant.processor
    must_fit(4 * ITEMSIZE * int(point["numbers"]), device, f"{variant.label} of {point['numbers']} floats")
    run, error, tolerance = (MAKERS if variant.on_gpu else CPU_MAKERS)[variant.implementation](point, device)
    return Workload(run, error, tolerance, warm=True)


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
        return _exact(x, expected) + _exact(found, strided(expected, point))

    return lambda: view.fill_(value), error, 0.0


def _read(point: Point, device: str) -> Made:
    """By `strides.cu`: the sum of all touched words, modulo 2^32."""
    from brrr.kernels.strides import strided_sums

    x = torch.randn(int(point["numbers"]), device=device).view(torch.int32)
    sums, launch = strided_sums(x, touched(point), int(point["stride"]), int(point["offset"]))

    def error(found: torch.Tensor) -> float:
        difference = int(found.sum(dtype=torch.int64)) - int(strided(x, point).sum(dtype=torch.int64))
        return 0.0 if difference % 2**32 == 0 else math.nan

    return giving(sums, launch), error, 0.0


def _write(point: Point, device: str) -> Made:
    """By `strides.cu`: base, base + 1, ... into the touched words, and nothing anywhere else."""
    from brrr.kernels.strides import strided_write

    numbers, base, count = int(point["numbers"]), int(torch.randint(2**30, ())), touched(point)
    x = torch.full((numbers,), UNTOUCHED, dtype=torch.int32, device=device)
    launch = strided_write(x, base, count, int(point["stride"]), int(point["offset"]))

    def error(found: torch.Tensor) -> float:
        expected = torch.full_like(found, UNTOUCHED)
        strided(expected, point).copy_(torch.arange(base, base + count, dtype=torch.int32, device=device))
        return _exact(found, expected)

    return giving(x, launch), error, 0.0


def _exact(found: torch.Tensor, expected: torch.Tensor) -> float:
    return 0.0 if torch.equal(found, expected) else math.nan


MAKERS: dict[str, Callable[[Point, str], Made]] = {"read": _read, "write": _write}
CPU_MAKERS: dict[str, Callable[[Point, str], Made]] = {"read": _cpu_read, "write": _cpu_write}
