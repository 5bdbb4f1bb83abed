"""Which ways of multiplying `strassen` measures, what is counted of them, and the bounds that a datasheet sets them.

A variant has the name of its way in `brrr.strassen` (`sgemm-strassen-2-prepared`), `auto-fp32` where `matmul` chooses,
`torch-fp16x3` where torch's own calls make a split product; on a CPU with `cpu-` before it.

The FLOP of a `Cost` are those of the textbook's product, 2n^3, for every way: an *effective* rate, FLOP over time, may
then lie above the peak, because a way with levels multiplies less. What is really multiplied is a `flop_share` of them.
"""

from __future__ import annotations

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, Matmul, OperatorCost
from brrr.gpu.datasheet import Hardware
from brrr.strassen.algebra.blocks import block_shape
from brrr.strassen.problem import Problem
from brrr.strassen.ways import LEVELS, WAYS, Way
from brrr.strassen.workspace import Buffers
from brrr_course.experiments.predicted import flop_of, kernel
from brrr_course.nouns.experiment import PredictedRun, Variant

TORCH = {"torch-fp16x3": 0, "torch-fp16x3-chunks": 1024}
"""Split products of torch's calls: two float16 terms, three products, summed outside after so many of k (0: never)."""

TORCH_LABELS = {
    "torch-fp16x3": "two float16 terms, 3 torch products",
    "torch-fp16x3-chunks": "two float16 terms, torch products of 1024 each",
}

CHOSEN = ("fp32", "1e-5", "tf32", "bf16")
"""The accuracies that `matmul` is asked for: of a classical product by its name, or a number."""

CPU = "cpu-"

_KERNEL, _RETIRED = "our float32 kernel, retired", ", retired"
_ITS_LEVELS = ("strassen-3", *(f"strassen-{level}-prepared" for level in (1, 2, 3, 4)),
               *(f"winograd-{level}-prepared" for level in (1, 2, 3)))  # fmt: skip
RETIRED = {
    "ffma": _KERNEL,
    **{f"ffma-{levels}": f"{_KERNEL}, {levels.replace('-', ' ')}" for levels in _ITS_LEVELS},
    "tf32x3": "two TF32 terms, 3 products, retired",
    "bf16x6": "three bfloat16 terms, 6 products, retired",
    "fp8": "float8 (e4m3), retired",
    "sgemm-strassen-4": f"SGEMM, 4 levels{_RETIRED}",
    "sgemm-strassen-4-prepared": f"SGEMM, 4 levels, prepared{_RETIRED}",
    **{f"tf32-strassen-{level}": f"TF32, {level} level{'s' * (level > 1)}{_RETIRED}" for level in (1, 2)},
    **{f"tf32-strassen-{level}-prepared": f"TF32, {level} level{'s' * (level > 1)}, prepared{_RETIRED}"
       for level in (1, 2)},
    "fp16-strassen-1-prepared": f"float16, 1 level, prepared{_RETIRED}",
}  # fmt: skip
"""Variants whose code is gone, and whose recorded times are still read, with their labels."""


def _levels(inner: str, *levels: int, form: str = "strassen", prepared: bool = False) -> tuple[Way, ...]:
    return tuple(Way(inner, level, form, prepared) for level in levels)


MEASURED = (
    *_levels("sgemm", 0, 1, 2, 3), *_levels("sgemm", 1, 2, 3, prepared=True),
    *_levels("sgemm", 1, 2, 3, form="winograd", prepared=True),
    *_levels("tf32", 0), *_levels("fp16", 0),
    *_levels("bf16", 0, 1, 2, 3), *_levels("bf16", 1, 2, 3, prepared=True),
    *_levels("fp16x3", 0, 1, 2), *_levels("fp16x3", 0, 1, 2, prepared=True),
)  # fmt: skip
"""Every way of `brrr.strassen` that is measured on a GPU, in the figures' order."""

ON_CPU = (
    *_levels("sgemm", 0, 1, 2), *_levels("sgemm", 1, 2, prepared=True), *_levels("sgemm", 1, 2, form="winograd"),
    *_levels("fp16x3", 0),
)  # fmt: skip

ACCURATE = ("sgemm", "fp16x3")
"""Inner products that are meant to be as accurate as float32."""


def way_of(variant: str) -> Way | None:
    """The way of a variant; None where `matmul` chooses, for torch's split products, and for what is retired.

    >>> way_of("cpu-sgemm-winograd-1"), way_of("auto-fp32")
    (Way(inner='sgemm', level=1, form='winograd', prepared=False), None)
    """
    return WAYS.get(variant.removeprefix(CPU))


def accuracy_of(variant: str) -> str:
    """The accuracy that `matmul` is asked for by a variant; empty for all others.

    >>> accuracy_of("cpu-auto-fp32"), accuracy_of("sgemm-strassen-1")
    ('fp32', '')
    """
    name = variant.removeprefix(CPU)
    return name.removeprefix("auto-") if name.startswith("auto-") else ""


def asked(accuracy: str) -> str | float:
    """An accuracy as `matmul` takes it.

    >>> asked("fp32"), asked("1e-5")
    ('fp32', 1e-05)
    """
    return float(accuracy) if accuracy[:1].isdigit() else accuracy


def line_name(variant: str) -> str:
    """The line that shows a variant.

    >>> line_name("sgemm-strassen-1-prepared")
    'sgemm strassen 1 prepared'
    """
    return variant.replace("-", " ")


def short(variant: str) -> str:
    """How a variant reads beside its marker: S or W with the levels, a star for a prepared right side.

    >>> short("sgemm-strassen-2-prepared"), short("sgemm-winograd-1"), short("auto-fp32"), short("torch-fp16x3")
    ('sgemm S2*', 'sgemm W1', 'matmul(fp32)', 'torch fp16x3')
    """
    accuracy, way = accuracy_of(variant), way_of(variant)
    if accuracy:
        return f"matmul({accuracy})"
    if way is None:
        return line_name(variant.removeprefix(CPU))
    level = f" {str(way.form)[0].upper()}{way.level}" if way.level else ""
    return f"{way.inner}{level}{'*' * way.prepared}"


# ---- what is counted, and the bounds ----


def operand_of(variant: str) -> str:
    """The type of the matrices that a variant is given, and of its result: short for the short ways, else float32.

    >>> operand_of("bf16-strassen-1"), operand_of("auto-bf16"), operand_of("fp16x3")
    ('bfloat16', 'bfloat16', 'float32')
    """
    name = accuracy_of(variant) or variant.removeprefix(CPU).partition("-")[0]
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


def buffers(way: Way, n: int) -> tuple[float, float, float]:
    """Bytes of both sides' factors and of the products; 0 for what a way does not need.

    >>> buffers(Way("sgemm"), 64), buffers(Way("bf16", 1, "strassen"), 64)
    ((0.0, 0.0, 0.0), (14336.0, 14336.0, 14336.0))
    """
    needed = Buffers.of(Problem(way, n, n, n, operand_of(way.name)))
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
    """The effective rate that the most levels cannot exceed: the peak times (8/7)^3, additions free."""
    peak = fp32_peak(hardware, point)
    return None if peak is None else peak * (8 / 7) ** LEVELS[-1]


# ---- what is predicted: a pass over each side, the products, a pass behind them ----

TYPES = {"sgemm": "float32", "bf16": "bfloat16", "fp16": "float16", "fp16x3": "float16"}


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The kernels of a way, as a CUDA Graph runs them; a CPU's as torch runs them, one by one."""
    way, n = way_of(variant.name), int(point["size"])
    if way is None or way.inner not in TYPES:
        return None
    listed = operators(way, n, operand_of(variant.name))
    whole = cost(variant, point)
    touched = whole.bytes + sum(buffers(way, n))
    work = Cost(flop_of(listed), whole.bytes, sum(each.bytes for each in listed), touched, listed)
    return PredictedRun(work, "graph" if variant.on_gpu else "eager", TYPES[way.inner])


def operators(way: Way, n: int, operand: str) -> tuple[OperatorCost, ...]:
    """The passes and the products of a way at a size.

    >>> [each.name for each in operators(Way("sgemm", 1, "strassen", prepared=True), 64, "float32")]
    ['fused(aten.sums)', 'aten.bmm', 'fused(aten.sums)']
    """
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
    count, dtype = 7**way.level, TYPES[way.inner]
    each = Matmul(rows, depth, depth * way.kind.products, count, dtype)
    read = float(way.kind.itemsize * count * depth * (rows + depth))
    shapes, name = ((rows, depth), (depth, depth)), "aten.bmm" if way.level else "aten.mm"
    return OperatorCost(name, each.flop, read, 4.0 * count * rows * depth, dtype, shapes, "matmul", (each,))
