"""What issuing an operator costs the host, by class of operator, on tensors so small that nothing else counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import torch
from torch import nn

from brrr.core.measurement import Estimate, median
from brrr.gpu import is_gpu, waiting
from brrr.roofline.calibrate import part
from brrr.roofline.calibrate.part import Findings, issue_estimates
from brrr.roofline.figures import REFERENCE
from brrr.roofline.peak import Peak

SIDE = 8
"""Tensors are SIDE x SIDE: no work worth the name, and nothing is on another path for being empty."""

PRODUCT_SIDE = 128
"""Products on a GPU are larger: up to 16 x 16 the library has a way of its own, which costs the host a quarter less."""

MANY = 17
"""So many relus in a chain, and tensors in a sum, tell what autograd costs for each."""

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
    """A module that does nothing, so that what is left is the cost of calling a module."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def normed(x: torch.Tensor) -> torch.Tensor:
    """Layer norm over the rows."""
    return nn.functional.layer_norm(x, (SIDE,))


def batch_normed(x: torch.Tensor) -> torch.Tensor:
    """Batch norm over the columns, as in training."""
    return nn.functional.batch_norm(x, None, None, training=True)


def rms_normed(x: torch.Tensor) -> torch.Tensor:
    """RMS norm over the rows."""
    return nn.functional.rms_norm(x, (SIDE,), eps=1e-5)


def operators(device: str) -> list[Operator]:
    """One operator of each class, on fresh random data, with its float64 result."""
    x, y = (torch.rand(SIDE, SIDE, device=device) + 0.5 for _ in range(2))
    ones, out, kept = torch.ones_like(x), torch.full_like(x, torch.nan), x.clone()
    with_grad = x.clone().requires_grad_()
    unchanged, a, b = Unchanged(), x.double(), y.double()
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
        Operator("rms-norm", lambda: rms_normed(x), rms_normed(a), "rms_norm(x)"),
        Operator("transpose", lambda: x.t(), a.T, "x.t()"),
        Operator("view-shape", lambda: x.view(x.shape), a, "x.view(x.shape)"),
        *_larger(device),
        Operator("module", lambda: unchanged(x), a, "a module whose forward returns x"),
    ]  # fmt: skip


def _products(device: str) -> list[Operator]:
    """The classes of matrix products."""
    side = PRODUCT_SIDE if is_gpu(device) else SIDE
    x, y = (torch.rand(side, side, device=device) + 0.5 for _ in range(2))
    linear = nn.Linear(side, side, bias=False, device=device)
    with torch.no_grad():
        linear.weight.copy_(y)
    a, b, row = x.double(), y.double(), y[0]
    added = a @ b + b[0]
    return [
        Operator("matmul", lambda: x @ y, a @ b, "x @ y", side=side),
        Operator("addmm", lambda: torch.addmm(row, x, y), added, "torch.addmm(row, x, y)", side=side),
        Operator("linear", lambda: linear(x), a @ b.T, "nn.Linear without bias", side=side),
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


def measure_backward(device: str, found: Findings) -> None:
    """What autograd costs the host, on graphs that are kept, with a relu by turns as in `measure_host`.

    `host.backward-operator` for each operator, by chains of one relu and of many; `host.backward-gradient` for each
    tensor that a gradient is asked for, by a sum of many whose first or all are asked for; `host.backward` at once.
    """
    xs = [torch.rand(SIDE, SIDE, device=device, requires_grad=True) for _ in range(MANY)]
    with torch.enable_grad():
        relu, added = torch.relu(xs[0]), reduce(torch.add, xs)
        relus = reduce(lambda y, _: torch.relu(y), range(MANY), xs[0])
    asked = ((relu, xs[:1]), (relus, xs[:1]), (added, xs[:1]), (added, xs))
    one, chain, first, every = (_gradient_cost(y, wanted, found) for y, wanted in asked)
    operator, gradient = (chain - one) * (1 / (MANY - 1)), (every - first) * (1 / (MANY - 1))
    for name, cost in (("-operator", operator), ("-gradient", gradient), ("", one - operator - gradient)):
        if cost.median > 0:
            found.measured[f"host.backward{name}"] = Peak.time(cost, operator="torch.autograd.grad of relus and sums")


def _gradient_cost(y: torch.Tensor, wanted: Sequence[torch.Tensor], found: Findings) -> Estimate:
    """Seconds that the host takes for the gradients of relus or sums of positive numbers, at its usual speed."""
    device, above = y.device.type, torch.ones_like(y)
    call = partial(torch.autograd.grad, y, wanted, above, retain_graph=True)
    part.close(call()[-1], above.double(), LIMIT, "the gradient of relus or sums")
    seconds = min(0.25, found.left_s / 6)
    cost, beside = issue_estimates([call, reference_call(device)], waiting(device), seconds)
    return cost * (found.measured[REFERENCE].value / beside.median)


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
