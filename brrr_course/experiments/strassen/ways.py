"""Which ways of multiplying `strassen` measures, what is counted of them, and the bounds that a datasheet sets them.

A variant's `way` is the name of a way of `brrr.strassen` (`sgemm-strassen-2-prepared`), unless its `kind` says that
`matmul` chooses one for an accuracy (`fp32`), or that torch's own calls make a split product.

The FLOP of a `Cost` are those of the textbook's product, 2n^3, for every way: an *effective* rate, FLOP over time, may
then lie above the peak, because a way with levels multiplies less. What is really multiplied is a `flop_share` of them.
"""

from brrr.core.measurement import DeviceKind, Point
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

BY_TORCH, BY_MATMUL = "torch", "matmul"
"""Kinds of variant that are no way of `brrr.strassen`: split products of torch's calls, and what `matmul` chooses."""

CPU = "cpu-"


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

SHOWN = (
    "sgemm", "sgemm-strassen-1-prepared", "sgemm-strassen-2-prepared", "sgemm-strassen-3-prepared", "bf16", "fp16x3",
    "auto-fp32", "cpu-sgemm", "cpu-sgemm-strassen-1", "cpu-sgemm-strassen-1-prepared",
    "cpu-sgemm-winograd-1",
)  # fmt: skip


def _variant(name: str, label: str, device: DeviceKind, way: str, kind: str = "") -> Variant:
    return Variant(name, label, device, way=way, kind=kind, shown=name in SHOWN)


def _label(way: Way) -> str:
    """Of Strassen's form the levels alone: seven names find room above a figure."""
    return way.label.replace("SGEMM (float32)", "SGEMM").replace(", Strassen,", ",")


def _matmul(accuracy: str) -> str:
    asked_for = f'"{accuracy}"' if isinstance(asked(accuracy), str) else accuracy
    return f"matmul(accuracy={asked_for})"


def asked(accuracy: str) -> str | float:
    """An accuracy as `matmul` takes it.

    >>> asked("fp32"), asked("1e-5")
    ('fp32', 1e-05)
    """
    return float(accuracy) if accuracy[:1].isdigit() else accuracy


VARIANTS = (
    *(_variant(way.name, _label(way), "cuda", way.name) for way in MEASURED),
    *(_variant(f"auto-{name}", _matmul(name), "cuda", name, BY_MATMUL) for name in CHOSEN),
    *(_variant(name, label, "cuda", name, BY_TORCH) for name, label in TORCH_LABELS.items()),
    *(_variant(f"{CPU}{way.name}", f"CPU, {_label(way)}", "cpu", way.name) for way in ON_CPU),
    _variant(f"{CPU}auto-fp32", f"CPU, {_matmul('fp32')}", "cpu", "fp32", BY_MATMUL),
)
NAMED = {variant.name: variant for variant in VARIANTS}


def way(variant: Variant) -> Way | None:
    """The way of a variant; None where `matmul` chooses, and for torch's split products."""
    return None if variant.kind else WAYS[variant.way]


def accuracy(variant: Variant) -> str:
    """The accuracy that `matmul` is asked for by a variant; empty for all others."""
    return variant.way if variant.kind == BY_MATMUL else ""


def way_of(name: str) -> Way | None:
    """The way of the variant of that name; None where it has none, and where there is no such variant.

    >>> way_of("cpu-sgemm-winograd-1"), way_of("auto-fp32")
    (Way(inner='sgemm', level=1, form='winograd', prepared=False), None)
    """
    return way(NAMED[name]) if name in NAMED else None


def accuracy_of(name: str) -> str:
    """The accuracy that `matmul` is asked for by the variant of that name; empty for all others.

    >>> accuracy_of("cpu-auto-fp32"), accuracy_of("sgemm-strassen-1")
    ('fp32', '')
    """
    return accuracy(NAMED[name])


def line_name(variant: str) -> str:
    """The line that shows a variant.

    >>> line_name("sgemm-strassen-1-prepared")
    'sgemm strassen 1 prepared'
    """
    return variant.replace("-", " ")


def short(name: str) -> str:
    """How a variant reads beside its marker: S or W with the levels, a star for a prepared right side.

    >>> short("sgemm-strassen-2-prepared"), short("cpu-sgemm-winograd-1"), short("auto-fp32"), short("torch-fp16x3")
    ('sgemm S2*', 'sgemm W1', 'matmul(fp32)', 'torch fp16x3')
    """
    variant = NAMED[name]
    found = way(variant)
    if found is None:
        return f"matmul({variant.way})" if variant.kind == BY_MATMUL else line_name(variant.way)
    level = f" {str(found.form)[0].upper()}{found.level}" if found.level else ""
    return f"{found.inner}{level}{'*' * found.prepared}"


# ---- what is counted, and the bounds ----


OPERANDS = {"bf16": "bfloat16", "fp16": "float16"}
"""The short types of operands, by inner product or accuracy."""


def operand(variant: Variant) -> str:
    """The type of the matrices that a variant is given, and of its result: short for the short ways, else float32.

    >>> operand(NAMED["bf16-strassen-1"]), operand(NAMED["auto-bf16"]), operand(NAMED["fp16x3"])
    ('bfloat16', 'bfloat16', 'float32')
    """
    found = way(variant)
    return OPERANDS.get(found.inner if found else variant.way, "float32")


def cost(variant: Variant, point: Point) -> Cost:
    """2n^3 FLOP, and the bytes of two operands and a result: the same for every way of a type.

    >>> cost(NAMED["sgemm-strassen-3"], {"size": 1000}).flop
    2000000000.0
    """
    n = int(point["size"])
    return Cost(2.0 * n**3, float(3 * n * n * (4 if operand(variant) == "float32" else 2)))


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
    needed = Buffers.of(Problem(way, n, n, n, OPERANDS.get(way.inner, "float32")))
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
    found, n = way(variant), int(point["size"])
    if found is None or found.inner not in TYPES:
        return None
    listed = operators(found, n, operand(variant))
    whole = cost(variant, point)
    touched = whole.bytes + sum(buffers(found, n))
    work = Cost(flop_of(listed), whole.bytes, sum(each.bytes for each in listed), touched, listed)
    return PredictedRun(work, "graph" if variant.on_gpu else "eager", TYPES[found.inner])


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
