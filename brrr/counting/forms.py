"""In which form an operator runs: along rows or columns, broadcast or strided. Bytes and FLOP do not tell, times do.

| form | what |
| --- | --- |
| `rows`, `columns`, `whole` | what it combines lies side by side, or a row apart, or is everything |
| `strided` | an operand lies in another order than the result |
| `broadcast` | an operand is smaller than the result |
| `scalar` | a Python number in place of the second tensor |
| `to-bfloat16` and so on | the result has another data type |
"""

from __future__ import annotations

import math

import torch

from brrr.counting.call import Call
from brrr.counting.cost import Form

_TWO = {"add", "sub", "mul", "div", "rsub", "pow", "maximum", "minimum"}
_ALONG = {"reduction", "softmax", "scan"}
_TRAILING = ("native_layer_norm", "_fused_rms_norm")


def form_of(call: Call, kind: str) -> Form:
    """The form of a call of an operator of this kind; the empty one where there is nothing to tell."""
    if kind in _ALONG and isinstance(call.args.get("self"), torch.Tensor):
        return _along(call.tensor("self"), call.args.get("dim"))
    if kind == "norm" and isinstance(call.args.get("input"), torch.Tensor):
        return _normed(call, call.tensor("input"))
    if kind in ("pointwise", "copy") and call.outputs:
        return _elementwise(call)
    return Form()


def _along(x: torch.Tensor, dim: object) -> Form:
    """A reduction over some dimensions: the last ones are rows, any others columns."""
    given = [dim] if isinstance(dim, int) else list(dim) if isinstance(dim, list | tuple) else []
    dims = sorted({each % max(x.dim(), 1) for each in given}) or list(range(x.dim()))
    length = math.prod(x.shape[each] for each in dims) if x.dim() else 1
    if len(dims) == x.dim():
        return Form("whole" if not given else "rows", 1, length)
    name = "rows" if dims == list(range(x.dim() - len(dims), x.dim())) else "columns"
    return Form(name, x.numel() // max(length, 1), length)


def _normed(call: Call, x: torch.Tensor) -> Form:
    name = call.name.removeprefix("aten.")
    if name in _TRAILING:
        length = math.prod(call.args["normalized_shape"])
        return Form("rows", x.numel() // max(length, 1), length)
    if name == "native_group_norm":
        lines = call.args["N"] * call.args["group"]
        return Form("rows", lines, x.numel() // max(lines, 1))
    if "batch_norm" in name and x.dim() > 1:
        return Form("columns", x.shape[1], x.numel() // max(x.shape[1], 1))
    return Form()


def _elementwise(call: Call) -> Form:
    out, name = call.output, call.name.removeprefix("aten.")
    taken = [tensor for _, tensor in call.each_argument()]
    length = out.shape[-1] if out.dim() else 1
    lines = out.numel() // max(length, 1)
    if any(1 < t.numel() < out.numel() for t in taken) and name != "cat":
        return Form("broadcast", lines, length)
    if any(t.shape == out.shape and t.stride() != out.stride() and out.dim() > 1 for t in taken):
        return Form("strided", lines, length)
    if name == "_to_copy" and taken and taken[0].dtype != out.dtype:
        return Form(f"to-{str(out.dtype).removeprefix('torch.')}", 1, out.numel())
    return Form("scalar" if name in _TWO and len(taken) == 1 else "", 1, out.numel())
