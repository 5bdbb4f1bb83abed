"""Run-ahead: a chain of operators, small to large, and who waits for whom: the device for the host, or nobody.

The question and the claims follow the section "Overhead" of "Making Deep Learning Go Brrrr From First Principles": the
host may issue ahead while the device computes, so its cost is hidden if the operators are large enough.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, Form
from brrr_course.experiments.predicted import How, pointwise, run
from brrr_course.nouns.experiment import Axis, Experiment, Line, PredictedRun, Variant, stand_in

ELEMENTS = (1024, 16384, 65536, 2**18, 2**20, 2**22, 2**24)
TRACED = (1024, 65536, 2**18, 2**20, 2**22, 2**24)
TRACED_ON_QUEUE = (1024, 16384, 65536, 2**18, 2**20, 2**22)
OPERATORS = 20
MULTIPLIER = 1.001
"""So near to 1 that nothing overflows, and so far from it that one operator too few is found out."""
MOST_ON_CPU = 2**22
ITEMSIZE = 4


def supports(variant: Variant, point: Point) -> bool:
    """A CPU's work takes long where a GPU's begins to be worth while."""
    return variant.on_gpu or int(point["elements"]) <= MOST_ON_CPU


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of the chain."""
    elements = int(point["elements"])
    return Cost(float(OPERATORS * elements), 2.0 * ITEMSIZE * OPERATORS * elements)


def predicted(variant: Variant, point: Point) -> PredictedRun:
    """The products with a number, one by one or as a CUDA Graph."""
    elements = int(point["elements"])
    multiply = pointwise("mul", elements, ITEMSIZE, form=Form("scalar", 1, elements))
    how: How = "graph" if variant.way == "graph" else "eager"
    return run((multiply,) * OPERATORS, multiply.bytes, 1.5 * multiply.bytes, how)


EXPERIMENT = Experiment(
    title="Running ahead",
    question="From which size on does the GPU stop waiting for the CPU?",
    axes=(Axis("elements", ELEMENTS, label="elements in each of 20 products (float32)", quick=(1024, 65536, 2**20)),),
    variants=(
        Variant("eager", "GPU, one launch after the other", "cuda"),
        Variant("graph", "GPU, as one CUDA Graph", "cuda"),
        Variant("queue", "CPU queue (a CPU queue)", "cpu-queue"),
    ),
    lines=(
        Line("host", "eager", "host_s", "the CPU: launching"),
        Line("busy", "eager", "busy_s", "the GPU: working"),
        Line("period", "eager", "period_s", "the loop"),
        Line("graph", "graph", "period_s", "the loop as a CUDA Graph"),
        Line("graph busy", "graph", "busy_s", "the GPU: working, as a CUDA Graph", shown=False),
        stand_in("host", "queue", "host_s", "submitting the orders"),
        stand_in("busy", "queue", "kernel_s", "the worker: working"),
        stand_in("period", "queue", "period_s", "the loop, CPU queue"),
    ),
    package=__name__,
    anchors=({"elements": 65536},),
    traces=(
        *(("eager", {"elements": size}) for size in TRACED),
        *(("graph", {"elements": size}) for size in TRACED),
        *(("queue", {"elements": size}) for size in TRACED_ON_QUEUE),
    ),
)
