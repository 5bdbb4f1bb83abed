"""Layers by torch's own operators, as fast as it has them: one call with bias and ReLU in the product.

>>> linear(torch.ones(3, 8), Layer(torch.ones(2, 8), torch.tensor([1.0, -10.0])))[0]
tensor([9., 0.])

`torch._addmm_activation` goes to cuBLASLt, which adds the bias and takes ReLU before it writes the product. torch asks
it for at least 2 rows and 2 columns; for fewer the same call takes the kernels of Linear and ReLU. Where cuBLASLt's
first choice of kernel is a slow one, `fastest_layer` has another way.
"""

from __future__ import annotations

import torch

from brrr.strassen.blocks import float32_on
from brrr.strassen.layers import Layer
from brrr.strassen.requests import PLAIN
from brrr.strassen.ways import Way


def one_call(way: Way, operand: str) -> bool:
    """Whether a way on operands of a type is what torch has an operator for, bias and ReLU with it.

    >>> one_call(Way("sgemm"), "float32"), one_call(Way("tf32"), "float32"), one_call(Way("ffma"), "float32")
    (True, True, False)
    """
    return way.classical and (way.inner == PLAIN[operand] or (way.inner, operand) == ("tf32", "float32"))


def linear(x: torch.Tensor, layer: Layer, out: torch.Tensor | None = None, *, tf32: bool = False) -> torch.Tensor:
    """A layer by torch, into `out` or a new tensor, whatever torch's switch for TF32 says; without a bias two calls."""
    weight = layer.weight.t()
    with float32_on(x, tf32):
        if layer.bias is None:
            y = torch.mm(x, weight, out=out)
            return y.relu_() if layer.relu else y
        multiply = torch._addmm_activation if layer.relu else torch.addmm
        return multiply(layer.bias, x, weight, out=out)


def activate(out: torch.Tensor, bias: torch.Tensor | None, relu: bool) -> None:
    """Bias and ReLU in place.

    >>> y = torch.tensor([[-1.0, 1.0]])
    >>> activate(y, torch.tensor([0.5, 0.5]), relu=True)
    >>> y
    tensor([[0.0000, 1.5000]])
    """
    if bias is not None:
        out.add_(bias)
    if relu:
        out.relu_()
