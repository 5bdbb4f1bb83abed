"""Run-ahead: a chain of operators, small to large, and who waits for whom: the device for the host, or nobody.

The question and the claims follow the section "Overhead" of "Making Deep Learning Go Brrrr From First Principles": the
host may issue ahead while the device computes, so its cost is hidden if the operators are large enough.
"""

from __future__ import annotations

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Point
from brrr.counting.cost import Cost, Form
from brrr_course.experiments.judging import Curve, curve, from_on, largest
from brrr_course.experiments.predicted import How, pointwise, run
from brrr_course.nouns.claim import Judge, Verdict, not_above, not_below, ratio_verdict
from brrr_course.nouns.experiment import Axis, Experiment, Line, PredictedRun, Variant, stand_in
from brrr_course.nouns.source import Evidence

ELEMENTS = (1024, 16384, 65536, 2**18, 2**20, 2**22, 2**24)
TRACED = (1024, 65536, 2**18, 2**20, 2**22, 2**24)
TRACED_ON_QUEUE = (1024, 16384, 65536, 2**18, 2**20, 2**22)
OPERATORS = 20
MULTIPLIER = 1.001
"""So near to 1 that nothing overflows, and so far from it that one operator too few is found out."""
MOST_ON_CPU = 2**22
ITEMSIZE = 4
HIDDEN = 0.10
"""A device that is idle for less than this share of the time is not waiting for the host."""


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


def idle_share(busy: Estimate, period: Estimate) -> Estimate:
    """`1 - busy / period`, never below zero.

    >>> idle_share(Estimate(20.0, 20.0, 20.0, 9), Estimate(80.0, 80.0, 100.0, 9))
    Estimate(median=0.75, low=0.75, high=0.8, n=9)
    """
    idle = 1 - busy / period
    return Estimate(max(0.0, idle.median), max(0.0, idle.low), max(0.0, idle.high), idle.n)


def hidden_from(busy: Curve, period: Curve) -> int | None:
    """The smallest size from which on the device idles for less than a tenth at every larger size; None if never."""
    return from_on(set(busy) & set(period), lambda size: idle_share(busy[size], period[size]).median < HIDDEN)


def _curves(evidence: Evidence, *lines: str) -> list[Curve]:
    return [curve(evidence, line, "elements") for line in lines]


def _common(busy: Curve, period: Curve) -> list[int]:
    sizes = sorted(set(busy) & set(period))
    if len(sizes) < 2:
        raise NotRecordedError("fewer than two sizes were measured")
    return sizes


def _paperweight(evidence: Evidence) -> Verdict:
    """The idle share at the smallest size."""
    busy, period = _curves(evidence, "busy", "period")
    size = _common(busy, period)[0]
    idle = idle_share(busy[size], period[size])
    return Verdict(not_below(idle, 0.5), f"idle for {idle:%} of the time at {size} elements")


def _runs_ahead(evidence: Evidence) -> Verdict:
    """The idle share at the largest size, and the size from which it stays below a tenth."""
    busy, period = _curves(evidence, "busy", "period")
    size = largest({"busy": busy, "period": period})
    idle = idle_share(busy[size], period[size])
    start = hidden_from(busy, period)
    text = f"idle for {idle:%} at {size} elements; "
    text += f"below {units.percent(HIDDEN, 2)} from {start} on" if start else f"never below {units.percent(HIDDEN, 2)}"
    return Verdict(not_above(idle, HIDDEN), text)


def _host_is_flat(evidence: Evidence) -> Verdict:
    """What issuing the chain costs, largest over smallest of all sizes, while the work grows a thousandfold."""
    (host,) = _curves(evidence, "host")
    sizes = sorted(host)
    if sizes[-1] < 64 * sizes[0]:
        raise NotRecordedError("the sizes measured span less than a factor of 64")
    highest, lowest = max(host.values()), min(host.values())
    spread = highest / lowest
    text = f"issuing takes {units.seconds(lowest.median)} to {units.seconds(highest.median)}, "
    text += f"{units.ratio(spread.median)}, "
    text += f"from {sizes[0]} to {sizes[-1]} elements"
    return Verdict(not_above(spread, 2.0), text)


def _graph_removes(evidence: Evidence) -> Verdict:
    """Eager over the graph in a loop, at the smallest size, with the idle shares of both."""
    size = ELEMENTS[0]
    eager, graph = evidence.get("period", elements=size), evidence.get("graph", elements=size)
    found = ratio_verdict(eager, graph, 2.0, "period_s of eager over the graph's")
    before, after = (
        idle_share(evidence.get(busy, elements=size), period).median
        for busy, period in (("busy", eager), ("graph busy", graph))
    )
    idle = f"; idle for {units.percent(before, 2)} before and {units.percent(after, 2)} with it"
    return Verdict(found.status, found.measured + idle)


JUDGES: dict[str, Judge] = {
    "paperweight": _paperweight,
    "runs-ahead": _runs_ahead,
    "overhead-flat": _host_is_flat,
    "graph-removes": _graph_removes,
}

EXPERIMENT = Experiment(
    name="run_ahead",
    title="Running ahead",
    question="From which size on does the GPU stop waiting for the CPU?",
    axes=(Axis("elements", ELEMENTS, label="elements in each of 20 products (float32)", quick=(1024, 65536, 2**20)),),
    variants=(
        Variant("eager", "GPU, one launch after the other", "cuda"),
        Variant("graph", "GPU, as one CUDA Graph", "cuda"),
        Variant("cpu", "CPU", "cpu"),
        Variant("queue", "CPU queue (a CPU queue)", "cpu-queue"),
    ),
    lines=(
        Line("host", "eager", "host_s", "the CPU: issuing"),
        Line("busy", "eager", "busy_s", "the GPU: working"),
        Line("period", "eager", "period_s", "the loop"),
        Line("graph", "graph", "period_s", "the loop as a CUDA Graph"),
        Line("graph busy", "graph", "busy_s", "the GPU: working, as a CUDA Graph", shown=False),
        Line("cpu", "cpu", "period_s", "the loop on the CPU alone", shown=False),
        stand_in("host", "queue", "host_s", "submitting the orders"),
        stand_in("busy", "queue", "kernel_s", "the worker: working"),
        stand_in("period", "queue", "period_s", "the loop, CPU queue"),
    ),
    package=__name__,
    supports=supports,
    cost=cost,
    predicts=predicted,
    predict_by_default=False,
    judges=JUDGES,
    anchors=({"elements": 65536},),
    traces=(
        *(("eager", {"elements": size}) for size in TRACED),
        *(("graph", {"elements": size}) for size in TRACED),
        *(("queue", {"elements": size}) for size in TRACED_ON_QUEUE),
    ),
)
