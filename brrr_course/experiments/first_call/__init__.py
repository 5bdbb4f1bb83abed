"""What the first call costs, part by part: each part in fresh processes of its own, and the same once more.

The parts, and the claims about them, follow the warm-up section of "GPU Performance: Parallel Processing vs Overhead"
(2024), which saw a long first copy and a long first sine in a profile.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_cpu
from brrr_course.nouns.experiment import Axis, Experiment, Variant

IMPORT = "import torch"
CONTEXT, MEMORY, COPY, KERNEL = "CUDA context", "memory", "copy", "first kernel"
OTHER, STREAM, PINNED, MATMUL, CONVOLUTION = (
    "another kernel",
    "stream",
    "pinned memory",
    "matrix product",
    "convolution",
)
ON_STREAM = "a new stream's first kernel"
PARTS = (IMPORT, CONTEXT, MEMORY, PINNED, COPY, KERNEL, OTHER, STREAM, ON_STREAM, MATMUL, CONVOLUTION)

ON_CUDA = PARTS[1:]
ON_CPU = (IMPORT, MEMORY, KERNEL, MATMUL, CONVOLUTION)
"""What the first call costs without a GPU too: the libraries start their threads, and choose their code."""

ONLY = {"cuda-no-compiler": (KERNEL,), "cuda-eager": (CONTEXT, KERNEL)}
"""Processes with another setting of the driver are asked about what it bears on."""


def supports(variant: Variant, point: Point) -> bool:
    """Which part exists where."""
    here = ON_CPU if is_cpu(variant.device) else ONLY.get(variant.way, ON_CUDA)
    return str(point["part"]) in here


def cost(variant: Variant, point: Point) -> Cost:
    """Nothing that is worth counting: the parts are set-up."""
    return Cost(0.0, 0.0)


EXPERIMENT = Experiment(
    title="The first call",
    question="What does the first call pay for, and who pays it again?",
    axes=(
        Axis(
            "part",
            PARTS,
            label="what is done for the first time",
            scale="category",
            quick=(IMPORT, MEMORY, KERNEL, MATMUL, CONVOLUTION),
        ),
    ),
    variants=(
        Variant("cuda-first", "the first time", "cuda", timer="first-call", work="cuda", line="first"),
        Variant("cuda-again", "the second time", "cuda", timer="call-again", work="cuda", line="again"),
        Variant(
            "cuda-no-compiler",
            "the first time, no compiler",
            "cuda",
            timer="first-call",
            line="no compiler",
            shown=False,
        ),
        Variant(
            "cuda-eager", "the first time, all loaded before", "cuda", timer="first-call", line="eager", shown=False
        ),
        Variant("cpu-first", "CPU, the first time", "cpu", timer="first-call", work="cpu"),
        Variant("cpu-again", "CPU, the second time", "cpu", timer="call-again", work="cpu"),
    ),
    field="latency_s",
    package=__name__,
    anchors=({"part": KERNEL},),
)
