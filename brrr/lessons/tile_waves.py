"""Tiles of a result in waves over multiprocessors, for a product and for the seven half-size ones of Strassen.

A model to think with, simpler than `brrr.roofline.tiles`: one size of tiles, all at one rate, nothing else counts.
Where there are fewer tiles than multiprocessors, the sum over k is cut into parts, as libraries do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

TILE = 128
"""Rows and columns of a tile; where a block has fewer rows, the tile has the next power of two of them."""
LEAST_ROWS = 16
LEAST_DEPTH = 256
"""No part of a sum over k is shorter."""


@dataclass(frozen=True)
class Waves:
    """A batch of equal products over `sms` multiprocessors, each at one tile of its own at a time.

    >>> one = Waves(products=1, rows=128, columns=4096, depth=4096, sms=15)
    >>> one.tiles, one.waves, one.last, round(one.used, 2)
    (32, 3, 2, 0.71)
    """

    products: int
    rows: int
    columns: int
    depth: int
    sms: int

    @property
    def tile_rows(self) -> int:
        """Rows of a tile: no more than a block needs."""
        return max(LEAST_ROWS, min(TILE, 1 << (self.rows - 1).bit_length()))

    @property
    def tiles_each(self) -> int:
        """Tiles of one product."""
        return math.ceil(self.rows / self.tile_rows) * math.ceil(self.columns / TILE)

    @property
    def split(self) -> int:
        """Into how many parts the sum over k is cut, so that a wave that would be almost empty is not.

        >>> Waves(1, 128, 4096, 4096, 132).split
        4
        """
        return max(1, min(self.sms // (self.products * self.tiles_each), self.depth // LEAST_DEPTH))

    @property
    def tiles(self) -> int:
        """Tiles of all products, every part of a sum counted."""
        return self.products * self.tiles_each * self.split

    @property
    def waves(self) -> int:
        """How often the multiprocessors are dealt tiles until none is left."""
        return math.ceil(self.tiles / self.sms)

    @property
    def last(self) -> int:
        """Tiles of the last wave."""
        return self.tiles - (self.waves - 1) * self.sms

    @property
    def used(self) -> float:
        """The share of all places, in all waves, that a tile takes."""
        return self.tiles / (self.waves * self.sms)

    @property
    def wave_length(self) -> float:
        """The time of a wave: multiplications of one of its tiles."""
        return self.tile_rows * TILE * self.depth / self.split

    @property
    def time(self) -> float:
        """The time of all waves, in the same unit."""
        return self.waves * self.wave_length


def before(batch: int, hidden: int, sms: int) -> Waves:
    """A layer's product, `batch` rows by `hidden` by `hidden`, as it stands."""
    return Waves(1, batch, hidden, hidden, sms)


def after(batch: int, hidden: int, sms: int) -> Waves:
    """Strassen's seven products of half the size each way.

    >>> after(128, 4096, 15).waves, after(128, 4096, 15).wave_length / before(128, 4096, 15).wave_length
    (8, 0.25)
    """
    return Waves(7, math.ceil(batch / 2), math.ceil(hidden / 2), math.ceil(hidden / 2), sms)
