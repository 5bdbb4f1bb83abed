"""What the `pseudo_linear_flaws` experiment runs: the posted benchmark's function, with and without each flaw."""

import math
from functools import partial

import torch
from torch.nn.functional import linear

from brrr.core.measurement import Point
from brrr.gpu import is_queue, waiting
from brrr_course.experiments.checked import Function, in_orders, refuse_too_large
from brrr_course.experiments.pseudo_linear.check import linear_error, pseudo_error
from brrr_course.experiments.pseudo_linear.theory import ITEMSIZE
from brrr_course.experiments.pseudo_linear.work import TOLERANCE, pseudo
from brrr_course.experiments.pseudo_linear_flaws import DATA, RELU, STRAY, cost, flaws_of
from brrr_course.nouns.experiment import Variant, Workload

ROWS = 256
"""So many rows of a result are checked where every row needs a float64 product of its own."""


def workload(variant: Variant, point: Point) -> Workload:
    """The timed function of a variant at a point."""
    width, batch = int(point["width"]), int(point["batch"])
    device = variant.processor
    is_linear, flaws = variant.kind == "linear", flaws_of(variant)
    weights = width * width if is_linear else width
    refuse_too_large(ITEMSIZE * (4 * width * batch + weights), device, f"{variant.label} at width {width}")
    bench = Bench(width, batch, is_linear, flaws, device)
    if is_queue(variant.device):
        return _queued(bench, variant, point)
    work = cost(variant, point)
    return Workload(bench.run, work, bench.error, TOLERANCE, synchronize=waiting(device))


class Bench:
    """The function that is timed, as a chain of steps from the input on; each step is one operator or two."""

    def __init__(self, width: int, batch: int, is_linear: bool, flaws: frozenset[str], device: str) -> None:
        self.is_linear, self.flaws = is_linear, flaws
        shape, scale = ((width, width), math.sqrt(2 / width)) if is_linear else ((width,), 1.0)
        self.weight = torch.randn(*shape, device=device).mul_(scale)
        self.bias = torch.randn(width, device=device)
        self.x = torch.randn(batch, width, device=device)

    def steps(self) -> list[Function]:
        """What is timed, in order: the data if it is made inside, the layer, `+ x`, ReLU."""
        found: list[Function] = [self._make_data] if DATA in self.flaws else []
        if self.is_linear:
            found.append(lambda _: linear(self.x, self.weight, self.bias))
        else:
            found += [lambda _: self.x * self.weight, lambda y: y + self.bias]
        found += [lambda y: y + self.x] if STRAY in self.flaws else []
        return found + ([torch.relu] if RELU in self.flaws else [])

    def _make_data(self, _: torch.Tensor) -> torch.Tensor:
        self.x = torch.randn_like(self.x)
        return self.x

    def run(self) -> torch.Tensor:
        """All steps, one after the other."""
        y = self.x
        for step in self.steps():
            y = step(y)
        return y

    def error(self, result: torch.Tensor) -> float:
        """The relative error, of what the function computes: the layer as it is, with `+ x` and ReLU if it has them."""
        if RELU in self.flaws or STRAY in self.flaws:
            return self._error_of_all(result)
        return (linear_error if self.is_linear else pseudo_error)(self.x, self.weight, self.bias, None)(result)

    def _error_of_all(self, result: torch.Tensor) -> float:
        """Against float64 on rows chosen at random: a ReLU lets no product be checked without computing it."""
        rows = torch.randperm(len(result), device=result.device)[:ROWS]
        x, weight, bias = self.x[rows].double(), self.weight.double(), self.bias.double()
        expected = linear(x, weight, bias) if self.is_linear else pseudo(x, weight, bias)
        expected = expected + x if STRAY in self.flaws else expected
        expected = torch.relu(expected) if RELU in self.flaws else expected
        return float(torch.linalg.norm(result[rows].double() - expected) / torch.linalg.norm(expected))


def _queued(bench: Bench, variant: Variant, point: Point) -> Workload:
    """The same function on the CPU queue: one order for each step, each on what the last one left behind."""
    latest = [torch.full_like(bench.x, float("nan"))]

    def order(step: Function) -> None:
        latest[0] = step(latest[0])

    orders = [partial(order, step) for step in bench.steps()]
    return in_orders(orders, latest, cost(variant, point), lambda result: bench.error(result[0]), TOLERANCE)
