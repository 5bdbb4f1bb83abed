"""One operator on each element: does one that computes more take longer?

The question and the claim follow "Making Deep Learning Go Brrrr From First Principles", which says that activation
functions cost nearly alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr_course.experiments.checked import PointInputs, error_against, must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import BANDWIDTH, alone, moving, pointwise
from brrr_course.nouns.experiment import Axis, Experiment, Line, PredictedRun, Rate, Variant, Workload

ACTIVATIONS = ("relu", "gelu", "sigmoid", "tanh")
NAMES = (*ACTIVATIONS, "exp", "cos")
FUNCTIONS = ("copy", *NAMES)
ITEMSIZE = {"float32": 4, "bfloat16": 2}
ELEMENTS = (2**10, 2**14, 2**16, 2**18, 2**20, 2**22, 2**24, 2**26, 2**28)
FLOP = {"gelu": 5, "sigmoid": 4, "tanh": 1, "exp": 1, "cos": 1, "relu": 1}
"""FLOP of an element, as `brrr.cost` counts them."""


def cost(variant: Variant, point: Point) -> Cost:
    """Each element read once and written once; an operator counts as one FLOP an element, whatever its steps."""
    elements = float(point["elements"])
    return Cost(0.0 if variant.implementation == "copy" else elements, 2 * ITEMSIZE[str(point["dtype"])] * elements)


def predicted(variant: Variant, point: Point) -> PredictedRun:
    """One operator."""
    name, elements, dtype = variant.implementation, int(point["elements"]), str(point["dtype"])
    size = ITEMSIZE[dtype]
    if name == "copy":
        return alone(moving("clone", elements, size, dtype))
    return alone(pointwise(name, elements, size, dtype, flop=FLOP[name]))


EXPERIMENT = Experiment(
    title="One operator on each element",
    question="Does an operator that computes more take longer?",
    axes=(
        Axis("elements", ELEMENTS, label="elements", quick=(2**10, 2**16, 2**20), most={"cpu-queue": 2**24}),
        Axis("dtype", tuple(ITEMSIZE), label="type of the elements", scale="category", quick=("float32",)),
    ),
    variants=(
        *(Variant(name, name) for name in FUNCTIONS),
        *(Variant.twin(name, "cpu-queue", name) for name in FUNCTIONS),
    ),
    field="busy_s",
    lines=tuple(Line(f"{name} latency", name, "latency_s", f"{name}, one call", False) for name in ("relu", "gelu")),
    package=__name__,
    anchors=({"elements": 2**16, "dtype": "float32"}, {"elements": 2**26, "dtype": "float32"}),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(BANDWIDTH,),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `unary` experiment runs: one operator on each element, checked against float64.

TOLERANCE = {"float32": 2e-6, "bfloat16": 4e-3}
"""A few roundings of 2^-24; one of 2^-8 at the end."""

if TYPE_CHECKING:
    Operator = Callable[[torch.Tensor], torch.Tensor]


class Elements(PointInputs):
    """Normal numbers, drawn once for all variants of a point."""

    def __init__(self, elements: int, dtype: str, device: str) -> None:
        self.x = torch.randn(elements, device=device, dtype=getattr(torch, dtype))


def operator_of(name: str) -> Operator:
    """torch's own operator; a copy is a clone."""
    made: Operator = torch.nn.functional.gelu if name == "gelu" else getattr(torch, {"copy": "clone"}.get(name, name))
    return made


def workload(variant: Variant, point: Point) -> Workload:
    """The operator on fresh random numbers."""
    elements, dtype = int(point["elements"]), str(point["dtype"])
    device = variant.processor
    must_fit(3 * ITEMSIZE[dtype] * elements, device, f"{variant.label} of {elements} elements", elements)
    operator, held = operator_of(variant.implementation), Elements.of(elements, dtype, device)
    return Workload(lambda: operator(held.x), error_against(operator, (held.x,)), TOLERANCE[dtype], warm=True)
