"""What the `run_ahead` experiment runs: a chain of multiplications, issued one by one, as a graph, or to the queue."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_queue, waiting
from brrr_course.experiments.checked import error_against, in_orders, refuse_too_large
from brrr_course.experiments.run_ahead import MULTIPLIER, OPERATORS, cost
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = 1e-5
"""20 roundings of float32 stay below; one multiplication by MULTIPLIER too few or too many is a hundred times that."""


def workload(variant: Variant, point: Point) -> Workload:
    """The chain on a fresh random input."""
    elements, device = int(point["elements"]), variant.processor
    refuse_too_large(4 * 4 * elements, device, f"run_ahead {elements}")
    x = torch.randn(elements, device=device)
    made, error = cost(variant, point), error_against(lambda part: part * MULTIPLIER**OPERATORS, (x,))
    if is_queue(variant.device):
        return _queued(x, made, error)
    if variant.way == "graph":
        from brrr.running.graphs import capture

        return Workload(capture(chain, x).replay, made, error, TOLERANCE, synchronize=torch.cuda.synchronize)
    return Workload(lambda: chain(x), made, error, TOLERANCE, synchronize=waiting(device))


def chain(x: torch.Tensor) -> torch.Tensor:
    """The operators, one after the other, each reading what the one before wrote.

    >>> float(chain(torch.ones(1))) > 1.02
    True
    """
    for _ in range(OPERATORS):
        x = x * MULTIPLIER
    return x


def _queued(x: torch.Tensor, made: Cost, error: Callable[[Any], float]) -> Workload:
    """Each operator is submitted to the CPU queue, into memory that was spoilt before.

    NumPy's product leaves the interpreter free and keeps to one core, so that the worker does not work on the host's.
    """
    out = torch.full_like(x, math.nan)
    first, again = (partial(np.multiply, each.numpy(), MULTIPLIER, out=out.numpy()) for each in (x, out))
    return in_orders([first, *[again] * (OPERATORS - 1)], out, made, error, TOLERANCE)
