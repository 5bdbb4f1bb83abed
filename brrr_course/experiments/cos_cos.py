"""`x.cos().cos()`: two operators, one kernel made of both, and one cosine alone.

The question and two claims follow "Making Deep Learning Go Brrrr From First Principles": fused, two cosines take half
the time, which is that of one.
"""

from __future__ import annotations

from functools import partial

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.checked import error_against, held_workload, must_fit
from brrr_course.experiments.fusion import IMPLEMENTATIONS, Work
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import BANDWIDTH, alone, how_of, kernel, least_s, pointwise, run
from brrr_course.experiments.unary import Elements
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Variant, Workload

ITEMSIZE = {"float32": 4, "bfloat16": 2}
ELEMENTS = (2**10, 2**14, 2**16, 2**18, 2**20, 2**22, 2**24, 2**26, 2**28)
COMPILED = {"float32": ELEMENTS, "bfloat16": (2**10, 2**20, 2**26)}


def supports(variant: Variant, point: Point) -> bool:
    """torch.compile takes the sizes in COMPILED."""
    return variant.implementation != "compile" or point["elements"] in COMPILED[str(point["dtype"])]


def cost(variant: Variant, point: Point) -> Cost:
    """A cosine counts one FLOP; each element is read and written once, by two operators twice (`eager_bytes`).

    >>> cost(EXPERIMENT.variant("eager"), {"elements": 1000, "dtype": "float32"}).eager_bytes
    16000.0
    """
    elements = float(point["elements"])
    once = 2 * ITEMSIZE[str(point["dtype"])] * elements
    cosines = 1 if variant.implementation == "one" else 2
    return Cost(cosines * elements, once, eager_bytes=2 * once if variant.implementation == "eager" else once)


def predicted(variant: Variant, point: Point) -> PredictedRun:
    """Two operators, one kernel made of both, or one cosine."""
    how = variant.implementation
    elements, dtype = int(point["elements"]), str(point["dtype"])
    cosine = pointwise("cos", elements, ITEMSIZE[dtype], dtype)
    nbytes = float(ITEMSIZE[dtype] * elements)
    if how == "one":
        return alone(cosine)
    if how == "eager":
        return run((cosine, cosine), 2 * nbytes, 3 * nbytes)
    return alone(kernel(["cos", "cos"], 2 * elements, nbytes, nbytes, dtype), how_of(how))


def moving_s(arrays: int, hardware: Hardware | None, point: Point) -> float | None:
    """So many arrays at the datasheet's bandwidth, in seconds."""
    return least_s(hardware, 0.0, arrays * ITEMSIZE[str(point["dtype"])] * float(point["elements"]))


EXPERIMENT = Experiment(
    title="The cosine of the cosine",
    question="How much faster are two operators as one kernel?",
    axes=(
        Axis("elements", ELEMENTS, label="elements", quick=(2**10, 2**16, 2**20), most={"cpu": 2**24}),
        Axis("dtype", tuple(ITEMSIZE), label="type of the elements", scale="category", quick=("float32",)),
    ),
    variants=(
        Variant("eager", "two operators"),
        Variant("compile", "fused, torch.compile"),
        Variant("triton", "fused, Triton"),
        Variant("cuda", "fused, a line of CUDA C++"),
        Variant("one", "one cosine alone"),
        Variant("cpu-eager", "CPU, two operators", "cpu", implementation="eager", stands_in_for=("eager",)),
        Variant("cpu-blocks", "CPU, a block at a time", "cpu", implementation="blocks",
                stands_in_for=("compile", "triton", "cuda")),
        Variant("cpu-one", "CPU, one cosine alone", "cpu", implementation="one", stands_in_for=("one",)),
    ),
    field="busy_s",
    package=__name__,
    anchors=({"elements": 2**16, "dtype": "float32"}, {"elements": 2**26, "dtype": "float32"}),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(
        BANDWIDTH,
        Guide("four-arrays", "four arrays, at the memory's bandwidth", "PREDICTED", "time", partial(moving_s, 4)),
        Guide("two-arrays", "two arrays, at the memory's bandwidth", "PREDICTED", "time", partial(moving_s, 2)),
    ),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `cos_cos` experiment runs: two cosines in every way, and one, checked against float64.


def cos_cos(x: torch.Tensor) -> torch.Tensor:
    """Apply the cosine twice, to each element.

    >>> round(float(cos_cos(torch.zeros(1))), 4)
    0.5403

    Parameters
    ----------
    x : torch.Tensor
        Of any shape.

    Returns
    -------
    torch.Tensor
        ``x.cos().cos()``, of the same shape.
    """
    return x.cos().cos()


TWO = Work(cos_cos, "", "y = cosf(cosf(x))", "cos_cos")


def workload(variant: Variant, point: Point) -> Workload:
    """The variant on fresh random numbers, which the point's variants share."""
    elements, dtype = int(point["elements"]), str(point["dtype"])
    device = variant.processor
    must_fit(4 * ITEMSIZE[dtype] * elements, device, f"{variant.label} of {elements} elements", elements)
    held = Elements.of(elements, dtype, device)
    way, work = ("eager", Work(torch.cos, "")) if variant.implementation == "one" else (variant.implementation, TWO)
    run, check = IMPLEMENTATIONS[way](work, {"x": held.x}, {}), error_against(work.operators, (held.x,))
    return held_workload(run, check, held, held.x.dtype, device)
