"""How wrong a product by Strassen's algorithm is: by level, on kind and on nasty inputs.

The error is the Frobenius norm's, relative, against float64; on badly scaled inputs that of the worst row or column,
for the norm of the whole hides what happens to the small ones.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, matmul_cost
from brrr_course.nouns.experiment import Axis, Experiment, Variant

LEVELS = (0, 1, 2, 3)
INPUTS = ("normal", "uniform", "symmetric", "integer", "badly scaled rows", "badly scaled inside")
HARD = ("graded inside", "masked", "outlier channel", "sparse", "uneven rows", "contrary rows")
"""Kinds of inputs, and those that try whether a product notices what it would lose (`inputs.py`)."""

PLAIN, BADLY = ("normal", "uniform"), "badly scaled"
SIZES = (256, 1024, 4096, 8192, 12288)
LARGEST = 4096
"""With levels that are asked for; a default call is measured at all sizes."""
CPU_LARGEST, GPU_SMALLEST = 1024, 1024

DEFAULT = ("default", "library")


def supports(variant: Variant, point: Point) -> bool:
    """A default call and the library's product on all inputs, levels that are asked for on those that they can hold."""
    n, inputs = int(point["size"]), str(point["inputs"])
    if variant.way in DEFAULT:
        return point["level"] == 0
    if inputs in HARD or n > LARGEST:
        return False
    return n >= GPU_SMALLEST if variant.on_gpu else n <= CPU_LARGEST


def cost(variant: Variant, point: Point) -> Cost:
    """The textbook's product."""
    n = int(point["size"])
    return matmul_cost(n, n, n, 4)


EXPERIMENT = Experiment(
    title="Errors of Strassen's algorithm",
    question="How much accuracy does each level cost?",
    axes=(
        Axis("level", LEVELS, label="levels", scale="category", quick=(0, 1, 2)),
        Axis("inputs", (*INPUTS, *HARD), label="inputs", scale="category"),
        Axis("size", SIZES, label="matrix size n", quick=(256, GPU_SMALLEST)),
    ),
    variants=(
        Variant("strassen", "Strassen's form, float32", "cuda"),
        Variant("default", "matmul as it chooses by itself, float32", "cuda"),
        Variant("library", "the library's product, float32", "cuda"),
        Variant("cpu-strassen", "CPU, Strassen's form, float32", "cpu", way="strassen"),
    ),
    field="span_s",
    package=__name__,
)
