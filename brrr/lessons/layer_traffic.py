"""What one layer of a network costs as it stands and with one Strassen level: bytes, FLOP, and the time they set.

A model to think with: a datasheet's rates, bytes that all come from the memory, and arithmetic in whole waves of tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from brrr.lessons.tile_waves import Waves, after, before
from brrr.machines.datasheet import Hardware

ITEMSIZE = 4
SHARE = 7 / 4
"""Seven buffers of a quarter of the size each."""


@dataclass(frozen=True)
class Layer:
    """A layer of `batch` rows and `hidden` columns in float32, on a GPU: once classical, once with one level.

    >>> from brrr.machines.datasheet import hardware
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
        return 2 * self.waves.time * self.waves.sms / self.gpu.peak("fp32", "cuda cores")

    def carried_s(self, nbytes: float) -> float:
        """Seconds that the memory takes for so many bytes."""
        return nbytes / self.gpu.memory_bytes_per_s

    @property
    def product_s(self) -> float:
        """Seconds of the product: trucks or factory, whichever takes longer."""
        return max(self.arithmetic_s, self.carried_s(self.weights + self.rows))

    @property
    def time_s(self) -> float:
        """Seconds of both kernels."""
        return self.product_s + self.carried_s(self.pointwise)

    @property
    def pace(self) -> str:
        """Who sets the pace of the product."""
        return "arithmetic" if self.arithmetic_s >= self.carried_s(self.weights + self.rows) else "bytes"
