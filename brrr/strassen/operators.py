"""`matmul` and chains of layers as operators of torch, for torch.compile and torch.export, which cannot look into them.

>>> compiled = torch.compile(lambda a, b: matmul(a, b).relu(), backend="aot_eager", fullgraph=True)
>>> compiled(torch.ones(2, 3), torch.ones(3, 2))
tensor([[3., 3.],
        [3., 3.]])

Eager calls go past them: an operator written in Python costs the host several times what the rest of a short call does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from brrr.strassen.layers import Layer, Limits
from brrr.strassen.multiply import matmul

if TYPE_CHECKING:
    from brrr.strassen.network import _Runner

# torch reads the operators' signatures, so their annotations are no strings.
_Biases = Sequence[Tensor | None]


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def packed(options: dict[str, Any]) -> str:
    """What is asked of a product, as `matmul` takes it, in one string: operators take no dictionaries.

    >>> packed({"accuracy": 1e-5, "level": None, "inner": ("sgemm", "fp16x3")})
    '{"accuracy": 1e-05, "inner": ["sgemm", "fp16x3"]}'
    """
    return json.dumps({name: value for name, value in options.items() if value is not None})


def _product(a: Tensor, b: Tensor, options: str) -> Tensor:
    with torch.no_grad():
        return matmul(a, b, **json.loads(options))


def _product_shape(a: Tensor, b: Tensor, options: str) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


def _keep_operands(ctx: Any, inputs: tuple[Tensor, Tensor, str], output: Tensor) -> None:
    a, b, ctx.options = inputs
    ctx.save_for_backward(a, b)


def _product_gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    a, b = ctx.saved_tensors
    left = product(gradient, b.t(), ctx.options) if ctx.needs_input_grad[0] else None
    right = product(a.t(), gradient, ctx.options) if ctx.needs_input_grad[1] else None
    return left, right, None


product: Any = torch.library.custom_op(
    "brrr::matmul", _product, mutates_args=(), schema="(Tensor a, Tensor b, str options) -> Tensor"
)
"""a (m, k) @ b (k, n) -> (m, n), by `matmul` with the options of `packed`."""
product.register_fake(_product_shape)
product.register_autograd(_product_gradients, setup_context=_keep_operands)

_NUMBERS = count()
_RUNNERS: WeakValueDictionary[int, _Runner] = WeakValueDictionary()


def number_of(runner: _Runner) -> int:
    """The number by which an operator finds what a module keeps: its weights made ready, its plans."""
    number = next(_NUMBERS)
    _RUNNERS[number] = runner
    return number


def _chain(x: Tensor, weights: Sequence[Tensor], biases: _Biases, relus: str, options: str, number: int) -> Tensor:
    from brrr.strassen.network import _Runner

    layers = tuple(Layer(w, b, relu == "1") for w, b, relu in zip(weights, biases, relus, strict=True))
    runner = _RUNNERS.get(number) or _Runner(Limits(**json.loads(options)))
    with torch.no_grad():
        made = runner(layers, x)
        for layer in layers if made is None else ():
            x = layer.plain(x)
    return x if made is None else made


def _chain_shape(
    x: Tensor, weights: Sequence[Tensor], biases: _Biases, relus: str, options: str, number: int
) -> Tensor:
    return x.new_empty(*x.shape[:-1], weights[-1].shape[0])


chain: Any = torch.library.custom_op(
    "brrr::layers", _chain, mutates_args=(),
    schema="(Tensor x, Tensor[] weights, Tensor?[] biases, str relus, str options, int number) -> Tensor",
)  # fmt: skip
"""x (..., k) through Linear layers, with ReLU where `relus` has a 1, without gradients."""
chain.register_fake(_chain_shape)


def traced(layers: Sequence[Layer], x: Tensor, options: str, number: int) -> Tensor:
    """The layers inside a traced function: one operator, or, where gradients are wanted, a product for each."""
    learning = [each for layer in layers for each in (layer.weight, layer.bias) if each is not None]
    if not torch.is_grad_enabled() or not any(each.requires_grad for each in (x, *learning)):
        relus = "".join("01"[layer.relu] for layer in layers)
        weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
        result: Tensor = chain(x, weights, biases, relus, options, number)
        return result
    shape, x = x.shape[:-1], x.reshape(-1, x.shape[-1])
    for layer in layers:
        x = product(x, layer.weight.t(), options)
        x = x if layer.bias is None else x + layer.bias
        x = torch.relu(x) if layer.relu else x
    return x.reshape(*shape, x.shape[-1])
