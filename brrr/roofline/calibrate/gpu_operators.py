"""The sweep of operators: reductions, norms, softmax, casts, broadcasts and the rest, by number and length of lines."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from brrr.counting.mode import CostMode
from brrr.gpu.precision import float32_recurrence
from brrr.roofline.calibrate import gpu_layers, part
from brrr.roofline.calibrate.gpu_products import log_uniform
from brrr.roofline.calibrate.gpu_times import Prepare, Row, measure_sweep, pool, taken
from brrr.roofline.calibrate.part import Findings

OPERATORS_SEED = 2026


def matrices(count: int, most_bytes: float, itemsize: int, seed: str) -> list[tuple[int, int]]:
    """Rows and columns of tensors from 1 KB to `most_bytes`, one from each of so many equal parts of that range.

    >>> [rows * columns * 4 <= 1.1e6 for rows, columns in matrices(3, 1e6, 4, "sum")]
    [True, True, True]
    """
    draw, found = random.Random(f"{OPERATORS_SEED} {seed}"), []
    decades = math.log(most_bytes / 1e3)
    for place in range(count):
        elements = 1e3 * math.exp(decades * (place + draw.random()) / count) / itemsize
        columns = draw.choice((log_uniform(draw, 2, 16384), 2 ** draw.randint(2, 13), 64 * draw.randint(1, 64)))
        columns = max(2, min(columns, int(elements / 2)))
        found.append((max(2, int(elements / columns)), columns))
    return found


# ---------------------------------------------------------------------------------------------------------------------
# The operators of a calibration's sweep: each as a call on a matrix, with a second one beside it.

Tensor = torch.Tensor
MatrixCall = Callable[[Tensor, Tensor], Tensor]

MANY, FEW = 60, 20
"""Sizes of each data type: of operators along rows or columns, whose time depends on both; and of the others."""
SLOW_BYTES = 64e6
"""A softmax over columns, and a sum that runs along, take milliseconds for so much."""

ELEMENTWISE: Mapping[str, MatrixCall] = {
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

BY_LINES: Mapping[str, MatrixCall] = {
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


def operators() -> Mapping[str, MatrixCall]:
    """All of them."""
    return {**ELEMENTWISE, **BY_LINES}


def place_is_right(found: Tensor, x: Tensor) -> bool:
    """Whether at each place found stands the greatest of its row: of several alike, any may be found."""
    return bool((x.gather(-1, found[:, None])[:, 0] == x.amax(-1)).all())


def dropped_is_right(found: Tensor, x: Tensor) -> bool:
    """Whether a dropout of a half gives zeros and doubles, and both of them."""
    kept = found != 0
    return bool((found[kept] == 2 * x[kept]).all() and (kept.any() or kept.numel() < 64))


COLUMNS = ("operator", "kind", "form", "dtype", "lines", "length", "over", "window", "read", "written", "flop")
SHARE = 0.85
"""Of the time that is left, for it is the last part; the rest is for the fits."""
QUICK_S = 0.3
MOST_BYTES = 5e8
MEMORY_SHARE = 16
"""A sixteenth of the free memory at most is one operand, since its check takes float64 copies."""
DTYPES = ("float32", "bfloat16")
DROPOUT = "dropout"
OWN_CHECKS = {DROPOUT: dropped_is_right, "where in rows": place_is_right}
LIMITS = {"float32": 2e-4, "bfloat16": 3e-2}
"""Relative errors (Frobenius) that a right result stays below: roundings of the result, and of sums of many values."""


def sweep_operators(found: Findings) -> None:
    """`sweeps["operators"]`: times of torch's own operators on contiguous matrices of random values, hot."""
    free, _ = torch.cuda.mem_get_info()
    most = min(MOST_BYTES, free / MEMORY_SHARE) / (100 if found.quick else 1)
    pools = {dtype: pool(int(2.1 * most) + 4096, getattr(torch, dtype)) for dtype in DTYPES}
    calls = [*_calls(pools, most), *gpu_layers.calls(pools, 0.01 if found.quick else 1.0)]
    random.Random(0).shuffle(calls)  # where time runs out, some of each are there
    share_s = QUICK_S if found.quick else SHARE * found.left_s
    with torch.no_grad(), float32_recurrence():  # which convolutions share
        measure_sweep("operators", COLUMNS, calls, share_s, found, "torch's operators")
    del pools, calls
    torch.cuda.empty_cache()


def _calls(pools: dict[str, torch.Tensor], most: float) -> Iterator[Prepare]:
    runs: dict[str, MatrixCall] = {**operators(), DROPOUT: lambda x, y: torch.nn.functional.dropout(x, 0.5)}
    for name, run in runs.items():
        count, limit = (MANY if name in BY_LINES or name == DROPOUT else FEW), min(most, SLOW.get(name, most))
        for dtype, values in pools.items():
            for sizes in matrices(count, limit, values.element_size(), f"{name} {dtype}"):
                yield partial(_made, name, run, values, sizes)


def _made(
    name: str, run: MatrixCall, values: torch.Tensor, sizes: tuple[int, int]
) -> tuple[Row, Callable[[], Any]] | None:
    x, y = taken(values, sizes), taken(values, sizes, end=True)
    with CostMode() as counting:
        result = run(x, y)
    each = gpu_layers.only(counting.operators)
    if each is None:
        return None
    what = f"{name} of {sizes[0]} x {sizes[1]} {each.dtype}"
    own_check = OWN_CHECKS.get(name)
    part.require(own_check(result, x) if own_check else _near(result, run, x, y, each.dtype), what)
    return gpu_layers.row_of(each), lambda: run(x, y)


def _near(result: torch.Tensor, run: MatrixCall, x: torch.Tensor, y: torch.Tensor, dtype: str) -> bool:
    """Whether the result is that in float64."""
    expected = run(x.double(), y.double())
    if not result.is_floating_point():
        return bool((result == expected).all())
    return gpu_layers.near(result, expected, LIMITS[dtype])
