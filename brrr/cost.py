"""What a piece of work costs before anything runs: floating-point operations and bytes."""

from __future__ import annotations

from dataclasses import dataclass

from brrr import units


@dataclass(frozen=True, slots=True)
class Cost:
    """FLOP and bytes of a piece of work: each input read once, each output written once; an FMA is 2 FLOP.

    >>> Cost(flop=67.1e6, bytes=537e6)
    67.1 MFLOP, 537 MB, 0.125 FLOP/B
    """

    flop: float
    bytes: float

    @property
    def arithmetic_intensity(self) -> float:
        """FLOP per byte; infinite for work that moves nothing."""
        return self.flop / self.bytes if self.bytes else float("inf")

    def __repr__(self) -> str:
        intensity = units.quantity(self.arithmetic_intensity, "FLOP/B")
        return f"{units.quantity(self.flop, 'FLOP')}, {units.quantity(self.bytes, 'B')}, {intensity}"


def matmul_cost(m: int, k: int, n: int, itemsize: int) -> Cost:
    """The cost of an (m, k) by (k, n) product with `itemsize` bytes an element: 2mkn FLOP, three matrices moved once.

    >>> matmul_cost(1024, 1024, 1024, 4)
    2.15 GFLOP, 12.6 MB, 171 FLOP/B
    """
    return Cost(flop=2.0 * m * k * n, bytes=float(itemsize) * (m * k + k * n + m * n))
