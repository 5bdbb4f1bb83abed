"""What is counted of the ways of multiplying two n x n matrices, and the bounds that a datasheet sets them.

The FLOP of a `Cost` are those of the textbook's product, 2n^3, for every way: an *effective* rate, FLOP over time, may
then lie above the peak, because a way with levels multiplies less. What is really multiplied is `multiplied_flop`.
"""

from __future__ import annotations

from brrr.counting.cost import Cost
from brrr.experiment import Point, Variant
from brrr.experiments.strassen_ways import accuracy_of, way_of
from brrr.machines.datasheet import Hardware
from brrr.strassen.ways import LEVELS, Way
from brrr.strassen.workspace import Buffers


def operand_of(variant: str) -> str:
    """The type of the matrices that a variant is given, and of its result: short for the short ways, else float32.

    >>> operand_of("bf16-strassen-1"), operand_of("auto-bf16"), operand_of("fp16x3")
    ('bfloat16', 'bfloat16', 'float32')
    """
    way = way_of(variant)
    name = way.inner if way is not None else accuracy_of(variant)
    return {"bf16": "bfloat16", "fp16": "float16"}.get(name, "float32")


def cost(variant: Variant, point: Point) -> Cost:
    """2n^3 FLOP, and the bytes of two operands and a result: the same for every way of a type.

    >>> cost(Variant("sgemm-strassen-3", "", "cuda"), {"size": 1000}).flop
    2000000000.0
    """
    n = int(point["size"])
    return Cost(2.0 * n**3, float(3 * n * n * (4 if operand_of(variant.name) == "float32" else 2)))


def flop_share(way: Way) -> float:
    """What a way multiplies over what the classical product does: 7/8 a level, times the products of a split one.

    >>> flop_share(Way("sgemm", 2, "strassen")), flop_share(Way("fp16x3"))
    (0.765625, 3.0)
    """
    return float((7 / 8) ** way.level * way.kind.products)


def multiplied_flop(way: Way, n: int) -> float:
    """The FLOP of the products that a way really makes, its additions left out.

    >>> multiplied_flop(Way("sgemm", 1, "strassen"), 1000) / 2e9
    0.875
    """
    return 2.0 * n**3 * flop_share(way)


def buffers(way: Way, n: int) -> tuple[float, float, float]:
    """Bytes of both sides' factors and of the products; 0 for what a way does not need.

    >>> buffers(Way("sgemm"), 64), buffers(Way("bf16", 1, "strassen"), 64)
    ((0.0, 0.0, 0.0), (14336.0, 14336.0, 14336.0))
    """
    needed = Buffers.of(way, n, n, n, operand_of(way.name))
    return float(needed.left), float(needed.right), float(needed.products)


def workspace_bytes(way: Way, n: int) -> float:
    """What a way needs beside its operands and result: the buffers of both sides and of the products.

    >>> workspace_bytes(Way("sgemm"), 4096), workspace_bytes(Way("sgemm", 1, "strassen"), 4096) / (4 * 4096**2)
    (0.0, 5.25)
    """
    return sum(buffers(way, n))


def fp32_peak(hardware: Hardware | None, point: Point) -> float | None:
    """The datasheet's fp32 peak without tensor cores, FLOP/s."""
    return None if hardware is None else hardware.peaks.get(("fp32", "cuda cores"))


def fp32_bound(hardware: Hardware | None, point: Point) -> float | None:
    """The effective rate that the most levels cannot exceed: the peak times (8/7)^4, additions free."""
    peak = fp32_peak(hardware, point)
    return None if peak is None else peak * (8 / 7) ** LEVELS[-1]
