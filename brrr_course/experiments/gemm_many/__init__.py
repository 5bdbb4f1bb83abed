"""Several small products or one large: the weights of some gates times the same mini-batch of 64 columns."""

from brrr.core.measurement import Point
from brrr.counting.cost import ITEMSIZE, Cost, Matmul, OperatorCost
from brrr_course.experiments.predicted import alone
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Variant

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
    if not variant.on_gpu or variant.way not in ("combined", "batched"):
        return None
    made, each = cost(variant, point), _product(point, large=variant.way == "combined")
    written = float(ITEMSIZE[each.dtype] * each.batch * each.m * each.n)
    return alone(OperatorCost("aten.mm", each.flop, made.bytes - written, written, each.dtype, (), "matmul", (each,)))


EXPERIMENT = Experiment(
    title="Many small products",
    question="Four small products or a large one?",
    axes=(
        Axis("count", COUNTS, label="matmuls", quick=(1, 4)),
        Axis("size", SIZES, label="size M = K of each", quick=(256,)),
        Axis("dtype", DTYPES, label="type", scale="category", quick=("float32",)),
    ),
    variants=(
        Variant("loop", "one after the other, eager, with the host's time", "cuda", field="period_s"),
        Variant("graph", "one after the other, CUDA Graph", "cuda"),
        Variant("streams", "on streams, CUDA Graph", "cuda"),
        Variant("batched", "batched (bmm)", "cuda"),
        Variant("combined", "one large matmul", "cuda"),
        Variant("cpu-loop", "CPU, one after the other", "cpu", way="loop", stands_in_for="loop"),
        Variant("cpu-combined", "CPU, one large matmul", "cpu", way="combined", stands_in_for="combined"),
    ),
    field="span_s",
    package=__name__,
    anchors=({"count": 4, "size": 512, "dtype": "float32"},),
    rate=Rate("flop", "FLOP/s", "throughput"),
    names_kernels=True,
)
