"""One operation repeated on each element of an array: more and more arithmetic for the same bytes.

The question, the range of repeats and the claims follow "Making Deep Learning Go Brrrr From First Principles", which
multiplied by two with a fusing compiler on an A100. Here the factor is near one and drawn at run time: doubled 128
times, a float32 is infinite, and every infinity is as right as any other.
"""

from dataclasses import replace

from brrr.core.measurement import Point
from brrr.gpu import is_gpu
from brrr_course.experiments.predicted import BANDWIDTH
from brrr_course.experiments.repeat.theory import ITEMSIZE, cost, fma_peak, multiply_peak, predicted
from brrr_course.nouns.experiment import Axis, Experiment, Guide, Rate, Variant

__all__ = ["EXPERIMENT", "cost", "supports"]

REPEATS = (1, 2, 3, 4, 8, 16, 32, 33, 64, 100, 128, 256, 512)
ELEMENTS = (2**16, 2**20, 10_000_019, 2**24, 2**26, 2**28)
COMPILED_REPEATS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
COMPILED = {
    ("mul", "float32"): (2**20, 2**24, 2**26), ("fma", "float32"): (2**26,), ("mul", "bfloat16"): (2**26,),
}  # fmt: skip
"""torch.compile makes a new kernel for each number of steps and each size, which takes seconds."""

EAGER_BYTES, EAGER_ELEMENTS = 2**36, (2**20, 2**26)
"""Eager stops where a call would move more than this; in the half types it is there at two sizes."""

QUEUE_ELEMENTS, QUEUE_STEPS = 2**24, 2**30
"""The CPU queue stops at so many elements, more than its caches hold, and at so many steps on all of them together."""


def supports(variant: Variant, point: Point) -> bool:
    """Which variant exists where."""
    kind, repeat = variant.kind, int(point["repeat"])
    elements, dtype = int(point["elements"]), str(point["dtype"])
    if not is_gpu(variant.device):
        return elements <= QUEUE_ELEMENTS and repeat * elements <= QUEUE_STEPS
    if variant.way == "compile":
        return repeat in COMPILED_REPEATS and elements in COMPILED.get((kind, dtype), ())
    if variant.way == "eager":
        there = dtype == "float32" or elements in EAGER_ELEMENTS
        return there and cost(variant, point).eager_bytes <= EAGER_BYTES
    return True


def _queued(name: str, label: str, way: str, kind: str, line: str) -> Variant:
    return Variant(f"queue-{name}", label, "cpu-queue", way=way, kind=kind, field="period_s", stands_in_for=line)


EXPERIMENT = Experiment(
    title="One operation, repeated",
    question="How much arithmetic fits into the time of one read and one write?",
    axes=(
        Axis("repeat", REPEATS, label="steps on each element", quick=(1, 8, 64, 512)),
        Axis("elements", ELEMENTS, label="elements", quick=(2**16, 2**20)),
        Axis("dtype", tuple(ITEMSIZE), label="type of the elements", scale="category", quick=("float32",)),
    ),
    variants=(
        Variant("compile-mul", "multiplications, torch.compile", "cuda", way="compile", kind="mul"),
        Variant("triton-mul", "multiplications, Triton", "cuda", way="triton", kind="mul"),
        Variant("cuda-mul", "multiplications, CUDA C++", "cuda", way="cuda", kind="mul"),
        Variant("cuda-fma", "FMAs, CUDA C++", "cuda", way="cuda", kind="fma"),
        Variant("triton-fma", "FMAs, Triton", "cuda", way="triton", kind="fma", shown=False),
        Variant("compile-fma", "FMAs, torch.compile", "cuda", way="compile", kind="fma", shown=False),
        Variant("eager-mul", "multiplications, one operator each", "cuda", way="eager", kind="mul", shown=False),
        _queued("fused-mul", "multiplications, fused", "fused", "mul", "cuda mul"),
        _queued("fused-fma", "multiply and add, fused", "fused", "fma", "cuda fma"),
        _queued("eager-mul", "multiplications, one order each", "eager", "mul", "eager mul"),
    ),
    field="busy_s",
    package=__name__,
    cost=cost,
    predicts=predicted,
    anchors=(
        {"repeat": 1, "elements": 2**26, "dtype": "float32"},
        {"repeat": 512, "elements": 2**26, "dtype": "float32"},
    ),
    rate=Rate("flop", "FLOP/s", "floating-point operations a second"),
    other_rates=(Rate("bytes", "B/s", "bytes that must move, a second"),),
    guides=(
        Guide("fma-peak", "float32 peak (FMA)", "DATASHEET", "rate", fma_peak),
        Guide("multiply-peak", "half of it (no FMA)", "DATASHEET", "rate", multiply_peak,
              ("compile mul", "triton mul", "cuda mul")),
        replace(BANDWIDTH, view="bytes"),
    ),
)  # fmt: skip
