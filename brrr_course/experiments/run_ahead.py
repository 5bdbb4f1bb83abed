"""Run-ahead: a chain of operators, small to large, and who waits for whom: the device for the host, or nobody.

The question and the claims follow the section "Overhead" of "Making Deep Learning Go Brrrr From First Principles": the
host may issue ahead while the device computes, so its cost is hidden if the operators are large enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, Form
from brrr.gpu import is_queue
from brrr_course.experiments.checked import error_against, must_fit
from brrr_course.experiments.lazily import np, torch
from brrr_course.experiments.predicted import How, pointwise, run
from brrr_course.nouns.experiment import Axis, Experiment, Line, PredictedRun, Variant, Workload, stand_in

ELEMENTS = (1024, 16384, 65536, 2**18, 2**20, 2**22, 2**24)
TRACED = (1024, 65536, 2**18, 2**20, 2**22, 2**24)
TRACED_ON_QUEUE = (1024, 16384, 65536, 2**18, 2**20, 2**22)
OPERATORS = 20
MULTIPLIER = 1.001
"""So near to 1 that nothing overflows, and so far from it that one operator too few is found out."""
ITEMSIZE = 4


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of the chain."""
    elements = int(point["elements"])
    return Cost(float(OPERATORS * elements), 2.0 * ITEMSIZE * OPERATORS * elements)


def predicted(variant: Variant, point: Point) -> PredictedRun:
    """The products with a number, one by one or as a CUDA Graph."""
    elements = int(point["elements"])
    multiply = pointwise("mul", elements, ITEMSIZE, form=Form("scalar", 1, elements))
    how: How = "graph" if variant.implementation == "graph" else "eager"
    return run((multiply,) * OPERATORS, multiply.bytes, 1.5 * multiply.bytes, how)


EXPERIMENT = Experiment(
    title="Running ahead",
    question="From which size on does the GPU stop waiting for the CPU?",
    axes=(
        Axis(
            "elements",
            ELEMENTS,
            label="elements in each of 20 products (float32)",
            quick=(1024, 65536, 2**20),
            most={"cpu-queue": 2**22},
        ),
    ),
    variants=(
        Variant("eager", "GPU, one launch after the other"),
        Variant("graph", "GPU, as one CUDA Graph"),
        Variant("queue", "CPU queue (a CPU queue)", "cpu-queue"),
        Variant("webgpu", "your GPU, in the browser", "webgpu", timer="browser"),
    ),
    lines=(
        Line("host", "eager", "host_s", "the CPU: launching"),
        Line("busy", "eager", "busy_s", "the GPU's work"),
        Line("period", "eager", "period_s", "the loop"),
        Line("graph", "graph", "period_s", "the loop as a CUDA Graph"),
        Line("graph busy", "graph", "busy_s", "the GPU's work, as a CUDA Graph", shown=False),
        stand_in("host", "queue", "host_s", "submitting the orders"),
        stand_in("busy", "queue", "kernel_s", "the worker: busy"),
        stand_in("period", "queue", "period_s", "the loop, CPU queue"),
        stand_in("host", "webgpu", "host_s", "the browser: submitting"),
        stand_in("graph", "webgpu", "period_s", "your GPU: 20 in one pass"),
    ),
    package=__name__,
    anchors=({"elements": 65536},),
    traces=(
        *(("eager", {"elements": size}) for size in TRACED),
        *(("graph", {"elements": size}) for size in TRACED),
        *(("queue", {"elements": size}) for size in TRACED_ON_QUEUE),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `run_ahead` experiment runs: a chain of multiplications, issued one by one, as a graph, or to the queue.

TOLERANCE = 1e-5
"""20 roundings of float32 stay below; one multiplication by MULTIPLIER too few or too many is a hundred times that."""


def workload(variant: Variant, point: Point) -> Workload:
    """The chain on a fresh random input."""
    elements, device = int(point["elements"]), variant.processor
    must_fit(4 * 4 * elements, device, f"run_ahead {elements}")
    x = torch.randn(elements, device=device)
    error = error_against(lambda part: part * MULTIPLIER**OPERATORS, (x,))
    if is_queue(variant.device):
        return _queued(x, error)
    if variant.implementation == "graph":
        from brrr.running.graphs import capture

        return Workload(capture(chain, x).replay, error, TOLERANCE)
    return Workload(lambda: chain(x), error, TOLERANCE)


def chain(x: torch.Tensor) -> torch.Tensor:
    """The operators, one after the other, each reading what the one before wrote.

    >>> float(chain(torch.ones(1))) > 1.02
    True
    """
    for _ in range(OPERATORS):
        x = x * MULTIPLIER
    return x


def _queued(x: torch.Tensor, error: Callable[[Any], float]) -> Workload:
    """Each operator is submitted to the CPU queue, into memory that was spoilt before.

    NumPy's product leaves the interpreter free and keeps to one core, so that the worker does not work on the host's.
    """
    out = torch.full_like(x, math.nan)
    first, again = (partial(np.multiply, each.numpy(), MULTIPLIER, out=out.numpy()) for each in (x, out))
    return Workload.in_orders([first, *[again] * (OPERATORS - 1)], out, error, TOLERANCE)
