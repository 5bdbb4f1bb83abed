"""What one operator costs the host: a ReLU called in ever barer ways, from nn.Module down to a launch by hand.

The question and the claims follow the remarks on overhead in "GPU Overheads and Fused Strassen" (2021) and the section
"Overhead" of "Making Deep Learning Go Brrrr From First Principles". A call applies the operator once, or 16 times in
a row: what a whole chain is told at once (TorchScript, torch.compile, a CUDA Graph) can only pay there.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr_course.experiments.checked import must_fit, relative
from brrr_course.experiments.lazily import torch
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant, Workload

ELEMENTS = (1024, 65536, 2**20, 2**24)
SMALL = 1024
"""So small that even on a CPU, where the call does the work itself, it is little beside the host's cost."""
CHAINS = (1, 16)
ITEMSIZE = 4


RUNGS = {
    "module": "nn.Module", "module-grad": "nn.Module, recorded for autograd", "functional": "functional (F.relu)",
    "relu": "torch.relu", "out": "into an existing array (out=)", "script": "TorchScript, no fusion",
    "graph": "CUDA Graph replay", "pycuda": "launched by PyCUDA (prepared call)",
}  # fmt: skip
"""The ways of calling the operator."""
ON_GPU_ALONE = ("graph", "pycuda")
LOOPED = ("module", "module-grad", "graph", "pycuda")


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a call: each operator reads its input and writes its output."""
    elements, times = int(point["elements"]), int(point["operators"])
    return Cost(float(elements * times), 2.0 * ITEMSIZE * elements * times)


EXPERIMENT = Experiment(
    title="One operator's cost on the host",
    question="What does the host do before the GPU may begin?",
    axes=(
        Axis("elements", ELEMENTS, label="elements of the ReLU (float32)", quick=(SMALL,),
             most={"cpu": 2**20}),  # where a large operator hides nothing
        Axis("operators", CHAINS, label="operators in a row", quick=CHAINS),
    ),
    variants=(
        *(Variant(way, label, line=way) for way, label in RUNGS.items()),
        *(Variant.twin(way, "cpu", f"{label}, on the CPU", stands_in_for=(way,))
          for way, label in RUNGS.items() if way not in ON_GPU_ALONE),
    ),
    field="host_s",
    lines=tuple(Line(f"{way} in a loop", way, "period_s", f"{RUNGS[way]}: a loop", shown=False) for way in LOOPED),
    package=__name__,
    anchors=({"elements": SMALL, "operators": 1},),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `host_cost` experiment runs: the same ReLU (or a chain of them), called in every way of the ladder.

if TYPE_CHECKING:
    Call = Callable[[], torch.Tensor]
    Made = tuple[Call, Callable[[], None]]
"""A function of no arguments that returns the result, and what frees what it holds."""

EXACT = 0.0
"""ReLU rounds nothing: the result is the reference, bit for bit."""


def workload(variant: Variant, point: Point) -> Workload:
    """The ReLU, as often as the point asks for, on a fresh random input."""
    elements, times = int(point["elements"]), int(point["operators"])
    device = variant.processor
    must_fit((times + 2) * 4 * elements, device, f"host_cost {elements}")
    x = torch.randn(elements, device=device)
    call, close = MAKERS[variant.implementation](x, times)
    return Workload(call, _error(x), EXACT, close=close)


def _error(x: torch.Tensor) -> Callable[[torch.Tensor], float]:
    """Against max(x, 0), made by other operators; a result on another device or of another size is wrong."""

    def error(out: torch.Tensor) -> float:
        given = x.detach().double()
        return (
            relative(out.detach(), torch.where(given > 0, given, 0.0), x.dtype) if out.device == x.device else math.nan
        )

    return error


def _nothing() -> None:
    """There is nothing to free."""


def _eager(step: Callable[[Any], Any], x: torch.Tensor, times: int) -> Made:
    """The operator in a Python loop, as a model's forward has it."""

    def call() -> torch.Tensor:
        y = x
        for _ in range(times):
            y = step(y)
        return y

    return call, _nothing


def _module(x: torch.Tensor, times: int) -> Made:
    return _eager(torch.nn.ReLU(), x, times)


def _out(x: torch.Tensor, times: int) -> Made:
    """clamp_min is what relu calls, and takes out=; from the second on it works in place. The memory starts spoilt."""
    out = torch.full_like(x, math.nan)

    def call() -> torch.Tensor:
        y = x
        for _ in range(times):
            y = torch.clamp_min(y, 0, out=out)
        return y

    return call, _nothing


def _script(x: torch.Tensor, times: int) -> Made:
    """The chain as one TorchScript function; its fuser is off, for the other ways launch one kernel an operator too."""
    modules = torch.nn.Sequential(*(torch.nn.ReLU() for _ in range(times)))
    fused = torch._C._jit_texpr_fuser_enabled()
    torch._C._jit_set_texpr_fuser_enabled(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is on its way out; it is still what the source tried
        scripted = torch.jit.script(modules)
    return partial(scripted, x), partial(torch._C._jit_set_texpr_fuser_enabled, fused)


def _graph(x: torch.Tensor, times: int) -> Made:
    from brrr.running.graphs import capture

    return capture(torch.nn.Sequential(*(torch.nn.ReLU() for _ in range(times))), x).replay, _nothing


def _pycuda(x: torch.Tensor, times: int) -> Made:
    """The kernel of relu.cu, launched by hand; from the second launch on in place. The memory is spoilt first."""
    from brrr.kernels.relu import prepared_launch

    out = torch.full_like(x, math.nan)
    launches = [prepared_launch(x, out), *(prepared_launch(out, out) for _ in range(times - 1))]

    def call() -> torch.Tensor:
        for launch in launches:
            launch()
        return out

    return call, _nothing


MAKERS: dict[str, Callable[[torch.Tensor, int], Made]] = {
    "module-grad": lambda x, times: _module(x.requires_grad_(), times),
    "module": _module,
    "functional": lambda x, times: _eager(torch.nn.functional.relu, x, times),
    "relu": lambda x, times: _eager(torch.relu, x, times),
    "out": _out,
    "script": _script,
    "graph": _graph,
    "pycuda": _pycuda,
}
"""Each rung of the ladder: from the input and the number of operators to the call."""
