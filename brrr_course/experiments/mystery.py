"""Three programs whose regime is to be found by four measurements: as they are, and with one thing changed each time.

The four answer three questions in this order: is it faster without the host (as a CUDA Graph), with half the bytes at
as many FLOP (16 bits a number in place of 32), and does twice the batch cost nothing?
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from brrr.core.measurement import Estimate, Point
from brrr.counting.cost import Cost
from brrr.running.graphs import capture
from brrr_course.experiments.checked import relative
from brrr_course.experiments.lazily import name_of, nn, torch
from brrr_course.nouns.experiment import Axis, Experiment, Variant, Workload
from brrr_course.nouns.source import Evidence

MODELS = ("A", "B", "C")
SCAN, NORM, LAYERS = (8, 2**20), (16384, 4096), (16, 8, 64)
"""A: cumulative sums of a few long rows of whole numbers. B: norms of many rows. C: layers, batch and width."""
EAGER, GRAPH, HALF, DOUBLE = "eager", "graph", "half", "double"
GAIN, FREE = 1.3, 1.15
"""From so many times as fast on a change counts; up to so much longer twice the batch is free."""
REGIMES = ("overhead", "memory", "under-filled", "compute")


def regime_of(eager: float, graph: float, half: float, double: float) -> str:
    """The regime by the times of the four measurements, in the order of the questions.

    >>> regime_of(10.0, 2.0, 2.0, 2.0), regime_of(2.0, 2.0, 1.0, 4.0), regime_of(2.0, 2.0, 2.0, 2.1)
    ('overhead', 'memory', 'under-filled')
    """
    if eager >= GAIN * graph:
        return "overhead"
    if graph >= GAIN * half:
        return "memory"
    return "under-filled" if double <= FREE * graph else "compute"


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes; with half the bytes, and of twice the batch."""
    size, twice = 2 if variant.implementation == HALF else 4, 2 if variant.implementation == DOUBLE else 1
    if point["model"] == "C":
        layers, batch, width = LAYERS
        return Cost(2.0 * layers * batch * twice * width**2, float(size * layers * width**2))
    rows, length = SCAN if point["model"] == "A" else NORM
    numbers = float(rows * length * twice)
    return Cost(numbers * (1 if point["model"] == "A" else 7), 2 * size * numbers)


def times(evidence: Evidence, model: str) -> dict[str, Estimate]:
    """The four times of a program."""
    return {name: evidence.get(name, model=model) for name in (EAGER, GRAPH, HALF, DOUBLE)}


EXPERIMENT = Experiment(
    title="Three programs to diagnose",
    question="Which regime is each program in?",
    axes=(Axis("model", MODELS, label="program", scale="category", noun="program"),),
    variants=(
        Variant(EAGER, "the program as it is"),
        Variant(GRAPH, "a CUDA Graph", needs="CUDA"),
        Variant(HALF, "a CUDA Graph with half the bytes", needs="CUDA"),
        Variant(DOUBLE, "a CUDA Graph with twice the batch", needs="CUDA"),
    ),
    package=__name__,
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `mystery` experiment runs: three programs, as they are and with one thing changed.

TOLERANCES = {"float32": 1e-4, "bfloat16": 5e-2}
"""Whole numbers are exact."""
if TYPE_CHECKING:
    Program = Callable[[torch.Tensor], torch.Tensor]


def workload(variant: Variant, point: Point) -> Workload:
    """One program on random numbers; its result against float64, or against wide whole numbers."""
    times, half = 2 if variant.implementation == DOUBLE else 1, variant.implementation == HALF
    torch.manual_seed(0)
    program, x, expected = made(str(point["model"]), times, half, variant.processor)

    def plain() -> torch.Tensor:
        return program(x)

    run = plain if variant.implementation == EAGER else capture(plain).replay
    return Workload(run, lambda found: relative(found, expected, x.dtype), TOLERANCES.get(name_of(x.dtype), 0.0))


def made(model: str, times: int, half: bool, device: str) -> tuple[Program, torch.Tensor, torch.Tensor]:
    """A program, its input with so many times the batch, and the exact result."""
    if model == "A":
        rows, length = SCAN
        wide = torch.randint(0, 3, (times * rows, length), device=device)
        dtype = torch.int16 if half else torch.int32
        return partial(torch.cumsum, dim=-1, dtype=dtype), wide.to(dtype), wide.cumsum(-1).to(dtype).double()
    dtype = torch.bfloat16 if half else torch.float32
    if model == "B":
        rows, width = NORM
        x = torch.randn(times * rows, width, device=device, dtype=dtype)
        function = partial(nn.functional.layer_norm, normalized_shape=(width,))
        return function, x, function(x.double())
    layers, batch, width = LAYERS
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    network = nn.Sequential(*parts).to(device, dtype).requires_grad_(False)
    x = torch.randn(times * batch, width, device=device, dtype=dtype)
    return network, x, copy.deepcopy(network).double()(x.double())
