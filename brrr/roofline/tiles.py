"""A matrix product on a GPU: tiles of the result, dealt out to the multiprocessors in waves.

The result is cut into tiles; each multiprocessor computes one after the other. A tile that hangs over the edge, and a
last wave that is not full, cost as much as whole ones. A tile takes: a prologue until its first operands are there; a
step for each element of k, as long as its arithmetic, and never shorter than the memory answers; an epilogue that
writes it. Small tiles waste less of the edge, but use each operand less often: their rate falls with a power of their
area, and the cache has to deliver each operand to every tile that needs it. Rows that do not begin on a line of the
cache are fetched in pieces. Where there are fewer tiles than multiprocessors, the sum over k can be split, at the price
of a second kernel that adds up partial sums. The fastest way of these counts.

Which kernels there are for a data type and an alignment, and their constants, stands in `families`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from brrr.counting.cost import Matmul
from brrr.roofline.families import family_of, leads, row_bytes

K_STEP = 32
"""Tiles go through k in steps of so many."""
LEAST_K = 64
"""No part of a split sum is shorter."""
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
PARTIAL_BYTES = 2 * 4
"""A partial sum is written and read once, in float32."""
LINE = 128
"""Bytes of a line of the cache."""
FULL = 128 * 128
"""Tiles from this size on reach the full rate."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """What a tile's time rests on: FLOP/s of full waves, B/s of the cache, and the number of multiprocessors."""

    flop_per_s: float
    cache_bytes_per_s: float
    sm_count: int


@dataclass(frozen=True, slots=True)
class Tiling:
    """One way to compute a product: tile sizes, parts of the sum over k, the waves it takes, and its seconds."""

    rows: int
    columns: int
    split: int
    waves: int
    seconds: float


def tilings(product: Matmul, speeds: Speeds) -> Iterator[Tiling]:
    """Every tiling that is tried. The sums of a batch are not split."""
    family, itemsize = family_of(product), row_bytes(product, 1)
    missed = misalignment(product)
    for rows, columns in family.tiles:
        tiles = product.batch * math.ceil(product.m / rows) * math.ceil(product.n / columns)
        pieces = 1 + family.pieces * (missed[0] * rows + missed[1] * columns) / (rows + columns)
        rate = family.share * speeds.flop_per_s * min(1.0, (rows * columns / FULL) ** family.small)
        step = max(family.step_s, 2 * rows * columns * speeds.sm_count / rate * pieces)
        written = speeds.sm_count * rows * columns * itemsize / (family.written * speeds.cache_bytes_per_s)
        cache = family.cache * speeds.cache_bytes_per_s
        for split in SPLITS:
            if split > 1 and (product.k < split * LEAST_K or product.batch > 1):
                break
            depth = K_STEP * math.ceil(product.k / split / K_STEP)
            waves = math.ceil(tiles * split / speeds.sm_count)
            computing = waves * (family.prologue_s + depth * step + written)
            fetching = tiles * split * depth * (rows + columns) * itemsize * pieces / cache
            partial = PARTIAL_BYTES * split * product.m * product.n / cache + family.split_s if split > 1 else 0.0
            yield Tiling(rows, columns, split, waves, max(computing, fetching) + partial)


def best_tiling(product: Matmul, speeds: Speeds) -> Tiling:
    """The fastest of the tilings.

    >>> best_tiling(Matmul(256, 128 * 132, 8192, dtype="bfloat16"), Speeds(8e14, 9e12, 132)).waves
    1
    """
    return min(tilings(product, speeds), key=lambda each: each.seconds)


@lru_cache(maxsize=4096)
def product_s(product: Matmul, speeds: Speeds) -> float:
    """Seconds of a product's tiles, without the start of its kernel."""
    return best_tiling(product, speeds).seconds


def misalignment(product: Matmul) -> tuple[float, float]:
    """How far the rows of the two operands are from beginning on lines of the cache: 0 on them, 1 at every 16 bytes.

    >>> misalignment(Matmul(64, 64, 64, dtype="float32")), misalignment(Matmul(64, 68, 72, dtype="float32"))
    ((0.0, 0.0), (0.6666666666666666, 1.0))
    """
    first, second = leads(product)
    return (
        _missed(row_bytes(product, first)) if product.m > 1 else 0.0,
        _missed(row_bytes(product, second)) if product.n > 1 else 0.0,
    )


def _missed(nbytes: int) -> float:
    aligned = min(LINE, nbytes & -nbytes)
    return min(1.5, math.log2(LINE / aligned) / 3)
