"""What the `mystery` experiment runs: three programs, as they are and with one thing changed."""

import copy
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from brrr.core.measurement import Point
from brrr.gpu import waiting
from brrr.running.graphs import capture
from brrr_course.experiments.checked import relative
from brrr_course.experiments.mystery import DOUBLE, EAGER, HALF, LAYERS, NORM, SCAN, cost
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 5e-2}
"""Whole numbers are exact."""
Program = Callable[[torch.Tensor], torch.Tensor]


def workload(variant: Variant, point: Point) -> Workload:
    """One program on random numbers; its result against float64, or against wide whole numbers."""
    times, half = 2 if variant.way == DOUBLE else 1, variant.way == HALF
    torch.manual_seed(0)
    program, x, expected = made(str(point["model"]), times, half, variant.processor)

    def plain() -> torch.Tensor:
        return program(x)

    run = plain if variant.way == EAGER else capture(plain).replay
    return Workload(
        run, cost(variant, point), lambda found: relative(found, expected, x.dtype), TOLERANCES.get(x.dtype, 0.0),
        synchronize=waiting(variant.processor),
    )  # fmt: skip


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
