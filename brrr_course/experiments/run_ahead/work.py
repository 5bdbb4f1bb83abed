"""What the `run_ahead` experiment runs: a chain of multiplications, issued one by one, as a graph, or to the queue."""

import math
from collections.abc import Callable

import numpy as np
import torch

from brrr.core.measurement import Point
from brrr.gpu import is_queue, waiting
from brrr.timing.cpu_queue import CpuQueue
from brrr_course.experiments.checked import refuse_too_large
from brrr_course.experiments.run_ahead import MULTIPLIER, OPERATORS, cost
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = 1e-5
"""20 roundings of float32 stay below; one multiplication by MULTIPLIER too few or too many is a hundred times that."""


def workload(variant: Variant, point: Point) -> Workload:
    """The chain on a fresh random input."""
    elements, device = int(point["elements"]), variant.processor
    refuse_too_large(4 * 4 * elements, device, f"run_ahead {elements}")
    x = torch.randn(elements, device=device)
    made, error = cost(variant, point), _error(x)
    if is_queue(variant.device):
        return _queued(x, Workload(lambda: None, made, error, TOLERANCE))
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


def _error(x: torch.Tensor) -> Callable[[torch.Tensor], float]:
    """The relative error against the power in float64."""

    def error(out: torch.Tensor) -> float:
        expected = x.double() * MULTIPLIER**OPERATORS
        return float(torch.linalg.norm(out.double() - expected) / torch.linalg.norm(expected))

    return error


def _queued(x: torch.Tensor, made: Workload) -> Workload:
    """Each operator is submitted to the CPU queue, into memory that was spoilt before.

    NumPy's product leaves the interpreter free and keeps to one core, so that the worker does not work on the host's.
    """
    queue, out = CpuQueue(), torch.full_like(x, math.nan)
    source, target = x.numpy(), out.numpy()

    def first() -> None:
        np.multiply(source, MULTIPLIER, out=target)

    def multiply() -> None:
        np.multiply(target, MULTIPLIER, out=target)

    def run() -> torch.Tensor:
        queue.submit(first)
        for _ in range(OPERATORS - 1):
            queue.submit(multiply)
        return out

    return Workload(run, made.cost, made.error, made.tolerance, queue.synchronize, queue.close, queue)
