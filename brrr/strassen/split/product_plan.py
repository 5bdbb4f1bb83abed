"""How the product of two-term operands is cut: tiles, steps, the ring of shared memory, which tiles a block takes.

>>> Tiling().rows, Tiling().columns, chosen(1, 2048, 2048).columns
(128, 192, 128)

What `split_product.cu` is compiled with, and its argument `Problem`.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from brrr.core.errors import ArgumentError

MOST_SHARED = 232448
"""Shared memory that a block of sm_90 may have, in bytes."""

ALIGNMENT = 1024
"""Where a tile must begin, so that the pattern in which its pieces are permuted begins there."""


@dataclass(frozen=True)
class Tiling:
    """How the work is cut.

    >>> Tiling().rows, Tiling().slots, Tiling(columns=128).slots, Tiling(depth=32).slots
    (128, 5, 7, 11)

    consumers: warpgroups that multiply, 64 rows each; columns: 128 or 192; depth: of a step along k, 32 or 64; chunk:
    how deep a sum grows in the tensor core before it is added to the total, a multiple of depth; cluster: blocks that
    share the right operand's tile, 1 or 2; group: bands of rows of tiles that run side by side; stagger: the consumers
    add to their totals at different times, and the first sums of some are shorter.
    """

    consumers: int = 2
    columns: int = 192
    depth: int = 64
    chunk: int = 64
    cluster: int = 1
    group: int = 8
    stagger: bool = True

    def __post_init__(self) -> None:
        allowed = {"consumers": (2, 3), "columns": (128, 192), "depth": (32, 64), "cluster": (1, 2)}
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise ArgumentError("Tiling", name, getattr(self, name), f"one of {values}")
        if self.consumers == 3 and self.columns == 192:
            raise ArgumentError("Tiling", "columns", 192, "128 with 3 consumers: the sums of 192 fit no registers")
        if self.chunk < self.depth or self.chunk % self.depth:
            raise ArgumentError("Tiling", "chunk", self.chunk, f"a positive multiple of the depth, {self.depth}")
        if self.group < 1:
            raise ArgumentError("Tiling", "group", self.group, "1 or more")

    @property
    def rows(self) -> int:
        """Of a block's tile."""
        return 64 * self.consumers

    @property
    def slot_bytes(self) -> int:
        """One term of both operands' tiles, a step deep."""
        return (self.rows + self.columns) * self.depth * 2

    @property
    def slots(self) -> int:
        """As many as fit, with two barriers of 8 bytes each."""
        return (MOST_SHARED - ALIGNMENT) // (self.slot_bytes + 16)

    @property
    def shared_bytes(self) -> int:
        """All of a block's shared memory."""
        return ALIGNMENT + self.slots * (self.slot_bytes + 16)

    @property
    def threads(self) -> int:
        """The warpgroups that multiply, and one that loads."""
        return 128 * (self.consumers + 1)

    def defines(self) -> tuple[str, ...]:
        """The constants that the kernel is compiled with."""
        named = {"CONSUMERS": self.consumers, "COLUMNS": self.columns, "DEPTH": self.depth, "SLOTS": self.slots}
        named |= {"CHUNK": self.chunk // self.depth, "CLUSTER": self.cluster, "STAGGER": int(self.stagger)}
        return tuple(f"-D{name}={value}" for name, value in named.items())


class Problem(ctypes.Structure):
    """The kernel's argument of that name."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("m", "n", "steps", "bands", "column_tiles", "tiles", "group", "pairs")),
        *((name, ctypes.c_longlong) for name in ("out_batch", "out_row", "left_batch", "left_row", "right_batch")),
        ("right_row", ctypes.c_longlong),
    )


def problem(
    tiling: Tiling,
    shape: tuple[int, int, int, int],
    out: tuple[int, int],
    left: tuple[int, int],
    right: tuple[int, int],
) -> Problem:
    """How a product is cut: shape (batch, m, n, k); strides of out and of both operands' exponents (of batch, of row).

    >>> found = problem(Tiling(), (2, 300, 500, 65), (150000, 500), (0, 0), (0, 0))
    >>> found.steps, found.bands, found.column_tiles, found.tiles, found.pairs
    (2, 3, 3, 18, 1)
    """
    batch, m, n, k = shape
    bands, columns = -(-m // (tiling.rows * tiling.cluster)), -(-n // tiling.columns)
    pairs = all(stride % 2 == 0 for stride in out)
    cut = (m, n, -(-k // tiling.depth), bands, columns, batch * bands * columns, tiling.group, pairs)
    return Problem(*cut, *out, *left, *right)


LONG = 100
"""Rounds of narrow tiles from which on the GPU is as fast as its power allows, whatever the last round leaves idle."""

ROUND = 1.05
"""A round of narrow tiles by its columns' time: wide tiles read less for each product."""


def chosen(batch: int, m: int, n: int, multiprocessors: int = 132) -> Tiling:
    """The tiling whose rounds of tiles, one tile a multiprocessor, take the least time.

    >>> [chosen(1, n, n).columns for n in (1024, 2048, 4096, 8192, 16384)], chosen(1, 16384, 16384).cluster
    ([128, 128, 128, 192, 128], 2)

    A round lasts as long as a tile is wide, so that a last round with few tiles counts in full: at 2048, 256 narrow
    tiles are two rounds of 128 columns, 176 wide ones two of 192. In LONG products narrow tiles in clusters of two were
    the fastest on an H200 at its power limit.
    """
    wide, narrow = Tiling(), Tiling(columns=128)
    if rounds(narrow, batch, m, n, multiprocessors) >= LONG:
        return Tiling(columns=128, cluster=2)
    times = [rounds(each, batch, m, n, multiprocessors) * each.columns for each in (wide, narrow)]
    return wide if times[0] <= ROUND * times[1] else narrow


def rounds(tiling: Tiling, batch: int, m: int, n: int, multiprocessors: int = 132) -> int:
    """Tiles that the busiest multiprocessor computes.

    >>> rounds(Tiling(), 1, 2048, 2048), rounds(Tiling(), 1, 8192, 8192)
    (2, 21)
    """
    tiles = int(problem(tiling, (batch, m, n, 1), (0, 0), (0, 0), (0, 0)).tiles)
    return -(-tiles * tiling.cluster // (multiprocessors // tiling.cluster * tiling.cluster))
