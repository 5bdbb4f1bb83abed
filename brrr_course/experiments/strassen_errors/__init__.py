"""How wrong a product by Strassen's algorithm is: by level, by form, on kind and on nasty inputs, scaled or not.

The error is the Frobenius norm's, relative, against float64; on badly scaled inputs that of the worst row or column,
for the norm of the whole hides what happens to the small ones.
"""

from __future__ import annotations

from brrr.core.measurement import Field, Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import is_cpu
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant

LEVELS = (0, 1, 2, 3)
INPUTS = ("normal", "uniform", "symmetric", "integer", "badly scaled rows", "badly scaled inside")
HARD = ("graded inside", "masked", "outlier channel", "sparse", "uneven rows", "contrary rows")
"""Kinds of inputs, and those that try whether a product notices what it would lose (`inputs.py`)."""

PLAIN, BADLY = ("normal", "uniform"), "badly scaled"
SIZES = (256, 1024, 4096, 8192, 12288)
LARGEST = 4096
"""With levels that are asked for; a default call is measured at all sizes."""
CPU_LARGEST, GPU_SMALLEST = 1024, 1024

NAMES = {
    "strassen": "Strassen's form, float32",
    "winograd": "Winograd's form, float32",
    "strassen-scaled": "Strassen's form, float32, scaled",
    "winograd-scaled": "Winograd's form, float32, scaled",
    "fp16x3": "Strassen's form, two float16 terms",
    "fp16x3-scaled": "Strassen's form, two float16 terms, scaled",
    "bf16": "Strassen's form, bfloat16",
    "default": "matmul as it chooses by itself, float32",
    "library": "the library's product, float32",
}
"""Each way of adding up, by its variant's name on a GPU."""

DEFAULT = ("default", "library")
ON_CPU = ("strassen", "winograd", "strassen-scaled", "winograd-scaled")


def supports(variant: Variant, point: Point) -> bool:
    """Scaling is for floating numbers that need it, and short types for what they can hold."""
    n, inputs = int(point["size"]), str(point["inputs"])
    if variant.name in DEFAULT:
        return point["level"] == 0
    if inputs in HARD or n > LARGEST:
        return False
    if n > CPU_LARGEST if is_cpu(variant.device) else n < GPU_SMALLEST:
        return False
    if variant.name.endswith("-scaled"):
        return inputs.startswith(BADLY) or inputs in PLAIN
    return variant.name != "bf16" or inputs in PLAIN


def cost(variant: Variant, point: Point) -> Cost:
    """The textbook's product."""
    n = int(point["size"])
    return matmul_cost(n, n, n, 4)


def _variants() -> tuple[Variant, ...]:
    gpu = (Variant(name, label, "cuda") for name, label in NAMES.items())
    cpu = (Variant(f"cpu-{name}", f"CPU, {NAMES[name]}", "cpu") for name in ON_CPU)
    return (*gpu, *cpu)


def _line(variant: Variant) -> Line:
    field: Field = "span_s" if variant.on_gpu else "period_s"
    return Line(variant.name.replace("-", " "), variant.name, field, variant.label)


VARIANTS = _variants()
EXPERIMENT = Experiment(
    name="strassen_errors",
    title="Errors of Strassen's algorithm",
    question="How much accuracy does each level cost?",
    axes=(
        Axis("level", LEVELS, label="levels", scale="category", quick=(0, 1, 2)),
        Axis("inputs", (*INPUTS, *HARD), label="inputs", scale="category"),
        Axis("size", SIZES, label="matrix size n", quick=(256, GPU_SMALLEST)),
    ),
    variants=VARIANTS,
    lines=tuple(map(_line, VARIANTS)),
    package=__name__,
    supports=supports,
    cost=cost,
)
