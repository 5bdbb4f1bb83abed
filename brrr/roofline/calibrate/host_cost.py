"""What issuing an operator costs the host, by class of operator, on tensors so small that nothing else counts."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import nn

from brrr.core.measurement import Estimate, median
from brrr.core.private import keep_compiled_code_private
from brrr.counting.cost import OperatorCost
from brrr.counting.mode import CostMode
from brrr.gpu import is_gpu, waiting
from brrr.roofline.calibrate import part
from brrr.roofline.calibrate.part import Findings, issue_estimates
from brrr.roofline.device_model import REFERENCE_CALL, DeviceModel, like_the_reference
from brrr.roofline.figures import host_class, own_name
from brrr.roofline.peak import Peak

SIDE = 8
"""Tensors are SIDE x SIDE: no work worth the name, and nothing is on another path for being empty."""

PRODUCT_SIDE = 128
"""Products on a GPU are larger: up to 16 x 16 the library has a way of its own, which costs the host a quarter less."""

MANY = 17
"""So many tensors in a sum tell what autograd costs for each, and so many modules what Python costs."""

LIMIT = 1e-2
"""Relative error allowed of a result; TF32 or fast exponentials stay below, a wrong operator does not."""


class Operator(NamedTuple):
    """An operator of a class: its statement, it as a call, what that must give, and the elements of an operand."""

    name: str
    written: str
    call: Callable[[], torch.Tensor]
    expected: torch.Tensor
    elements: int


CLASSES: Mapping[str, str] = {
    "matmul": "a @ b", "addmm": "torch.addmm(row, a, b)", "pointwise": "x + y", "pointwise-grad": "with_gradient + y",
    "in-place": "kept.mul_(ones)", "reduction": "x.sum()", "softmax": "torch.softmax(x, -1)",
    "norm": f"f.layer_norm(x, ({SIDE},))", "view": "x.view(-1)", "copy": "out.copy_(x)", "scalar": "x * 0.99",
    "in-place-scalar": "kept.mul_(1.0)", "relu": "torch.relu(x)", "unary": "x.tanh()", "clone": "x.clone()",
    "reduction-rows": "x.sum(-1, keepdim=True)", "cast": "x.to(torch.float64)",
    "batch-norm": "f.batch_norm(x, None, None, training=True)", "view-shape": "x.view(x.shape)",
    "convolution": "f.conv2d(image, weight)", "attention": "f.scaled_dot_product_attention(heads, heads, heads)",
    "pooling": "f.max_pool2d(image, 2)", "index": "table.index_select(0, places)", "loss": "f.nll_loss(table, places)",
    "random": "f.dropout(zeros, 0.5)", "group-norm": "f.group_norm(image, 2)", "cat": "torch.cat([table, table])",
    "pad": "f.pad(table, (1, 1))",
}  # fmt: skip
"""One operator of each class, as a statement over `_tensors`, torch and its functional `f`."""


def operators(device: str) -> list[Operator]:
    """One operator of each class, on fresh random data, with its float64 result; compiled as `timeit` does."""
    tensors = _tensors(device)
    exact = {name: x.detach().double() if x.is_floating_point() else x for name, x in tensors.items()}
    found = []
    for name, written in CLASSES.items():
        names = {"torch": torch, "f": nn.functional}
        call, expected = (eval(f"lambda: {written}", {**names, **those}) for those in (tensors, exact))
        elements = tensors["a"].numel() if name in ("matmul", "addmm") else SIDE**2
        found.append(Operator(name, written, call, expected(), elements))
    return found


def _tensors(device: str) -> dict[str, torch.Tensor]:
    side = PRODUCT_SIDE if is_gpu(device) else SIDE
    shapes = {
        "a": (side, side), "b": (side, side), "row": (side,), "x": (SIDE, SIDE), "y": (SIDE, SIDE),
        "table": (SIDE, SIDE), "image": (2, 8, SIDE, SIDE), "weight": (8, 8, 3, 3), "heads": (2, 2, SIDE, 16),
    }  # fmt: skip
    random = {name: torch.rand(shape, device=device) + 0.5 for name, shape in shapes.items()}
    x, places = random["x"], torch.arange(SIDE, device=device)
    return {
        **random, "with_gradient": x.clone().requires_grad_(), "kept": x.clone(), "ones": torch.ones_like(x),
        "zeros": torch.zeros_like(x), "out": torch.full_like(x, torch.nan), "places": places,
    }  # fmt: skip


def network(device: str) -> tuple[nn.Module, torch.Tensor]:
    """A small network of the usual layers, and an image for it: for what autograd costs among others."""
    with torch.device(device):
        layers = (
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(256, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 128), nn.Softmax(-1),
        )  # fmt: skip
    return nn.Sequential(*layers), torch.rand(2, 8, SIDE, SIDE, device=device)


def measure_python(device: str, found: Findings) -> None:
    """`host.line`: what a line of Python costs, as torch's modules and optimizers are made of.

    Modules that call each other, and a step of Adam for two tensors, less its operators.
    """
    kept = [torch.rand(SIDE, SIDE, device=device) for _ in range(2)]
    for each in kept:
        each.grad = torch.ones_like(each)
    before, rate = kept[0].clone(), 1e-3
    modules = nn.Sequential(*(nn.Identity() for _ in range(MANY)))
    optimizer = torch.optim.Adam(kept, lr=rate, foreach=True)

    def call() -> None:
        modules(before)
        optimizer.step()

    call()
    part.close(before - kept[0], torch.full_like(before, rate), LIMIT, "the first step of Adam")
    with CostMode() as counting, counting.lines:
        call()
    (whole,) = at_usual_speed([call], device, found)
    python = whole - operators_s(counting.operators, found)
    if python.median > 0 and counting.lines.count:
        each_s = python * (1 / counting.lines.count)
        found.measured["host.line"] = Peak.time(each_s, operator="modules, and a step of Adam for 2 tensors")


def operators_s(operators: Sequence[OperatorCost], found: Findings) -> float:
    """Seconds that the host takes for the operators, by the figures of their classes."""
    model = DeviceModel("", "cpu", "", found.measured)
    return sum(model.value(f"host.{host_class(each, model)}") for each in operators if each.name != "aten.detach")


def at_usual_speed(
    calls: Sequence[Callable[[], Any]], device: str, found: Findings, each_s: float = 0.25
) -> list[Estimate]:
    """Seconds that the host takes for each call, at its usual speed: all by turns with a relu."""
    seconds = min(each_s * len(calls), found.left_s / 3)
    *costs, beside = issue_estimates([*calls, reference_call(device)], waiting(device), seconds)
    return [cost * (found.measured[REFERENCE_CALL].value / beside.median) for cost in costs]


class CallCost(NamedTuple):
    """What the host takes for one more call of an operator, and of how many gradients if it is one of autograd's."""

    cost: Estimate
    gradients: int


def measure_backward(device: str, found: Findings, known: Mapping[str, CallCost] = MappingProxyType({})) -> None:
    """What autograd costs the host, at its usual speed as in `measure_host`: forward and backward, less the forward.

    A graph that is kept would not do: it is not freed, and the thread of the backward has no time to go to sleep.

    `host.backward` at once, by a relu; `host.backward-gradient` for each tensor that a gradient is asked for, by a sum
    of many whose first or all are asked for. `host.backward-operator`, in relus, for each operator that costs as much:
    by a network, less what is known of its operators: `known`, which is kept as `host.<operator>`, or on a GPU what the
    reference tells.
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
    carried = like_the_reference(found.measured) if is_gpu(device) else {}
    own = {**{name.removeprefix("host."): Estimate.of([each.value]) for name, each in carried.items()}, **measured}
    backward = [each for each in counting.operators if each.backward]
    those = [own[name].median for name in map(own_name, backward) if name in own]
    issued_s = operators_s([each for each in backward if own_name(each) not in own], found)
    beyond = network_s - ahead - (one - relu) - gradient * (len(weights) - 1)
    alone = own.get("aten.threshold_backward")  # without it the relu of `one` is an operator like the others
    known_s, others_s = (alone.median, issued_s) if alone else (0.0, issued_s - relu_s)
    operator = beyond.shifted(known_s - sum(those)) * (relu_s / others_s)
    costs = {"": one - relu - (alone or operator) - gradient, "-gradient": gradient, "-operator": operator}
    for name, cost in {**{f"backward{end}": cost for end, cost in costs.items()}, **measured}.items():
        if cost.median > 0:
            found.measured[f"host.{name}"] = Peak.time(cost, operator="torch.autograd.grad: a relu, a sum, a network")


def _both(forward: Callable[[], torch.Tensor], wanted: Sequence[torch.Tensor]) -> Callable[[], Any]:
    """Forward and backward."""

    def call() -> Any:
        y = forward()
        return torch.autograd.grad(y, wanted, torch.ones_like(y))

    return call


def reference_call(device: str) -> Callable[[], Any]:
    """The call whose cost stands for the host's speed: `host.relu`."""
    x = torch.rand(SIDE, SIDE, device=device)
    return lambda: torch.relu(x)


def measure_host(device: str, found: Findings) -> None:
    """The host's cost of each class, in `host.<class>`, all at one speed of the host.

    A processor that others share is not equally fast all the time (an operator on an H200's virtual machine took 5 to
    8 µs within a second, and a loop in Python slowed down with it). So a relu is measured by turns with each class; the
    class counts as so many times a relu, and that many times the relu's median over all of them.
    """
    classes, reference = operators(device), reference_call(device)
    seconds = min(0.25, found.left_s / 3 / len(classes))
    pairs = []
    for each in classes:
        with torch.set_grad_enabled(each.name == "pointwise-grad"):
            part.close(each.call().detach(), each.expected, LIMIT, each.written)
            pairs.append(issue_estimates([each.call, reference], waiting(device), seconds))
    usual_s = median([beside.median for _, beside in pairs])
    for each, (cost, beside) in zip(classes, pairs, strict=True):
        at_usual = cost * (usual_s / beside.median)
        found.measured[f"host.{each.name}"] = Peak.time(at_usual, operator=each.written, elements=each.elements)


def _one_kernel(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + 1.0


def measure_compiled(found: Findings) -> None:
    """A CPU's cost of calling what torch.compile made, in `host.compiled`; a GPU's is the reference's."""
    keep_compiled_code_private()
    x, compiled = torch.rand(SIDE, SIDE), torch.compile(_one_kernel)
    with torch.no_grad():
        part.close(compiled(x), _one_kernel(x.double()), LIMIT, "a compiled relu(x) + 1")
        (cost,) = at_usual_speed([lambda: compiled(x)], "cpu", found)
    found.measured["host.compiled"] = Peak.time(cost, operator="torch.compile of relu(x) + 1", elements=SIDE * SIDE)
