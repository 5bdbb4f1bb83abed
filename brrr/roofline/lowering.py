"""Counted operators as a device runs them: joined as on a GPU, fused as by a compiler, sines by what they compute.

A callable that is counted on a machine without a GPU shows the CPU's operators. Of most functions they are the same;
an RMS norm, a dropout and the gates of a recurrent cell are several operators on a CPU and one on a GPU. A
convolution's bias is a kernel of its own.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise, takewhile
from math import prod
from typing import Any

from brrr.core.files import read_toml
from brrr.counting.cost import COPIED, ITEMSIZE, TURNED, Cost, Form, OperatorCost
from brrr.roofline.decoding import by_products, part_of
from brrr.roofline.peaks import short

RMS = ("pow", "mean", "add", "rsqrt", "mul")
FUSED_RMS = "aten._fused_rms_norm"
CAST = "_to_copy"
"""On a CPU an RMS norm of a short type begins with a cast to float32 and ends with one back."""
RMS_BACKWARD = ("mul", "mul", "sum", "pow", "mul", "mul", "expand", "div", "pow", "mul", "mul", "add")
RMS_WEIGHTS = ("mul", "mul", "sum", "view")
"""What comes before, where a weight's gradient is asked for."""
DROPOUT = ("empty_like", "bernoulli", "div", "mul")
TOLD: Mapping[str, Any] = read_toml("operators.toml")
"""What operators.toml says of operators by their names."""
CELLS = {tuple(each["after"].split()): (each["name"], each["reads"], each["writes"]) for each in TOLD["cell"]}
"""What follows the products of a recurrent cell: its kernel on a GPU, and how often that reads and writes the state."""
LAYERS = {"convolution": "conv", "recurrent": "rnn"}
"""Kinds whose precision torch sets by itself; all others follow that of products."""
GATES = 4
"""Of an LSTM: the first result of its gradient holds so many elements for each of the state."""
SAME_KERNEL: Mapping[str, str] = TOLD["same_kernel"]
"""Operators that run what another one runs, whose sweep counts for them."""


def in_tf32(each: OperatorCost, layers: Container[str] = ("matmul", "conv", "rnn")) -> OperatorCost:
    """The operator with its products of float32 in TF32, where it is one of these layers.

    >>> from brrr.counting.cost import Matmul
    >>> conv = OperatorCost("aten.convolution", 0, 0, 0, "float32", (), "convolution", (Matmul(8, 8, 8),))
    >>> in_tf32(conv, {"conv"}).matmuls[0].dtype, in_tf32(conv, {"matmul"}).matmuls[0].dtype
    ('tf32', 'float32')
    """
    if LAYERS.get(each.kind, "matmul") not in layers:
        return each
    if each.kind == "whole" and short(each.dtype) == "fp32":
        return replace(each, dtype="tf32")
    products = (replace(one, dtype="tf32") if short(one.dtype) == "fp32" else one for one in each.matmuls)
    return replace(each, matmuls=tuple(products))


def name_on_gpu(each: OperatorCost) -> str:
    """One name for the same operator in place, on a CPU, and in the kernel that a GPU chooses by data type.

    >>> name_on_gpu(OperatorCost("aten.add_", 0, 0, 0, "float32", ()))
    'aten.add'
    """
    name = each.name[:-1] if each.name.endswith("_") and not each.name.endswith("__") else each.name
    if each.kind == "attention":
        return "attention backward" if name.endswith("backward") else "attention"
    return SAME_KERNEL.get(name, name)


def as_on_gpu(operators: Sequence[OperatorCost]) -> list[OperatorCost]:
    """The operators with those sequences in one piece; everything else is left as it is."""
    operators = [each for each in operators if each.name != "aten.detach"]  # autograd's own, of what it keeps
    found: list[OperatorCost] = []
    place = 0
    while place < len(operators):
        rest = operators[place:]
        merges = _rms(rest) or _rms_backward(rest, found) or _dropout(rest) or _cell(rest, found)
        taken, merged = merges or (1, _masked(operators[place], found))
        if merged.name.endswith("_cell"):  # whose kernel adds the biases
            found[-5:] = [replace(each, name=each.name.replace("addmm", "mm")) for each in found[-5:]]
        merged = replace(merged, module=operators[place].module)
        made = PARTS.get(merged.name, by_products)
        found += (_turned_first if merged.form.name.endswith(TURNED) else made)(merged)
        place += taken
    return found


def _with_bias(each: OperatorCost) -> list[OperatorCost]:
    """A convolution, and the addition of its bias; torch's own depthwise kernel adds it."""
    if len(each.shapes) < 3 or not each.shapes[2] or each.form.name == "depthwise":
        return [each]
    (channels,), written, lines = each.shapes[2], each.written_bytes, each.form.lines
    bias_bytes, images = channels * ITEMSIZE.get(each.dtype, 4), max(1, each.form.over)
    last = each.form.name.endswith("last")
    form = Form("broadcast", *((lines, channels) if last else (images * channels, lines // images)))
    flop, read_bytes = float(channels * lines), each.read_bytes - bias_bytes
    bare = replace(each, shapes=each.shapes[:2], read_bytes=read_bytes, flop=each.flop and each.flop - flop)
    return [bare, OperatorCost("aten.add_", flop, written + bias_bytes, written, each.dtype, (each.shapes[2],),
                               "pointwise", (), form, each.backward, module=each.module)]  # fmt: skip


def _turned_first(each: OperatorCost) -> list[OperatorCost]:
    """A copy of what lies in another order, as of a matrix that is turned, and the operator."""
    size, length = prod(each.shapes[0]), each.shapes[0][-1]
    lines = size // max(1, length)
    copied = part_of(each, "copy", "clone", size, size, Form("strided", lines, length, 1, lines))
    return [copied, replace(each, form=replace(each.form, name=each.form.name.removesuffix(TURNED)))]


def _copied_first(each: OperatorCost) -> list[OperatorCost]:
    """A product that is added to a matrix, or to several: that is copied to where the result will be, and read there.

    A row that is added comes with the product.
    """
    added, made = (each.shapes or ((),))[0], int(each.written_bytes) // ITEMSIZE.get(each.dtype, 4)
    if len(each.shapes) < 3 or len(added) < 2:
        return [each]
    return [part_of(each, "copy", "copy_", prod(added), made, Form("", 1, made)), replace(each, name=f"{each.name}_")]


def _selected(each: OperatorCost) -> list[OperatorCost]:
    """What a mask selects: where it is set is found first, a number of 8 bytes a dimension, then looked up."""
    size, dims = prod(each.shapes[1]), len(each.shapes[1])
    places = each.written_bytes / ITEMSIZE.get(each.dtype, 4) * dims * 8
    found = replace(each, name="aten.nonzero", read_bytes=float(size), written_bytes=places, form=Form())
    return [found, replace(each, name="aten.index", read_bytes=each.read_bytes - size + places)]


def _one_by_one(each: OperatorCost) -> list[OperatorCost]:
    """The sum of a batch's products: torch adds one after the other to the result."""
    if not each.matmuls:
        return [each]
    one = replace(each.matmuls[0], batch=1)
    made = one.m * one.n
    step = part_of(each, "matmul", "addmm_", one.k * (one.m + one.n) + made, made, Form(), one)
    copied = part_of(each, "copy", "copy_", prod(each.shapes[0]), made, Form("", 1, made))
    return [copied, *[step] * each.matmuls[0].batch]


def _by_passes(each: OperatorCost) -> list[OperatorCost]:
    """What torch writes as a chain of kernels, each of which reads what the one before it wrote; at last a mean."""
    size, made = max(map(prod, each.shapes)), int(each.written_bytes) // ITEMSIZE.get(each.dtype, 4)
    part, found = partial(part_of, replace(each, recent=None)), []
    for word in TOLD["passes"][each.name].split():
        name, _, operands = word.partition("=")
        found.append(part("pointwise", name, int(operands or 1) * size, size, Form("", 1, size)))
    return [*found, part("reduction", "mean", size, made, Form("whole", 1, size))] if made < size else found


PARTS = {"aten.convolution": _with_bias, "aten.baddbmm": _copied_first, "aten.addmm": _copied_first,
         "aten.addbmm": _one_by_one, "aten.masked_select": _selected,
         **dict.fromkeys(TOLD["passes"], _by_passes)}  # fmt: skip
"""Operators that a GPU runs as several kernels."""


def _names(operators: Sequence[OperatorCost], count: int) -> tuple[str, ...]:
    return tuple([_name(each.name) for each in operators[:count]])


def _rms(operators: Sequence[OperatorCost]) -> tuple[int, OperatorCost] | None:
    """x * rsqrt(mean(x^2) + eps), and times a weight where there is one; of a short type between two casts.

    A norm that is written out in Python adds its eps out of place: it is no single kernel.
    """
    cast = _names(operators, 1) == (CAST,)
    parts = operators[cast:]
    if _names(parts, len(RMS)) != RMS or parts[1].form.name != "rows" or parts[2].name != "aten.add_":
        return None
    rows, scaled, rest = parts[1].form, parts[4], parts[len(RMS) : len(RMS) + 1]
    weighted = any(each.name in ("aten.mul", "aten.mul_") and (rows.length,) in each.shapes for each in rest)
    weight = rest[0].read_bytes - scaled.written_bytes if weighted else 0.0
    count = len(RMS) + weighted + 2 * cast
    first, last = operators[0], operators[:count][-1]
    if cast and last.form.name != f"to-{first.dtype}":
        return None
    return count, OperatorCost(
        FUSED_RMS, _flop(parts[: len(RMS) + weighted]), first.read_bytes + weight, last.written_bytes, first.dtype,
        parts[0].shapes, "norm", (), rows,
    )  # fmt: skip


def _rms_backward(operators: Sequence[OperatorCost], before: Sequence[OperatorCost]) -> tuple[int, OperatorCost] | None:
    """What autograd makes of it where it ran before; of a short type with casts, and of a weight with its gradient."""
    longest = operators[: len(RMS_BACKWARD) + len(RMS_WEIGHTS) + 3]
    places = [place for place, each in enumerate(longest) if _name(each.name) != CAST]
    names = _names([operators[place] for place in places], len(places))
    weighted = names[: len(RMS_WEIGHTS)] == RMS_WEIGHTS
    wanted = RMS_WEIGHTS * weighted + RMS_BACKWARD
    if names[: len(wanted)] != wanted or not any(each.name == FUSED_RMS for each in before):
        return None
    rows, cast = operators[places[len(wanted) - len(RMS_BACKWARD) + 2]].form, places[0] == 1
    count, dtype = places[len(wanted) - 1] + 1 + cast, operators[0].dtype
    size = ITEMSIZE.get(dtype, 4)
    moved, weight = float(rows.lines * rows.length * size), float(rows.length * size * weighted)
    form = replace(rows, name="rows and sums" if weighted else "rows")
    return count, OperatorCost(
        "aten._fused_rms_norm_backward", _flop(operators[:count]), moved * (4 if weighted else 2) + weight,
        moved + weight, dtype,
        ((rows.lines, rows.length),), "norm", (), form, True,
    )  # fmt: skip


def _dropout(operators: Sequence[OperatorCost]) -> tuple[int, OperatorCost] | None:
    """A random mask, scaled, times x; the GPU's operator writes the mask in bytes, for the backward."""
    if _names(operators, len(DROPOUT)) != DROPOUT or operators[1].kind != "random":
        return None
    scaled = operators[3]
    elements = scaled.form.length
    itemsize = scaled.written_bytes / max(1, elements)
    return len(DROPOUT), OperatorCost(
        "aten.native_dropout", 2.0 * elements, elements * itemsize, elements * (itemsize + 1),
        scaled.dtype, scaled.shapes[:1], "random", (), Form("", 1, elements),
    )  # fmt: skip


def _masked(each: OperatorCost, before: Sequence[OperatorCost]) -> OperatorCost:
    """The gradient of a dropout before it reads the mask as bytes; anything else is left as it is."""
    times_mask = each.backward and each.name == "aten.mul" and each.shapes[:1] == each.shapes[1:]
    if not times_mask or not any(one.name == "aten.native_dropout" and one.shapes == each.shapes[:1] for one in before):
        return each
    read = each.written_bytes + each.form.length  # the mask is bytes
    return replace(each, name="aten.native_dropout_backward", read_bytes=read, shapes=each.shapes[:1])


def _cell(operators: Sequence[OperatorCost], before: Sequence[OperatorCost]) -> tuple[int, OperatorCost] | None:
    """The gates and the state of an LSTM or GRU cell as one kernel; the gradients of an LSTM's where it ran before."""
    for names, (name, reads, writes) in CELLS.items():
        forward = name.removesuffix("_backward")
        if _names(operators, len(names)) == names and (name == forward or any(each.name == forward for each in before)):
            those = operators[: len(names)]
            state = min(each.written_bytes for each in those if each.kind != "view")
            elements = int(state) // ITEMSIZE.get(those[0].dtype, 4) * (1 if name == forward else GATES)
            return len(names), OperatorCost(
                name, _flop(those), reads * state, writes * state, those[0].dtype, those[0].shapes, "pointwise", (),
                Form("", 1, elements), those[0].backward,
            )  # fmt: skip
    return None


def _flop(operators: Sequence[OperatorCost]) -> float | None:
    return None if any(each.flop is None for each in operators) else sum(each.flop or 0.0 for each in operators)


# ---------------------------------------------------------------------------------------------------------------------
# What a compiler makes of a chain of operators: neighbours merged into one kernel, matrix products left as they are.

MERGED = {"pointwise", "copy", "random", "index", "softmax", "norm", "reduction", "loss", "fused"}
LAST = {"reduction", "loss"}
"""Nothing is merged behind these: their result is there only when the whole tensor has been read."""


def fused(cost: Cost) -> tuple[OperatorCost, ...]:
    """The kernels that a compiled form runs; views vanish.

    >>> cos = OperatorCost("aten.cos", 1e6, 4e6, 4e6, "float32", ((1000, 1000),))
    >>> [(kernel.name, kernel.bytes) for kernel in fused(Cost(2e6, 8e6, 16e6, operators=(cos, cos)))]
    [('fused(aten.cos, aten.cos)', 8000000.0)]
    """
    return tuple(merged(group) for group in chains(cost.operators))


def chains(operators: Sequence[OperatorCost]) -> list[list[OperatorCost]]:
    """The operators of each kernel that `fused` makes."""
    found: list[list[OperatorCost]] = []
    for each in operators:
        if each.kind == "view":
            continue
        if found and _joins(found[-1][-1], each):
            found[-1].append(each)
        else:
            found.append([each])
    return found


def _joins(before: OperatorCost, each: OperatorCost) -> bool:
    apart = any(_of_weights(one) or one.form.name.startswith(COPIED) for one in (before, each))
    return before.kind in MERGED - LAST and each.kind in MERGED and not apart


def _of_weights(each: OperatorCost) -> bool:
    """Whether it holds the gradients of a norm's weights, which are sums over all rows: kernels of their own."""
    return each.kind == "norm" and "backward" in each.name


def merged(group: Sequence[OperatorCost]) -> OperatorCost:
    """One kernel in place of neighbours: what each wrote for the next one is neither written nor read."""
    if len(group) == 1:
        return group[0]
    read = group[0].read_bytes
    for before, each in pairwise(group):
        read += max(0.0, each.read_bytes - before.written_bytes)
    return _kernel(group, read, group[-1].written_bytes)


def _kernel(group: Sequence[OperatorCost], read: float, written: float) -> OperatorCost:
    name = f"fused({', '.join(each.name for each in group)})"
    parts = zip(*(each.module.split(".") for each in group), strict=False)
    module = ".".join(same for same, *others in takewhile(lambda names: len({*names}) == 1, parts))
    return OperatorCost(name, _flop(group), read, written, group[0].dtype, group[0].shapes, "fused", module=module)


def spared(forward: Sequence[OperatorCost], backward: Sequence[OperatorCost]) -> float:
    """Bytes that a chain's backward pass reads and need not, if it computes again what the chain's inputs tell.

    Fused, the chain writes them for the backward pass alone, so that they are spared twice. They are at most what its
    operators hand on to each other, and what the gradients' chain reads beside the incoming gradient and the chain's
    inputs.

    >>> square = OperatorCost("aten.square", 1e6, 4e6, 4e6, "float32", ((1000, 1000),))
    >>> gradient = OperatorCost("aten.mul", 1e6, 8e6, 4e6, "float32", ((1000, 1000),) * 2)
    >>> spared([square] * 4, [gradient] * 4)
    12000000.0
    """
    handed_on = sum(each.written_bytes for each in forward[:-1])
    incoming = max(each.written_bytes for each in backward)
    read = merged([_read_once(each) for each in backward]).read_bytes
    return max(0.0, min(handed_on, read - incoming - merged(forward).read_bytes))


def _read_once(each: OperatorCost) -> OperatorCost:
    """The gradients of a norm are several kernels, which read the same tensors."""
    once = sum(map(prod, each.shapes)) * ITEMSIZE.get(each.dtype, 4)
    return replace(each, read_bytes=min(each.read_bytes, float(once)))


def recomputing(forward: Sequence[OperatorCost], backward: Sequence[OperatorCost]) -> OperatorCost:
    """The kernel of a chain's gradients that computes again what `spared` counts.

    >>> square = OperatorCost("aten.square", 1e6, 4e6, 4e6, "float32", ((1000, 1000),))
    >>> gradient = OperatorCost("aten.mul", 1e6, 8e6, 4e6, "float32", ((1000, 1000),) * 2)
    >>> made = recomputing([square] * 4, [gradient] * 4)
    >>> made.flop, made.read_bytes, made.written_bytes
    (7000000.0, 8000000.0, 4000000.0)
    """
    read = merged(backward).read_bytes - spared(forward, backward)
    return _kernel([*forward[:-1], *backward], read, backward[-1].written_bytes)


# ---------------------------------------------------------------------------------------------------------------------
# Special functions by what they compute: a cosine is one FLOP by convention, and some thirty operations in fact.

OPERATIONS: Mapping[str, int] = TOLD["operations"]
"""Plain float32 operations for each element."""


def is_special(each: OperatorCost) -> bool:
    """Whether the table knows the operator."""
    return _name(each.name) in OPERATIONS


def operations(each: OperatorCost) -> OperatorCost:
    """The operator with the operations that it does in place of its conventional FLOP; any other one as it is.

    >>> cos = OperatorCost("aten.cos", 1e6, 4e6, 4e6, "float32", ((1000, 1000),))
    >>> operations(cos).flop
    31000000.0
    >>> twice = OperatorCost("fused(aten.cos, aten.cos)", 2e6, 4e6, 4e6, "float32", ((1000, 1000),), "fused")
    >>> operations(twice).flop
    62000000.0
    """
    if each.name.startswith("fused("):
        return replace(each, flop=max(each.flop or 0.0, _of_parts(each)), counted=each.counted_flop)
    if not is_special(each):
        return each
    flop = OPERATIONS[_name(each.name)] * each.written_bytes / ITEMSIZE.get(each.dtype, 4)
    return replace(each, flop=flop, counted=each.counted_flop)


def _of_parts(each: OperatorCost) -> float:
    """The operations of a fused kernel's special functions, once for each element that it both reads and writes.

    The larger of this and the kernel's own FLOP counts, since those may hold the special functions already.
    """
    parts = each.name.removeprefix("fused(").removesuffix(")").split(", ")
    elements = min(each.read_bytes, each.written_bytes) / ITEMSIZE.get(each.dtype, 4)
    return elements * sum(OPERATIONS.get(_name(part), 0) for part in parts)


@cache
def _name(name: str) -> str:
    return name.removeprefix("aten.").rstrip("_")
