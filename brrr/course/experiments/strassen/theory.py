"""What is counted of the ways of multiplying two n x n matrices, and the bounds that a datasheet sets them.

The FLOP of a `Cost` are those of the textbook's product, 2n^3, for every way: an *effective* rate, FLOP over time, may
then lie above the peak, because a way with levels multiplies less. What is really multiplied is `multiplied_flop`.
"""

from __future__ import annotations

from dataclasses import replace

from brrr.core.values import Point
from brrr.counting.cost import Cost, Matmul, OperatorCost
from brrr.course.experiments.predicted import kernel
from brrr.course.experiments.strassen.ways import accuracy_of, way_of
from brrr.course.nouns.experiment import PredictedRun, Variant
from brrr.gpu.datasheet import Hardware
from brrr.strassen.algebra.shapes import block_shape
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


# ---------------------------------------------------------------------------------------------------------------------
# What is predicted of the experiment `strassen`: a pass over each side, the products, a pass behind them.

TYPES = {"sgemm": "float32", "ffma": "float32", "bf16": "bfloat16", "fp16": "float16", "fp16x3": "float16",
         "bf16x6": "bfloat16"}  # fmt: skip


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The kernels of a way, as a CUDA Graph runs them; a CPU's as torch runs them, one by one."""
    way, n = way_of(variant.name), int(point["size"])
    if way is None or way.inner not in TYPES:
        return None
    listed = operators(way, n, operand_of(variant.name))
    whole = cost(variant, point)
    touched = whole.bytes + sum(buffers(way, n))
    flop = sum(each.flop or 0.0 for each in listed)
    work = Cost(flop, whole.bytes, sum(each.bytes for each in listed), touched, listed)
    return PredictedRun(work, "graph" if variant.device == "cuda" else "eager", TYPES[way.inner])


def operators(way: Way, n: int, operand: str) -> tuple[OperatorCost, ...]:
    """The passes and the products of a way at a size.

    >>> [each.name for each in operators(Way("sgemm", 1, "strassen", prepared=True), 64, "float32")]
    ['fused(aten.sums)', 'aten.bmm', 'fused(aten.sums)']
    """
    if way.nested:  # the outermost level around seven products, one after another
        *before, _, behind = operators(way.outermost, n, operand)
        half = block_shape(n, n, 1)[1]
        return (*before, *7 * operators(way.within, half, operand), behind)
    left, right, products = buffers(way, n)
    matrix = float(n * n * (4 if operand == "float32" else 2))
    passes = [_sums(matrix, left), _sums(matrix, 0.0 if way.prepared else right)]
    return tuple(each for each in (*passes, _products(way, n), _sums(products, matrix)) if each.bytes)


def _sums(read: float, written: float) -> OperatorCost:
    """A pass over memory; of no bytes where there is nothing to do."""
    there = read > 0 and written > 0
    return kernel(["sums"], 0.0, read if there else 0.0, written if there else 0.0)


def _products(way: Way, n: int) -> OperatorCost:
    """All inner products as one call; those of a split product as one that is so many times as deep."""
    rows, depth = block_shape(n, n, way.level) if way.level else (n, n)
    columns = depth
    count, dtype = 7**way.level, TYPES[way.inner]
    each = Matmul(rows, columns, depth * way.kind.products, count, dtype)
    size, whole = 4 if dtype == "float32" else 2, float(count)
    read = size * whole * depth * way.kind.terms * (rows + columns)
    shapes = ((rows, depth), (depth, columns))
    made = OperatorCost("aten.bmm", each.flop, read, 4 * whole * rows * columns, dtype, shapes, "matmul", (each,))
    return made if way.level else replace(made, name="aten.mm")
