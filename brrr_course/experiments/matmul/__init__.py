"""Matrix multiplication on the CPU and the GPU, with transfers and without, and the clock stopped right and wrong.

The question, the sizes and the claims follow the `matmul` part of "GPU Performance: Parallel Processing vs Overhead"
(2024), which timed 2^0 to 2^15 on an A100.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import is_queue
from brrr_course.experiments.predicted import alone, product
from brrr_course.nouns.experiment import Axis, Experiment, Line, PredictedRun, Variant, stand_in

SIZES = tuple(2**k for k in range(16))
ODD_SIZES = (100, 1000, 3000, 6000, 10000)
QUEUE_MAX = 4096
"""The CPU queue stops here: a laptop's CPU would need a second and more a product above."""

FIRST_CALL_SIZES = (1, 1024)


def supports(variant: Variant, point: Point) -> bool:
    """The CPU queue ends at QUEUE_MAX, and the first call is timed at two sizes only; all else exists everywhere."""
    size = int(point["size"])
    if variant.timer == "first-call":
        return size in FIRST_CALL_SIZES
    return not is_queue(variant.device) or size <= QUEUE_MAX


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of the product, the same for every variant."""
    size = int(point["size"])
    return matmul_cost(size, size, size, itemsize=4)


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The product alone."""
    size = int(point["size"])
    return alone(product("mm", size, size, size, 4)) if variant.way in ("cpu", "gpu", "queue") else None


EXPERIMENT = Experiment(
    title="Matrix multiplication",
    question="Why does the GPU's time look constant?",
    axes=(
        Axis(
            "size",
            tuple(sorted(SIZES + ODD_SIZES)),
            label="matrix size n (an n × n by n × n product, float32)",
            quick=(64, 256, 512),
        ),
    ),
    variants=(
        Variant("cpu", "CPU", "cpu"),
        Variant("gpu-transfers", "GPU, data sent there and back", "cuda"),
        Variant("gpu-first", "GPU, first call in a fresh process", "cuda", timer="first-call"),
        Variant("gpu", "GPU, data already there", "cuda"),
        Variant("queue", "CPU queue (a CPU queue)", "cpu-queue"),
    ),
    lines=(
        Line("cpu", "cpu", "latency_s", "CPU"),
        Line("transfers", "gpu-transfers", "latency_s", "GPU with transfers"),
        Line("unsynchronized", "gpu", "host_s", "GPU, clock stopped without waiting"),
        Line("synchronized", "gpu", "latency_s", "GPU, clock stopped after synchronize()"),
        Line("first call", "gpu-first", "latency_s", "GPU with transfers, first call", shown=False),
        stand_in("unsynchronized", "queue", "host_s", "CPU queue, clock stopped without waiting"),
        stand_in("synchronized", "queue", "latency_s", "CPU queue, clock stopped after synchronize()"),
    ),
    package=__name__,
    anchors=({"size": 1024}, {"size": 8192}),
)
