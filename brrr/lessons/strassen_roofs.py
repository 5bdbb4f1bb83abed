"""Roofs of a product with Strassen levels: the effective rate that a datasheet allows, and what is really multiplied.

The effective rate is 2n^3 over the time, whatever was multiplied; with L levels it is (8/7)^L times the actual one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brrr.machines.datasheet import Hardware
from brrr.strassen.predicting import Traffic
from brrr.strassen.ways import Way

INNERS: Mapping[str, tuple[str, str, str]] = {
    "float32": ("sgemm", "fp32", "cuda cores"),
    "bfloat16": ("bf16", "bf16", "tensor cores"),
}
"""For each type the inner product, and the datasheet's names of its peak."""


@dataclass(frozen=True)
class Roofs:
    """The roofs of one number of levels for n x n products on a GPU, the right side's sums made beforehand.

    >>> from brrr.machines.datasheet import hardware
    >>> flat, three = Roofs(hardware("h200"), "float32", 0), Roofs(hardware("h200"), "float32", 3)
    >>> flat.effective(2**16) / flat.peak, round(three.ceiling / three.peak, 2)
    (1.0, 1.49)
    """

    gpu: Hardware
    dtype: str
    level: int

    @property
    def peak(self) -> float:
        """The hardware's peak in FLOP/s."""
        _, name, unit = INNERS[self.dtype]
        return self.gpu.peak(name, unit)

    @property
    def ceiling(self) -> float:
        """The effective rate that no size exceeds: the peak times (8/7)^L."""
        return float(self.peak * (8 / 7) ** self.level)

    @property
    def way(self) -> Way:
        """The way that is counted."""
        return Way(INNERS[self.dtype][0], self.level, "strassen" if self.level else None, bool(self.level))

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.way.kind.itemsize

    def intensity(self, n: int) -> float:
        """FLOP/B of the product as it stands."""
        return 2 * n / (3 * self.itemsize)

    def time_s(self, n: int) -> float:
        """The passes over memory, and the products at the peak or at the memory's rate, one after the other."""
        traffic = Traffic.of(self.way, n, n, n, self.dtype)
        passes = sum(traffic.left) + sum(traffic.right) + sum(traffic.suffix)
        block, count = n / 2**self.level, float(7**self.level)
        arithmetic, carried = 2 * block**3 / self.peak, 3 * block**2 * self.itemsize / self.gpu.memory_bytes_per_s
        return float(passes / self.gpu.memory_bytes_per_s + count * max(arithmetic, carried))

    def effective(self, n: int) -> float:
        """FLOP/s of the textbook's count."""
        return 2 * n**3 / self.time_s(n)
