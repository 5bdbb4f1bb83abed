"""A matrix product on a GPU: tiles of the result, dealt out to the multiprocessors in waves.

The result is cut into tiles; each multiprocessor computes one after the other. A tile that hangs over the edge, and a
last wave that is not full, cost as much as whole ones. Small tiles waste less, but reuse each operand less often:
`share_of_rate` says which share of the full rate each reaches, an assumption. Where there are fewer tiles than
multiprocessors, the sum over k can be split, at the price of partial sums written and read once more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from brrr.counting.cost import Matmul

K_STEP = 16
"""Tiles go through k in steps of so many."""
LEAST_K = 256
"""No part of a split sum is shorter."""
SPLITS = (1, 2, 4, 8, 16)
PARTIAL_BYTES = 2 * 4
"""A partial sum is written and read once, in float32."""
FULL = 128 * 128
"""Tiles from this size on reach the full rate."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """One way to compute a product: tile sizes, parts of the sum over k, the waves it takes."""

    rows: int
    columns: int
    split: int
    waves: int
    padded_flop: float
    extra_bytes: float


TILES = tuple((rows, columns) for rows, columns in (
    (256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64),
    (128, 32), (32, 128), (128, 16), (16, 128), (128, 8), (8, 128),
))  # fmt: skip


def share_of_rate(rows: int, columns: int) -> float:
    """The share of the full rate that a tile reaches: the cube root of its area over 128 x 128, at most 1 (assumed).

    >>> share_of_rate(128, 256), share_of_rate(128, 16)
    (1.0, 0.5)
    """
    return min(1.0, float(round((rows * columns / FULL) ** (1 / 3), 12)))


def tilings(product: Matmul, sm_count: int) -> Iterator[Tiling]:
    """Every tiling that is tried."""
    for rows, columns in TILES:
        tiles = product.batch * math.ceil(product.m / rows) * math.ceil(product.n / columns)
        for split in SPLITS:
            if split > 1 and product.k < split * LEAST_K:
                break
            waves = math.ceil(tiles * split / sm_count)
            depth = K_STEP * math.ceil(product.k / split / K_STEP)
            padded = waves * sm_count * 2.0 * rows * columns * depth / share_of_rate(rows, columns)
            partial = PARTIAL_BYTES * split * product.batch * product.m * product.n if split > 1 else 0
            yield Tiling(rows, columns, split, waves, padded, float(partial))


def best_tiling(product: Matmul, sm_count: int, flop_per_s: float, bytes_per_s: float) -> Tiling:
    """The fastest of the tilings, at the rate that full waves of large tiles reach.

    >>> best_tiling(Matmul(256, 128 * 132, 1024), 132, 1e15, 4e12).waves    # as many tiles of 256 x 128 as processors
    1
    """
    return min(tilings(product, sm_count), key=lambda each: _seconds(each, flop_per_s, bytes_per_s))


def product_s(product: Matmul, sm_count: int | None, flop_per_s: float, bytes_per_s: float) -> float:
    """Seconds of arithmetic of a product; by its FLOP alone where it has a vector, or where nobody knows the waves."""
    if sm_count is None or 1 in (product.m, product.n):
        return product.flop / flop_per_s
    return _seconds(best_tiling(product, sm_count, flop_per_s, bytes_per_s), flop_per_s, bytes_per_s)


def full_rate(size: float, flop_per_s: float, sm_count: int | None, bytes_per_s: float) -> float:
    """The rate in full waves, from the rate that was measured on a square product of that size."""
    if sm_count is None:
        return flop_per_s
    square = Matmul(int(size), int(size), int(size))
    return best_tiling(square, sm_count, flop_per_s, bytes_per_s).padded_flop / square.flop * flop_per_s


def _seconds(tiling: Tiling, flop_per_s: float, bytes_per_s: float) -> float:
    return tiling.padded_flop / flop_per_s + tiling.extra_bytes / bytes_per_s
