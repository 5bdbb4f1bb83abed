"""Families of matrix product kernels: what a library has for a data type and an alignment, with their constants.

A family's constants are assumed, and stand in `data/product_kernels.toml` with where they come from; a sweep of
products (`calibrate`) corrects what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from brrr.core.files import read_toml
from brrr.core.heavy import np
from brrr.counting.cost import ITEMSIZE, Matmul, OperatorCost

if TYPE_CHECKING:  # numpy is loaded where products are modelled, not where a recording is read
    Array = np.ndarray[Any, np.dtype[Any]]

Tile = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Choice:
    """A tile that the library takes whatever it costs: both row by row, m and k up to a size, 2 to so many columns."""

    size: int
    columns: int
    tile: Tile
    split: int = 0
    """The parts of the sum; 0: the fastest."""

    def rules(self, of: Products) -> Array:
        """Whether the library takes it for each of the products."""
        small = (of.m <= self.size) & (of.k <= self.size) & (of.n > 1) & (of.n <= self.columns)
        return np.asarray(small & ~(of.left | of.right) & (of.batch == 1) & (of.k >= self.split * LEAST_K))


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


@cache
def families() -> Mapping[str, Family]:
    """All, by name."""
    found = {}
    for constants in read_toml("product_kernels.toml")["family"]:
        tiles = {_tile(size): rate for size, rate in constants.pop("tiles").items()}
        choices = [Choice(**{**each, "tile": _tile(each["tile"])}) for each in constants.pop("choices", ())]
        found[constants["name"]] = Family(tiles=tiles, choices=tuple(choices), **constants)
    return found


def _tile(size: str) -> Tile:
    rows, columns = map(int, size.split("x"))
    return rows, columns


SHORT = ("bfloat16", "float16")


def bytes_of(dtype: str) -> int:
    """Bytes of an element of a product's data type, "tf32" too."""
    return ITEMSIZE.get(dtype.removeprefix("torch."), 1 if "8" in dtype else 4)


def operator_of(product: Matmul) -> OperatorCost:
    """A product alone as an operator: both operands read once, the result written once.

    >>> operator_of(Matmul(64, 32, 16, dtype="bfloat16")).bytes
    7168.0
    """
    itemsize = float(bytes_of(product.dtype) * product.batch)
    read, written = itemsize * product.k * (product.m + product.n), itemsize * product.m * product.n
    return OperatorCost("aten.mm", product.flop, read, written, product.dtype, (), "matmul", (product,))


def family_of(product: Matmul) -> Family:
    """The family that computes a product."""
    return families()[family_name(product)]


@lru_cache(maxsize=4096)
def family_name(product: Matmul) -> str:
    """Its name: the data type, and for tensor cores the alignment that the kernels can rely on.

    >>> family_name(Matmul(64, 63, 64, dtype="bfloat16")), family_name(Matmul(64, 64, 64, dtype="tf32"))
    ('short, 2 B', 'tf32, 16 B')
    """
    return str(Products.of([product]).families[0])


@dataclass(frozen=True)
class Products:
    """Products side by side: an array of each size; `left` and `right`, which operands lie column by column; dtypes."""

    m: Array
    n: Array
    k: Array
    batch: Array
    left: Array
    right: Array
    dtype: Array

    @classmethod
    def of(cls, products: Sequence[Matmul]) -> Products:
        """Those of a list."""
        sizes = np.array([(each.m, each.n, each.k, each.batch, *each.transposed) for each in products], np.int64)
        m, n, k, batch, left, right = sizes.reshape(-1, 6).T
        return cls(m, n, k, batch, left > 0, right > 0, np.array([each.dtype for each in products]))

    def part(self, places: Sequence[int]) -> Products:
        """Some of them."""
        return Products(*(np.asarray(getattr(self, each.name)[places]) for each in fields(self)))

    def __iter__(self) -> Iterator[Matmul]:
        lists = (getattr(self, each.name).tolist() for each in fields(self))
        for m, n, k, batch, left, right, dtype in zip(*lists, strict=True):
            yield Matmul(m, n, k, batch, dtype, (left, right))

    @cached_property
    def itemsize(self) -> Array:
        """Bytes of an element."""
        kinds, places = np.unique(self.dtype, return_inverse=True)
        return np.array([bytes_of(str(each)) for each in kinds], np.int64)[places]

    @property
    def rows(self) -> tuple[Array, Array]:
        """Bytes from one row (or column) of each operand to the next."""
        first, second = np.where(self.left, self.m, self.k), np.where(self.right, self.k, self.n)
        return first * self.itemsize, second * self.itemsize

    @property
    def alignment(self) -> Array:
        """Bytes at which every row of operands and result begins, 16 at most; the result of a vector is one row.

        >>> Products.of([Matmul(64, 63, 64, dtype="bfloat16"), Matmul(64, 1, 64, dtype="bfloat16")]).alignment.tolist()
        [2, 16]
        """
        first, second = (each & -each for each in self.rows)
        result = self.n * self.itemsize
        every = np.minimum(np.minimum(first, second), result & -result)
        return np.minimum(16, np.where(self.m == 1, second, np.where(self.n == 1, first, every)))

    @property
    def families(self) -> Array:
        """The names of their families of kernels."""
        aligned, dtype = self.alignment, self.dtype
        short = np.isin(dtype, SHORT) & (aligned < 16) & (self.n > 1)
        plain = np.isin(dtype, ("float32", "float64"))
        return np.select(
            [(plain | (dtype == "tf32")) & ((self.m == 1) | (self.n == 1)), dtype == "tf32", plain, short],
            ["vector", np.where(aligned == 16, "tf32, 16 B", "tf32, less"), dtype,
             np.where(aligned >= 4, "short, 4 B", "short, 2 B")], "short, 16 B",
        )  # fmt: skip

    @property
    def misalignment(self) -> tuple[Array, Array]:
        """How far the operands' rows are from beginning on lines of the cache: 0 on them, 1 at every 16 bytes.

        >>> [each.round(2).tolist() for each in Products.of([Matmul(64, 68, 72, dtype="float32")]).misalignment]
        [[0.67], [1.0]]
        """
        first, second = (np.minimum(1.5, np.log2(LINE / np.minimum(LINE, each & -each)) / 3) for each in self.rows)
        return np.where(self.m > 1, first, 0.0), np.where(self.n > 1, second, 0.0)


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
    """What a tile's time rests on: FLOP/s of full waves, B/s of the cache, the number of multiprocessors, and how much
    longer than an H200's their cycles are.
    """

    flop_per_s: float | Array
    cache_bytes_per_s: float
    sm_count: int
    cycle: float = 1.0


class TiledProduct(NamedTuple):
    """One way to compute a product: tile sizes, parts of the sum over k, the waves it takes, and its seconds."""

    rows: int
    columns: int
    split: int
    waves: int
    seconds: float


class Tilings(NamedTuple):
    """Every way for some products: tiles and parts of the sum (a value a way); blocks, one for each part of a tile, and
    seconds (ways by products), infinite where a way does not come into question.
    """

    rows: Array
    columns: Array
    split: Array
    blocks: Array
    seconds: Array


def tilings(products: Products, family: Family, speeds: Speeds) -> Tilings:
    """What every tile and split of a family makes of products of this family; `speeds` may hold a rate for each."""
    ways = [(*tile, split, reached) for tile, reached in family.tiles.items() for split in SPLITS]
    rows, columns, split, reached = np.array(ways).T[:, :, None]
    m, n, batch, itemsize = products.m, products.n, products.batch, products.itemsize
    blocks = batch * np.ceil(m / rows) * np.ceil(n / columns) * split
    depth = K_STEP * np.ceil(products.k / split / K_STEP)
    missed = products.misalignment
    pieces = 1 + family.pieces * (missed[0] * rows + missed[1] * columns) / (rows + columns)
    step = np.maximum(
        speeds.cycle * family.step_s, 2 * rows * columns * speeds.sm_count / (reached * speeds.flop_per_s) * pieces
    )
    written = speeds.sm_count * rows * columns * itemsize / (family.written * speeds.cache_bytes_per_s)
    cache = family.cache * speeds.cache_bytes_per_s
    computing = np.ceil(blocks / speeds.sm_count) * (speeds.cycle * family.prologue_s + depth * step + written)
    fetching = blocks * depth * (rows + columns) * itemsize * pieces / cache
    partial = np.where(split > 1, PARTIAL_BYTES * split * m * n / cache + speeds.cycle * family.split_s, 0.0)
    tried = parts = (split == 1) | ((batch == 1) & (products.k >= split * LEAST_K))  # sums of a batch are not split
    for choice in reversed(family.choices):
        tile = (rows == choice.tile[0]) & (columns == choice.tile[1])
        tried = np.where(choice.rules(products), tile & (split == choice.split if choice.split else parts), tried)
    seconds = np.where(tried, np.maximum(computing, fetching) + partial, np.inf)
    return Tilings(rows[:, 0], columns[:, 0], split[:, 0], blocks, seconds)


@lru_cache(maxsize=4096)
def best_tiling(product: Matmul, speeds: Speeds) -> TiledProduct:
    """The fastest of the tilings.

    >>> best_tiling(Matmul(256, 128 * 132, 8192, dtype="bfloat16"), Speeds(8e14, 9e12, 132)).waves
    1
    """
    every = tilings(Products.of([product]), family_of(product), speeds)
    best = int(every.seconds[:, 0].argmin())
    rows, columns, split = (int(each[best]) for each in (every.rows, every.columns, every.split))
    waves = -(-int(every.blocks[best, 0]) // speeds.sm_count)
    return TiledProduct(rows, columns, split, waves, float(every.seconds[best, 0]))


def product_s(product: Matmul, speeds: Speeds) -> float:
    """Seconds of a product's tiles, without the start of its kernel."""
    return best_tiling(product, speeds).seconds
