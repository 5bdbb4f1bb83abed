"""A normalisation of each token, in three types: it moves bytes and computes little, so bits are bytes.

Beside `bits`, whose products gain by fewer bits in two ways, and `unary`, which has single operators on each element.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, Form, OperatorCost
from brrr_course.experiments.predicted import BANDWIDTH, alone
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Variant

WAYS = {"layer norm": "LayerNorm", "rms norm": "RMSNorm"}
KERNELS = {"layer norm": "aten.native_layer_norm", "rms norm": "aten._fused_rms_norm"}
ITEMSIZE = {"float32": 4, "bfloat16": 2, "float16": 2}
QUEUE_MAX = 2**22


def supports(variant: Variant, point: Point) -> bool:
    """The CPU queue stops at QUEUE_MAX numbers."""
    return variant.on_gpu or int(point["tokens"]) * int(point["width"]) <= QUEUE_MAX


def cost(variant: Variant, point: Point) -> Cost:
    """Each number read once and written once; five FLOP of each: its part in the statistics, scale and shift."""
    numbers = float(int(point["tokens"]) * int(point["width"]))
    return Cost(5 * numbers, 2 * ITEMSIZE[str(point["dtype"])] * numbers)


def predicted(variant: Variant, point: Point) -> PredictedRun:
    """torch's one kernel along rows: half of the bytes read, half written; weights and statistics are few."""
    made, rows = cost(variant, point), Form("rows", int(point["tokens"]), int(point["width"]))
    half, dtype = made.bytes / 2, str(point["dtype"])
    return alone(OperatorCost(KERNELS[variant.way], made.flop, half, half, dtype, (), "norm", form=rows))


EXPERIMENT = Experiment(
    title="A normalisation in three types",
    question="Does a normalisation take half the time with half the bits?",
    axes=(
        Axis("tokens", (64, 1024, 16384), label="tokens", quick=(64, 1024)),
        Axis("width", (1024, 4096, 8192), label="width", quick=(1024,)),
        Axis("dtype", tuple(ITEMSIZE), label="type of the numbers", scale="category", quick=("float32",)),
    ),
    variants=(
        *(Variant(way, label, "cuda") for way, label in WAYS.items()),
        *(Variant(f"queue-{way}", label, "cpu-queue", way=way, stands_in_for=way) for way, label in WAYS.items()),
    ),
    field="busy_s", package=__name__,
    anchors=({"tokens": 16384, "width": 8192, "dtype": "float32"},),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(BANDWIDTH,),
)  # fmt: skip
