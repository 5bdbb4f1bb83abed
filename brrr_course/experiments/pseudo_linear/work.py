"""What the `pseudo_linear` experiment runs: the linear layer and its element-wise stand-in, each in every way."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import linear

from brrr.core.measurement import Point
from brrr.gpu import is_queue, waiting
from brrr_course.experiments.checked import PointInputs, compile_now, in_orders, refuse_too_large
from brrr_course.experiments.pseudo_linear.check import inexact_share, linear_error, pseudo_error, whole_numbers
from brrr_course.experiments.pseudo_linear.theory import ITEMSIZE, cost, sizes
from brrr_course.nouns.experiment import Run, Variant, Workload

TOLERANCE = 1e-4
"""float32 stays far below; TF32, near 3e-4, would be found out."""

WARM_FLOP = 1e12
"""A call with fewer FLOP is made once before it is checked, so that loading a library is not taken for its time."""

Layer = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def pseudo(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The stand-in for a linear layer: each feature times its own weight, plus its own bias."""
    return x * w + b


class PseudoInputs(PointInputs):
    """The tensors of one point, drawn once and used by all of its variants as long as one of them is there."""

    def __init__(self, width: int, batch: int, backward: bool, device: str) -> None:
        self.width, self.backward, self.device = width, backward, device
        self.x = self._draw(batch, width)
        self.gradient = torch.randn(batch, width, device=device) if backward else None
        self._parameters: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def parameters(self, layer: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight and bias of `linear` (He-scaled, so that its outputs are as large as its inputs) or of `pseudo`."""
        if layer not in self._parameters:
            n = self.width
            weight = self._draw(n, n, scale=math.sqrt(2 / n)) if layer == "linear" else self._draw(n)
            self._parameters[layer] = (weight, self._draw(n))
        return self._parameters[layer]

    def _draw(self, *shape: int, scale: float = 1.0) -> torch.Tensor:
        return torch.randn(*shape, device=self.device).mul_(scale).requires_grad_(self.backward)


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's layer at the point, on fresh random inputs that the point's variants share."""
    width, batch, backward = sizes(point)
    on_queue = is_queue(variant.device)
    device = variant.processor
    refuse_too_large(needed_bytes(variant, point), device, f"{variant.label} of width {width}, batch {batch}")
    if variant.way == "integers":
        return _on_whole_numbers(variant, point)
    inputs = PseudoInputs.of(width, batch, backward, device)
    layer, how = variant.kind, variant.way
    if on_queue:
        return _queued(variant, point, inputs, layer)
    run = _way(how, _calls(_function(layer, how, inputs), inputs, layer))
    if how == "compile":
        compile_now(run)
    elif cost(variant, point).flop < WARM_FLOP:
        run()
    return Workload(run, cost(variant, point), _error(layer, inputs), TOLERANCE, synchronize=waiting(device))


def _error(layer: str, inputs: PseudoInputs) -> Callable[[Any], float]:
    """What checks the layer's result."""
    check = linear_error if layer == "linear" else pseudo_error
    return check(inputs.x, *inputs.parameters(layer), inputs.gradient)


def needed_bytes(variant: Variant, point: Point) -> int:
    """What a variant needs at least: inputs, results, one intermediate, and the weights with their gradients."""
    width, batch, backward = sizes(point)
    tensors, weights = (6, 2) if backward else (3, 1)
    square = width * width if variant.kind == "linear" else width
    return ITEMSIZE * (tensors * width * batch + weights * square)


def _function(layer: str, how: str, inputs: PseudoInputs) -> Layer:
    """The layer as a function of input, weight and bias."""
    if how.startswith("triton"):
        from brrr.kernels.pseudo_linear import pseudo_linear

        return pseudo_linear
    function: Layer = linear if layer == "linear" else pseudo
    return compiled(function, inputs) if how == "compile" else function


def compiled(function: Layer, inputs: PseudoInputs) -> Layer:
    """The layer under torch.compile, compiled as seldom as its speed allows.

    Linear: once for all shapes, for its work is a library's. Pseudo: once for each width, since a width known when
    compiling makes better code; forward, the batch may change without compiling again.
    """
    if function is linear:
        return torch.compile(function, dynamic=True)
    if not inputs.backward:
        torch._dynamo.maybe_mark_dynamic(inputs.x, 0)
    return torch.compile(function, dynamic=False)


def _calls(function: Layer, inputs: PseudoInputs, layer: str) -> Callable[[], Any]:
    """The call that is timed: the layer's result, or with backward `(y, dx, dw, db)`."""
    x, (w, b), g = inputs.x, inputs.parameters(layer), inputs.gradient
    if g is None:
        return lambda: function(x, w, b)

    def both() -> tuple[torch.Tensor, ...]:
        y = function(x, w, b)
        return (y.detach(), *torch.autograd.grad(y, (x, w, b), g))

    return both


def _way(how: str, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call itself, or a CUDA Graph of it, whose results start out as NaN so that only a replay makes them right."""
    if not how.endswith("graph"):
        return call
    from brrr.running.graphs import capture

    captured = capture(call)
    with torch.no_grad():
        for result in captured.output if isinstance(captured.output, tuple) else (captured.output,):
            result.fill_(float("nan"))
    return captured.replay


def _on_whole_numbers(variant: Variant, point: Point) -> Workload:
    """The linear layer without a bias on whole numbers; right only if every entry is exact (see `inexact_share`)."""
    width, batch, _ = sizes(point)
    x, w = whole_numbers(batch, width, width, "cuda"), whole_numbers(width, width, width, "cuda")

    def error(y: torch.Tensor) -> float:
        sampled = torch.randperm(batch, device="cuda")[:64]
        here = float((y[sampled].double() != x[sampled].double() @ w.double().t()).double().mean())
        return max(here, inexact_share(linear, x, w))

    return Workload(lambda: linear(x, w), cost(variant, point), error, 0.0, synchronize=torch.cuda.synchronize)


# ---- the CPU queue: the same orders as torch would issue, into memory that is there already ----


def _queued(variant: Variant, point: Point, inputs: PseudoInputs, layer: str) -> Workload:
    """The layer as one order an operator (`eager`), or as a single order (`graph`, `triton`)."""
    orders, results = _orders(layer, inputs, fused=variant.way == "triton")
    with torch.no_grad():
        for result in results:
            result.fill_(float("nan"))
    at_once: list[Run] = [lambda: [order() for order in orders]]
    given, found = orders if variant.way == "eager" else at_once, results if inputs.backward else results[0]
    return in_orders(given, found, cost(variant, point), _error(layer, inputs), TOLERANCE, held=inputs)


def _orders(
    layer: str, inputs: PseudoInputs, *, fused: bool
) -> tuple[list[Callable[[], Any]], tuple[torch.Tensor, ...]]:
    """What torch would run, operator by operator, and the tensors that it writes."""
    x, (w, b) = inputs.x.detach(), (each.detach() for each in inputs.parameters(layer))
    y, between = torch.empty_like(x), torch.empty_like(x)
    if layer == "linear":
        forward: list[Callable[[], Any]] = [lambda: torch.addmm(b, x, w.t(), out=y)]
    elif fused:
        forward = [lambda: torch.addcmul(b, x, w, out=y)]
    else:
        forward = [lambda: torch.mul(x, w, out=between), lambda: torch.add(between, b, out=y)]
    if inputs.gradient is None:
        return forward, (y,)
    g, dx, dw, db = inputs.gradient, torch.empty_like(x), torch.empty_like(w), torch.empty_like(b)
    to_bias = lambda: torch.sum(g, 0, out=db)  # noqa: E731
    if layer == "linear":
        backward = [lambda: torch.mm(g, w, out=dx), lambda: torch.mm(g.t(), x, out=dw), to_bias]
    else:
        to_weight = [lambda: torch.mul(g, x, out=between), lambda: torch.sum(between, 0, out=dw)]
        backward = [lambda: torch.mul(g, w, out=dx), *to_weight, to_bias]
    return [*forward, *backward], (y, dx, dw, db)
