"""What the `adds` experiment runs: a loop of additions, each of the same two fresh random operands."""

import ctypes
import math
import random
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_queue, waiting
from brrr.roofline.calibrate.part import product_error
from brrr_course.experiments.adds import PEAK_SIZE, additions, cost, is_peak
from brrr_course.experiments.checked import in_orders, refuse_too_large
from brrr_course.nouns.experiment import Variant, Workload

DOUBLE_TOLERANCE, FP32_TOLERANCE, PRODUCT_TOLERANCE = 1e-15, 1e-6, 1e-2


def workload(variant: Variant, point: Point) -> Workload:
    """The additions of a point, or the product that shows what the device can do."""
    made = cost(variant, point)
    if is_peak(variant):
        return _product(variant, made)
    elements = int(point["elements"])
    if variant.way == "python":
        a, b = random.gauss(0, 1), random.gauss(0, 1)
        return Workload(repeated(a, b, additions(elements)), made, _exactly(a, b), DOUBLE_TOLERANCE)
    refuse_too_large(3 * 4 * elements, variant.processor, f"adds {elements}")
    if is_queue(variant.device):
        return _queued(elements, made)
    a, b = _operands(variant, elements)
    if variant.way == "cpp":
        return Workload(_in_cpp(a, b, additions(elements)), made, _sum_error(a, b), FP32_TOLERANCE)
    wait = waiting(variant.device)
    return Workload(repeated(a, b, additions(elements)), made, _sum_error(a, b), FP32_TOLERANCE, synchronize=wait)


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


def _operands(variant: Variant, elements: int) -> tuple[Any, Any]:
    """Two fresh random operands of the kind that the variant adds."""
    a, b = (torch.randn(elements, device=variant.processor) for _ in range(2))
    return (a.numpy(), b.numpy()) if variant.way == "numpy" else (a, b)


CPP = """extern "C" void add(const float* a, const float* b, float* c, long elements, long times) {
    for (long time = 0; time < times; ++time) {
        for (long i = 0; i < elements; ++i) c[i] = a[i] + b[i];
        asm volatile("" : : "r"(c) : "memory");  // each sum is written before the next is made
    }
}"""


def _in_cpp(a: torch.Tensor, b: torch.Tensor, times: int) -> Callable[[], torch.Tensor]:
    """The loop in C++, compiled here; one call of it from Python is part of the time."""
    out, library = torch.full_like(a, math.nan), built()
    given = [ctypes.c_void_p(each.data_ptr()) for each in (a, b, out)]
    sizes = ctypes.c_long(a.numel()), ctypes.c_long(times)

    def run() -> torch.Tensor:
        library.add(*given, *sizes)
        return out

    return run


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


def _sum_error(a: Any, b: Any) -> Callable[[Any], float]:
    """The relative error of a sum, against float64; by the operands' size, for two of them may cancel."""

    def error(c: Any) -> float:
        found, one, other = (torch.as_tensor(each).double() for each in (c, a, b))
        return float((found - (one + other)).norm() / (one.norm() + other.norm()))

    return error


def _queued(elements: int, made: Cost) -> Workload:
    """Each addition is submitted to the CPU queue; the sum's memory was spoilt before."""
    a, b = torch.randn(elements), torch.randn(elements)
    out = torch.full_like(a, math.nan)
    add = partial(torch.add, a, b, out=out)
    return in_orders([add] * additions(elements), out, made, _sum_error(a, b), FP32_TOLERANCE)


def _product(variant: Variant, made: Cost) -> Workload:
    """A product large enough to show what the device can do."""
    size, device = PEAK_SIZE, variant.processor
    refuse_too_large(4 * 4 * size * size, device, f"a product of {size}")
    a, b = (torch.randn(size, size, device=device).to(torch.bfloat16) for _ in range(2))
    return Workload(lambda: a @ b, made, product_error(a, b), PRODUCT_TOLERANCE, waiting(device))
