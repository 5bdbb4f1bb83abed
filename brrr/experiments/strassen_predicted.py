"""What is predicted of the experiment `strassen`: a pass over each side, the products, a pass behind them.

As in `brrr.strassen`'s own predictor, without its constants: library products of the same type and size, and sums at
the memory's rate. TF32 and float8 are not predicted (the predictor has the one as a switch, and no rate for the other),
nor what `matmul` chooses, which asks a predictor itself.
"""

from __future__ import annotations

from dataclasses import replace

from brrr.counting.cost import Cost, Matmul, OperatorCost
from brrr.experiment import Point, PredictedRun, Variant
from brrr.experiments.predicted import kernel
from brrr.experiments.strassen_theory import buffers, operand_of
from brrr.experiments.strassen_theory import cost as counted
from brrr.experiments.strassen_ways import way_of
from brrr.strassen.shapes import block_shape
from brrr.strassen.ways import Way

TYPES = {"sgemm": "float32", "ffma": "float32", "bf16": "bfloat16", "fp16": "float16", "fp16x3": "float16",
         "bf16x6": "bfloat16"}  # fmt: skip


def strassen(variant: Variant, point: Point) -> PredictedRun | None:
    """The kernels of a way, as a CUDA Graph runs them; a CPU's as torch runs them, one by one."""
    way, n = way_of(variant.name), int(point["size"])
    if way is None or way.inner not in TYPES:
        return None
    listed = operators(way, n, operand_of(variant.name))
    whole = counted(variant, point)
    touched = whole.bytes + sum(buffers(way, n))
    flop = sum(each.flop or 0.0 for each in listed)
    cost = Cost(flop, whole.bytes, sum(each.bytes for each in listed), touched, listed)
    return PredictedRun(cost, "graph" if variant.device == "cuda" else "eager", TYPES[way.inner])


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
