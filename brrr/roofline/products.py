"""Families of matrix product kernels: what a library has for a data type and an alignment, with their constants.

A family's constants are assumed. They were fitted to times of products on an H200 with cuBLAS 13 (by
`tools/products_refit.py`, see docs/predictor.md), as shares of what is measured on the device wherever there is
something to take a share of; a sweep of products (`calibrate`) corrects what is left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from brrr.counting.cost import ITEMSIZE, Matmul, OperatorCost

Tile = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Choice:
    """A tile that the library takes whatever it costs: both row by row, m and k up to a size, 2 to so many columns."""

    size: int
    columns: int
    tile: Tile
    split: int = 0
    """The parts of the sum; 0: the fastest."""

    def rules(self, product: Matmul) -> bool:
        """Whether the library takes it for a product."""
        small = max(product.m, product.k) <= self.size and 1 < product.n <= self.columns
        return small and not any(product.transposed) and product.batch == 1 and product.k >= self.split * LEAST_K


@dataclass(frozen=True, slots=True)
class Family:
    """Kernels alike.

    tiles: each with the share of the data type's best measured rate that it reaches in full waves. cache: the share of
    the cache's rate at which operands come; written: that at which results go. start_s: start and end of the kernel,
    prologue_s: of a tile; step_s: the shortest time for an element of k; split_s: the second kernel of a split sum.
    pieces: what rows that begin on no line cost more. overlap: how memory and arithmetic overlap, the power in
    (a^p + b^p)^(1/p). choices: what the library is known to take, the first that rules.
    """

    name: str
    tiles: Mapping[Tile, float]
    cache: float
    written: float
    start_s: float
    prologue_s: float
    step_s: float
    split_s: float
    pieces: float
    overlap: float
    choices: tuple[Choice, ...] = ()

    @property
    def share(self) -> float:
        """The largest of its tiles' shares."""
        return max(self.tiles.values())

    def ways(self, product: Matmul) -> tuple[Mapping[Tile, float], tuple[int, ...]]:
        """The tiles and the splits that come into question; the sums of a batch are not split."""
        splits = tuple(n for n in SPLITS if n == 1 or (product.batch == 1 and product.k >= n * LEAST_K))
        for each in self.choices:
            if each.rules(product):
                return {each.tile: self.tiles[each.tile]}, (each.split,) if each.split else splits
        return self.tiles, splits


_KNOWN = (
    Family(
        "float32", {
            (128, 256): 0.982, (256, 128): 0.961, (64, 256): 0.942, (128, 128): 0.949, (256, 64): 0.792,
            (64, 128): 0.861, (128, 64): 0.795, (32, 128): 0.604, (64, 64): 0.652, (128, 32): 0.624, (32, 64): 0.519,
            (64, 32): 0.516, (32, 32): 0.321,
        },
        cache=0.535, written=0.955, start_s=2.14e-06, prologue_s=5e-08, step_s=1.12e-09,
        split_s=3.46e-06, pieces=0.01, overlap=3.14,
        choices=(Choice(1664, 8, (32, 128)), Choice(2304, 6, (32, 128)), Choice(2304, 11, (64, 32), 16)),
    ),
    Family(
        "float64", {
            (128, 256): 1.07, (256, 128): 1.07, (64, 256): 1.07, (128, 128): 1.07, (256, 64): 1.07, (64, 128): 0.965,
            (128, 64): 0.965, (32, 128): 0.87, (64, 64): 0.87, (128, 32): 0.87, (32, 64): 0.785, (64, 32): 0.785,
            (32, 32): 0.708,
        },
        cache=1.13, written=0.515, start_s=1.69e-06, prologue_s=1.53e-07, step_s=9.93e-10,
        split_s=3.26e-06, pieces=0.323, overlap=2.11,
    ),
    Family(
        "short, 16 B", {
            (192, 192): 1.66, (128, 256): 1.17, (256, 128): 1.58, (128, 192): 1.92, (192, 128): 2.04,
            (128, 128): 2.24, (96, 128): 2.74, (64, 128): 1.82, (128, 64): 0.655, (96, 64): 1.16, (64, 64): 0.706,
            (32, 64): 0.459, (64, 32): 0.39, (16, 64): 0.208, (32, 32): 0.216, (64, 16): 0.14, (8, 64): 0.124,
            (64, 8): 0.0674,
        },
        cache=1.12, written=0.35, start_s=1.65e-06, prologue_s=2.98e-07, step_s=1.26e-09,
        split_s=2.74e-06, pieces=0.165, overlap=1.95,
    ),
    Family(
        "short, 2 B", {
            (128, 256): 0.185, (256, 128): 0.162, (64, 256): 0.121, (128, 128): 0.154, (256, 64): 0.0989,
            (64, 128): 0.0963, (128, 64): 0.0786, (32, 128): 0.0585, (64, 64): 0.0691, (128, 32): 0.0498,
            (32, 64): 0.0349, (64, 32): 0.048, (32, 32): 0.026,
        },
        cache=0.465, written=0.535, start_s=1.88e-06, prologue_s=1.18e-06, step_s=1.8e-09,
        split_s=1.76e-06, pieces=0.01, overlap=1.48,
    ),
    Family(
        "short, 4 B", {
            (128, 256): 0.364, (256, 128): 0.343, (64, 256): 0.244, (128, 128): 0.297, (256, 64): 0.236,
            (64, 128): 0.144, (128, 64): 0.207, (32, 128): 0.127, (64, 64): 0.147, (128, 32): 0.103, (32, 64): 0.0556,
            (64, 32): 0.0714, (32, 32): 0.0726,
        },
        cache=1.82, written=0.224, start_s=1.91e-06, prologue_s=9.23e-08, step_s=4e-09,
        split_s=2.53e-06, pieces=0.151, overlap=9,
    ),
    Family(
        "tf32, 16 B", {
            (128, 256): 1.05, (256, 128): 1.05, (64, 256): 1.05, (128, 128): 1.05, (256, 64): 1.05, (64, 128): 0.699,
            (128, 64): 0.699, (32, 128): 0.465, (64, 64): 0.465, (128, 32): 0.465, (32, 64): 0.309, (64, 32): 0.309,
            (32, 32): 0.206,
        },
        cache=0.986, written=1.63, start_s=1.55e-06, prologue_s=1.5e-06, step_s=1e-09,
        split_s=3.16e-06, pieces=0.124, overlap=1.4,
    ),
    Family(
        "tf32, less", {
            (128, 256): 0.368, (256, 128): 0.37, (64, 256): 0.268, (128, 128): 0.271, (256, 64): 0.298,
            (64, 128): 0.147, (128, 64): 0.148, (32, 128): 0.1, (64, 64): 0.116, (128, 32): 0.115, (32, 64): 0.089,
            (64, 32): 0.138, (32, 32): 0.0535,
        },
        cache=0.429, written=0.629, start_s=1.78e-06, prologue_s=6.86e-07, step_s=5.47e-10,
        split_s=2.84e-06, pieces=0.0481, overlap=1.68,
    ),
    Family(
        "vector", {
            (64, 256): 1.22, (32, 128): 1.18, (128, 32): 1.18, (32, 64): 1.16, (64, 32): 1.16, (32, 32): 1.13,
        },
        cache=0.582, written=1.65, start_s=1.59e-06, prologue_s=5.32e-08, step_s=1.93e-09,
        split_s=1.92e-06, pieces=0.0289, overlap=8.47,
    ),
)  # fmt: skip
FAMILIES: Mapping[str, Family] = {each.name: each for each in _KNOWN}

SHORT = ("bfloat16", "float16")


def row_bytes(product: Matmul, elements: int) -> int:
    """Bytes of so many elements of a product's data type."""
    return elements * ITEMSIZE.get(product.dtype.removeprefix("torch."), 1 if "8" in product.dtype else 4)


def operator_of(product: Matmul) -> OperatorCost:
    """A product alone as an operator: both operands read once, the result written once.

    >>> operator_of(Matmul(64, 32, 16, dtype="bfloat16")).bytes
    7168.0
    """
    read = row_bytes(product, product.batch * product.k * (product.m + product.n))
    written = row_bytes(product, product.batch * product.m * product.n)
    return OperatorCost("aten.mm", product.flop, float(read), float(written), product.dtype, (), "matmul", (product,))


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
SPLITS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)
PARTIAL_BYTES = 2 * 4
"""A partial sum is written and read once, in float32."""
LINE = 128
"""Bytes of a line of the cache."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """What a tile's time rests on: FLOP/s of full waves, B/s of the cache, and the number of multiprocessors."""

    flop_per_s: float
    cache_bytes_per_s: float
    sm_count: int


class TiledProduct(NamedTuple):
    """One way to compute a product: tile sizes, parts of the sum over k, the waves it takes, and its seconds."""

    rows: int
    columns: int
    split: int
    waves: int
    seconds: float


def tilings(product: Matmul, speeds: Speeds) -> Iterator[TiledProduct]:
    """Every tiling that is tried."""
    family, itemsize = family_of(product), row_bytes(product, 1)
    missed = misalignment(product)
    tried, splits = family.ways(product)
    for (rows, columns), share in tried.items():
        tiles = product.batch * math.ceil(product.m / rows) * math.ceil(product.n / columns)
        pieces = 1 + family.pieces * (missed[0] * rows + missed[1] * columns) / (rows + columns)
        rate = share * speeds.flop_per_s
        step = max(family.step_s, 2 * rows * columns * speeds.sm_count / rate * pieces)
        written = speeds.sm_count * rows * columns * itemsize / (family.written * speeds.cache_bytes_per_s)
        cache = family.cache * speeds.cache_bytes_per_s
        for split in splits:
            depth = K_STEP * math.ceil(product.k / split / K_STEP)
            waves = math.ceil(tiles * split / speeds.sm_count)
            computing = waves * (family.prologue_s + depth * step + written)
            fetching = tiles * split * depth * (rows + columns) * itemsize * pieces / cache
            partial = PARTIAL_BYTES * split * product.m * product.n / cache + family.split_s if split > 1 else 0.0
            yield TiledProduct(rows, columns, split, waves, max(computing, fetching) + partial)


@lru_cache(maxsize=4096)
def best_tiling(product: Matmul, speeds: Speeds) -> TiledProduct:
    """The fastest of the tilings.

    >>> best_tiling(Matmul(256, 128 * 132, 8192, dtype="bfloat16"), Speeds(8e14, 9e12, 132)).waves
    1
    """
    return min(tilings(product, speeds), key=lambda each: each.seconds)


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
