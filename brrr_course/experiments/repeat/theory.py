"""What FLOP and bytes say about one operation repeated on each element: cost, and the limits.

The operation is a multiplication (1 FLOP) or a multiplication and an addition in one instruction, an FMA (2 FLOP). A
datasheet's peak counts FMAs; with multiplications alone each instruction does half of what it could, and so does the
GPU. All arithmetic is in float32, whatever the type that is loaded and stored.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, Form
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.predicted import alone, kernel, pointwise, run
from brrr_course.nouns.experiment import PredictedRun, Variant

ITEMSIZE = {"float32": 4, "bfloat16": 2, "float16": 2}
MULTIPLY, FMA = "mul", "fma"


def flop_a_step(kind: str) -> int:
    """FLOP of a step on an element."""
    return {MULTIPLY: 1, FMA: 2}[kind]


def moved_bytes(point: Point) -> float:
    """Each element read once and written once."""
    return 2.0 * ITEMSIZE[str(point["dtype"])] * float(point["elements"])


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and compulsory bytes; without fusion every operator reads and writes all elements again (`eager_bytes`)."""
    kind, repeat = variant.kind, float(point["repeat"])
    once = moved_bytes(point)
    operators = repeat if variant.way == "eager" else 1
    return Cost(repeat * flop_a_step(kind) * float(point["elements"]), once, eager_bytes=operators * once)


def peak(hardware: Hardware | None, kind: str) -> float | None:
    """The datasheet's float32 peak for FMAs, and half of it for multiplications alone; None without a datasheet."""
    if hardware is None:
        return None
    units = {unit for dtype, unit in hardware.peaks if dtype == "fp32"}
    if not units:
        return None
    full = hardware.peak("fp32", "cuda cores" if "cuda cores" in units else None)
    return full * flop_a_step(kind) / flop_a_step(FMA)


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """Fused: one kernel, its steps in float32; eager: a multiplication a step."""
    kind, steps = variant.kind, int(point["repeat"])
    elements, dtype = int(point["elements"]), str(point["dtype"])
    size = ITEMSIZE[dtype]
    nbytes = float(size * elements)
    if variant.way == "eager":
        listed = (pointwise("mul", elements, size, dtype, form=Form("scalar", 1, elements)),) * steps
        return run(listed, 2 * nbytes, (2 if len(listed) == 1 else 3) * nbytes)
    flop = flop_a_step(kind) * steps * elements
    made = kernel([kind], flop, nbytes, nbytes, fma=kind == FMA)
    return alone(made, "compiled" if variant.way == "compile" else "eager")


# ---- the guides: the limits of the datasheet ----


def fma_peak(hardware: Hardware | None, point: Point) -> float | None:
    """The datasheet's float32 peak, in FLOP/s."""
    return peak(hardware, FMA)


def multiply_peak(hardware: Hardware | None, point: Point) -> float | None:
    """Half of it: what multiplications alone can reach."""
    return peak(hardware, MULTIPLY)
