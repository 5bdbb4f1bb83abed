"""What the `host_cost` experiment runs: the same ReLU (or a chain of them), called in every way of the ladder."""

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.gpu import waiting
from brrr_course.experiments.checked import refuse_too_large, relative
from brrr_course.experiments.host_cost import cost
from brrr_course.nouns.experiment import Variant, Workload

Call = Callable[[], torch.Tensor]
Made = tuple[Call, Callable[[], None]]
"""A function of no arguments that returns the result, and what frees what it holds."""

EXACT = 0.0
"""ReLU rounds nothing: the result is the reference, bit for bit."""


def workload(variant: Variant, point: Point) -> Workload:
    """The ReLU, as often as the point asks for, on a fresh random input."""
    elements, times = int(point["elements"]), int(point["operators"])
    device = variant.processor
    refuse_too_large((times + 2) * 4 * elements, device, f"host_cost {elements}")
    x = torch.randn(elements, device=device)
    call, close = MAKERS[variant.way](x, times)
    return Workload(call, cost(variant, point), _error(x), EXACT, synchronize=waiting(device), close=close)


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
    "functional": partial(_eager, torch.nn.functional.relu),
    "relu": partial(_eager, torch.relu),
    "out": _out,
    "script": _script,
    "graph": _graph,
    "pycuda": _pycuda,
}
"""Each rung of the ladder: from the input and the number of operators to the call."""
