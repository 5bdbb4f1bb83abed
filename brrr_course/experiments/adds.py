"""Additions a second: Python, C++, NumPy and torch, from one pair of numbers to millions; beside them a GPU's peak.

The question and the claims follow the section "Overhead" of "Making Deep Learning Go Brrrr From First Principles",
which counted the additions a second of Python and of torch and held an A100's peak against them. Here each call makes
100 additions in a Python loop (fewer of large tensors), and the loop's own cost is part of each addition, as it was
there.
"""

from __future__ import annotations

import ctypes
import math
import random
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from brrr.core.callables import giving
from brrr.core.errors import UnavailableError
from brrr.core.measurement import Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import is_queue
from brrr_course.experiments.checked import must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import alone, pointwise, product, run
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Variant, Workload

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
    return variant.operation == "peak"


def supports(variant: Variant, point: Point) -> bool:
    """Single numbers and the device's peak stand at one element only."""
    return point["elements"] == 1 or not (variant.implementation == "python" or is_peak(variant))


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
    if variant.implementation != "torch":
        return None
    elements = int(point["elements"])
    add = pointwise("add", elements, ITEMSIZE, reads=2 * elements)
    return run((add,) * additions(elements), add.bytes, add.bytes)


EXPERIMENT = Experiment(
    title="Additions a second",
    question="How many additions does each make in a second?",
    axes=(
        Axis("elements", ELEMENTS, label="elements in one addition (float32)", quick=(1, 4096, 2**20),
             most={"cpu-queue": MOST_ELEMENTS}),
    ),
    variants=(
        Variant("python", "Python", "cpu"),
        Variant("peak-bf16", "GPU, bf16 product 8192", operation="peak", shown=False),
        Variant("cpp", "C++, compiled with -O3", "cpu", prepare_s=1.0, shown=False),
        Variant("numpy", "NumPy, two arrays", "cpu", line="numpy array"),
        Variant("torch-cpu", "torch, on the CPU", "cpu", implementation="torch"),
        Variant("torch-cuda", "torch, on the GPU", implementation="torch"),
        Variant("queue", "torch, on the CPU queue", "cpu-queue", implementation="torch", stands_in_for=("torch cuda",)),
    ),
    package=__name__,
    anchors=({"elements": 1},),
    rate=Rate("flop", "/s", "additions a second"),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `adds` experiment runs: a loop of additions, each of the same two fresh random operands.

DOUBLE_TOLERANCE, FP32_TOLERANCE, PRODUCT_TOLERANCE = 1e-15, 1e-6, 1e-2


def workload(variant: Variant, point: Point) -> Workload:
    """The additions of a point, or the product that shows what the device can do."""
    if is_peak(variant):
        return _product(variant.processor)
    elements = int(point["elements"])
    if variant.implementation == "python":
        a, b = random.gauss(0, 1), random.gauss(0, 1)
        return Workload(repeated(a, b, additions(elements)), _exactly(a, b), DOUBLE_TOLERANCE)
    must_fit(3 * 4 * elements, variant.processor, f"adds {elements}")
    x, y = (torch.randn(elements, device=variant.processor) for _ in range(2))
    error, times = _sum_error(x, y), additions(elements)
    if is_queue(variant.device):  # each addition is an order; the sum's memory was spoilt before
        out = torch.full_like(x, math.nan)
        return Workload.in_orders([partial(torch.add, x, y, out=out)] * times, out, error, FP32_TOLERANCE)
    if variant.implementation == "cpp":
        return Workload(_in_cpp(x, y, times), error, FP32_TOLERANCE)
    one, other = (x.numpy(), y.numpy()) if variant.implementation == "numpy" else (x, y)
    return Workload(repeated(one, other, times), error, FP32_TOLERANCE)


def repeated(a: Any, b: Any, times: int) -> Callable[[], Any]:
    """A function that adds `a` and `b` so many times and returns the last sum.

    >>> repeated(1, 2, 100)()
    3

    Python looks up nothing but its own local names: the loop costs about as much as the addition it repeats.
    """

    def loop(a: Any = a, b: Any = b, times: int = times) -> Any:
        for _ in range(times):
            c = a + b
        return c

    return loop


CPP = """extern "C" void add(const float* a, const float* b, float* c, long elements, long times) {
    for (long time = 0; time < times; ++time) {
        for (long i = 0; i < elements; ++i) c[i] = a[i] + b[i];
        asm volatile("" : : "r"(c) : "memory");  // each sum is written before the next is made
    }
}"""


def _in_cpp(a: torch.Tensor, b: torch.Tensor, times: int) -> Callable[[], torch.Tensor]:
    """The loop in C++, compiled here; one call of it from Python is part of the time."""
    out = torch.full_like(a, math.nan)
    given = [ctypes.c_void_p(each.data_ptr()) for each in (a, b, out)]
    return giving(out, partial(built().add, *given, ctypes.c_long(a.numel()), ctypes.c_long(times)), (a, b))


@cache
def built() -> Any:
    """CPP as a library; UnavailableError without g++."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "adds.so")
        try:
            told = ["g++", "-O3", "-march=native", "-shared", "-fPIC", "-xc++", "-", "-o", str(made)]
            subprocess.run(told, input=CPP, text=True, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UnavailableError("adds: the loop in C++ needs g++, which did not compile it here") from error
        return ctypes.CDLL(str(made))


def _exactly(a: float, b: float) -> Callable[[float], float]:
    """The error of a sum of two Python numbers, against one that is rounded once, at the end."""
    return lambda c: abs(c - math.fsum((a, b))) / max(abs(math.fsum((a, b))), 1e-300)


def _sum_error(a: torch.Tensor, b: torch.Tensor) -> Callable[[Any], float]:
    """The relative error of a sum, against float64; by the operands' size, for two of them may cancel."""

    def error(c: Any) -> float:
        found, one, other = (torch.as_tensor(each).double() for each in (c, a, b))
        return float((found - (one + other)).norm() / (one.norm() + other.norm()))

    return error


def _product(device: str) -> Workload:
    """A product large enough to show what the device can do."""
    from brrr.roofline.calibrate.part import product_error

    size = PEAK_SIZE
    must_fit(4 * 4 * size * size, device, f"a product of {size}")
    a, b = (torch.randn(size, size, device=device).to(torch.bfloat16) for _ in range(2))
    return Workload(lambda: a @ b, product_error(a, b), PRODUCT_TOLERANCE)
