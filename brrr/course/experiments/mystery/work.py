"""What the `mystery` experiment runs: three programs, as they are and with one thing changed."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from brrr.core.measurement import Point
from brrr.course.experiments.checked import relative
from brrr.course.experiments.mystery import DOUBLE, EAGER, HALF, LAYERS, NORM, SCAN, cost
from brrr.course.nouns.experiment import Variant, Workload
from brrr.running.graphs import capture

TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 5e-2}
Program = Callable[[torch.Tensor], torch.Tensor]


def workload(variant: Variant, point: Point) -> Workload:
    """One program on random numbers; its result against float64."""
    dtype = torch.bfloat16 if variant.name == HALF else torch.float32
    times = 2 if variant.name == DOUBLE else 1
    torch.manual_seed(0)
    program, exact, x = made(str(point["model"]), times, dtype, variant.processor)
    expected = exact(x.double())

    def plain() -> torch.Tensor:
        return program(x)

    run = plain if variant.name == EAGER else capture(plain).replay
    return Workload(
        run, cost(variant, point), lambda found: relative(found, expected, dtype), TOLERANCES[dtype],
        synchronize=torch.cuda.synchronize,
    )  # fmt: skip


def made(model: str, times: int, dtype: torch.dtype, device: str) -> tuple[Program, Program, torch.Tensor]:
    """A program, the same in float64, and an input with so many times the batch."""
    if model == "C":
        layers, batch, width = LAYERS
        parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
        program = nn.Sequential(*parts).to(device, dtype).requires_grad_(False)
        return program, copy.deepcopy(program).double(), torch.randn(times * batch, width, device=device, dtype=dtype)
    rows, length = SCAN if model == "A" else NORM
    x = torch.rand(times * rows, length, device=device, dtype=dtype)
    function = scanned if model == "A" else normed
    return function, function, x


def scanned(x: torch.Tensor) -> torch.Tensor:
    """Cumulative sums along rows."""
    return x.cumsum(-1)


def normed(x: torch.Tensor) -> torch.Tensor:
    """Rows of mean 0 and variance 1."""
    return nn.functional.layer_norm(x, x.shape[-1:])
