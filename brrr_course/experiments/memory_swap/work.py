"""What the `memory_swap` experiment runs: a call by its name, as `layer_norm 15351x984 float32`; sizes and data type.

They are the calls of the same names in the recordings `prediction`, `operators` and `operators_drawn` of the H200.
"""

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.counting.tracing import cost
from brrr.gpu import waiting
from brrr_course.experiments.checked import refuse_too_large
from brrr_course.nouns.experiment import Variant, Workload

Sizes = tuple[int, ...]
TOLERANCE = {"cast": 2e-2, torch.float32: 1e-4, torch.bfloat16: 2e-2}
"""By the result: a cast of float32 is one of bfloat16. Products in TF32 (3e-4) would be found out."""

RUN: Mapping[str, Callable[..., Any]] = {
    "copy": torch.clone, "gelu": F.gelu, "exp": torch.exp, "tanh": torch.tanh, "scale": lambda x: x * 1.25,
    "cast": lambda x: x.to(torch.bfloat16), "add": torch.add, "norm": torch.linalg.vector_norm,
    "transpose": lambda x: x.t().contiguous(), "cat": lambda *parts: torch.cat(parts, 1),
    "rms_norm": lambda x, w: F.rms_norm(x, x.shape[-1:], w), "cumsum": lambda x: x.cumsum(-1),
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), "sort": lambda x: x.sort(-1),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True), "softmax": lambda x: x.softmax(-1),
    "softmax_rows": lambda x: x.softmax(-1), "softmax_columns": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(-1), "embedding": lambda x, at: F.embedding(at, x),
    "index_select": lambda x, at: x.index_select(0, at), "index_add": lambda x, at, y: x.index_add(0, at, y),
    "cross_entropy": F.cross_entropy, "attention": F.scaled_dot_product_attention,
    "attention_causal": partial(F.scaled_dot_product_attention, is_causal=True),
    "conv3x3_channels_last": lambda x, w, b: F.conv2d(x, w, b, padding=1), "mm": torch.mm, "matmul nn": torch.matmul,
    "matmul nt": F.linear,
}  # fmt: skip
INPUTS: Mapping[str, Callable[..., tuple[Sizes, ...]]] = {
    "add": lambda *size: (size,) * 2, "cat": lambda *size: (size,) * 3, "rms_norm": lambda r, c: ((r, c), (c,)),
    "layer_norm": lambda r, c: ((r, c), (c,), (c,)), "embedding": lambda n, c, count: ((n, c), (count,)),
    "index_select": lambda n, c, count: ((n, c), (count,)), "cross_entropy": lambda r, c: ((r, c), (r,)),
    "index_add": lambda n, c, count: ((n, c), (count,), (count, c)), "attention": lambda *size: (size,) * 3,
    "attention_causal": lambda *size: (size,) * 3, "mm": lambda m, n, k: ((m, k), (k, n)),
    "conv3x3_channels_last": lambda n, c, h, w, out: ((n, c, h, w), (out, c, 3, 3), (out,)),
    "matmul nn": lambda *size: ((*size[:-2], size[-1]), (*size[:-3], size[-1], size[-2])),
    "matmul nt": lambda m, n, k: ((m, k), (n, k)), "adam": lambda count, width: ((width, width), (width,)) * count,
}  # fmt: skip
"""The inputs' shapes by the sizes; where nothing is said, one array of these."""
PLACES = {"embedding": 0, "index_select": 0, "index_add": 0, "cross_entropy": 1}
"""Whose second input are whole numbers below which of its sizes; all others are normal numbers."""


class Call(NamedTuple):
    """What is called, in which sizes and of which data type."""

    operator: str
    sizes: Sizes
    dtype: torch.dtype


def read(name: str) -> Call:
    """The call of a name.

    >>> read("matmul 44 of 1x768x768 bfloat16 nn")
    Call(operator='matmul nn', sizes=(44, 1, 768, 768), dtype=torch.bfloat16)
    """
    operator, several, size, dtype, layout = re.findall(r"(\w+) (?:(\d+) of )?([\dx]+) (\w+) ?(\w*)", name)[0]
    sizes = tuple(map(int, filter(None, (several, *size.split("x")))))
    return Call(f"{operator} {layout}".strip(), sizes, getattr(torch, dtype))


def made(call: Call, device: str, draw: Callable[..., torch.Tensor] = torch.randn) -> list[torch.Tensor]:
    """The inputs of a call, the same numbers each time."""
    torch.manual_seed(0)
    shapes = INPUTS[call.operator](*call.sizes) if call.operator in INPUTS else (call.sizes,)
    found = [draw(shape, dtype=call.dtype, device=device) for shape in shapes]
    if call.operator in PLACES:
        found[1] = torch.randint(call.sizes[PLACES[call.operator]], shapes[1], device=device)
    if call.operator.startswith("conv"):
        found[1] /= math.sqrt(math.prod(shapes[1][1:]))  # so that the result keeps its size
        found[:2] = [each.contiguous(memory_format=torch.channels_last) for each in found[:2]]
    return found


def adam(*parameters: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
    """A step of Adam, all parameters at once; its state is there from the first on, and no part of the call."""
    optimizer = torch.optim.Adam(parameters, lr=1e-2, foreach=True)
    for each in parameters:
        each.grad = each.detach() / 3
    optimizer.step()
    return lambda: optimizer.step() or list(parameters)


def prepared(call: Call, inputs: list[torch.Tensor]) -> Callable[[], Any]:
    """What is timed."""
    return adam(*inputs) if call.operator == "adam" else partial(RUN[call.operator], *inputs)


@lru_cache(maxsize=64)
def cost_of(name: str) -> Cost:
    """FLOP and bytes of a call, operator by operator, as `brrr.cost` counts them; nothing runs.

    >>> cost_of("add 1024x1024 float32").bytes
    12582912.0
    """
    call = read(name)
    if call.operator == "adam":  # the first step is taken, for the state
        return cost(adam(*made(call, "cpu")))
    return cost(RUN[call.operator], *made(call, "cpu", torch.empty))


def workload(variant: Variant, point: Point) -> Workload:
    """The call on random numbers, its result held against the same call in float64."""
    call, device, amounts = read(str(point["call"])), variant.processor, cost_of(str(point["call"]))
    refuse_too_large(int(2 * amounts.bytes), device, str(point["call"]))
    run, tolerance = prepared(call, made(call, device)), TOLERANCE.get(call.operator, TOLERANCE[call.dtype])
    return Workload(run, amounts, partial(error_of, call, device), tolerance, synchronize=waiting(device))


def error_of(call: Call, device: str, found: Any) -> float:
    """The worst ||found - reference|| / ||reference||; NaN where one is not finite, or of another shape.

    The reference is the same call in float64 on the same numbers. Adam's result depends on the steps before: of it, a
    fresh one is compared.
    """
    inputs = made(call, device)
    wide = [each.double() if each.is_floating_point() else each for each in inputs]
    given = _floating(prepared(call, inputs)() if call.operator == "adam" else found)
    expected = _floating(prepared(call, wide)())
    if [each.shape for each in given] != [each.shape for each in expected]:
        return math.nan
    pairs = zip(given, expected, strict=True)
    return float(torch.stack([(one.double() - other).norm() / other.norm() for one, other in pairs]).max())


def _floating(found: Any) -> list[torch.Tensor]:
    """The tensors of a result that are no places."""
    return [each for each in ([found] if isinstance(found, torch.Tensor) else found) if each.is_floating_point()]
