"""Four sines in a row: little work for much data. On the CPU, on the GPU with transfers and without, and fused.

The function, the sizes and the claims follow the nested-sine part of "GPU Performance: Parallel Processing vs Overhead"
(2024), which timed it on an A100.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_queue
from brrr_course.experiments.predicted import alone, kernel, pointwise, run
from brrr_course.nouns.experiment import Axis, Experiment, Line, PredictedRun, Variant

SINES, ITEMSIZE = 4, 4
POWERS = (0, 4, 8, *range(10, 25), 26, 28, 31)
SIZES = tuple(2**k for k in POWERS)
ODD_SIZES = (1000, 100_003, 10_000_019)
LARGEST = 2**31
SLOWEST = ("gpu-transfers-sync", "gpu-transfers-then-sync", "gpu-transfers-kept", "cpu-drawing")
SLOWEST_MAX = 2**28
"""These end here: at LARGEST they would take half a minute more and show nothing new."""

COMPILED = tuple(2**k for k in (0, 4, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 31))
"""Fusing compiles anew for each size, which takes seconds."""

SCRIPTED_ANEW = (2**10, 2**24)
"""Here the first call of a newly scripted function is timed and its kernels are counted."""

QUEUE_MAX = 2**24
"""The CPU queue stops here."""


def supports(variant: Variant, point: Point) -> bool:
    """Whether a variant exists at a size; whether the size fits into a machine's memory shows when it is run."""
    elements = int(point["elements"])
    if is_queue(variant.device):
        return elements <= QUEUE_MAX
    if variant.way == "gpu-scripted-first":
        return elements in SCRIPTED_ANEW
    if variant.way == "gpu-scripted":
        return elements in COMPILED and elements < LARGEST
    if variant.way == "gpu-compiled":
        return elements in COMPILED
    return variant.way not in SLOWEST or elements <= SLOWEST_MAX


def cost(variant: Variant, point: Point) -> Cost:
    """A sine counted as one FLOP, each float32 read once and written once: what the work needs, however it is run.

    Sines that are not fused move four times as much within the device's memory.
    """
    elements = float(point["elements"])
    return Cost(flop=SINES * elements, bytes=2 * ITEMSIZE * elements)


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """Four sines, one by one or fused; None where data is sent or random numbers are drawn."""
    elements = int(point["elements"])
    nbytes = float(ITEMSIZE * elements)
    if variant.way in ("gpu-compiled", "gpu-scripted"):
        fused = kernel(["sin"] * SINES, SINES * elements, nbytes, nbytes)
        return alone(fused, "compiled" if variant.way == "gpu-compiled" else "eager")
    if variant.way not in ("gpu", "cpu"):
        return None
    return run((pointwise("sin", elements, ITEMSIZE),) * SINES, 2 * nbytes, 3 * nbytes)


EXPERIMENT = Experiment(
    title="Nested sine",
    question="Four sines of each element: who is faster?",
    axes=(
        Axis(
            "elements",
            tuple(sorted(SIZES + ODD_SIZES)),
            label="elements (float32, 4 bytes each)",
            quick=(2**10, 2**16, 2**20),
        ),
    ),
    variants=(
        Variant("cpu", "CPU", "cpu"),
        Variant("gpu-transfers", "GPU, data sent there and back", "cuda",
                line="with transfers", line_label="GPU with transfers"),
        Variant("gpu-transfers-sync", "GPU with transfers, one more wait", "cuda",
                line="extra synchronize", shown=False),
        Variant("gpu-transfers-then-sync", "GPU with transfers, a wait after fetching", "cuda",
                line="wait after", shown=False),
        Variant("gpu-transfers-kept", "GPU, data sent there and back into an existing array", "cuda",
                line="kept", line_label="GPU with transfers, into an existing array", shown=False),
        Variant("gpu-pinned", "GPU with transfers, pinned memory", "cuda", line="pinned"),
        Variant("gpu", "GPU, data already there", "cuda", line="without transfers", line_label="GPU without transfers"),
        Variant("gpu-compiled", "GPU without transfers, torch.compile", "cuda", line="compiled", shown=False),
        Variant("gpu-scripted", "GPU without transfers, torch.jit.script", "cuda", line="scripted", shown=False),
        Variant("gpu-scripted-first", "the first call of torch.jit.script", "cuda", timer="own",
                line="scripted first", shown=False),
        Variant("cpu-drawing", "CPU, drawing the random numbers", "cpu", line="drawing", shown=False),
        Variant("queue-gpu-transfers", "CPU queue, data sent there and back", "cpu-queue", way="gpu-transfers",
                line_label="CPU queue with transfers", stands_in_for="with transfers"),
        Variant("queue-gpu-transfers-sync", "CPU queue, extra wait", "cpu-queue", way="gpu-transfers-sync",
                shown=False, stands_in_for="extra synchronize"),
        Variant("queue-gpu", "CPU queue without transfers", "cpu-queue", way="gpu", stands_in_for="without transfers"),
    ),
    field="latency_s",
    lines=(
        Line("kernels", "gpu", "kernel_s", "the four kernels alone", shown=False),
        Line("compiled kernel", "gpu-compiled", "kernel_s", "torch.compile's kernel alone", shown=False),
        Line("scripted kernel", "gpu-scripted", "kernel_s", "torch.jit.script's kernel alone", shown=False),
    ),
    package=__name__,
    anchors=({"elements": 2**16}, {"elements": 2**24}),
    traces=(
        *(("gpu-transfers", {"elements": 2**k}) for k in (10, 16, 20, 24, 28)),
        ("gpu-transfers-kept", {"elements": 2**24}),
        *(("gpu", {"elements": 2**k}) for k in (10, 20, 24, 28)),
        *(("queue-gpu-transfers", {"elements": 2**k}) for k in (10, 16, 20, 24)),
    ),
)  # fmt: skip
