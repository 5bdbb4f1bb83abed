"""Layers by torch's own operators, as fast as it has them: one call with bias and ReLU in the product.

>>> layers = (Layer(torch.ones(4, 8), torch.ones(4)), Layer(torch.ones(2, 4), None, relu=False))
>>> by_torch(layers, torch.ones(3, 8), [Way("sgemm")] * 2)[0]
tensor([36., 36.])

`torch._addmm_activation` goes to cuBLASLt, whose choice for few rows is better than cuBLAS's, and which adds the bias
and takes ReLU before it writes the product. torch asks it for at least 2 rows and 2 columns; for fewer the same call
takes the kernels of Linear and ReLU.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from brrr.strassen.blocks import float32_on
from brrr.strassen.layers import Chain, Layer
from brrr.strassen.requests import PLAIN
from brrr.strassen.ways import Way


def one_call(way: Way, operand: str) -> bool:
    """Whether a way on operands of a type is what torch has an operator for, bias and ReLU with it.

    >>> one_call(Way("sgemm"), "float32"), one_call(Way("tf32"), "float32"), one_call(Way("ffma"), "float32")
    (True, True, False)
    """
    return way.classical and (way.inner == PLAIN[operand] or (way.inner, operand) == ("tf32", "float32"))


def by_torch(chain: Chain, x: torch.Tensor, ways: Sequence[Way]) -> torch.Tensor:
    """The chain's result for x, (rows, k), each layer one call; `ways` say which are multiplied in TF32.

    Results between layers are torch's to place: its allocator takes no time on the GPU, and inside a captured graph
    they belong to that graph.
    """
    y = x
    for layer, way in zip(chain, ways, strict=True):
        y = linear(y, layer, tf32=way.inner == "tf32")
    return y


def linear(x: torch.Tensor, layer: Layer, out: torch.Tensor | None = None, *, tf32: bool = False) -> torch.Tensor:
    """A layer by torch, into `out` or a new tensor, whatever torch's switch for TF32 says; without a bias two calls."""
    weight = layer.weight.t()
    with float32_on(x, tf32):
        if layer.bias is None:
            y = torch.mm(x, weight, out=out)
            return y.relu_() if layer.relu else y
        multiply = torch._addmm_activation if layer.relu else torch.addmm
        return multiply(layer.bias, x, weight, out=out)
