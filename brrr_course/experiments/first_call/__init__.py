"""What the first call costs, part by part: each part in fresh processes of its own, and the same once more.

The parts, and the claims about them, follow the warm-up section of "GPU Performance: Parallel Processing vs Overhead"
(2024), which saw a long first copy and a long first sine in a profile.
"""

from __future__ import annotations

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_cpu
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant

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
    name="first_call",
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
        Variant("cuda-first", "the first time", "cuda", timer="first-call", work="cuda"),
        Variant("cuda-again", "the second time", "cuda", timer="call-again", work="cuda"),
        Variant("cuda-no-compiler", "the first time, the driver may not compile", "cuda", timer="first-call"),
        Variant("cuda-eager", "the first time, all modules loaded with the context", "cuda", timer="first-call"),
        Variant("cpu-first", "CPU, the first time", "cpu", timer="first-call", work="cpu"),
        Variant("cpu-again", "CPU, the second time", "cpu", timer="call-again", work="cpu"),
    ),
    lines=(
        Line("first", "cuda-first", "latency_s", "the first time"),
        Line("again", "cuda-again", "latency_s", "the second time"),
        Line("no compiler", "cuda-no-compiler", "latency_s", "the first time, no compiler", shown=False),
        Line("eager", "cuda-eager", "latency_s", "the first time, all loaded before", shown=False),
        Line("cpu first", "cpu-first", "latency_s", "CPU, the first time"),
        Line("cpu again", "cpu-again", "latency_s", "CPU, the second time"),
    ),
    package=__name__,
    supports=supports,
    cost=cost,
    anchors=({"part": KERNEL},),
)
