"""What the `fusion` experiment runs: each piece of work in torch's operators, compiled, in Triton and in CUDA C++."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from brrr.core.measurement import Point
from brrr.roofline.calibrate.part import CHUNK
from brrr_course.experiments.checked import (
    Function,
    PointInputs,
    blockwise,
    compiled,
    error_against,
    held_workload,
    refuse_too_large,
)
from brrr_course.experiments.fusion.theory import ITEMSIZE, WIDTH, cost
from brrr_course.nouns.experiment import Run, Variant, Workload

EPS, SCALE = 1e-5, 1.75
Tensor = torch.Tensor


def bias(x: Tensor, b: Tensor) -> Tensor:
    """A bias, then ReLU."""
    return torch.relu(x + b)


def pseudo(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """A weight and a bias for each column."""
    return x * w + b


def chain(x: Tensor, r: Tensor, scale: float) -> Tensor:
    """Three operators."""
    return torch.relu(x * scale + r)


def norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Layer norm as its formula says."""
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + EPS) * w + b


def softmax(x: Tensor) -> Tensor:
    """Softmax as its formula says, its largest exponent 0."""
    power = torch.exp(x - x.amax(-1, keepdim=True))
    return power / power.sum(-1, keepdim=True)


def kept(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two cosines, of which the first is needed elsewhere too."""
    between = x.cos()
    return between, between.cos()


def linear(x: Tensor, v: Tensor, b: Tensor) -> Tensor:
    """A linear layer, then ReLU."""
    return torch.relu(functional.linear(x, v, b))


@dataclass(frozen=True)
class Work:
    """A piece of work: its operators, what it takes beside x, and how else it can run."""

    operators: Function
    takes: str
    line: str = ""
    triton: str = ""
    results: int = 1


WORKS: dict[str, Work] = {
    "bias": Work(bias, "b", "y = x + b < 0 ? 0 : x + b", "bias_relu"),
    "pseudo": Work(pseudo, "wb", "y = x * w + b", "pseudo_linear"),
    "chain": Work(chain, "rs", "float t = x * s + r; y = t < 0 ? 0 : t", "scale_add_relu"),
    "norm": Work(norm, "wb", "", "layer_norm"),
    "softmax": Work(softmax, "", "", "softmax"),
    "kept": Work(kept, "", results=2),
    "linear": Work(linear, "vb"),
}


class FusionInputs(PointInputs):
    """The tensors of a point, each drawn when it is first asked for, shared by all of its variants."""

    def __init__(self, elements: int, dtype: str, device: str) -> None:
        self.rows, self.dtype, self.device = elements // WIDTH, getattr(torch, dtype), device
        self._drawn: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Any:
        """x and r: an array; w and b: a row; v: a square matrix; s: a number."""
        if name == "s":
            return SCALE
        if name not in self._drawn:
            shape = {"x": (self.rows, WIDTH), "r": (self.rows, WIDTH), "v": (WIDTH, WIDTH)}.get(name, (WIDTH,))
            drawn = torch.randn(shape, device=self.device)
            self._drawn[name] = (drawn * WIDTH**-0.5 if name == "v" else drawn).to(self.dtype)
        return self._drawn[name]


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's piece of work on fresh random numbers, which the point's variants share."""
    elements, dtype = int(point["elements"]), str(point["dtype"])
    device = variant.processor
    needed = 6 * ITEMSIZE[dtype] * elements + 8 * 8 * min(elements, CHUNK * WIDTH)
    refuse_too_large(needed, device, f"{variant.label} of {elements} elements")
    inputs, work = FusionInputs.of(elements, dtype, device), WORKS[variant.kind]
    along = {name: inputs[name] for name in f"x{work.takes}" if name in "xr"}
    whole = {name: inputs[name] for name in work.takes if name != "r"}
    run = WAYS[variant.way](work, along, whole)
    check = error_against(work.operators, [*along.values()], [*whole.values()], work.results)
    return held_workload(run, cost(variant, point), check, inputs, inputs.dtype, device)


Inputs = Mapping[str, Any]
"""Tensors or numbers by the names of `Work.takes`."""


def _triton(work: Work, along: Inputs, whole: Inputs) -> Run:
    from brrr.kernels import fused, pseudo_linear

    if work.triton == "pseudo_linear":
        return partial(pseudo_linear.pseudo_linear, *along.values(), *whole.values())
    if work.triton == "scale_add_relu":
        return partial(fused.scale_add_relu, along["x"], SCALE, along["r"])
    return partial(getattr(fused, work.triton), *along.values(), *whole.values())


def _cuda(work: Work, along: Inputs, whole: Inputs) -> Run:
    from brrr.kernels.elementwise.kernel import elementwise

    return elementwise(work.line, **along, **whole)


WAYS: Mapping[str, Callable[[Work, Inputs, Inputs], Run]] = {
    "eager": lambda work, along, whole: partial(work.operators, *along.values(), *whole.values()),
    "compile": lambda work, along, whole: partial(compiled(work.operators), *along.values(), *whole.values()),
    "triton": _triton,
    "cuda": _cuda,
    "blocks": lambda work, along, whole: blockwise(work.operators, [*along.values()], [*whole.values()]),
}
"""What runs a piece of work on the inputs along which it goes and on those that are needed whole."""
