"""What issuing each operator of the sweep of layers costs the host, by its own name, forward and in autograd."""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from brrr.counting.mode import CostMode
from brrr.gpu import CUDA
from brrr.roofline.calibrate.gpu_times import pool
from brrr.roofline.calibrate.host_cost import at_usual_speed
from brrr.roofline.calibrate.part import Findings, said
from brrr.roofline.calibrate.reference_calls import only, operands_of, ready
from brrr.roofline.figures import own_name
from brrr.roofline.peak import Peak
from tools.reference.autograd import CallCost, measure_backward
from tools.reference.layers import Swept, layers

ELEMENTS = 1e5
"""Of the first operand: the library takes its usual way, and the device is done before the next call comes."""
POOL_BYTES = int(64 * ELEMENTS)
DTYPES = torch.float32, torch.bfloat16
SEVERAL = 5
"""Calls of one operator in a graph: what one more backward costs does not tell of what autograd costs at once."""
CALL_S = 0.05
MEASURED = ("pointwise", "copy")
"""Classes whose costs `measure_host` tells, by what their operands are."""


def measure_calls(found: Findings) -> None:
    """`host.<operator>` for each operator of the sweep of layers, at the host's usual speed, less Python's lines.

    Forward the least of several sizes counts, since a library's longer ways are several kernels; backward the median.
    Ends with `measure_backward`, which takes what is known here; a quick calibration has that alone. Results are
    checked where the same calls are swept.
    """
    costs: dict[str, list[CallCost]] = defaultdict(list)
    for name, layer, operands in () if found.quick else _calls():
        try:
            with torch.no_grad():
                for own, cost in _costs(layer, operands, found):
                    costs[own].append(cost)
        except Exception as error:  # an operator that this torch, or this GPU, lacks
            found.note(f"the host's cost of {name}: not measured: {said(error)}")
    known = {}
    for name, each in costs.items():
        ordered = sorted(each, key=lambda one: one.cost.median)
        if ordered[0].gradients:
            known[name] = ordered[len(ordered) // 2]
        elif ordered[0].cost.median > 0:
            found.measured[f"host.{name}"] = Peak.time(ordered[0].cost, operator=name)
    measure_backward(CUDA, found, known)


def _costs(layer: Swept, operands: Sequence[torch.Tensor], found: Findings) -> Iterator[tuple[str, CallCost]]:
    """One call's cost, under its operator's name; of several operators nothing is told."""
    call, counted, _ = ready(layer.run, layer.gradient, operands)
    each = only(counted)
    if each is None:
        return
    if layer.gradient:
        yield own_name(each), _one_more(layer, operands, found)
    elif each.kind not in MEASURED:
        with CostMode() as counting, counting.lines:
            call()
        line = found.measured["host.line"].value if "host.line" in found.measured else 0.0
        (cost,) = at_usual_speed([call], CUDA, found, CALL_S)
        yield own_name(each), CallCost(cost.shifted(-line * max(0, counting.lines.count - 1)), 0)


def _calls() -> Iterator[tuple[str, Swept, Sequence[torch.Tensor]]]:
    """Each layer in two data types, but for lists of tensors and for what lies channels last."""
    pools = [pool(POOL_BYTES, dtype) for dtype in DTYPES]
    for name, layer in layers().items():
        for values in () if layer.last or name.startswith("list") else pools:
            draw, drawn = random.Random(f"host {name} {values.dtype}"), None
            while drawn is None or max(map(math.prod, drawn)) > len(values):  # as a weight of many channels may be
                drawn = layer.shapes(draw, ELEMENTS)
            yield name, layer, operands_of(layer.call(drawn), values)


def _one_more(layer: Swept, operands: Sequence[torch.Tensor], found: Findings) -> CallCost:
    """What one more backward costs in a graph of several, and for how many gradients."""
    with torch.enable_grad():
        calls = [each for count in (1, SEVERAL) for each in _training(layer, operands, count)]
        one_forward, one, forward, several = at_usual_speed(calls, CUDA, found, CALL_S)
    each = (several - forward - (one - one_forward)) * (1 / (SEVERAL - 1))
    return CallCost(each, len(operands[: layer.gradient]))


def _training(layer: Swept, operands: Sequence[torch.Tensor], count: int) -> tuple[Callable[[], Any], ...]:
    """The forward of so many calls, and the same with their backward in one graph."""
    wanted = [[x.detach().requires_grad_() for x in operands[: layer.gradient]] for _ in range(count)]
    inputs = [x for those in wanted for x in those]

    def forward() -> list[Any]:
        return [layer.run(*those, *operands[layer.gradient :]) for those in wanted]

    above = list(map(torch.ones_like, forward()))
    return forward, lambda: torch.autograd.grad(forward(), inputs, above)
