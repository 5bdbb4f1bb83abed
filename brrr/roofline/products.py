"""Families of matrix product kernels: what a library has for a data type and an alignment, with their constants.

A family's constants are assumed, and stand in `data/product_kernels.toml` with where they come from; a sweep of
products (`calibrate`) corrects what is left.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from brrr.core.files import share
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


def _families() -> Iterator[Family]:
    text = (share("data") / "product_kernels.toml").read_text(encoding="utf-8")
    for constants in tomllib.loads(text)["family"]:
        tiles = {_tile(size): rate for size, rate in constants.pop("tiles").items()}
        choices = [Choice(**{**each, "tile": _tile(each["tile"])}) for each in constants.pop("choices", ())]
        yield Family(tiles=tiles, choices=tuple(choices), **constants)


def _tile(size: str) -> Tile:
    rows, columns = map(int, size.split("x"))
    return rows, columns


FAMILIES: Mapping[str, Family] = {each.name: each for each in _families()}

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


def tilings(product: Matmul, speeds: Speeds, *, whole: bool = False) -> Iterator[TiledProduct]:
    """Every tiling that is tried; those alone that split no sum, if the `whole` of it is asked for."""
    family, itemsize = family_of(product), row_bytes(product, 1)
    missed = misalignment(product)
    tried, splits = family.ways(product)
    parts = [(split, K_STEP * math.ceil(product.k / split / K_STEP)) for split in splits if split == 1 or not whole]
    for (rows, columns), reached in tried.items():
        tiles = product.batch * math.ceil(product.m / rows) * math.ceil(product.n / columns)
        pieces = 1 + family.pieces * (missed[0] * rows + missed[1] * columns) / (rows + columns)
        rate = reached * speeds.flop_per_s
        step = max(family.step_s, 2 * rows * columns * speeds.sm_count / rate * pieces)
        written = speeds.sm_count * rows * columns * itemsize / (family.written * speeds.cache_bytes_per_s)
        cache = family.cache * speeds.cache_bytes_per_s
        for split, depth in parts:
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
