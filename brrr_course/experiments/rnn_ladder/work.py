"""What the `rnn_ladder` experiment runs: one network of torch's, its weights shared by all ways of a point."""

import copy
from functools import cached_property
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.gpu.precision import float32_products
from brrr_course.experiments.checked import PointInputs, refuse_too_large, relative, warmed
from brrr_course.experiments.rnn.work import persistent
from brrr_course.experiments.rnn_ladder import cost
from brrr_course.experiments.rnn_ladder.grid import GRAPHS, PRODUCTS
from brrr_course.nouns.experiment import Run, Variant, Workload

TOLERANCES = {torch.float32: 1e-5, torch.float16: 3e-3}
"""Of the last layer's results of all steps; TF32 (about 3e-4) would be found out among float32."""
MODULES = {"rnn_tanh": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}
KEPT = 4
"""Buffers of all gates of all steps that the loops of a point may hold at once, and the float64 network's."""


class LadderInputs(PointInputs):
    """The network and its input, and what float64 makes of them on the same device."""

    def __init__(self, cell: str, hidden: int, layers: int, batch: int, steps: int, dtype: str, device: str) -> None:
        kind = getattr(torch, dtype)
        self.module = MODULES[cell](hidden, hidden, num_layers=layers, device=device, dtype=kind).eval()
        self.x = torch.randn(steps, batch, hidden, device=device).to(kind)

    @cached_property
    def expected(self) -> torch.Tensor:
        """The result of the same network in float64."""
        with torch.no_grad():
            found: torch.Tensor = copy.deepcopy(self.module).double()(self.x.double())[0]
        return found

    def error(self, found: Any) -> float:
        """The relative error of the result."""
        return relative(found, self.expected, self.x.dtype)


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's way of running the network; ArgumentError or UnavailableError where it has none here."""
    hidden, layers, batch, steps = (int(point[name]) for name in ("hidden", "layers", "batch", "steps"))
    device, made, name = variant.processor, cost(variant, point), variant.way
    gates = int(4 * hidden * batch * steps * layers)
    what = f"a network of {layers} x {hidden}, {steps} steps of {batch} samples"
    refuse_too_large(KEPT * 4 * gates + 4 * int(made.bytes), device, what)
    given = LadderInputs.of(str(point["cell"]), hidden, layers, batch, steps, str(point["dtype"]), device)
    run, error = product(name, given) if name in PRODUCTS else (way(name, given), given.error)

    def checked(found: Any, kept: LadderInputs = given) -> float:
        return error(found)

    return warmed(Workload(run, made, checked, TOLERANCES[given.x.dtype]), device)


def way(name: str, given: LadderInputs) -> Run:
    """A rung of the ladder, in a CUDA Graph or not, or the weights kept on the chip."""
    from brrr.networks.recurrent import captured, rung

    if name == "persistent":
        return persistent(given)
    if name in GRAPHS:
        return captured(rung(GRAPHS[name], given.module, given.x))
    return rung(name, given.module, given.x)


def product(name: str, given: LadderInputs) -> tuple[Run, Any]:
    """A product of the first layer as the loops run it, and its error: of a gate, of all, or of all steps' inputs."""
    module, weights = given.module, dict(given.module.named_parameters())
    with torch.no_grad():
        of = "ih" if name == "inputs-product" else "hh"
        w, bias = weights[f"weight_{of}_l0"].detach(), weights[f"bias_{of}_l0"].detach()
        x = given.x.flatten(0, 1) if of == "ih" else given.x[0]
        if name == "gate-product":
            w, bias = w[: module.hidden_size], bias[: module.hidden_size]
        else:
            w = w.t().contiguous().t()
        out = x.new_empty(len(x), len(w))

    @float32_products()
    def run() -> torch.Tensor:
        with torch.no_grad():
            return torch.addmm(bias, x, w.t(), out=out)

    return run, lambda found: relative(found, torch.addmm(bias.double(), x.double(), w.double().t()), x.dtype)
