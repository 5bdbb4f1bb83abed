"""Additions a second: Python, C++, NumPy and torch, from one pair of numbers to millions; beside them a GPU's peak.

The question and the claims follow the section "Overhead" of "Making Deep Learning Go Brrrr From First Principles",
which counted the additions a second of Python and of torch and held an A100's peak against them. Here each call makes
100 additions in a Python loop (fewer of large tensors), and the loop's own cost is part of each addition, as it was
there.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import is_queue
from brrr_course.experiments.predicted import alone, pointwise, product, run
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Variant

ELEMENTS = (1, 16, 256, 4096, 65536, 2**20, 2**23, 2**26)
MOST_ADDITIONS = 100
MOST_ELEMENTS = 2**20
"""A call makes so many additions in a loop, fewer where that would be more than so many elements."""

PEAK_SIZE = 8192
ITEMSIZE = 4


def additions(elements: int) -> int:
    """How many additions, one after the other, a call makes: the same for all variants of a point.

    >>> additions(1), additions(65536), additions(2**26)
    (100, 16, 1)
    """
    return max(1, min(MOST_ADDITIONS, MOST_ELEMENTS // elements))


def is_peak(variant: Variant) -> bool:
    """Whether the variant is no addition, but a product that shows what the device can do."""
    return variant.kind == "peak"


def supports(variant: Variant, point: Point) -> bool:
    """Single numbers and the device's peak stand at one element only; the CPU queue stops early."""
    elements = int(point["elements"])
    if variant.way == "python" or is_peak(variant):
        return elements == 1
    return not is_queue(variant.device) or elements <= MOST_ELEMENTS


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a call: its additions together, or the product."""
    if is_peak(variant):
        return matmul_cost(PEAK_SIZE, PEAK_SIZE, PEAK_SIZE, 2)
    elements = int(point["elements"])
    flop = float(additions(elements) * elements)
    return Cost(flop, 3 * ITEMSIZE * flop)


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """torch's additions of a call one after the other, and the product that shows the device's peak."""
    if is_peak(variant):
        return alone(product("mm", PEAK_SIZE, PEAK_SIZE, PEAK_SIZE, 2, "bfloat16"))
    if variant.way != "torch":
        return None
    elements = int(point["elements"])
    add = pointwise("add", elements, ITEMSIZE, reads=2 * elements)
    return run((add,) * additions(elements), add.bytes, add.bytes)


EXPERIMENT = Experiment(
    title="Additions a second",
    question="How many additions does each make in a second?",
    axes=(Axis("elements", ELEMENTS, label="elements in one addition (float32)", quick=(1, 4096, 2**20)),),
    variants=(
        Variant("python", "Python", "cpu"),
        Variant("peak-bf16", "GPU, bf16 product 8192", "cuda", kind="peak", shown=False),
        Variant("cpp", "C++, compiled with -O3", "cpu", prepare_s=1.0, shown=False),
        Variant("numpy", "NumPy, two arrays", "cpu", line="numpy array"),
        Variant("torch-cpu", "torch, on the CPU", "cpu", way="torch"),
        Variant("torch-cuda", "torch, on the GPU", "cuda", way="torch"),
        Variant("queue", "torch, on the CPU queue", "cpu-queue", way="torch", stands_in_for="torch cuda"),
    ),
    field="period_s",
    package=__name__,
    anchors=({"elements": 1},),
    rate=Rate("flop", "/s", "additions a second"),
)
