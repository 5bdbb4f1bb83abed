"""Families of matrix product kernels: what a library has for a data type and an alignment, with their constants.

A family's constants are assumed. They were fitted to kernel times of products on an H200 with cuBLAS 13 (development
data, see docs/predictor.md), as shares of what is measured on the device wherever there is something to take a share
of; a sweep of products (`calibrate`) corrects what is left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from brrr.counting.cost import ITEMSIZE, Matmul

Tile = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Family:
    """Kernels alike.

    share: of the data type's best measured rate, what its full tiles reach in full waves; small: the power of its area
    that a smaller tile's rate falls with. cache: the share of the cache's rate at which operands come; written: that at
    which results go. start_s: start and end of the kernel, prologue_s: of a tile; step_s: the shortest time for an
    element of k; split_s: the second kernel of a split sum. pieces: what rows that begin on no line cost more.
    overlap: how memory and arithmetic overlap, the power in (a^p + b^p)^(1/p).
    """

    name: str
    tiles: tuple[Tile, ...]
    share: float
    small: float
    cache: float
    written: float
    start_s: float
    prologue_s: float
    step_s: float
    split_s: float
    pieces: float
    overlap: float


WIDE: tuple[Tile, ...] = (
    (256, 128), (128, 256), (192, 192), (128, 192), (192, 128), (128, 128), (128, 64), (64, 128),
    (64, 64), (64, 32), (32, 64), (32, 32), (64, 16), (16, 64), (64, 8), (8, 64),
)  # fmt: skip
"""Of the kernels for tensor cores since Hopper."""
OLDER: tuple[Tile, ...] = (
    (256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64),
    (64, 32), (32, 64), (128, 32), (32, 128), (32, 32),
)  # fmt: skip
"""Of CUTLASS's kernels for older tensor cores, and of those for plain units."""

FAMILIES: Mapping[str, Family] = {
    "float32": Family(
        "float32", OLDER, share=0.949, small=0.314, cache=0.885, written=2.52,
        start_s=2.04e-06, prologue_s=4.97e-07, step_s=9.72e-10, split_s=3.77e-06, pieces=0.0265, overlap=2.31,
    ),
    "float64": Family(
        "float64", OLDER, share=1.07, small=0.149, cache=1.13, written=0.515,
        start_s=1.69e-06, prologue_s=1.53e-07, step_s=9.93e-10, split_s=3.26e-06, pieces=0.323, overlap=2.11,
    ),
    "short, 16 B": Family(
        "short, 16 B", WIDE, share=1.28, small=0.678, cache=1.07, written=0.625,
        start_s=1.63e-06, prologue_s=3.64e-07, step_s=9.91e-10, split_s=3.1e-06, pieces=0.165, overlap=1.94,
    ),
    "short, 2 B": Family(
        "short, 2 B", OLDER, share=0.171, small=0.681, cache=0.453, written=1.68,
        start_s=1.8e-06, prologue_s=1.16e-06, step_s=9.94e-10, split_s=1.9e-06, pieces=0.0375, overlap=1.02,
    ),
    "short, 4 B": Family(
        "short, 4 B", OLDER, share=0.338, small=0.672, cache=0.364, written=0.443,
        start_s=1.75e-06, prologue_s=3.39e-07, step_s=1e-09, split_s=1.77e-06, pieces=0.08, overlap=1.02,
    ),
    "tf32, 16 B": Family(
        "tf32, 16 B", OLDER, share=1.05, small=0.588, cache=0.986, written=1.63,
        start_s=1.55e-06, prologue_s=1.5e-06, step_s=1e-09, split_s=3.16e-06, pieces=0.124, overlap=1.4,
    ),
    "tf32, less": Family(
        "tf32, less", OLDER, share=0.327, small=0.626, cache=0.437, written=0.583,
        start_s=1.68e-06, prologue_s=6.57e-07, step_s=1e-09, split_s=2.84e-06, pieces=0.0318, overlap=1.64,
    ),
    "vector": Family(
        "vector", OLDER, share=1.22, small=0.0261, cache=0.582, written=1.65,
        start_s=1.59e-06, prologue_s=5.32e-08, step_s=1.93e-09, split_s=1.92e-06, pieces=0.0289, overlap=8.47,
    ),
}  # fmt: skip

SHORT = ("bfloat16", "float16")


def row_bytes(product: Matmul, elements: int) -> int:
    """Bytes of so many elements of a product's data type."""
    return elements * ITEMSIZE.get(product.dtype.removeprefix("torch."), 1 if "8" in product.dtype else 4)


def leads(product: Matmul) -> tuple[int, int]:
    """Elements from one row (or column) of each operand to the next."""
    return product.m if product.transposed[0] else product.k, product.k if product.transposed[1] else product.n


def alignment(product: Matmul) -> int:
    """Bytes at which every row of operands and result begins, 16 at most; the result of a vector is one row.

    >>> alignment(Matmul(64, 63, 64, dtype="bfloat16")), alignment(Matmul(64, 1, 64, dtype="bfloat16"))
    (2, 16)
    """
    first, second = leads(product)
    rows = [second] if product.m == 1 else [first] if product.n == 1 else [first, second, product.n]
    return min(16, *((nbytes := row_bytes(product, each)) & -nbytes for each in rows))


def family_of(product: Matmul) -> Family:
    """The family that computes a product."""
    return FAMILIES[family_name(product)]


def family_name(product: Matmul) -> str:
    """Its name: the data type, and for tensor cores the alignment that the kernels can rely on.

    >>> family_name(Matmul(64, 63, 64, dtype="bfloat16")), family_name(Matmul(64, 64, 64, dtype="tf32"))
    ('short, 2 B', 'tf32, 16 B')
    """
    aligned = alignment(product)
    if product.dtype in ("float32", "tf32", "float64") and 1 in (product.m, product.n):
        return "vector"
    if product.dtype == "tf32":
        return "tf32, 16 B" if aligned == 16 else "tf32, less"
    if product.dtype in ("float32", "float64"):
        return product.dtype
    if product.dtype in SHORT and aligned < 16 and product.n > 1:
        return "short, 4 B" if aligned >= 4 else "short, 2 B"
    return "short, 16 B"


# ---------------------------------------------------------------------------------------------------------------------
# A matrix product on a GPU: tiles of the result, dealt out to the multiprocessors in waves.

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
class TiledProduct:
    """One way to compute a product: tile sizes, parts of the sum over k, the waves it takes, and its seconds."""

    rows: int
    columns: int
    split: int
    waves: int
    seconds: float


def tilings(product: Matmul, speeds: Speeds) -> Iterator[TiledProduct]:
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
            yield TiledProduct(rows, columns, split, waves, max(computing, fetching) + partial)


def best_tiling(product: Matmul, speeds: Speeds) -> TiledProduct:
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
