"""The benchmark of the pseudo-linear layer as it was first posted, and without each of its three flaws.

A forum thread, "Surprisingly low performance in pseudo-Linear layer", asks why a layer without a matrix product gains
so little. A reader found three things in the benchmark itself: its random data is made inside the function that is
timed; the stand-in adds its input once more; and a ReLU is timed with both layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from brrr.core.measurement import DeviceKind, Point
from brrr.counting.cost import Cost
from brrr.gpu import is_queue
from brrr_course.experiments.checked import must_fit
from brrr_course.experiments.lazily import f, torch
from brrr_course.experiments.pseudo_linear import TOLERANCE, linear_cost, linear_error, pseudo_cost, pseudo_error
from brrr_course.nouns.experiment import Axis, Experiment, Function, Line, Variant, Workload, stand_in

POSTED_WIDTH, BATCHES, BATCH = 160, (128, 2048, 32768), 2048
QUEUE_FLOP, ITEMSIZE = 5e9, 4

DATA, STRAY, RELU = "data", "x", "relu"
FLAWS: dict[str, tuple[str, frozenset[str]]] = {
    "posted": ("as posted", frozenset({DATA, STRAY, RELU})),
    "data out": ("data made outside", frozenset({STRAY, RELU})),
    "data and x out": ("and no stray + x", frozenset({RELU})),
    "clean": ("and no ReLU", frozenset()),
    "x out": ("only the stray + x removed", frozenset({DATA, RELU})),
    "relu out": ("only the ReLU removed", frozenset({DATA, STRAY})),
}
"""Each stage of the benchmark, how it reads, and the flaws that it still has: first one after the other, then alone."""

CUMULATIVE = ("posted", "data out", "data and x out", "clean")


def flaws_of(variant: Variant) -> frozenset[str]:
    """The flaws that a variant's function has; the linear layer never had the stray `+ x`.

    >>> sorted(flaws_of(EXPERIMENT.variant("linear-data-out")))
    ['relu']
    """
    flaws = FLAWS[variant.implementation][1]
    return flaws - {STRAY} if variant.operation == "linear" else flaws


def supports(variant: Variant, point: Point) -> bool:
    """The CPU queue ends where a laptop's CPU would need a second and more a call."""
    work = linear_cost(int(point["width"]), int(point["batch"]))
    return not is_queue(variant.device) or work.flop <= QUEUE_FLOP


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of all that is timed, each operator on its own: that is how eager code runs."""
    width, batch = int(point["width"]), int(point["batch"])
    flaws, rows = flaws_of(variant), float(batch) * width
    layer = (linear_cost if variant.operation == "linear" else pseudo_cost)(width, batch)
    passes = 2 * (variant.operation == "pseudo") + (DATA in flaws) + 3 * (STRAY in flaws) + 2 * (RELU in flaws)
    return Cost(layer.flop + rows * ((STRAY in flaws) + (RELU in flaws)), layer.bytes + ITEMSIZE * passes * rows)


def _variants() -> Iterator[Variant]:
    """Both layers at each stage, on the GPU and on the CPU queue; where Linear has no `+ x`, one does for two."""
    places: tuple[tuple[str, DeviceKind], ...] = ("", "cuda"), ("queue-", "cpu-queue")
    for queue, device in places:
        for layer, title in (("pseudo", "pseudo"), ("linear", "Linear")):
            for stage, (label, _) in FLAWS.items():
                if _own(layer, stage) == stage:
                    name, line = f"{layer}-{stage}".replace(" ", "-"), f"{layer} {stage}"
                    yield Variant(
                        f"{queue}{name}", f"{title}, {label}", device, implementation=stage, operation=layer,
                        shown=stage in CUMULATIVE and layer == "pseudo", stands_in_for=(line,) if queue else (),
                    )  # fmt: skip


def _own(layer: str, stage: str) -> str:
    """The stage whose function a layer runs: without `+ x` in it, Linear is the same before and after it goes."""
    same = {"data and x out": "data out", "x out": "posted"}
    return same.get(stage, stage) if layer == "linear" else stage


def _shared_lines() -> Iterator[Line]:
    """The lines of Linear's stages that another stage's variant stands for."""
    for make, queue in ((Line, ""), (stand_in, "queue-")):
        for stage, (label, _) in FLAWS.items():
            if (own := _own("linear", stage)) != stage:
                variant = f"{queue}linear-{own.replace(' ', '-')}"
                yield make(f"linear {stage}", variant, "period_s", f"Linear, {label}", shown=False)


EXPERIMENT = Experiment(
    title="Pseudo-Linear, the benchmark's flaws",
    question="How much of a speed-up can a benchmark hide?",
    axes=(
        Axis("width", (POSTED_WIDTH, 256, 1024, 4096), label="width of the layer", quick=(POSTED_WIDTH, 256, 1024)),
        Axis("batch", BATCHES, label="batch (rows)", quick=(BATCHES[0],)),
    ),
    variants=tuple(_variants()),
    lines=tuple(_shared_lines()),
    field="period_s",
    package=__name__,
    anchors=({"width": 1024, "batch": 2048},),
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `pseudo_linear_flaws` experiment runs: the posted benchmark's function, with and without each flaw.

ROWS = 256
"""So many rows of a result are checked where every row needs a float64 product of its own."""


def workload(variant: Variant, point: Point) -> Workload:
    """The timed function of a variant at a point."""
    width, batch = int(point["width"]), int(point["batch"])
    device = variant.processor
    is_linear, flaws = variant.operation == "linear", flaws_of(variant)
    weights = width * width if is_linear else width
    must_fit(ITEMSIZE * (4 * width * batch + weights), device, f"{variant.label} at width {width}")
    bench = Bench(width, batch, is_linear, flaws, device)
    return _queued(bench) if is_queue(variant.device) else Workload(bench.run, bench.error, TOLERANCE)


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
            found.append(lambda _: f.linear(self.x, self.weight, self.bias))
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
        expected = f.linear(x, weight, bias) if self.is_linear else x * weight + bias
        expected = expected + x if STRAY in self.flaws else expected
        expected = torch.relu(expected) if RELU in self.flaws else expected
        return float(torch.linalg.norm(result[rows].double() - expected) / torch.linalg.norm(expected))


def _queued(bench: Bench) -> Workload:
    """The same function on the CPU queue: one order for each step, each on what the last one left behind."""
    latest = [torch.full_like(bench.x, float("nan"))]

    def order(step: Function) -> None:
        latest[0] = step(latest[0])

    orders = [partial(order, step) for step in bench.steps()]
    return Workload.in_orders(orders, latest, lambda result: bench.error(result[0]), TOLERANCE)
