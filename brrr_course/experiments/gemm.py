"""A product of matrices, column by column: what does one more column cost?

W (M, K) times x (K, N) with M = K, as a layer's weights times a mini-batch of N columns. The questions and most claims
follow "Investigating performance of GPU BLAS Libraries" (2016), which used cuBLAS's single precision of that time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from math import prod
from typing import Any

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Point, Value
from brrr.counting.cost import ITEMSIZE, Cost, Matmul, matmul_cost
from brrr.gpu.precision import float32_products
from brrr.kernels.padding import padded_matmul
from brrr_course.experiments.checked import PointInputs, must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import alone, product
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Variant, Workload, lies_on
from brrr_course.nouns.expression import Table
from brrr_course.nouns.source import Evidence

DTYPES = ("float32", "tf32", "bfloat16", "float16")
SWEPT = 2048
"""At this size every number of columns is measured up to MOST, in float32 and bfloat16."""
MOST = 1100
SIZES = (512, 1024, 2048, 4096, 8192)
HELD_OUT = (1760, 2560, 3000)
"""No constant of the predictor was fitted to these sizes."""
STEPPED = tuple(range(1024, 2561, 128))
EVEN = tuple(range(32, 1025, 32))
ODD = tuple(n + 1 for n in EVEN)
EIGHTS = tuple(range(40, 1025, 64))
"""Multiples of 8 that are not multiples of 16."""
WIDE = (1536, 1537, 2048, 2049, 3072, 3073, 4095, 4096)
SOME = frozenset((1, 2, 4, 8, 16, *EVEN, *ODD, *EIGHTS, *WIDE))
BATCHES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096)
"""In every type and layout, at every one of SIZES: what the lesson's sliders reach."""
STEPS = frozenset((1, 16, 32, 33, 64, 65, 96, 128, 192, 256))
"""The source's mini-batches and two odd neighbours."""
APART = frozenset((1, 2, 8, 32, 33, 64, 96, 128, 129, 256, 257, 320, 512, 513, 768, 800, 1024, 1025, 2048, 4096))
DATA = frozenset((32, 512, 1024, 4096))
"""Where zeros are multiplied, too."""
ON_CPU = (1, 2, 4, 8, 16, 31, 32, 33, 64, 65, 96, 128, 129, 256, 257)


def lines(sizes: Collection[int], columns: Collection[int], dtypes: Collection[str]) -> dict[str, Collection[Value]]:
    """Points of these sizes, columns and types."""
    return {"size": sizes, "columns": columns, "dtype": dtypes}


PLAIN = ("float32", "bfloat16")
GRID: tuple[tuple[tuple[str, ...], Mapping[str, Collection[Value]]], ...] = (
    (("nn", "nt", "tn"), lines(SIZES, BATCHES, DTYPES)),
    (("nn", "nt", "tn", "linear"), lines((SWEPT,), SOME, PLAIN)),
    (("nn",), lines((SWEPT,), SOME, DTYPES)),
    (("nn",), lines((SWEPT,), range(1, MOST + 1), PLAIN)),
    (("nn",), lines(SIZES, SOME, PLAIN)),
    (("nn",), lines(HELD_OUT, APART, PLAIN)),
    (("nn",), lines({*STEPPED} - {*HELD_OUT}, STEPS, PLAIN)),
    (("nn",), lines((4096, 8192), DATA, DTYPES)),
    (("nt", "tn"), lines(STEPPED, STEPS, PLAIN)),
    (("zeros",), lines((SWEPT, 4096, 8192), DATA, DTYPES)),
    (("padded",), lines((SWEPT,), SOME, ("bfloat16", "float16"))),
    (("cpu",), lines((512, 1024, 2048), ON_CPU, ("float32",))),
    (("webgpu",), {"dtype": ("float32",)}),
)
"""Which ways are measured on which lines through the grid."""


def supports(variant: Variant, point: Point) -> bool:
    """Which way is measured at which point."""
    return any(variant.implementation in ways and lies_on(point, line) for ways, line in GRID)


def settle_s(point: Point) -> float:
    """How long a way runs unmeasured where its power is of interest: until clock and power have settled."""
    return 1.0 if int(point["size"]) == 8192 and int(point["columns"]) == 4096 else 0.0


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of the product, the same for every way."""
    size = int(point["size"])
    return matmul_cost(size, size, int(point["columns"]), ITEMSIZE.get(str(point["dtype"]), 4))


def matmul_of(variant: str, point: Point) -> Matmul:
    """The product that a way computes: a Linear's has the mini-batch as its rows.

    >>> matmul_of("linear", {"size": 64, "columns": 7, "dtype": "bfloat16"}).m
    7
    """
    size, n = int(point["size"]), int(point["columns"])
    dtype = "float32" if point["dtype"] == "tf32" else str(point["dtype"])
    if variant == "linear":
        return Matmul(n, size, size, dtype=dtype, transposed=(False, True))
    return Matmul(size, n, size, dtype=dtype, transposed=(variant == "tn", variant == "nt"))


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The product alone; nothing for padding, which adds a copy."""
    if variant.implementation == "padded":
        return None
    each = matmul_of(variant.implementation, point)
    dtype = "tf32" if point["dtype"] == "tf32" else each.dtype
    return alone(product("mm", each.m, each.n, each.k, ITEMSIZE[each.dtype], dtype, transposed=each.transposed))


EXPERIMENT = Experiment(
    title="Products of matrices",
    question="What does one more column cost?",
    axes=(
        Axis("columns", tuple(sorted({*range(1, MOST + 1), *SOME, *APART})), label="columns N (the mini-batch)",
             quick=(1, 32, 33, 128)),
        Axis("size", tuple(sorted({*SIZES, *HELD_OUT, *STEPPED})), label="size M = K", quick=(512,)),
        Axis("dtype", DTYPES, label="type", scale="category", quick=("float32",)),
    ),
    variants=(
        Variant("nn", "W x, both row by row (NN)"),
        Variant("nt", "x stored transposed (NT)", shown=False),
        Variant("tn", "W stored transposed (TN)", shown=False),
        Variant("linear", "a Linear layer: one row per sample", shown=False),
        Variant("zeros", "W x of zeros", shown=False),
        Variant("padded", "x padded to whole 16 bytes", shown=False),
        Variant("cpu", "W x on the CPU", "cpu", stands_in_for=("nn",)),
        Variant("webgpu", "W x on your GPU, in tiles of 64 × 64", "webgpu", timer="browser", stands_in_for=("nn",)),
    ),
    field="span_s",
    package=__name__,
    anchors=tuple({"columns": 1024, "size": SWEPT, "dtype": dtype} for dtype in PLAIN),
    rate=Rate("flop", "FLOP/s", "throughput"),
    names_kernels=True,
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `gemm` experiment runs: torch's product in each layout and type, on random numbers and on zeros.

TOLERANCES = {"float32": 1e-5, "tf32": 2e-3, "bfloat16": 1e-2, "float16": 2e-3}
"""Of sums of up to 8192 products; TF32 (about 3e-4) would be found out among float32's."""


class Operands(PointInputs):
    """A point's weights W (M, K) and mini-batch x (K, N), random and normal."""

    def __init__(self, size: int, columns: int, dtype: str, device: str) -> None:
        kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
        self.w = torch.randn(size, size, device=device).to(kind)
        self.x = torch.randn(size, columns, device=device).to(kind)


def workload(variant: Variant, point: Point) -> Workload:
    """The product in the variant's layout, its operands laid out beforehand; padding is part of what is timed."""
    size, columns, dtype = int(point["size"]), int(point["columns"]), str(point["dtype"])
    device, nbytes = variant.processor, cost(variant, point).bytes
    must_fit(2 * int(nbytes), device, f"a product of {size} x {size} by {columns} columns")
    run, error = MAKERS[variant.implementation](Operands.of(size, columns, dtype, device))
    if dtype == "tf32":
        run = float32_products(tf32=True)(run)
    return Workload(run, error, TOLERANCES[dtype], warm=True)


Made = tuple[Callable[[], Any], Callable[[Any], float]]


def _made(given: Operands, w: torch.Tensor, x: torch.Tensor, call: Callable[..., Any] | None = None) -> Made:
    """The operands as they lie, and what multiplies these."""
    return partial(call or torch.mm, w, x), partial(_error, given)


def _linear(given: Operands) -> Made:
    """A row a sample: the result (N, M) is the transposed one."""
    w, rows = given.w, given.x.t().contiguous()
    return lambda: torch.mm(rows, w.t()), lambda found: _error(given, found.t())


def _zeros(given: Operands) -> Made:
    w, x = torch.zeros_like(given.w), torch.zeros_like(given.x)
    return lambda: torch.mm(w, x), lambda found: float(found.abs().max())


MAKERS: dict[str, Callable[[Operands], Made]] = {
    **dict.fromkeys(("nn", "cpu"), lambda given: _made(given, given.w, given.x)),
    "nt": lambda given: _made(given, given.w, given.x.t().contiguous(), lambda w, stored: torch.mm(w, stored.t())),
    "tn": lambda given: _made(given, given.w.t().contiguous(), given.x, lambda stored, x: torch.mm(stored.t(), x)),
    "padded": lambda given: _made(given, given.w, given.x, padded_matmul), "linear": _linear, "zeros": _zeros,
}  # fmt: skip


def _error(given: Operands, found: torch.Tensor) -> float:
    """The relative error by random probes; a result of another shape or type is no result."""
    from brrr.roofline.calibrate.part import product_error

    if found.shape != given.x.shape or found.dtype != given.x.dtype:
        return float("nan")
    return product_error(given.w, given.x)(found)


# ---------------------------------------------------------------------------------------------------------------------
# What the claims on products of matrices ask of kernels' names.


def launched(evidence: Evidence, dtype: str, size: int = SWEPT) -> dict[int, str]:
    """The first kernel of W x, as the profiler named it, by the number of columns."""
    known = evidence.known("nn").items()
    found = {int(n): m.launched[0] for (n, at, kind), m in known if (at, kind) == (size, dtype) and m.launched}
    if not found:
        raise NotRecordedError(f"no kernel's name was recorded for {dtype} at M = K = {size}")
    return found


def tile(kernel: str) -> tuple[int, int] | None:
    """The tile of the result that a library's kernel tells in its name; None where it tells none.

    >>> tile("cutlass_80_simt_sgemm_128x64_8x5_nn_align1 16x8x1 of 128"), tile("gemv2T_kernel_val 1x1x1 of 128")
    ((128, 64), None)
    >>> tile("nvjet_sm90_tst_64x24_64x16_1x4_h_bz_NNT 4x22x1 of 384")
    (64, 24)
    """
    found = re.search(r"(\d+)x(\d+)", kernel.partition(" ")[0])
    return (int(found[1]), int(found[2])) if found else None


def blocks(kernel: str) -> int:
    """How many blocks a kernel was launched with.

    >>> blocks("nvjet_sss_128x64_64x5_2x1_v_bz_TNT 132x2x1 of 384")
    264
    """
    return prod(map(int, kernel.split()[-3].split("x")))


def tiles(evidence: Evidence, smallest: int, largest: int) -> Table:
    """By the number of columns, whether the first kernel's name tells a tile with both sides from one to another."""
    sides = {n: tile(kernel) or (0,) for n, kernel in launched(evidence, "float32").items()}
    return Table(("columns",), {(n,): smallest <= min(each) <= max(each) <= largest for n, each in sides.items()})


def grids(evidence: Evidence) -> Table:
    """By the number of columns, how many blocks the first kernel was launched with."""
    return Table(("columns",), {(n,): blocks(kernel) for n, kernel in launched(evidence, "float32").items()})
