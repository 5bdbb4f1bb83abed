"""What the `rnn` experiment runs: one layer of torch's, its weights shared by all ways of a point."""

import copy
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import torch
from torch.nn.functional import pad

from brrr.core.measurement import Point
from brrr.gpu.precision import float32_recurrence
from brrr_course.experiments.checked import PointInputs, peak_bytes_of, refuse_too_large, relative, warmed, worst
from brrr_course.experiments.rnn import PADDED, cost
from brrr_course.nouns.experiment import Run, Variant, Workload

TOLERANCES = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 3e-2}
"""Of the result after all steps; TF32 (about 3e-4) would be found out among float32."""
TRAINING = 5.0
"""Gradients are sums over all steps, and their errors larger."""

Module = torch.nn.RNN | torch.nn.LSTM


def make_module(cell: str, hidden: int, device: str, dtype: torch.dtype) -> Module:
    """A layer of as many inputs as hidden units, with torch's own random weights.

    >>> make_module("rnn_relu", 8, "cpu", torch.float32).nonlinearity
    'relu'
    """
    if cell == "lstm":
        return torch.nn.LSTM(hidden, hidden, device=device, dtype=dtype).eval()
    return torch.nn.RNN(hidden, hidden, nonlinearity=cell.removeprefix("rnn_"), device=device, dtype=dtype).eval()


class LayerInputs(PointInputs):
    """The layer and its input, the gradient that comes from above, and what float64 makes of them."""

    def __init__(self, cell: str, hidden: int, batch: int, steps: int, dtype: str, device: str) -> None:
        kind, shape = getattr(torch, dtype), (steps, batch, hidden)
        self.cell, self.module = cell, make_module(cell, hidden, device, kind)
        self.x, self.above = (torch.randn(shape, device=device).to(kind) for _ in range(2))

    @cached_property
    def forward(self) -> tuple[torch.Tensor, ...]:
        """The result in float64, of the weights and the input as they are rounded."""
        with torch.no_grad():
            return (copy.deepcopy(self.module).double()(self.x.double())[0],)

    @cached_property
    def trained(self) -> tuple[torch.Tensor, ...]:
        """The gradients in float64: of the input, then of the weights."""
        wide = copy.deepcopy(self.module).double().train()
        return gradients(wide, wide, self.x.double(), self.above.double())

    def error(self, found: Any, training: bool = False) -> float:
        """The worst relative error of the results; NaN for another number, shape or type of them."""
        expected = self.trained if training else self.forward
        given = found if isinstance(found, tuple) else (found,)
        if len(given) != len(expected):
            return float("nan")
        return worst(relative(one, other, self.x.dtype) for one, other in zip(given, expected, strict=True))


def gradients(net: Any, module: Module, x: torch.Tensor, above: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Forward and backward: the gradients of the input and of the module's parameters."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(net(leaf)[0], (leaf, *module.parameters()), above)


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's way of running the layer; UnavailableError, with the reason, where it has none here."""
    batch, hidden, steps = (int(point[name]) for name in ("batch", "hidden", "steps"))
    device, made, training = variant.processor, cost(variant, point), variant.kind == "train"
    refuse_too_large(8 * int(made.bytes), device, f"a layer of {hidden}, {steps} steps of {batch} samples")
    given = LayerInputs.of(str(point["cell"]), hidden, batch, steps, str(point["dtype"]), device)
    run = MAKERS[variant.way](given)
    tolerance = TOLERANCES[given.x.dtype] * (TRAINING if training else 1.0)

    def error(found: Any, kept: LayerInputs = given) -> float:
        return kept.error(found, training)

    others = {"peak_bytes": peak_bytes_of(run, device)} if training else {}
    return warmed(Workload(run, made, error, tolerance, others=others), device)


# ---------------------------------------------------------------------------------------------------------------------
# The ways.


def _module(given: LayerInputs) -> Run:
    """torch's own layer, which on a GPU is cuDNN's."""

    def run() -> torch.Tensor:
        with torch.no_grad(), float32_recurrence():
            found: torch.Tensor = given.module(given.x)[0]
        return found

    return run


def _padded(given: LayerInputs, whole: int) -> Run:
    """The layer on a batch with rows of zeros up to a multiple of `whole`; copying them is part of the time."""
    batch = given.x.shape[1]

    def run() -> torch.Tensor:
        with torch.no_grad(), float32_recurrence():
            found: torch.Tensor = given.module(pad(given.x, (0, 0, 0, -batch % whole)))[0]
        return found[:, :batch]

    return run


def _cudnn_graph(given: LayerInputs) -> Run:
    from brrr.running.graphs import capture

    return capture(_module(given)).replay


def _loop_graph(given: LayerInputs) -> Run:
    """A product for each gate at each step and torch's pointwise kernels, as one CUDA Graph."""
    from brrr.networks.recurrent import rung
    from brrr.running.graphs import capture

    with torch.no_grad():
        loop = rung("naive", given.module, given.x)
        return capture(loop).replay


def persistent(given: Any) -> Run:
    """The weights of the module kept on the chip."""
    from brrr.kernels.recurrent import PersistentRNN

    net = PersistentRNN(given.module, choose=False)

    def run() -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = net(given.x)[0]
        return found

    return run


def _train_persistent(given: LayerInputs) -> Run:
    from brrr.kernels.recurrent import PersistentRNN

    net = PersistentRNN(given.module, choose=False)
    return lambda: gradients(net, given.module, given.x, given.above)


def _train_cudnn(given: LayerInputs) -> Run:
    """cuDNN gives gradients of a module in training mode only, and a layer without dropout computes the same in it."""
    module = copy.deepcopy(given.module).train()

    def run() -> tuple[torch.Tensor, ...]:
        with float32_recurrence():
            return gradients(module, module, given.x, given.above)

    return run


MAKERS: dict[str, Callable[[LayerInputs], Run]] = {
    "persistent": persistent, "cudnn": _module, "cpu": _module,
    **{way: partial(_padded, whole=whole) for way, whole in PADDED.items()},
    "cudnn-graph": _cudnn_graph, "graph": _loop_graph, "train-persistent": _train_persistent,
    "train-cudnn": _train_cudnn,
}  # fmt: skip
