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

from brrr.counting.cost import OperatorCost
from brrr.counting.mode import CostMode
from brrr.gpu import GPU, free_bytes
from brrr.gpu.precision import float32_recurrence
from brrr.roofline.calibrate import part
from brrr.roofline.calibrate.gpu_layers import CLASSES, Shape, Swept, Tensor, layers, matrix
from brrr.roofline.calibrate.gpu_times import Prepare, measure_sweep, model_so_far, pool, taken
from brrr.roofline.calibrate.part import Findings
from brrr.roofline.peak import Row

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

COLUMNS = ("operator", "kind", "form", "dtype", "lines", "length", "over", "window", "read", "written", "flop")
SHARE = 0.9
"""Of the time that is left, for it is the last part."""
QUICK_S = 0.3
QUICK_SHARE = 0.01
"""Of the largest sizes."""
MEMORY_SHARE = 16
"""A sixteenth of the free memory at most is one operand, since its check takes float64 copies."""
DTYPES = ("float32", "bfloat16")
LEAST, LEAST_BYTES = 5e3, 1e3
"""Elements of a layer, and bytes of a matrix."""
MATRICES_SEED = "2026 "


def sweep_operators(found: Findings) -> None:
    """`sweeps["operators"]`: times of torch's own operators on random values, hot, one of each first."""
    free = free_bytes(GPU)
    share = QUICK_SHARE if found.quick else 1.0
    most = min(MOST_BYTES, free / MEMORY_SHARE) * share
    pools = {dtype: pool(int(2.1 * most) + 4096, getattr(torch, dtype)) for dtype in DTYPES}
    calls = drawn_calls(pools, most, share, 1 if found.quick else ROUNDS)
    share_s = QUICK_S if found.quick else SHARE * found.left_s
    with torch.no_grad(), float32_recurrence():  # which convolutions share
        measure_sweep("operators", COLUMNS, calls, share_s, found, "torch's operators", model_so_far(found))
    del pools, calls
    torch.cuda.empty_cache()


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
# One call: its operands, what it counts, and whether its result is right.

SHORT = {torch.bfloat16, torch.float16}
ROUNDED = {False: (2e-4, 5e-4), True: (3e-2, 5e-2)}
"""Relative errors (Frobenius) that a right result stays below, of matrices and of layers, by whether a type is short.

They are roundings of the result and of sums; a gradient in bfloat16 sums rounded numbers.
"""


def made(name: str, layer: Swept, values: Tensor, shapes: Sequence[Shape]) -> tuple[Row, Callable[[], Any]] | None:
    """One call, checked, with its row; None for one of several operators, which no row can tell of."""
    operands = operands_of(layer, values, shapes)
    call, counted, found = ready(layer, operands)
    each = only(counted)
    if each is None:
        return None
    what = f"{name} of {' and '.join(map(str, shapes))} {values.dtype}"
    if layer.right is not None:
        part.require(layer.right(found[0], operands[0]), what)
    else:
        expected = ready(layer, [x.double() if x.is_floating_point() else x for x in operands])[2]
        part.require(all(map(partial(_near, layer, values.dtype), found, expected)), what)
    form = each.form
    row = (each.name, each.kind, form.name, each.dtype, form.lines, form.length, form.over, form.window,
           int(each.read_bytes), int(each.written_bytes), int(each.flop or 0))  # fmt: skip
    return row, call


PLACES = 0.0, 1.0, 0.5, 0.25, 0.75
"""In the pool, of a call's operands one after the other."""


def operands_of(layer: Swept, values: Tensor, shapes: Sequence[Shape]) -> list[Tensor]:
    """Operands from different parts of the pool, so that none of them is another one, and places at random."""
    count = len(shapes) - (layer.places is not None)
    operands = [_lying(values, shape, PLACES[place], layer.last) for place, shape in enumerate(shapes[:count])]
    if layer.places is not None:
        operands.append(torch.randint(shapes[0][layer.places], shapes[-1], device=values.device))
    return [*operands[:-1], operands[-1] > 0] if layer.mask else operands


def _lying(values: Tensor, shape: Shape, place: float, last: bool) -> Tensor:
    if not last:
        return taken(values, shape, place)
    n, c, h, w = shape
    return taken(values, (n, h, w, c), place).permute(0, 3, 1, 2)


def ready(layer: Swept, operands: Sequence[Tensor]) -> tuple[Callable[[], Any], list[OperatorCost], Sequence[Tensor]]:
    """What is timed, what it counts, and what it gives."""
    call: Callable[[], Any] = partial(layer.run, *operands)
    if layer.gradient:
        wanted = [x.detach().requires_grad_() for x in operands[: layer.gradient]]
        with torch.enable_grad():
            result = layer.run(*wanted, *operands[layer.gradient :])
            assert isinstance(result, Tensor)
        seeded = torch.Generator(result.device).manual_seed(7919)  # a norm has no gradient along its own input
        above = torch.randn(result.shape, generator=seeded, device=result.device).to(result.dtype)
        call = partial(torch.autograd.grad, result, wanted, above, retain_graph=True)
    with CostMode() as counting:
        results = call()
    return call, counting.operators, (results,) if isinstance(results, Tensor) else results


def only(counted: Sequence[OperatorCost]) -> OperatorCost | None:
    """The operator that runs on the device, if it is one: a choice has its comparison beside it, and tells nothing."""
    running = [each for each in counted if each.kind != "view" and each.bytes]  # autograd copies an empty tensor
    return running[0] if len(running) == 1 else None


def _near(layer: Swept, dtype: torch.dtype, found: Tensor, expected: Tensor) -> bool:
    """Whether a result is the expected one, by the root of the sum of squares; what is no float, exactly."""
    if not found.is_floating_point():
        return torch.equal(found, expected)
    if not torch.equal(found.isnan(), expected.isnan()):
        return False
    found, expected = found.nan_to_num(), expected.nan_to_num()
    short = not SHORT.isdisjoint((dtype, found.dtype))
    limit = ROUNDED[short][not layer.matrix] * (1 if short else layer.rough)
    difference, size = (found.double() - expected.double()).norm(), expected.double().norm()
    return bool(difference <= limit * size.clamp(min=1e-30))
