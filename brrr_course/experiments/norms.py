"""A normalisation of each token, in three types: it moves bytes and computes little, so bits are bytes.

Beside `bits`, whose products gain by fewer bits in two ways, and `unary`, which has single operators on each element.
"""

from __future__ import annotations

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, Form, OperatorCost
from brrr_course.experiments.checked import PointInputs, error_against, must_fit
from brrr_course.experiments.lazily import f, torch
from brrr_course.experiments.predicted import BANDWIDTH, alone
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Variant, Workload

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
    return alone(OperatorCost(KERNELS[variant.implementation], made.flop, half, half, dtype, (), "norm", form=rows))


EXPERIMENT = Experiment(
    title="A normalisation in three types",
    question="Does a normalisation take half the time with half the bits?",
    axes=(
        Axis("tokens", (64, 1024, 16384), label="tokens", quick=(64, 1024)),
        Axis("width", (1024, 4096, 8192), label="width", quick=(1024,)),
        Axis("dtype", tuple(ITEMSIZE), label="type of the numbers", scale="category", quick=("float32",)),
    ),
    variants=(
        *(Variant(way, label) for way, label in WAYS.items()),
        *(Variant.twin(way, "cpu-queue", label) for way, label in WAYS.items()),
    ),
    field="busy_s", package=__name__,
    anchors=({"tokens": 16384, "width": 8192, "dtype": "float32"},),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(BANDWIDTH,),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `norms` experiment runs: a normalisation of each token, checked against float64.

TOLERANCE = {"float32": 2e-6, "bfloat16": 8e-3, "float16": 1e-3}
"""A few roundings of 2^-24; one of 2^-8 or 2^-11 at the end, and those of weights and shifts before it."""

EPSILON = 1e-5


class NormInputs(PointInputs):
    """Normal numbers with weights and shifts near 1 and 0, drawn once for all variants of a point."""

    def __init__(self, tokens: int, width: int, dtype: str, device: str) -> None:
        kind = getattr(torch, dtype)
        self.x = torch.randn(tokens, width, device=device, dtype=kind)
        self.weight = (1 + torch.randn(width, device=device) / 8).to(kind)
        self.shift = (torch.randn(width, device=device) / 8).to(kind)


def workload(variant: Variant, point: Point) -> Workload:
    """The normalisation of fresh random tokens."""
    tokens, width, dtype = int(point["tokens"]), int(point["width"]), str(point["dtype"])
    device = variant.processor
    nbytes = 3 * ITEMSIZE[dtype] * tokens * width
    must_fit(nbytes, device, f"{variant.label} of {tokens} x {width} numbers", tokens * width)
    held = NormInputs.of(tokens, width, dtype, device)
    weights = held.weight, held.shift

    def norm(x: torch.Tensor, weight: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        if variant.implementation == "layer norm":
            return f.layer_norm(x, (width,), weight, shift, EPSILON)
        return f.rms_norm(x, (width,), weight, EPSILON)

    error = error_against(norm, (held.x,), weights)
    return Workload(lambda: norm(held.x, *weights), error, TOLERANCE[dtype], warm=True)
