"""A linear layer against an element-wise stand-in: how much faster is the one that multiplies no matrices?

The question, the widths and the claims follow a forum thread, "Surprisingly low performance in pseudo-Linear layer",
whose readers measured it on two unnamed GPUs.
"""

from brrr.core.measurement import Point
from brrr.gpu import is_queue
from brrr_course.experiments.predicted import BANDWIDTH
from brrr_course.experiments.pseudo_linear.theory import (
    BOTH,
    FORWARD,
    cost,
    costs,
    predicted,
    speedup_by_flop,
    speedup_by_roofline,
)
from brrr_course.nouns.experiment import Axis, Experiment, Guide, Line, Rate, Variant

WIDTHS = (64, 128, 256, 512, 1024, 2048, 4096, 6144, 8192, 16384, 24576)
BATCHES = (128, 2048, 32768)
COMPILED_WIDTHS = (256, 1024, 4096, 16384)
"""Where both layers are compiled with their backward pass: each point is compiled anew, for seconds."""

EXACT_WIDTHS = (4096, 16384)
QUEUE_FLOP = 2e10
"""The CPU queue stops here: a laptop's CPU would need a second and more a call above."""

SLOW_FLOP = 1e13
"""Above this one way of running the linear layer is enough: overhead is nothing there, and a call takes long."""


def supports(variant: Variant, point: Point) -> bool:
    """Which variant exists where: the CPU queue up to a size, copies of the slow linear layer up to another."""
    flop, width = costs(point)[0].flop, int(point["width"])
    if is_queue(variant.device):
        return flop <= QUEUE_FLOP
    if variant.way == "integers":
        return width in EXACT_WIDTHS and point["batch"] == max(BATCHES) and point["direction"] == FORWARD
    linear = variant.kind == "linear"
    if variant.way == "compile":
        return (
            width in COMPILED_WIDTHS and flop <= SLOW_FLOP
            if linear
            else point["direction"] == FORWARD or width in COMPILED_WIDTHS
        )
    return not (linear and variant.way == "graph") or flop <= SLOW_FLOP


def _queued(kind: str, way: str, label: str, *, shown: bool = True) -> Variant:
    line = f"{kind} {way}"
    return Variant(f"queue-{kind}-{way}", label, "cpu-queue", way=way, kind=kind, shown=shown, stands_in_for=line)


EXPERIMENT = Experiment(
    title="Pseudo-Linear",
    question="How much faster is a layer that multiplies no matrices?",
    axes=(
        Axis("width", WIDTHS, label="width of the layer", quick=(64, 256, 1024)),
        Axis("batch", BATCHES, label="batch (rows)", quick=(128,)),
        Axis("direction", (FORWARD, BOTH), label="direction", scale="category", quick=(FORWARD,)),
    ),
    variants=(
        Variant("linear-eager", "Linear", "cuda", way="eager", kind="linear"),
        Variant("pseudo-eager", "pseudo", "cuda", way="eager", kind="pseudo"),
        Variant("pseudo-compile", "pseudo, torch.compile", "cuda", way="compile", kind="pseudo"),
        Variant("pseudo-graph", "pseudo, CUDA Graph", "cuda", way="graph", kind="pseudo"),
        Variant("pseudo-triton", "pseudo, fused (Triton)", "cuda", way="triton", kind="pseudo"),
        Variant("pseudo-triton-graph", "pseudo, fused, CUDA Graph", "cuda", way="triton-graph", kind="pseudo"),
        Variant("linear-compile", "Linear, torch.compile", "cuda", way="compile", kind="linear", shown=False),
        Variant("linear-graph", "Linear, CUDA Graph", "cuda", way="graph", kind="linear", shown=False),
        Variant("linear-integers", "Linear on whole numbers", "cuda", way="integers", kind="linear", shown=False),
        _queued("linear", "eager", "Linear"),
        _queued("pseudo", "eager", "pseudo"),
        _queued("pseudo", "graph", "pseudo, one order"),
        _queued("pseudo", "triton", "pseudo, fused"),
        _queued("linear", "graph", "Linear, one order", shown=False),
    ),
    field="period_s",
    lines=(
        Line("linear busy", "linear-eager", "busy_s", "Linear, GPU's own time", shown=False),
        Line("pseudo busy", "pseudo-eager", "busy_s", "pseudo, GPU's own time", shown=False),
        Line("pseudo triton busy", "pseudo-triton", "busy_s", "pseudo, fused, GPU's own time", shown=False),
    ),
    package=__name__,
    cost=cost,
    predicts=predicted,
    anchors=(
        {"width": 1024, "batch": 2048, "direction": FORWARD},
        {"width": 256, "batch": 128, "direction": FORWARD},
    ),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(
        Guide("flop", "by counting operations: the width", "PREDICTED", "ratio",
              speedup_by_flop),
        Guide("roofline", "by the datasheet's fp32 peak and bandwidth", "PREDICTED", "ratio",
              speedup_by_roofline),
        BANDWIDTH,
    ),
)  # fmt: skip
