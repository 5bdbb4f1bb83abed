"""What issuing an operator costs the host, by class of operator, on tensors so small that nothing else counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import nn

from brrr.core.measurement import Estimate, median
from brrr.counting.cost import OperatorCost
from brrr.counting.mode import CostMode
from brrr.gpu import is_gpu, waiting
from brrr.roofline.calibrate import part
from brrr.roofline.calibrate.part import Findings, issue_estimates
from brrr.roofline.device_model import DeviceModel
from brrr.roofline.figures import REFERENCE, host_class, own_name
from brrr.roofline.peak import Peak

SIDE = 8
"""Tensors are SIDE x SIDE: no work worth the name, and nothing is on another path for being empty."""

PRODUCT_SIDE = 128
"""Products on a GPU are larger: up to 16 x 16 the library has a way of its own, which costs the host a quarter less."""

MANY = 17
"""So many tensors in a sum tell what autograd costs for each, and so many modules what Python costs."""

LIMIT = 1e-2
"""Relative error allowed of a result; TF32 or fast exponentials stay below, a wrong operator does not."""


@dataclass(frozen=True)
class Operator:
    """A class of operators: one of it as a call, what it must give, and how it is written."""

    name: str
    call: Callable[[], Any]
    expected: torch.Tensor
    written: str
    grad: bool = False
    side: int = SIDE


class Unchanged(nn.Module):
    """A module that does nothing, so that what is left is Python."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def normed(x: torch.Tensor) -> torch.Tensor:
    """Layer norm over the rows."""
    return nn.functional.layer_norm(x, (SIDE,))


def batch_normed(x: torch.Tensor) -> torch.Tensor:
    """Batch norm over the columns, as in training."""
    return nn.functional.batch_norm(x, None, None, training=True)


def operators(device: str) -> list[Operator]:
    """One operator of each class, on fresh random data, with its float64 result."""
    x, y = (torch.rand(SIDE, SIDE, device=device) + 0.5 for _ in range(2))
    ones, out, kept = torch.ones_like(x), torch.full_like(x, torch.nan), x.clone()
    with_grad = x.clone().requires_grad_()
    a, b = x.double(), y.double()
    return [
        *_products(device),
        Operator("pointwise", lambda: x + y, a + b, "x + y"),
        Operator("pointwise-grad", lambda: with_grad + y, a + b, "x + y, x requires a gradient", grad=True),
        Operator("in-place", lambda: kept.mul_(ones), a, "x.mul_(y)"),
        Operator("reduction", lambda: x.sum(), a.sum(), "x.sum()"),
        Operator("softmax", lambda: torch.softmax(x, -1), torch.softmax(a, -1), "softmax(x, -1)"),
        Operator("norm", lambda: normed(x), normed(a), "layer_norm(x)"),
        Operator("view", lambda: x.view(-1), a.view(-1), "x.view(-1)"),
        Operator("copy", lambda: out.copy_(x), a, "y.copy_(x)"),
        Operator("scalar", lambda: x * 0.99, a * 0.99, "x * 0.99"),
        Operator("in-place-scalar", lambda: kept.mul_(1.0), a, "x.mul_(1.0)"),
        Operator("relu", lambda: torch.relu(x), a.clamp(min=0), "relu(x)"),
        Operator("unary", lambda: x.tanh(), a.tanh(), "x.tanh()"),
        Operator("clone", lambda: x.clone(), a, "x.clone()"),
        Operator("reduction-rows", lambda: x.sum(-1, keepdim=True), a.sum(-1, keepdim=True), "x.sum(-1, keepdim=True)"),
        Operator("cast", lambda: x.to(torch.float64), a, "x.to(torch.float64)"),
        Operator("batch-norm", lambda: batch_normed(x), batch_normed(a), "batch_norm(x, training=True)"),
        Operator("view-shape", lambda: x.view(x.shape), a, "x.view(x.shape)"),
        *_larger(device),
    ]  # fmt: skip


def _products(device: str) -> list[Operator]:
    """The classes of matrix products."""
    side = PRODUCT_SIDE if is_gpu(device) else SIDE
    x, y = (torch.rand(side, side, device=device) + 0.5 for _ in range(2))
    a, b, row = x.double(), y.double(), y[0]
    added = a @ b + b[0]
    return [
        Operator("matmul", lambda: x @ y, a @ b, "x @ y", side=side),
        Operator("addmm", lambda: torch.addmm(row, x, y), added, "torch.addmm(row, x, y)", side=side),
    ]


def _larger(device: str) -> list[Operator]:
    """The classes of operators that take more than matrices of SIDE x SIDE: images, tables, heads of attention."""
    f, image = nn.functional, torch.rand(2, 8, SIDE, SIDE, device=device) + 0.5
    weight, table = torch.rand(8, 8, 3, 3, device=device), torch.rand(SIDE, SIDE, device=device)
    places = torch.arange(SIDE, device=device)
    heads, none = torch.rand(2, 2, SIDE, 16, device=device), torch.zeros_like(table)
    wide, deep, attended = image.double(), weight.double(), heads.double()
    return [
        Operator("convolution", lambda: f.conv2d(image, weight), f.conv2d(wide, deep), "conv2d(x, w)"),
        Operator("attention", lambda: f.scaled_dot_product_attention(heads, heads, heads),
                 f.scaled_dot_product_attention(attended, attended, attended), "scaled_dot_product_attention"),
        Operator("pooling", lambda: f.max_pool2d(image, 2), f.max_pool2d(wide, 2), "max_pool2d(x, 2)"),
        Operator("index", lambda: table.index_select(0, places), table.double(), "x.index_select(0, places)"),
        Operator("loss", lambda: f.nll_loss(table, places), -table.double().diag().mean(), "nll_loss(x, target)"),
        Operator("random", lambda: f.dropout(none, 0.5), none.double(), "dropout(x, 0.5)"),
        Operator("group-norm", lambda: f.group_norm(image, 2), f.group_norm(wide, 2), "group_norm(x, 2)"),
        Operator("cat", lambda: torch.cat([table, table]), torch.cat([table, table]).double(), "cat([x, y])"),
        Operator("pad", lambda: f.pad(table, (1, 1)), f.pad(table, (1, 1)).double(), "pad(x, (1, 1))"),
    ]  # fmt: skip


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
    modules = nn.Sequential(*(Unchanged() for _ in range(MANY)))
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
    return [cost * (found.measured[REFERENCE].value / beside.median) for cost in costs]


class Backward(NamedTuple):
    """What the host takes for one more backward of an operator, behind its forward; and of how many gradients."""

    cost: Estimate
    gradients: int


def measure_backward(device: str, found: Findings, known: Mapping[str, Backward] = MappingProxyType({})) -> None:
    """What autograd costs the host, at its usual speed as in `measure_host`: forward and backward, less the forward.

    A graph that is kept would not do: it is not freed, and the thread of the backward has no time to go to sleep.

    `host.backward` at once, by a relu; `host.backward-gradient` for each tensor that a gradient is asked for, by a sum
    of many whose first or all are asked for. `host.backward-operator`, in relus, for each operator that costs as much:
    by a network, less what is known of its operators. `known`, by operator, is kept as `host.<operator>`.
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
    gradient, relu_s = (every - first) * (1 / (MANY - 1)), found.measured[REFERENCE].value
    own = {name: cost - gradient * count for name, (cost, count) in known.items()}
    backward = [each for each in counting.operators if each.backward]
    those = [own[name].median for name in map(own_name, backward) if name in own]
    issued_s = operators_s([each for each in backward if own_name(each) not in own], found)
    beyond = network_s - ahead - (one - relu) - gradient * (len(weights) - 1)
    alone = own.get("aten.threshold_backward")
    if alone is None:  # the relu of `one` is an operator like the others
        operator = beyond.shifted(-sum(those)) * (relu_s / (issued_s - relu_s))
    else:
        operator = beyond.shifted(alone.median - sum(those)) * (relu_s / issued_s)
    costs = {"": one - relu - (alone or operator) - gradient, "-gradient": gradient, "-operator": operator}
    for name, cost in {**{f"backward{end}": cost for end, cost in costs.items()}, **own}.items():
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
        with torch.set_grad_enabled(each.grad):
            part.close(each.call().detach(), each.expected, LIMIT, each.written)
            pairs.append(issue_estimates([each.call, reference], waiting(device), seconds))
    usual_s = median([beside.median for _, beside in pairs])
    for each, (cost, beside) in zip(classes, pairs, strict=True):
        at_usual = cost * (usual_s / beside.median)
        found.measured[f"host.{each.name}"] = Peak.time(at_usual, operator=each.written, elements=each.side**2)


def _one_kernel(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + 1.0


def _several_kernels(x: torch.Tensor) -> torch.Tensor:
    """Sums along rows and columns by turns, which no compiler puts into one kernel."""
    for dim in (1, 0, 1, 0):
        x = torch.softmax(x, dim)
    return x


def measure_compiled(device: str, found: Findings) -> None:
    """The host's cost of calling what torch.compile made, in `host.compiled`, and of each further kernel of it.

    The second is `host.compiled-kernel`, and is measured on a GPU only: a CPU's kernels are the work itself.
    """
    x = torch.rand(SIDE, SIDE, device=device)
    one, _ = _compiled_cost(_one_kernel, x, device, found)
    found.measured["host.compiled"] = Peak.time(one, operator="torch.compile of relu(x) + 1", elements=SIDE * SIDE)
    if is_gpu(device):
        wide = torch.rand(PRODUCT_SIDE, PRODUCT_SIDE, device=device)  # sums over 8 are unrolled, and all become one
        more, kernels = _compiled_cost(_several_kernels, wide, device, found)
        _further_kernel(one, more, kernels, found)


def _compiled_cost(
    function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, device: str, found: Findings
) -> tuple[Estimate, int]:
    """The host's cost of a compiled function, checked first, and how many kernels were generated for it."""
    from torch._inductor import metrics

    metrics.reset()
    compiled = torch.compile(function)
    with torch.no_grad():
        part.close(compiled(x), function(x.double()), LIMIT, f"a compiled {function.__name__}")
        kernels, seconds = metrics.generated_kernel_count, min(0.25, found.left_s / 3)
        calls = [lambda: compiled(x), reference_call(device)]
        cost, beside = issue_estimates(calls, waiting(device), seconds)
        usual = found.measured.get(REFERENCE)
        return (cost if usual is None else cost * (usual.value / beside.median)), kernels


def _further_kernel(one: Estimate, more: Estimate, kernels: int, found: Findings) -> None:
    """What each kernel after the first adds; a note where the compiler made one kernel of all, or it cost nothing."""
    if kernels < 2 or more.median <= one.median:
        found.notes.append(f"host.compiled-kernel: left out: {kernels} kernels cost no more than one")
        return
    cost = Estimate.of([(more.median - one.median) / (kernels - 1)])
    what = f"torch.compile of 4 softmaxes by turns along rows and columns, {kernels} kernels, less one"
    found.measured["host.compiled-kernel"] = Peak.time(cost, operator=what, elements=PRODUCT_SIDE**2)
