"""What autograd costs a host: once a backward, for each gradient, and for each operator; a reference tells all GPUs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from torch import nn

from brrr.core.measurement import Estimate
from brrr.counting.mode import CostMode
from brrr.roofline.calibrate import part
from brrr.roofline.calibrate.host_cost import LIMIT, SIDE, at_usual_speed, operators_s
from brrr.roofline.calibrate.part import Findings
from brrr.roofline.device_model import REFERENCE_CALL
from brrr.roofline.figures import own_name
from brrr.roofline.peak import Peak

MANY = 17
"""So many tensors in a sum tell what autograd costs for each."""


def network(device: str) -> tuple[nn.Module, torch.Tensor]:
    """A small network of the usual layers, and an image for it: for what autograd costs among others."""
    with torch.device(device):
        layers = (
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(256, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 128), nn.Softmax(-1),
        )  # fmt: skip
    return nn.Sequential(*layers), torch.rand(2, 8, SIDE, SIDE, device=device)


class CallCost(NamedTuple):
    """What the host takes for one more call of an operator, and of how many gradients if it is one of autograd's."""

    cost: Estimate
    gradients: int


def measure_backward(device: str, found: Findings, known: Mapping[str, CallCost]) -> None:
    """What autograd costs the host, at its usual speed as in `measure_host`: forward and backward, less the forward.

    A graph that is kept would not do: it is not freed, and the thread of the backward has no time to go to sleep.

    `host.backward` at once, by a relu; `host.backward-gradient` for each tensor that a gradient is asked for, by a sum
    of many whose first or all are asked for. `host.backward-operator`, in relus, for each operator that costs as much:
    by a network, less what is known of its operators: `known`, which is kept as `host.<operator>`.
    """
    xs = [torch.rand(SIDE, SIDE, device=device, requires_grad=True) for _ in range(MANY)]
    model, image = network(device)
    weights = list(model.parameters())
    with torch.enable_grad():
        forward = partial(torch.relu, xs[0]), partial(reduce, torch.add, xs), partial(model, image)
        wanted = (0, xs[:1]), (1, xs[:1]), (1, xs), (2, weights)
        calls = [_both(forward[place], those) for place, those in wanted]
        for call in calls[:3]:
            part.close(call()[-1], torch.ones_like(xs[0]).double(), LIMIT, "the gradient of relus or sums")
        with CostMode() as counting:
            calls[3]()
        one, first, every, network_s, relu, ahead = at_usual_speed([*calls, forward[0], forward[2]], device, found)
    gradient, relu_s = (every - first) * (1 / (MANY - 1)), found.measured[REFERENCE_CALL].value
    measured = {name: cost - gradient * count for name, (cost, count) in known.items()}
    backward = [each for each in counting.operators if each.backward]
    those = [measured[name].median for name in map(own_name, backward) if name in measured]
    issued_s = operators_s([each for each in backward if own_name(each) not in measured], found)
    beyond = network_s - ahead - (one - relu) - gradient * (len(weights) - 1)
    alone = measured.get("aten.threshold_backward")  # without it the relu of `one` is an operator like the others
    known_s, others_s = (alone.median, issued_s) if alone else (0.0, issued_s - relu_s)
    operator = beyond.shifted(known_s - sum(those)) * (relu_s / others_s)
    costs = {"": one - relu - (alone or operator) - gradient, "-gradient": gradient, "-operator": operator}
    for name, cost in {**{f"backward{end}": cost for end, cost in costs.items()}, **measured}.items():
        if cost.median > 0:
            found.measured[f"host.{name}"] = Peak.time(cost, operator="torch.autograd.grad: a relu, a sum, a network")


def _both(forward: Callable[[], torch.Tensor], wanted: Sequence[torch.Tensor]) -> Callable[[], Any]:
    """Forward and backward."""
    return lambda: torch.autograd.grad(y := forward(), wanted, torch.ones_like(y))
