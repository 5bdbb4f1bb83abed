"""A chain's training step: the forward pass keeps each layer's output, the backward pass multiplies in the same ways.

>>> chain = (Layer(torch.randn(8, 8, requires_grad=True), torch.randn(8, requires_grad=True)),)
>>> y = trained(chain, torch.randn(4, 8), [Way("sgemm", 1, "strassen")], Wish())
>>> y.sum().backward()
>>> chain[0].weight.grad.shape
torch.Size([8, 8])

Of a layer y = relu(x w^T + b) with the gradient g of y: where y is 0 g counts for nothing; then that of x is g w, that
of w is g^T x, that of b the sum of g's rows. y is a secondary output of the pass that makes the next layer's factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from brrr.strassen.execution import prepare_right
from brrr.strassen.layers import Chain, Layer
from brrr.strassen.multiply import matmul
from brrr.strassen.operands import Right
from brrr.strassen.planning import Wish
from brrr.strassen.running import ChainRun
from brrr.strassen.ways import Way


def trained(chain: Chain, x: torch.Tensor, ways: Sequence[Way], wish: Wish) -> torch.Tensor:
    """The chain's result for x, (rows, k), through which gradients flow to x, weights and biases."""
    relus = tuple(layer.relu for layer in chain)
    tensors = [tensor for layer in chain for tensor in (layer.weight, layer.bias)]
    made = _Trained.apply(x, tuple(ways), wish, relus, *tensors)  # type: ignore[no-untyped-call]
    result: torch.Tensor = made
    return result


class _Trained(torch.autograd.Function):
    """All layers as one function of x, weights and biases."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, ways: tuple[Way, ...], wish: Wish, relus: tuple[bool, ...],
        *tensors: torch.Tensor | None,
    ) -> torch.Tensor:  # fmt: skip
        chain = _chain(tensors, relus)
        outputs = [x.new_empty(x.shape[0], layer.n) for layer in chain]
        pairs = zip(chain, ways, strict=True)
        rights = [prepare_right(Right(layer.weight, True), way, once=False) for layer, way in pairs]
        ChainRun(chain, ways, rights, x, kept=outputs)(x, outputs[-1])
        ctx.save_for_backward(x, *outputs, *tensors)
        ctx.wish, ctx.relus = wish, relus
        return outputs[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        count = len(ctx.relus)
        x, *rest = ctx.saved_tensors
        outputs, tensors = rest[:count], rest[count:]
        inputs, options = [x, *outputs[:-1]], ctx.wish.options
        found: list[torch.Tensor | None] = []
        for place in reversed(range(count)):
            weight, bias = tensors[2 * place], tensors[2 * place + 1]
            wanted = ctx.needs_input_grad[4 + 2 * place], ctx.needs_input_grad[5 + 2 * place]
            if ctx.relus[place]:
                gradient = torch.where(outputs[place] > 0, gradient, 0)
            of_bias = gradient.sum(0) if bias is not None and wanted[1] else None
            of_weight = matmul(gradient.t(), inputs[place], **options) if wanted[0] else None
            found = [of_weight, of_bias, *found]
            if any(ctx.needs_input_grad[4 : 4 + 2 * place]) or ctx.needs_input_grad[0]:
                gradient = matmul(gradient, weight, **options)
        return (gradient if ctx.needs_input_grad[0] else None, None, None, None, *found)


def _chain(tensors: Sequence[torch.Tensor | None], relus: Sequence[bool]) -> Chain:
    """Weights and biases in turn, as layers."""
    pairs = zip(tensors[::2], tensors[1::2], relus, strict=True)
    return tuple(Layer(weight, bias, relu) for weight, bias, relu in pairs if weight is not None)
