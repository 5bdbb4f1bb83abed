"""The sweep of torch's own operators: each call drawn, counted, checked against float64, and kept with its row."""

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional as f

from brrr.gpu import CUDA, free_bytes
from brrr.gpu.precision import float32_recurrence
from brrr.roofline.calibrate import part
from brrr.roofline.calibrate.gpu_times import Prepare, measure_sweep, pool
from brrr.roofline.calibrate.part import Findings
from brrr.roofline.calibrate.reference_calls import COLUMNS, SHORT, near, only, operands_of, ready, row_of
from brrr.roofline.peak import Row
from tools.reference.layers import CLASSES, Shape, Swept, Tensor, layers, matrix

# ---------------------------------------------------------------------------------------------------------------------
# Operators on matrices: elementwise only their number of elements counts; along lines, how many and how long they are.

FEW, MANY, ROUNDS = 20, 60, 3
"""Calls of each in each data type; so many times others are drawn, as far as there is time."""
MOST_BYTES, SLOW_BYTES = 5e8, 64e6
"""A softmax over columns, and a sum that runs along, take milliseconds for so much."""


def place_is_right(found: Tensor, x: Tensor) -> bool:
    """Whether at each place found stands the greatest of its row: of several alike, any may be found."""
    return bool((x.gather(-1, found[:, None])[:, 0] == x.amax(-1)).all())


def dropped_is_right(found: Tensor, x: Tensor) -> bool:
    """Whether a dropout of a half gives zeros and doubles, and both of them."""
    kept = found != 0
    return bool((found[kept] == 2 * x[kept]).all() and (kept.any() or kept.numel() < 64))


def matrices() -> Mapping[str, Swept]:
    """The operators on one or two matrices."""
    each = partial(_on_matrices, FEW)
    lines = partial(_on_matrices, MANY)
    wide = partial(_on_matrices, MANY, widest=CLASSES)
    return {
        "relu": each(torch.relu), "exp": each(torch.exp), "cos": each(torch.cos), "tanh": each(torch.tanh),
        "sigmoid": each(torch.sigmoid), "gelu": each(f.gelu), "silu": each(f.silu), "add": each(torch.add, 2),
        "multiply": each(torch.mul, 2), "add a number": each(lambda x: x + 1.5),
        "multiply by a number": each(lambda x: x * 1.25), "clamp": each(lambda x: x.clamp(-1, 1)),
        "addcmul": each(lambda x, y: torch.addcmul(x, x, y), 2), "compare": each(torch.gt, 2),
        "copy": each(torch.clone),
        "to bfloat16": each(lambda x: x.to(torch.bfloat16)), "to float32": each(lambda x: x.to(torch.float32)),
        "to float64": each(lambda x: x.to(torch.float64)), "concatenate": each(lambda *both: torch.cat(both), 2),
        "add a row": lines(lambda x, y: x + y[0], 2), "add a column": lines(lambda x, y: x + y[:, :1], 2),
        "transpose": lines(lambda x: x.t().contiguous()), "sum": lines(torch.sum),
        "sum of rows": lines(lambda x: x.sum(-1)), "sum of columns": lines(lambda x: x.sum(0)),
        "mean of rows": lines(lambda x: x.mean(-1)), "greatest of rows": lines(lambda x: x.amax(-1)),
        "greatest of rows, and where": lines(lambda x: x.max(-1)[0]),
        "where in rows": lines(lambda x: x.argmax(-1), right=place_is_right),
        "variance of rows": lines(lambda x: x.var(-1)), "deviation of rows": lines(lambda x: x.std(-1)),
        "norm": lines(torch.linalg.vector_norm), "layer norm": lines(lambda x: f.layer_norm(x, x.shape[-1:])),
        "RMS norm": lines(lambda x: f.rms_norm(x, x.shape[-1:], eps=1e-5)),
        "batch norm": lines(lambda x: f.batch_norm(x, None, None, training=True)),
        "group norm": lines(lambda x: f.group_norm(x, 1)), "softmax": wide(lambda x: x.softmax(-1)),
        "log softmax": wide(lambda x: x.log_softmax(-1)),
        "softmax of columns": lines(lambda x: x.softmax(0), most=SLOW_BYTES),
        "running sum of rows": lines(lambda x: x.cumsum(-1), most=SLOW_BYTES),
        "zeros": each(torch.zeros_like), "abs": each(torch.abs), "negate": each(torch.neg), "sin": each(torch.sin),
        "erf": each(torch.erf), "log": each(torch.log), "square root": each(torch.sqrt),
        "raise to 3": each(lambda x: x**3),
        "divide": each(torch.div, 2), "subtract": each(torch.sub, 2), "greater": each(torch.maximum, 2),
        "leaky relu": each(f.leaky_relu), "elu": each(f.elu), "hardswish": each(f.hardswish),
        "relu up to 6": each(f.relu6), "softplus": each(f.softplus), "mish": each(f.mish),
        "mix": each(lambda x, y: torch.lerp(x, y, 0.3), 2),
        "choose by a mask": each(lambda x, y, m: torch.where(m, x, y), 3, mask=True),
        "fill by a mask": each(lambda x, m: x.masked_fill(m, -1.0), 2, mask=True),
        "to float16": each(lambda x: x.to(torch.float16)), "flip": lines(lambda x: x.flip(-1)),
        "roll": lines(lambda x: x.roll(1, -1)), "lower triangle": lines(torch.tril),
        "normal numbers": each(torch.randn_like, right=numbers_are_right),
        "numbers": each(torch.rand_like, right=numbers_are_right),
        "dot product": each(lambda x, y: torch.dot(x.view(-1), y.view(-1)), 2),
        "log of sums of rows": lines(lambda x: x.logsumexp(-1)), "norm of rows": lines(lambda x: x.norm(dim=-1)),
        "mean of columns": lines(lambda x: x.mean(0)), "greatest of columns": lines(lambda x: x.amax(0)),
        "deviation of columns": lines(lambda x: x.std(0)),
        "product along rows": lines(lambda x: x.cumprod(-1), most=SLOW_BYTES),
        "running sum of columns": lines(lambda x: x.cumsum(0), most=SLOW_BYTES),
        "sorted rows": lines(lambda x: x.sort(-1)[0], most=SLOW_BYTES),
        "greatest few of rows": lines(lambda x: x.topk(min(32, x.shape[-1]), -1)[0], most=SLOW_BYTES),
        "dropout": lines(lambda x: f.dropout(x, 0.5), right=dropped_is_right),
    }  # fmt: skip


def numbers_are_right(found: Tensor, x: Tensor) -> bool:
    """Whether they are finite, and not all alike."""
    return bool(found.isfinite().all() and (found.numel() < 64 or found.float().std() > 0.2))


def _on_matrices(calls: int, run: Callable[..., Tensor], operands: int = 1, most: float = MOST_BYTES,
                 right: Callable[[Tensor, Tensor], bool] | None = None, widest: int = 16384,
                 mask: bool = False) -> Swept:  # fmt: skip
    def shapes(draw: random.Random, elements: float) -> Sequence[Shape]:
        return (matrix(draw, elements, widest, 2),) * operands

    return Swept(run, shapes, most, calls=calls, matrix=True, right=right, mask=mask)


# ---------------------------------------------------------------------------------------------------------------------
# The sweep of both kinds.

MEMORY_SHARE = 16
"""A sixteenth of the free memory at most is one operand, since its check takes float64 copies."""
DTYPES = ("float32", "bfloat16")
LEAST, LEAST_BYTES = 5e3, 1e3
"""Elements of a layer, and bytes of a matrix."""
MATRICES_SEED = "2026 "


def sweep_every_operator(found: Findings) -> None:
    """`sweeps["operators"]`: times of torch's own operators on random values, hot, in the time that is left."""
    most = min(MOST_BYTES, free_bytes(CUDA) / MEMORY_SHARE)
    pools = {dtype: pool(int(2.1 * most) + 4096, getattr(torch, dtype)) for dtype in DTYPES}
    calls = drawn_calls(pools, most, 1.0, ROUNDS)
    with torch.no_grad(), float32_recurrence():  # which convolutions share
        measure_sweep("operators", COLUMNS, calls, found.left_s, found, "torch's operators")


def drawn_calls(pools: Mapping[str, Tensor], most_bytes: float, share: float, rounds: int) -> dict[str, list[Prepare]]:
    """The calls of each operator in each data type, those of the first round first, in an order of chance."""
    found = defaultdict[str, list[Prepare]](list)
    for again in range(rounds):
        drawn = list(_calls(pools, most_bytes, share, again))
        random.Random(again).shuffle(drawn)  # where time runs out, some of each are there
        for each in drawn:
            found[f"{each.args[0]} {each.args[2].dtype}"].append(each)
    return found


def _calls(pools: Mapping[str, Tensor], most_bytes: float, share: float, again: int) -> Iterator[partial[Any]]:
    """Each operator's calls, one from each of equal parts of its range of sizes, as far as they fit into the pools.

    Other calls each time that they are drawn `again`.
    """
    for (name, layer), (dtype, values) in itertools.product({**matrices(), **layers()}.items(), pools.items()):
        if layer.matrix:
            least, most = (size / values.element_size() for size in (LEAST_BYTES, min(most_bytes, layer.most)))
        else:
            least, most = LEAST, max(2 * LEAST, layer.most * share)
        seed = f"{MATRICES_SEED * layer.matrix}{name} {dtype}{f' {again}' if again else ''}"
        draw, decades = random.Random(seed), math.log(most / least)
        for place in range(layer.calls):
            elements = least * math.exp(decades * (place + draw.random()) / layer.calls)
            shapes = layer.shapes(draw, elements)
            if max(map(math.prod, shapes)) <= len(values):
                yield partial(made, name, layer, values, shapes)


# ---------------------------------------------------------------------------------------------------------------------
# One call, and whether its result is right.

ROUNDED = {False: (2e-4, 5e-4), True: (3e-2, 5e-2)}
"""Relative errors (Frobenius) of a right result at most, of matrices and of layers, by whether a type is short."""


def made(name: str, layer: Swept, values: Tensor, shapes: Sequence[Shape]) -> tuple[Row, Callable[[], Any]] | None:
    """One call, checked, with its row; None for one of several operators, which no row can tell of."""
    operands = operands_of(layer.call(shapes), values)
    call, counted, found = ready(layer.run, layer.gradient, operands)
    each = only(counted)
    if each is None:
        return None
    what = f"{name} of {' and '.join(map(str, shapes))} {values.dtype}"
    if layer.right is not None:
        part.require(layer.right(found[0], operands[0]), what)
    else:
        wide = [x.double() if x.is_floating_point() else x for x in operands]
        expected = ready(layer.run, layer.gradient, wide)[2]
        part.require(all(map(partial(_near, layer, values.dtype), found, expected)), what)
    return row_of(each), call


def _near(layer: Swept, dtype: torch.dtype, found: Tensor, expected: Tensor) -> bool:
    short = not SHORT.isdisjoint((dtype, found.dtype))
    return near(found, expected, ROUNDED[short][not layer.matrix] * (1 if short else layer.rough))
