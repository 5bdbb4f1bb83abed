"""Additions a second: Python, NumPy and torch, from one pair of numbers to millions; beside them what a GPU could do.

The question and the claims follow the section "Overhead" of "Making Deep Learning Go Brrrr From First Principles",
which counted the additions a second of Python and of torch and held an A100's peak against them. Here each call makes
100 additions in a Python loop (fewer of large tensors), and the loop's own cost is part of each addition, as it was
there.
"""

from __future__ import annotations

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import is_cpu, is_queue
from brrr_course.experiments.predicted import alone, pointwise, product, run
from brrr_course.nouns.experiment import Axis, Experiment, Line, PredictedRun, Rate, Variant, stand_in

ELEMENTS = (1, 16, 256, 4096, 65536, 2**20, 2**23, 2**26)
MOST_ADDITIONS = 100
MOST_ELEMENTS = 2**20
"""A call makes so many additions in a loop, fewer where that would be more than so many elements."""

SCALARS = ("python", "numpy-scalar")
PEAK_SIZE, CPU_PEAK_SIZE = 8192, 1024
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
    if variant.way in SCALARS or is_peak(variant):
        return elements == 1
    return not is_queue(variant.device) or elements <= MOST_ELEMENTS


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a call: its additions together, or the product."""
    if is_peak(variant):
        size = _peak_size(variant)
        return matmul_cost(size, size, size, 2 if variant.way == "bf16" else ITEMSIZE)
    elements = int(point["elements"])
    flop = float(additions(elements) * elements)
    return Cost(flop, 3 * ITEMSIZE * flop)


def _peak_size(variant: Variant) -> int:
    return CPU_PEAK_SIZE if is_cpu(variant.device) else PEAK_SIZE


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """torch's additions of a call one after the other, and the products that show the device's peak."""
    if is_peak(variant):
        size, short = _peak_size(variant), variant.way == "bf16"
        return alone(product("mm", size, size, size, 2 if short else 4, "bfloat16" if short else "float32"))
    if variant.way != "torch":
        return None
    elements = int(point["elements"])
    add = pointwise("add", elements, ITEMSIZE, reads=2 * elements)
    return run((add,) * additions(elements), add.bytes, add.bytes)


EXPERIMENT = Experiment(
    name="adds",
    title="Additions a second",
    question="How many additions does each make in a second?",
    axes=(Axis("elements", ELEMENTS, label="elements in one addition (float32)", quick=(1, 4096, 2**20)),),
    variants=(
        Variant("python", "Python, a loop over a + b", "cpu"),
        Variant("numpy-scalar", "NumPy, two numbers (numpy.float32)", "cpu"),
        Variant("numpy", "NumPy, two arrays", "cpu"),
        Variant("torch-cpu", "torch, two tensors on the CPU", "cpu", way="torch"),
        Variant("torch-cuda", "torch, two tensors on the GPU", "cuda", way="torch"),
        Variant("queue", "the CPU queue, two tensors", "cpu-queue", way="torch"),
        Variant("peak-bf16", "the GPU's matrix units: an 8192 product, bf16", "cuda", way="bf16", kind="peak"),
        Variant("peak-fp32", "the GPU without them: an 8192 product, fp32", "cuda", way="fp32", kind="peak"),
        Variant("peak-cpu", "the CPU: a 1024 product, fp32", "cpu", way="cpu", kind="peak"),
    ),
    lines=(
        Line("python", "python", "period_s", "Python"),
        Line("numpy scalar", "numpy-scalar", "period_s", "NumPy, two numbers"),
        Line("numpy array", "numpy", "period_s", "NumPy, two arrays"),
        Line("torch cpu", "torch-cpu", "period_s", "torch, on the CPU"),
        Line("torch cuda", "torch-cuda", "period_s", "torch, on the GPU"),
        stand_in("torch cuda", "queue", "period_s", "torch, on the CPU queue"),
        Line("peak bf16", "peak-bf16", "period_s", "GPU, bf16 product 8192", shown=False),
        Line("peak fp32", "peak-fp32", "period_s", "GPU, fp32 product 8192", shown=False),
        Line("peak cpu", "peak-cpu", "period_s", "CPU, fp32 product 1024", shown=False),
    ),
    package=__name__,
    supports=supports,
    cost=cost,
    predicts=predicted,
    predict_by_default=False,
    anchors=({"elements": 1},),
    rate=Rate("flop", "/s", "additions a second"),
)
