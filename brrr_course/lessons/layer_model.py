"""A layer's tiles in waves over multiprocessors and its bytes, for a product and for Strassen's seven of half the size.

A model to think with, simpler than `brrr.roofline.gemm_families`: tiles of one size and one rate, nothing else counts.
Where there are fewer tiles than multiprocessors, the sum over k is cut into parts, as libraries do.
"""

import math
from dataclasses import dataclass

from brrr.gpu.datasheet import Hardware
from brrr.roofline.device_model import model_of

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


# ---------------------------------------------------------------------------------------------------------------------
# What one layer of a network costs as it stands and with one Strassen level: bytes, FLOP, and the time they set.

ITEMSIZE = 4
SHARE = 7 / 4
"""Seven buffers of a quarter of the size each."""


@dataclass(frozen=True)
class Layer:
    """A layer of `batch` rows and `hidden` columns in float32, on a GPU: once classical, once with one level.

    >>> from brrr.gpu.datasheet import hardware
    >>> gpu = hardware("gtx-1070")
    >>> Layer(32, 4096, True, gpu).weights / Layer(32, 4096, False, gpu).weights
    1.75
    >>> Layer(32, 4096, False, gpu).time_s < Layer(32, 4096, True, gpu).time_s
    True
    """

    batch: int
    hidden: int
    strassen: bool
    gpu: Hardware

    @property
    def weights(self) -> float:
        """Bytes of the weights, as they are read by the product."""
        return ITEMSIZE * self.hidden**2 * (SHARE if self.strassen else 1)

    @property
    def rows(self) -> float:
        """Bytes that the product reads and writes beside its weights."""
        return 2 * ITEMSIZE * self.batch * self.hidden * (SHARE if self.strassen else 1)

    @property
    def pointwise(self) -> float:
        """Bytes of the kernel behind it: bias and ReLU, and with Strassen the sums of this layer and the next."""
        return self.rows

    @property
    def waves(self) -> Waves:
        """How its tiles are dealt out."""
        sms = self.gpu.sm_count
        assert sms is not None
        return (after if self.strassen else before)(self.batch, self.hidden, sms)

    @property
    def flop(self) -> float:
        """FLOP of its products."""
        return 2.0 * self.batch * self.hidden**2 * (7 / 8 if self.strassen else 1)

    @property
    def arithmetic_s(self) -> float:
        """Seconds of its waves at the datasheet's rate."""
        return model_of(self.gpu).roof_s(2 * self.waves.time * self.waves.sms, 0.0)

    def carried_s(self, nbytes: float) -> float:
        """Seconds that the memory takes for so many bytes."""
        return model_of(self.gpu).roof_s(0.0, nbytes)

    @property
    def product_s(self) -> float:
        """Seconds of the product: bytes or arithmetic, whichever takes longer."""
        return max(self.arithmetic_s, self.carried_s(self.weights + self.rows))

    @property
    def time_s(self) -> float:
        """Seconds of both kernels."""
        return self.product_s + self.carried_s(self.pointwise)

    @property
    def pace(self) -> str:
        """Who sets the pace of the product."""
        return "arithmetic" if self.arithmetic_s >= self.carried_s(self.weights + self.rows) else "bytes"
