"""How many FLOP each torch operator counts.

| operators | FLOP |
| --- | --- |
| mm, bmm, mv, dot | 2mnk, batch by batch |
| addmm, baddbmm, linear | 2mnk, and mn for what is added; mn more for each of alpha and beta that is neither 0 nor 1 |
| convolution | 2 x outputs x (input channels of a group) x taps, and 1 per output for the bias |
| convolution, backward | the forward's products once for each gradient, of input and weight; the bias's is a sum |
| attention kernels | their two products, five in the backward; all of them where the mask is causal; no softmax |
| cuDNN's recurrent layers | their products and biases; per unit and step RNN 2, GRU 16, LSTM 22; backward unknown |
| add, sub, mul, div, sqrt, exp, sin, tanh, erf, max, compare, where, relu and their like | 1 per element |
| add with alpha other than 1 | 2 per element; addcmul and addcdiv 2, with a value other than 1: 3 |
| lerp 3, sigmoid and silu 4, gelu 5 (tanh form 9), softplus 6, clamp 1 per bound | per element, by formula |
| their backwards: relu 2, tanh and sigmoid 3, silu 9, gelu 11 (tanh form 18) | per element, by formula |
| sum, max, prod, argmax | n - 1 per result; mean n |
| var 4n, std 4n + 1, 2-norm 2n, logsumexp 4n | per result, in two passes |
| softmax 5n - 2, log_softmax 5n - 1, backward of both 4n - 1 | per row |
| layer, group and batch norm | 5n + 2 per group; n for the weight, n for the bias; 7 a channel for running statistics |
| the same, backward | 9n per group, n for the weight; its gradient 2n - 1, the bias's n - 1 for n summed elements |
| RMS norm | 3n + 2, n for the weight; backward 6n and n; the weight's gradient 2n - 1 |
| cumsum, cumprod | n - 1 per row |
| nll_loss 1, mse_loss 2 per element; their mean n, their sum n - 1 more | by formula |
| max pooling window - 1, average pooling window | per output |
| scatter_add, index_add, embedding's backward | 1 per element added |
| copies, casts, fills, padding, indexing | 0 |
| random numbers | 0, and named in `Cost.random`; dropout 2 per element for mask and scale |
| elementwise and reducing operators on whole numbers and booleans | 0: they are no floating-point operations |
| anything else, and all complex arithmetic | unknown, and named in `Cost.unknown` |

The counts follow formulas as a textbook writes them, not one library's code: two kernels for one formula cost alike.
Matrix products, convolutions and attention agree with `torch.utils.flop_counter` but for the added bias, and for the
weight gradient of a grouped convolution, which that counts once for each group too often.
"""

from __future__ import annotations

from functools import cache

import torch

from brrr.counting.call import Call
from brrr.counting.cost import Matmul
from brrr.counting.formula import Formula
from brrr.counting.movement import movement
from brrr.counting.norms import losses, norms
from brrr.counting.pointwise import pointwise
from brrr.counting.products import products
from brrr.counting.recurrent import recurrent
from brrr.counting.reductions import reductions

_ON_REALS = {"pointwise", "reduction", "scan", "softmax", "pooling", "index"}


@cache
def formulas() -> dict[str, Formula]:
    """Every operator that is known, by name."""
    return {**pointwise(), **reductions(), **norms(), **losses(), **movement(), **products(), **recurrent()}


def counted(call: Call) -> tuple[str, float | None, tuple[Matmul, ...]]:
    """The kind, the FLOP (None: unknown) and the matrix products of a call."""
    formula = formulas().get(call.name)
    if formula is None:
        return "unknown", None, ()
    tensors = call.all_tensors()
    if formula.kind in _ON_REALS and not any(t.is_floating_point() or t.is_complex() for t in tensors):
        return formula.kind, 0.0, ()
    flop = formula.flop(call)
    if flop and any(t.is_complex() for t in tensors):
        return formula.kind, None, ()
    return formula.kind, flop, formula.matmuls(call)


def dtype_of(call: Call) -> str:
    """The type that a call computes in: its first floating-point tensor's, else its first tensor's."""
    tensors = call.all_tensors()
    found = next((t for t in tensors if t.is_floating_point() or t.is_complex()), next(iter(tensors), None))
    return str(found.dtype if found is not None else torch.float32).removeprefix("torch.")
