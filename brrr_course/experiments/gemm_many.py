"""Several small products or one large: the weights of some gates times the same mini-batch of 64 columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brrr.core.measurement import Point
from brrr.counting.cost import ITEMSIZE, Cost, Matmul, OperatorCost
from brrr.running.graphs import capture
from brrr_course.experiments.checked import PointInputs, must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import alone
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Run, Variant, Workload

COLUMNS = 64
COUNTS, SIZES, DTYPES = (1, 2, 4, 8, 16, 32), (256, 512, 1024, 2048), ("float32", "bfloat16")
CPU_MOST = 2**23
"""Weights of no more numbers than this are multiplied on the CPU."""


def supports(variant: Variant, point: Point) -> bool:
    """A CPU takes float32, and stops at CPU_MOST."""
    weights = int(point["count"]) * int(point["size"]) ** 2
    return variant.on_gpu or (point["dtype"] == "float32" and weights <= CPU_MOST)


def _product(point: Point, *, large: bool) -> Matmul:
    """The products of a point: a batch of them, or their weights below each other as one."""
    count, size = int(point["count"]), int(point["size"])
    rows, batch = (count * size, 1) if large else (size, count)
    return Matmul(rows, COLUMNS, size, batch, str(point["dtype"]))


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes: all weights and results once, and the mini-batch once."""
    each, size = _product(point, large=True), ITEMSIZE[str(point["dtype"])]
    return Cost(each.flop, float(size * (each.m * each.k + each.k * each.n + each.m * each.n)))


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """One kernel for what is one call."""
    if not variant.on_gpu or variant.implementation not in ("combined", "batched"):
        return None
    made, each = cost(variant, point), _product(point, large=variant.implementation == "combined")
    written = float(ITEMSIZE[each.dtype] * each.batch * each.m * each.n)
    return alone(OperatorCost("aten.mm", each.flop, made.bytes - written, written, each.dtype, (), "matmul", (each,)))


EXPERIMENT = Experiment(
    title="Many small products",
    question="Four small products or a large one?",
    axes=(
        Axis("count", COUNTS, label="matmuls", quick=(1, 4), noun="matmuls"),
        Axis("size", SIZES, label="size M = K of each", quick=(256,)),
        Axis("dtype", DTYPES, label="type", scale="category", quick=("float32",)),
    ),
    variants=(
        Variant("loop", "one after the other, eager, with the host's time", field="period_s"),
        Variant("graph", "one after the other, CUDA Graph"),
        Variant("streams", "on streams, CUDA Graph"),
        Variant("batched", "batched (bmm)"),
        Variant("combined", "one large matmul"),
        Variant.twin("loop", "cpu", "CPU, one after the other"),
        Variant.twin("combined", "cpu", "CPU, one large matmul"),
    ),
    field="span_s",
    package=__name__,
    anchors=({"count": 4, "size": 512, "dtype": "float32"},),
    rate=Rate("flop", "FLOP/s", "throughput"),
    names_kernels=True,
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `gemm_many` experiment runs: the same products in a loop, on streams, batched, and as one.

TOLERANCE = {"float32": 1e-5, "bfloat16": 1e-2}
STREAMS = 8


class Gates(PointInputs):
    """Some weights (M, K) below each other, and the mini-batch x (K, 64) that all of them multiply."""

    def __init__(self, count: int, size: int, dtype: str, device: str) -> None:
        kind = getattr(torch, dtype)
        self.all = torch.randn(count * size, size, device=device).to(kind)
        self.x = torch.randn(size, COLUMNS, device=device).to(kind)
        self.each = self.all.view(count, size, size)


def workload(variant: Variant, point: Point) -> Workload:
    """The products in the variant's way; the result's rows are those of one gate after the other."""
    from brrr.roofline.calibrate.part import product_error

    count, size = int(point["count"]), int(point["size"])
    must_fit(2 * int(cost(variant, point).bytes), variant.processor, f"{count} products of size {size}")
    given = Gates.of(count, size, str(point["dtype"]), variant.processor)
    run = MAKERS[variant.implementation](given)
    check = product_error(given.all, given.x)

    def error(found: Any, kept: Gates = given) -> float:
        rows = found if isinstance(found, torch.Tensor) else torch.stack(list(found))
        return check(rows.reshape(kept.all.shape[0], -1)) if rows.shape[-1] == COLUMNS else float("nan")

    return Workload(run, error, TOLERANCE[str(point["dtype"])], warm=True)


def _loop(given: Gates) -> Run:
    return lambda: [torch.mm(w, given.x) for w in given.each]


def _graph(given: Gates) -> Run:
    return capture(_loop(given)).replay


def _streams(given: Gates) -> Run:
    """Each product on the next of eight streams; all wait for the caller's, and it for all of them."""
    streams = [torch.cuda.Stream() for _ in range(min(STREAMS, len(given.each)))]

    def run() -> list[torch.Tensor]:
        mine, found = torch.cuda.current_stream(), []
        for stream in streams:
            stream.wait_stream(mine)
        for place, w in enumerate(given.each):
            with torch.cuda.stream(streams[place % len(streams)]):
                found.append(torch.mm(w, given.x))
        for stream in streams:
            mine.wait_stream(stream)
        return found

    return capture(run).replay


def _batched(given: Gates) -> Run:
    many = given.x.expand(len(given.each), -1, -1)
    return lambda: torch.bmm(given.each, many)


MAKERS: dict[str, Callable[[Gates], Run]] = {
    "loop": _loop, "graph": _graph, "streams": _streams,
    "batched": _batched, "combined": lambda given: lambda: torch.mm(given.all, given.x),
}  # fmt: skip
