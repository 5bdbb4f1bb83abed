"""What the `mlp` experiment runs: one network, its weights shared by all ways of a point, each through `brrr.networks`.

The CPU has two ways of its own: NumPy, and the CPU queue, whose orders are submitted one by one.
"""

import copy
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

import torch

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_queue
from brrr.networks.implementations import WAYS
from brrr.networks.network import Network, Weights
from brrr_course.experiments.checked import PointInputs, in_orders, refuse_too_large, relative, warmed
from brrr_course.experiments.mlp.theory import cost, network_of
from brrr_course.nouns.experiment import Run, Variant, Workload


class NetworkInputs(PointInputs):
    """The weights and the input of a point, and the result in float64: drawn once for all of its ways."""

    def __init__(self, network: Network, device: str) -> None:
        self.weights = Weights.random(network, device)

    @cached_property
    def expected(self) -> torch.Tensor:
        """The result in float64."""
        return self.weights.reference()

    def error(self, found: Any) -> float:
        """||found - expected|| / ||expected||; NaN for what is no tensor of that shape, or not on that device."""
        found = torch.from_numpy(found) if type(found).__module__ == "numpy" else found
        if not isinstance(found, torch.Tensor):
            return math.nan
        return self.weights.error(found, self.expected)


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's way of running the point's network; UnavailableError, with the reason, where it has none here."""
    way, network = variant.way, network_of(point)
    device = variant.processor
    refuse_too_large(needed_bytes(network), device, f"{variant.label} of {network}")
    given = NetworkInputs.of(network, device)
    weights = given.weights
    work, tolerance = cost(variant, point), weights.tolerance * (STRASSEN_ROOM if way in STRASSEN else 1.0)
    if is_queue(variant.device):
        orders, result = _orders(way, given)
        at_once: list[Run] = [lambda: [order() for order in orders]]
        return in_orders(at_once if way == "graph" else orders, result, work, given.error, tolerance)
    if way.endswith("training"):
        return warmed(_training(way, weights, work), device)
    run, close = _made(way, network, given, weights)
    return warmed(Workload(run, work, given.error, tolerance, close=close), device)


def _made(way: str, network: Network, given: NetworkInputs, weights: Weights) -> tuple[Run, Callable[[], None]]:
    """A way on these weights, and what frees what it holds."""
    if way == "numpy":
        return _numpy(given)
    return _by_strassen(way, weights) if way in STRASSEN else _through_networks(way, network, weights)


def needed_bytes(network: Network) -> int:
    """What a way takes, and one layer's weights in float64 for the reference."""
    return network.memory_bytes + 8 * network.hidden * (network.hidden + 2 * network.batch)


def _through_networks(way: str, network: Network, weights: Weights) -> tuple[Run, Callable[[], None]]:
    """A way of `brrr.networks`, prepared; `best` is the one that its own choice names."""
    if way == "best":
        from brrr.networks.choosing import best

        sizes = (network.layers, network.batch, network.hidden)
        chosen = best(*sizes, dtype=network.dtype, tf32=network.tf32, weights=weights)
        return chosen.run, chosen.close
    prepared = WAYS[way].build(network, weights)
    return prepared.run, prepared.close


# ---- Strassen's algorithm ----

STRASSEN: dict[str, dict[str, Any]] = {
    "strassen": {"accuracy": 1e-5, "inner": "sgemm", "graphs": True},
    "strassen-accurate": {"accuracy": "fp32", "graphs": True},
    "strassen-one": {"level": 1, "form": "strassen", "inner": "sgemm"},
}
"""What `StrassenMLP` is asked for: no tensor cores, any product as accurate as float32's, the source's one level."""

GRADIENTS = 1e-2
"""The relative error of a gradient that passes: where a sum is nearly zero, its rounding switches a ReLU and what is
behind it."""

STRASSEN_ROOM = 5.0
"""Three levels make an error about three times as large; one TF32 product would still be found out."""


def _by_strassen(way: str, weights: Weights) -> tuple[Run, Callable[[], None]]:
    """`StrassenMLP` on these weights; what it chooses as a CUDA Graph, the source's form launched one by one."""
    from brrr.networks.torch_ways import captured
    from brrr.strassen.network import StrassenMLP

    model = StrassenMLP.of(weights.weights, weights.biases, **STRASSEN[way])
    x = weights.x

    def run() -> torch.Tensor:
        with torch.no_grad():
            return cast("torch.Tensor", model(x))

    if way == "strassen-one" or not x.is_cuda:
        return run, lambda: None
    prepared = captured(run, weights, _stream(x.device))
    return prepared.run, prepared.close


def _training(way: str, weights: Weights, work: Cost) -> Workload:
    """Forward, and the gradients of the input and of each parameter, for one random gradient of the result."""
    from brrr.strassen.network import StrassenMLP

    model: torch.nn.Sequential = StrassenMLP.of(weights.weights, weights.biases, **STRASSEN["strassen-one"])
    model.requires_grad_()
    x, upstream = weights.x.clone().requires_grad_(), torch.randn_like(weights.x)
    if way == "training":
        model = torch.nn.Sequential(*model)

    def run() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(model(x), [x, *model.parameters()], upstream)

    def error(found: tuple[torch.Tensor, ...]) -> float:
        wide = torch.nn.Sequential(*map(copy.deepcopy, model)).double()
        again = x.detach().double().requires_grad_()
        expected = torch.autograd.grad(wide(again), [again, *wide.parameters()], upstream.double())
        return max(relative(a, b, torch.float32) for a, b in zip(found, expected, strict=True))

    return Workload(run, work, error, GRADIENTS)


def _stream(device: torch.device) -> Any:
    """A stream that PyCUDA's launches take too, where PyCUDA is here; else None, for a new one."""
    from brrr.gpu.launching import shared_stream

    try:
        return shared_stream(device.index).torch
    except UnavailableError:
        return None


# ---- the CPU's own: NumPy, and the CPU queue ----


def _numpy(given: NetworkInputs) -> tuple[Run, Callable[[], None]]:
    """Three calls a layer into memory that is there already, as PyCUDA has it on a GPU: product, bias, ReLU."""
    import numpy as np

    x = given.weights.x.numpy()
    transposed = [w.numpy().T for w in given.weights.weights]
    biases = [b.numpy() for b in given.weights.biases]
    buffers = [np.full_like(x, np.nan) for _ in transposed]
    layers = list(zip(transposed, biases, buffers, strict=True))

    def run() -> Any:
        y = x
        for w, b, out in layers:
            np.matmul(y, w, out=out)
            np.add(out, b, out=out)
            y = np.maximum(out, 0, out=out)
        return y

    return run, lambda: None


def _orders(way: str, given: NetworkInputs) -> tuple[list[Run], torch.Tensor]:
    """What is done to memory that is there already, and was spoilt before."""
    made = given.weights
    y, orders = made.x, []
    for w, b in zip(made.weights, made.biases, strict=True):
        out = torch.full_like(made.x, math.nan)
        orders += _layer_orders(way, y, w, b, out)
        y = out
    return orders, y


def _layer_orders(way: str, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> list[Run]:
    def product() -> None:
        torch.mm(x, w.t(), out=out)

    def product_and_bias() -> None:
        torch.addmm(b, x, w.t(), out=out)

    def bias_and_relu() -> None:
        out.add_(b).clamp_(min=0)

    if way == "pycuda":
        return [product, lambda: out.add_(b), lambda: out.relu_()]
    if way == "pycuda-fused":
        return [product, bias_and_relu]
    return [product_and_bias, lambda: out.relu_()]
