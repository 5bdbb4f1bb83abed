"""The reference's own calls, made again here: what they take beside what is carried over corrects those alike.

A row of a sweep tells sizes, not the call. So for each operator there stands what it may have been; a call is made,
counted, and taken if it counts as the row does. A CPU goes by these calls alone, in float64, too, for products.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.nn import functional as f

from brrr.core.measurement import Estimate, Processor
from brrr.counting.cost import OperatorCost
from brrr.counting.mode import CostMode
from brrr.gpu import CUDA, free_bytes, is_gpu
from brrr.gpu.precision import float32_products, float32_recurrence
from brrr.roofline.calibrate import part
from brrr.roofline.calibrate.gpu_times import Call, Prepare, measure_sweep, model_so_far, pool, taken
from brrr.roofline.calibrate.part import LIMITS, Findings, loop_estimate, product_error
from brrr.roofline.corrections import ADDED, alike, measured_calls
from brrr.roofline.peak import Row
from brrr.roofline.peaks import short
from brrr.roofline.reference import reference
from brrr.roofline.sweeps import key_of, swept_operators

Tensor = torch.Tensor
Shape = tuple[int, ...]

MOST = {CUDA: (2e8, 2e-3), "cpu": (3.2e7, 2e-5)}
"""Bytes: no larger call is made again; and seconds: none that took longer on the reference."""
MEMORY_SHARE = 16
"""A sixteenth of the free memory at most is one call's, since its check takes float64 copies."""
CPU_DTYPES = "float32", "bfloat16", "float64"
EACH, QUICK, TURNS, SOME = 24, 2, 3, 8
"""So many calls of a kind are looked at, of a quick calibration so many, and of products at once; one of so many
products."""
CALL_S, MOMENTS, FEW_TOGETHER = 0.004, 3, 8
"""Of a loop on a CPU, as often for each call, and so many calls by turns."""
PRODUCTS_S, QUICK_S, SHARE = 12.0, 0.3, {CUDA: 0.9, "cpu": 0.6}
"""Seconds for products, of a quick calibration for each sweep, and what operators have of the time that is left."""


@dataclass(frozen=True)
class Again:
    """What a row may have been: a call on operands of these shapes.

    `places`: the last operand holds places along that axis of the first one. `gradient`: what is timed is autograd's
    operator for the gradients of so many operands at most. `last`: images and weights lie channels last. `mask`: the
    last operand is truth values.
    """

    run: Callable[..., Tensor | Sequence[Tensor]]
    shapes: Sequence[Shape]
    gradient: int = 0
    places: int | None = None
    last: bool = False
    mask: bool = False


ONE, TWO = "relu exp tanh clone abs neg cos sin erf log sqrt sigmoid", "add mul sub div gt maximum"
PLAIN: Mapping[str, tuple[Callable[..., Tensor], int]] = {
    **{name: (getattr(torch, name), 1) for name in ONE.split()}, "gelu": (f.gelu, 1), "silu": (f.silu, 1),
    **{name: (getattr(torch, name), 2) for name in TWO.split()}, "flip": (lambda x: x.flip(-1), 1),
    "where": (lambda x, y, where: torch.where(where, x, y), 3),
}  # fmt: skip
ALONG: Mapping[str, Callable[..., Tensor]] = {
    **{name: getattr(torch, name) for name in ["sum", "mean", "amax", "std", "var", "cumsum", "logsumexp"]},
    "max": lambda x, dim: x.max(dim)[0], "linalg_vector_norm": lambda x, dim: x.norm(dim=dim),
    "_softmax": torch.softmax, "_log_softmax": torch.log_softmax,
    "_softmax_backward_data": torch.softmax, "_log_softmax_backward_data": torch.log_softmax,
}  # fmt: skip
IN_ROWS: Mapping[str, tuple[Callable[..., Tensor], int | None, Callable[[Shape, int], Sequence[Shape]]]] = {
    "embedding": (lambda x, at: f.embedding(at, x), 0, lambda table, n: (table, (n,))),
    "index_select": (lambda x, at: x.index_select(0, at), 0, lambda table, n: (table, (n,))),
    "index_add": (lambda x, y, at: x.index_add(0, at, y), 0, lambda table, n: (table, (n, table[1]), (n,))),
    "gather": (lambda x, at: x.gather(0, at), 0, lambda table, n: (table, (n, table[1]))),
    "scatter_add": (lambda x, y, at: x.scatter_add(0, at, y), 0, lambda table, n: (table, *((n, table[1]),) * 2)),
    "embedding_dense_backward": (lambda x, at: f.embedding(at, x), 0, lambda table, n: (table, (n,))),
}  # fmt: skip
"""Among the rows of a table: the call, the axis of its places, and its operands' shapes for so many places."""
SIDES = (56, 28, 14, 7)


def likely(row: OperatorCost) -> Iterator[Again]:
    """What the row may have been, in either order of its two sizes where that is not told."""
    name, form = row.name.removeprefix("aten."), row.form
    gradient, flat = 3 if "backward" in name else 0, ((form.length,),)
    both = ((form.lines, form.length), (form.length, form.lines))
    dim = {"rows": -1, "columns": 0}.get(form.name)
    if row.kind == "convolution":
        yield from _convolutions(row, gradient)
    elif row.kind == "attention":
        yield from _attention(row, gradient)
    elif name in ALONG and dim is not None:
        yield from (Again(partial(ALONG[name], dim=dim), (shape,), gradient) for shape in both)
    elif name in IN_ROWS and form.name == "rows":
        run, places, shapes = IN_ROWS[name]
        yield Again(run, shapes((form.over, form.length), form.lines), min(1, gradient), places)
    elif name in PLAIN and form.name == "":
        run, many = PLAIN[name]
        yield from (Again(run, (shape,) * many, mask=many == 3) for shape in (*flat, *both))
    elif form.name.startswith("to-"):
        yield Again(lambda x: x.to(getattr(torch, form.name[3:])), flat)
    elif name in ("threshold_backward", "gelu_backward"):
        yield Again(torch.relu if name[0] == "t" else f.gelu, flat, 1)
    elif form.name == "scalar":
        yield Again((lambda x: x + 1.5) if name == "add" else (lambda x: x * 1.25), flat)
    elif form.name == "broadcast" and name == "add":
        for shape in both:
            yield Again(torch.add, (shape, shape[1:]))
            yield Again(torch.add, (shape, (shape[0], 1)))
    elif form.name == "strided":
        yield from (Again(lambda x: x.t().contiguous(), (shape,)) for shape in both)
    elif form.name == "whole":
        yield Again(torch.sum if name == "sum" else torch.linalg.vector_norm, flat)
    elif row.kind == "loss" and name.startswith("nll"):
        yield Again(f.nll_loss, (both[0], both[0][:1]), min(1, gradient), 1)
    elif row.kind == "pooling":
        run = partial(f.avg_pool2d, kernel_size=2) if "avg" in name else partial(
            f.max_pool2d, kernel_size=3, stride=2, padding=1)  # fmt: skip
        sides = (side for side in SIDES if form.lines % side**2 == 0)
        yield from (Again(run, ((1, form.lines // side**2, 2 * side, 2 * side),), gradient) for side in sides)
    elif row.kind == "norm":
        yield from _norms(row, gradient)


def _norms(row: OperatorCost, gradient: int) -> Iterator[Again]:
    form, channels = row.form, ((row.form.lines,),) * 2
    if form.name == "channels":
        image = (form.over, form.lines, *_sides(form.window))
        yield Again(lambda x, w, b: f.batch_norm(x, None, None, w, b, True), (image, *channels), gradient)
    elif form.name == "columns":
        yield from (Again(lambda x: f.batch_norm(x, None, None, training=True), (shape,))
                    for shape in ((form.lines, form.length), (form.length, form.lines)))  # fmt: skip
    elif "rms" in row.name:
        yield Again(lambda x: f.rms_norm(x, x.shape[-1:], eps=1e-5), ((form.lines, form.length),))
        yield Again(lambda x, w: f.rms_norm(x, x.shape[-1:], w), ((form.lines, form.length), (form.length,)))
    elif "layer" in row.name:
        yield Again(lambda x: f.layer_norm(x, x.shape[-1:]), ((form.lines, form.length),), min(1, gradient))
        weights = ((form.length,),) * 2
        yield Again(lambda x, *w: f.layer_norm(x, x.shape[-1:], *w), ((form.lines, form.length), *weights), gradient)
    elif form.over > 1 and form.window > 1:  # groups of the channels of images
        for groups in (form.lines // form.over, 32):
            image = (form.over, groups * max(1, form.length // form.window), *_sides(form.window))
            yield Again(lambda x, w, b, n=groups: f.group_norm(x, n, w, b), (image, *((image[1],),) * 2), gradient)


def _convolutions(row: OperatorCost, gradient: int) -> Iterator[Again]:
    form, plain = row.form, row.form.name.partition(",")[0]
    if plain not in ("single", "window", "depthwise", "grouped"):
        return
    size = 3 if plain == "grouped" else math.isqrt(form.window)
    channels = max(1, form.length // size**2)  # of a group
    for again, stride in ((again, stride) for again in ((2, 1) if gradient else (1,)) for stride in (1, 2)):
        out = round((row.flop or 0.0) / (2 * again * form.lines * form.length))
        groups = {"grouped": form.window, "depthwise": out}.get(plain, 1)
        high, wide = (stride * side for side in _sides(form.lines // max(1, form.over)))
        run = partial(f.conv2d, bias=None, stride=stride, padding=size // 2, groups=groups)
        shapes = (form.over, groups * channels, high, wide), (out, channels, size, size)
        yield Again(run, shapes, gradient, last="last" in form.name)


def _sides(area: int) -> Shape:
    """Two sides of so large an area, as equal as may be."""
    high = next(side for side in range(math.isqrt(area), 0, -1) if area % side == 0)
    return high, area // high


def _attention(row: OperatorCost, gradient: int) -> Iterator[Again]:
    form, flop = row.form, (row.flop or 0.0) / (2.5 if gradient else 1)
    tokens = max(1, round(flop / (4 * form.lines * form.length)))
    shape = (1, form.lines // tokens, tokens, form.length)
    run = partial(f.scaled_dot_product_attention, is_causal=form.name == "causal")
    yield Again(run, (shape,) * 3, gradient)


# ---------------------------------------------------------------------------------------------------------------------
# One call: its operands, what it counts, and whether its result is right.

ALMOST = 0.1
PLACES = 0.0, 1.0, 0.5, 0.25, 0.75
"""In the pool, of a call's operands one after the other."""
SHORT = {torch.bfloat16, torch.float16}
ROUNDED = {False: 5e-4, True: 5e-2}
"""Relative errors (Frobenius) that a right result stays below, by whether a type is short: roundings of the result and
of sums; a gradient in bfloat16 sums rounded numbers."""


def made_again(row: OperatorCost, values: Tensor) -> tuple[Row, Callable[[], Any]] | None:
    """The call of a row, checked; None where nothing that it may have been counts as it does."""
    for each in likely(row):
        if min((size for shape in each.shapes for size in shape), default=0) < 1 or (
            sum(map(math.prod, each.shapes)) > len(values)
        ):
            continue
        operands = operands_of(each, values)
        call, counted, found = ready(each.run, each.gradient, operands)
        made = only(counted)
        if made is None or not _counts_as(made, row):
            continue
        wide = [x.double() if x.is_floating_point() else x for x in operands]
        expected = ready(each.run, each.gradient, wide)[2]
        pairs, rounded = zip(found, expected, strict=True), ROUNDED[values.dtype in SHORT]
        right = all(near(one, other, rounded) for one, other in pairs)
        part.require(right, f"{row.name} of {' and '.join(map(str, each.shapes))} {values.dtype}")
        return row_of(row), call
    return None


def _counts_as(made: OperatorCost, row: OperatorCost) -> bool:
    """Whether it is the row's call; another torch may read an operand more or less, a CPU keep less for gradients."""
    near = abs(made.bytes - row.bytes) <= ALMOST * row.bytes and made.written_bytes <= row.written_bytes
    return near and key_of(made)[:3] == key_of(row)[:3]


def row_of(each: OperatorCost) -> Row:
    """The call under the sweep's COLUMNS."""
    form = each.form
    return (each.name, each.kind, form.name, each.dtype, form.lines, form.length, form.over, form.window,
            int(each.read_bytes), int(each.written_bytes), int(each.flop or 0))  # fmt: skip


def operands_of(each: Again, values: Tensor) -> list[Tensor]:
    """Operands from different parts of the pool, so that none of them is another one, and places at random."""
    count = len(each.shapes) - (each.places is not None)
    operands = [_lying(values, shape, PLACES[at], each.last) for at, shape in enumerate(each.shapes[:count])]
    if each.places is not None:
        operands.append(torch.randint(each.shapes[0][each.places], each.shapes[-1], device=values.device))
    return [*operands[:-1], operands[-1] > 0] if each.mask else operands


def _lying(values: Tensor, shape: Shape, place: float, last: bool) -> Tensor:
    if not last:
        return taken(values, shape, place)
    n, c, h, w = shape
    return taken(values, (n, h, w, c), place).permute(0, 3, 1, 2)


def ready(
    run: Callable[..., Any], gradient: int, operands: Sequence[Tensor]
) -> tuple[Callable[[], Any], list[OperatorCost], Sequence[Tensor]]:
    """What is timed, what it counts, and what it gives."""
    call: Callable[[], Any] = partial(run, *operands)
    if gradient:
        wanted = [x.detach().requires_grad_() for x in operands[:gradient] if x.is_floating_point()]
        with torch.enable_grad():
            result = run(*wanted, *operands[len(wanted) :])
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


def near(found: Tensor, expected: Tensor, limit: float) -> bool:
    """Whether a result is the expected one, by the root of the sum of squares; what is no float, exactly."""
    if not found.is_floating_point():
        return torch.equal(found, expected)
    if not torch.equal(found.isnan(), expected.isnan()):
        return False
    found, expected = found.nan_to_num(), expected.nan_to_num()
    difference, size = (found.double() - expected.double()).norm(), expected.double().norm()
    return bool(difference <= limit * size.clamp(min=1e-30))


# ---------------------------------------------------------------------------------------------------------------------
# Both sweeps, a kind at a time.

COLUMNS = ("operator", "kind", "form", "dtype", "lines", "length", "over", "window", "read", "written", "flop")
PRODUCT_COLUMNS = ("dtype", "m", "n", "k", "batch", "layout", "added")


def sweep_operators(found: Findings, device: Processor = CUDA) -> None:
    """`sweeps["operators"]`: times of the reference's operators on random values, hot, one of each kind first."""
    most = _most_bytes(device)
    pools = {dtype: pool(int(2 * most) + 4096, getattr(torch, dtype), device) for dtype in ("float32", "bfloat16")}
    rows = [row for row in swept_operators(reference().sweeps["operators"]) if row[0].dtype in pools]
    kinds = _few(rows, device, lambda each: f"{each.kind} {each.form.name} {each.name} {each.dtype}", found.quick)
    calls = {kind: [partial(made_again, each, pools[each.dtype]) for each in those] for kind, those in kinds.items()}
    share_s = QUICK_S if found.quick else SHARE[device] * found.left_s
    with torch.no_grad(), float32_recurrence():  # which convolutions share
        _measure("operators", COLUMNS, calls, share_s, found, "torch's operators", device)


def sweep_products(found: Findings, device: Processor = CUDA) -> None:
    """`sweeps["products"]`: times of the reference's products with random operands, hot, as torch.matmul runs them."""
    rows = list(measured_calls({"products": reference().sweeps["products"]}))[::SOME]
    kinds = _few(rows, device, lambda each: f"{each.dtype}/{'/'.join(alike(each))}", found.quick)
    for dtype in dict.fromkeys(kind.partition("/")[0] for kind in kinds):
        those = {kind: each for kind, each in kinds.items() if kind.startswith(f"{dtype}/")}
        made_of = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
        values = pool(int(_most_bytes(device)) + 4096, made_of, device)
        calls = {f"{kind} {n}": [partial(product_again, each, values) for each in those[kind][n::TURNS]]
                 for kind in those for n in range(TURNS)}  # fmt: skip
        share_s = (QUICK_S if found.quick else PRODUCTS_S) * len(those) / len(kinds)
        with float32_products(dtype == "tf32"), torch.no_grad():
            _measure("products", PRODUCT_COLUMNS, calls, share_s, found, "torch.matmul", device)


def _measure(
    name: str, columns: tuple[str, ...], calls: Mapping[str, Sequence[Prepare]], share_s: float, found: Findings,
    by: str, device: Processor,
) -> None:  # fmt: skip
    """On a CPU nothing is carried over, and a call's time is that of a loop of it."""
    on_gpu = is_gpu(device)
    how: dict[str, Any] = {"model": model_so_far(found)} if on_gpu else {"timed": loop_times, "together": FEW_TOGETHER}
    measure_sweep(name, columns, calls, share_s, found, by, **how)


def loop_times(calls: Sequence[Call], *_: float) -> list[Estimate]:
    """Of each call, the host's part included: the least of what was seen at several moments; others only add to it."""
    turns = zip(*([loop_estimate(call, CALL_S) for call in calls] for _ in range(MOMENTS)), strict=True)
    return [replace(each[0], median=min(one.low for one in each)) for each in turns]


def _most_bytes(device: Processor) -> float:
    return min(MOST[device][0], free_bytes(device) / MEMORY_SHARE)


def product_again(row: OperatorCost, values: Tensor) -> tuple[Row, Callable[[], Tensor]]:
    """A product, checked, with its row; a row of numbers is added to it where one was."""
    of, several = row.matmuls[0], (row.matmuls[0].batch,) if row.matmuls[0].batch > 1 else ()
    x, y = (
        taken(values, (*several, *size[::-1]), place).mT if turned else taken(values, (*several, *size), place)
        for turned, size, place in zip(of.transposed, ((of.m, of.k), (of.k, of.n)), PLACES, strict=False)
    )
    added, above = row.name in ADDED, taken(values, (of.n,))
    call = partial(torch.addmm, above, x, y) if added else partial(torch.matmul, x, y)
    error = product_error(x, y)(call() - above if added else call())
    part.require(error <= 2 * LIMITS[short(of.dtype)], f"{of} (relative error {error:.2g})")
    layout = "".join("nt"[turned] for turned in of.transposed)
    return (of.dtype, of.m, of.n, of.k, of.batch, layout, int(added)), call


def _few(
    rows: Sequence[tuple[OperatorCost, float]], device: Processor, kind: Callable[[OperatorCost], str], quick: bool
) -> Mapping[str, list[OperatorCost]]:
    """Some calls of each kind, kinds and calls in an order of chance."""
    found, most_bytes, most_s = defaultdict[str, list[OperatorCost]](list), _most_bytes(device), MOST[device][1]
    for each, seconds in random.Random(1973).sample(rows, len(rows)):
        known = is_gpu(device) or (each.dtype in CPU_DTYPES and "backward" not in each.name)  # nor autograd's own time
        few = len(found[kind(each)]) < (QUICK if quick else EACH)
        if each.bytes <= most_bytes and seconds <= most_s and few and known:
            found[kind(each)].append(each)
    return {name: those for name, those in found.items() if those}
