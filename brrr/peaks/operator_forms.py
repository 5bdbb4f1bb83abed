"""The operators of a calibration's sweep: each as a call on a matrix, with a second one beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.nn import functional

Tensor = torch.Tensor
Run = Callable[[Tensor, Tensor], Tensor]

MANY, FEW = 30, 12
"""Sizes of each data type: of operators along rows or columns, whose time depends on both; and of the others."""
SLOW_BYTES = 64e6
"""A softmax over columns, and a sum that runs along, take milliseconds for so much."""

ELEMENTWISE: Mapping[str, Run] = {
    "relu": lambda x, y: torch.relu(x),
    "exp": lambda x, y: x.exp(),
    "cos": lambda x, y: x.cos(),
    "tanh": lambda x, y: x.tanh(),
    "sigmoid": lambda x, y: x.sigmoid(),
    "gelu": lambda x, y: functional.gelu(x),
    "silu": lambda x, y: functional.silu(x),
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "add a number": lambda x, y: x + 1.5,
    "multiply by a number": lambda x, y: x * 1.25,
    "clamp": lambda x, y: x.clamp(-1, 1),
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "compare": lambda x, y: x > y,
    "choose": lambda x, y: torch.where(y > 0, x, y),
    "copy": lambda x, y: x.clone(),
    "to bfloat16": lambda x, y: x.to(torch.bfloat16),
    "to float32": lambda x, y: x.to(torch.float32),
    "to float64": lambda x, y: x.to(torch.float64),
    "concatenate": lambda x, y: torch.cat([x, y]),
}
"""One element after the other: only their number counts."""

BY_LINES: Mapping[str, Run] = {
    "add a row": lambda x, y: x + y[0],
    "add a column": lambda x, y: x + y[:, :1],
    "transpose": lambda x, y: x.t().contiguous(),
    "sum": lambda x, y: x.sum(),
    "sum of rows": lambda x, y: x.sum(-1),
    "sum of columns": lambda x, y: x.sum(0),
    "mean of rows": lambda x, y: x.mean(-1),
    "greatest of rows": lambda x, y: x.amax(-1),
    "greatest of rows, and where": lambda x, y: x.max(-1)[0],
    "where in rows": lambda x, y: x.argmax(-1),
    "variance of rows": lambda x, y: x.var(-1),
    "deviation of rows": lambda x, y: x.std(-1),
    "norm": lambda x, y: torch.linalg.vector_norm(x),
    "layer norm": lambda x, y: functional.layer_norm(x, x.shape[-1:]),
    "RMS norm": lambda x, y: functional.rms_norm(x, x.shape[-1:], eps=1e-5),
    "batch norm": lambda x, y: functional.batch_norm(x, None, None, training=True),
    "group norm": lambda x, y: functional.group_norm(x, 1),
    "softmax": lambda x, y: x.softmax(-1),
    "log softmax": lambda x, y: x.log_softmax(-1),
    "softmax of columns": lambda x, y: x.softmax(0),
    "running sum of rows": lambda x, y: x.cumsum(-1),
}
"""Along rows or columns: how many there are counts, and how long they are."""

SLOW = {"softmax of columns": SLOW_BYTES, "running sum of rows": SLOW_BYTES}
"""The largest of these in bytes."""


def operators() -> Mapping[str, Run]:
    """All of them."""
    return {**ELEMENTWISE, **BY_LINES}


def place_is_right(found: Tensor, x: Tensor) -> bool:
    """Whether at each place found stands the greatest of its row: of several alike, any may be found."""
    return bool((x.gather(-1, found[:, None])[:, 0] == x.amax(-1)).all())


def dropped_is_right(found: Tensor, x: Tensor) -> bool:
    """Whether a dropout of a half gives zeros and doubles, and both of them."""
    kept = found != 0
    return bool((found[kept] == 2 * x[kept]).all() and (kept.any() or kept.numel() < 64))
