"""One operator on each element: does one that computes more take longer?

The question and the claim follow "Making Deep Learning Go Brrrr From First Principles", which says that activation
functions cost nearly alike.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr_course.experiments.predicted import BANDWIDTH, alone, moving, pointwise
from brrr_course.nouns.experiment import Axis, Experiment, Line, PredictedRun, Rate, Variant

ACTIVATIONS = ("relu", "gelu", "sigmoid", "tanh")
OPERATORS = (*ACTIVATIONS, "exp", "cos")
FUNCTIONS = ("copy", *OPERATORS)
ITEMSIZE = {"float32": 4, "bfloat16": 2}
ELEMENTS = (2**10, 2**14, 2**16, 2**18, 2**20, 2**22, 2**24, 2**26, 2**28)
QUEUE_MAX = 2**24
FLOP = {"gelu": 5, "sigmoid": 4, "tanh": 1, "exp": 1, "cos": 1, "relu": 1}
"""FLOP of an element, as `brrr.cost` counts them."""


def supports(variant: Variant, point: Point) -> bool:
    """The CPU queue stops at QUEUE_MAX elements."""
    return variant.on_gpu or int(point["elements"]) <= QUEUE_MAX


def cost(variant: Variant, point: Point) -> Cost:
    """Each element read once and written once; an operator counts as one FLOP an element, whatever its steps."""
    elements = float(point["elements"])
    return Cost(0.0 if variant.way == "copy" else elements, 2 * ITEMSIZE[str(point["dtype"])] * elements)


def predicted(variant: Variant, point: Point) -> PredictedRun:
    """One operator."""
    name, elements, dtype = variant.way, int(point["elements"]), str(point["dtype"])
    size = ITEMSIZE[dtype]
    if name == "copy":
        return alone(moving("clone", elements, size, dtype))
    return alone(pointwise(name, elements, size, dtype, flop=FLOP[name]))


EXPERIMENT = Experiment(
    title="One operator on each element",
    question="Does an operator that computes more take longer?",
    axes=(
        Axis("elements", ELEMENTS, label="elements", quick=(2**10, 2**16, 2**20)),
        Axis("dtype", tuple(ITEMSIZE), label="type of the elements", scale="category", quick=("float32",)),
    ),
    variants=(
        *(Variant(name, name, "cuda") for name in FUNCTIONS),
        *(Variant(f"queue-{name}", name, "cpu-queue", way=name, stands_in_for=name) for name in FUNCTIONS),
    ),
    field="busy_s",
    lines=tuple(Line(f"{name} latency", name, "latency_s", f"{name}, one call", False) for name in ("relu", "gelu")),
    package=__name__,
    anchors=({"elements": 2**16, "dtype": "float32"}, {"elements": 2**26, "dtype": "float32"}),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(BANDWIDTH,),
)  # fmt: skip
