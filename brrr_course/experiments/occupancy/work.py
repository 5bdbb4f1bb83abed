"""What the `occupancy` experiment runs: blocks that read memory with so many loads in flight, checked exactly."""

import math

import torch

from brrr.core.measurement import Point
from brrr_course.experiments.checked import refuse_too_large, warmed
from brrr_course.experiments.occupancy import ITEMSIZE, NUMBERS, THREADS, block_bytes, cost
from brrr_course.nouns.experiment import Variant, Workload


def workload(variant: Variant, point: Point) -> Workload:
    """A kernel of `occupancy.cu` on fresh random words; the sum of all of them, modulo 2^32, is its check."""
    from brrr.kernels.occupancy import WARP, prepared

    blocks, loads = int(point["blocks"]), int(variant.way)
    refuse_too_large(2 * blocks * block_bytes(), variant.processor, f"{blocks} blocks of {block_bytes()} bytes")
    numbers = blocks * THREADS * NUMBERS
    assert numbers * ITEMSIZE == blocks * block_bytes()
    words = torch.randint(2**31 - 1, (numbers,), dtype=torch.int32, device=variant.processor)
    sums = torch.zeros(blocks * THREADS // WARP, dtype=torch.int32, device=variant.processor)
    launch = prepared(words, sums, loads)
    expected = sum(int(part.sum(dtype=torch.int64)) for part in words.split(2**24))

    def run() -> torch.Tensor:
        launch()
        return sums

    def error(found: torch.Tensor) -> float:
        return 0.0 if (int(found.sum(dtype=torch.int64)) - expected) % 2**32 == 0 else math.nan

    return warmed(Workload(run, cost(variant, point), error, 0.0), variant.processor)
