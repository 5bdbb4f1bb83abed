"""What issuing an operator costs the host, by class of operator, on tensors so small that nothing else counts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from brrr.core.measurement import Estimate, median
from brrr.core.private import keep_compiled_code_private
from brrr.counting.cost import OperatorCost
from brrr.counting.mode import CostMode
from brrr.gpu import is_gpu, tensors_on, waiting
from brrr.roofline.calibrate import part
from brrr.roofline.calibrate.part import Findings, issue_estimates
from brrr.roofline.device_model import REFERENCE_CALL, DeviceModel
from brrr.roofline.figures import host_class
from brrr.roofline.peak import Peak

SIDE = 8
"""Tensors are SIDE x SIDE: no work worth the name, and nothing is on another path for being empty."""

PRODUCT_SIDE = 128
"""Products on a GPU are larger: up to 16 x 16 the library has a way of its own, which costs the host a quarter less."""

MANY = 17
"""So many modules tell what Python costs."""

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
    exact = {name: part.double(x.detach()) if x.is_floating_point() else x for name, x in tensors.items()}
    exact["places"] = exact["places"].to(exact["x"].device)
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
    place = tensors_on(device)
    random = {name: torch.rand(shape, device=place) + 0.5 for name, shape in shapes.items()}
    x, places = random["x"], torch.arange(SIDE, device=place)
    return {
        **random, "with_gradient": x.clone().requires_grad_(), "kept": x.clone(), "ones": torch.ones_like(x),
        "zeros": torch.zeros_like(x), "out": torch.full_like(x, torch.nan), "places": places,
    }  # fmt: skip


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


def reference_call(device: str) -> Callable[[], Any]:
    """The call whose cost stands for the host's speed: `host.relu`."""
    x = torch.rand(SIDE, SIDE, device=tensors_on(device))
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
