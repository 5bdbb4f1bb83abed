"""More and more blocks, and more and more loads on their way in each thread: when is the memory's latency hidden?

Little's law: the bytes in flight are the bandwidth times the latency. A GPU with few blocks, or whose threads wait for
each load before the next, asks for too few bytes at once: it is under-filled, far below its bandwidth.
"""

from __future__ import annotations

import math
from functools import partial

from brrr.core.callables import giving
from brrr.core.measurement import Point
from brrr.counting.cost import Cost, OperatorCost
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.checked import must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import BANDWIDTH, ONE_KERNEL, alone
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Variant, Workload

THREADS, NUMBERS, ITEMSIZE = 256, 256, 4
"""As in `occupancy.cu`: threads of a block, and numbers that each of them reads."""

RESIDENT = 8
"""Blocks that a multiprocessor holds at once: 2048 threads."""

NAMED = {1: "one load", 2: "two loads", 4: "four loads", 8: "eight loads"}
"""The lines, by the loads that each thread has in flight."""

BLOCKS = (
    1, 2, 4, 8, 16, 33, 66, 132, 198, 264, 396, 528, 660, 792, 924, 1056, 1057, 1188, 1320, 1584, 2112, 2113, 4224,
    8448,
)  # fmt: skip
"""Up to eight times what the 132 multiprocessors of an H100 or H200 hold at once, and one block more than one wave."""

WAVE, ENOUGH = 1056, 4224
"""A full wave on an H200, and the loads in flight (by a block's threads) that fill its memory."""

LATENCY_S = 370e-9
"""For the predicted lines: what a load takes on an H200, the time of one block over its loads in its recording."""


def block_bytes() -> int:
    """What a block reads.

    >>> block_bytes()
    262144
    """
    return THREADS * NUMBERS * ITEMSIZE


def in_flight(blocks: int, loads: int, multiprocessors: int) -> int:
    """The bytes that are on their way at once.

    >>> in_flight(1, 1, 132), in_flight(5000, 8, 132)
    (1024, 8650752)
    """
    return min(blocks, RESIDENT * multiprocessors) * THREADS * loads * ITEMSIZE


def cost(variant: Variant, point: Point) -> Cost:
    """Every number read once."""
    return Cost(0.0, float(int(point["blocks"]) * block_bytes()))


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """One kernel that reads its bytes; None where too few are in flight, which the roofline ignores."""
    blocks, loads = int(point["blocks"]), int(variant.implementation)
    if min(blocks, WAVE) * loads < ENOUGH:
        return None
    return alone(OperatorCost("read", 0.0, float(blocks * block_bytes()), 0.0, "float32", (), ONE_KERNEL))


def by_littles_law(loads: int, hardware: Hardware | None, point: Point) -> float | None:
    """Bytes in flight over the assumed latency, at most the datasheet's bandwidth."""
    if hardware is None or not hardware.sm_count:
        return None
    asked = in_flight(int(point["blocks"]), loads, hardware.sm_count)
    return min(asked / LATENCY_S, hardware.memory_bytes_per_s)


EXPERIMENT = Experiment(
    title="Blocks, and loads in flight",
    question="How many bytes must be on their way for the full bandwidth?",
    axes=(Axis("blocks", BLOCKS, label="blocks of 256 threads", quick=(1, 132, 1056, 8448)),),
    variants=tuple(
        Variant(f"loads-{n}", f"{name} in flight", cache="cold", implementation=str(n), line=name)
        for n, name in NAMED.items()
    ),
    field="busy_s",
    package=__name__, needs="CUDA",
    anchors=({"blocks": 132}, {"blocks": 8448}),
    rate=Rate("bytes", "B/s", "bytes read a second"),
    guides=(
        BANDWIDTH,
        *(
            Guide(f"little {n}", f"Little's law, {name}", "PREDICTED", "rate", partial(by_littles_law, n), (name,))
            for n, name in NAMED.items() if n in (1, 8)
        ),
    ),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `occupancy` experiment runs: blocks that read memory with so many loads in flight, checked exactly.


def workload(variant: Variant, point: Point) -> Workload:
    """A kernel of `occupancy.cu` on fresh random words; the sum of all of them, modulo 2^32, is its check."""
    from brrr.kernels.occupancy import WARP, prepared

    blocks, loads = int(point["blocks"]), int(variant.implementation)
    must_fit(2 * blocks * block_bytes(), variant.processor, f"{blocks} blocks of {block_bytes()} bytes")
    numbers = blocks * THREADS * NUMBERS
    assert numbers * ITEMSIZE == blocks * block_bytes()
    words = torch.randint(2**31 - 1, (numbers,), dtype=torch.int32, device=variant.processor)
    sums = torch.zeros(blocks * THREADS // WARP, dtype=torch.int32, device=variant.processor)
    launch = prepared(words, sums, loads)
    expected = sum(int(part.sum(dtype=torch.int64)) for part in words.split(2**24))

    def error(found: torch.Tensor) -> float:
        return 0.0 if (int(found.sum(dtype=torch.int64)) - expected) % 2**32 == 0 else math.nan

    return Workload(giving(sums, launch, words), error, 0.0, warm=True)
