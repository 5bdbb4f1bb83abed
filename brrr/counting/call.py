"""One call of one torch operator, with its arguments by name."""

import inspect
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch.utils import _pytree

from brrr.counting.cost import ABOVE, COPIED, EACH, IN_TURN, TURNED, Form, Matmul
from brrr.gpu import is_gpu

_FUSED_STEPS = ("aten._fused_adam", "aten._fused_sgd", "aten._fused_adagrad")


@dataclass(frozen=True, slots=True)
class Call:
    """A dispatched operator: its name without overload and without the underscore of its in-place form.

    `args` holds every argument of the schema by name, those left out with their default. `written` are the arguments
    that it changes; `targets` those of them that are `out=` arguments. `only_view`: whether what it changes is how a
    tensor is seen (its sizes, strides, storage), as `transpose_` does, and no data.
    """

    name: str
    full_name: str
    args: dict[str, Any]
    outputs: tuple[torch.Tensor, ...]
    written: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    only_view: bool = False

    @property
    def output(self) -> torch.Tensor:
        """Its first result."""
        return self.outputs[0]

    @property
    def size(self) -> int:
        """The elements of its first result; of all tensors of its first list where it changes lists in place."""
        if self.outputs:
            return self.outputs[0].numel() if not self.of_lists else sum(out.numel() for out in self.outputs)
        return sum(t.numel() for t in self.tensors(next(iter(self.args))))

    @property
    def of_lists(self) -> bool:
        """Whether it takes lists of tensors, all of them in one kernel or a few."""
        return self.full_name.startswith(("aten._foreach", "aten._amp_foreach", *_FUSED_STEPS))

    def tensor(self, name: str) -> torch.Tensor:
        """The tensor given for an argument."""
        found = self.args[name]
        assert isinstance(found, torch.Tensor), f"{self.full_name}: {name} is no tensor"
        return found

    def has(self, name: str) -> bool:
        """Whether an optional tensor was given."""
        return self.args.get(name) is not None

    def tensors(self, name: str) -> list[torch.Tensor]:
        """The tensors given for an argument: none, one, or a list's."""
        return [leaf for leaf in _pytree.tree_leaves(self.args[name]) if isinstance(leaf, torch.Tensor)]

    def each_argument(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every tensor with the name of its argument."""
        return ((name, tensor) for name in self.args for tensor in self.tensors(name))

    def all_tensors(self) -> list[torch.Tensor]:
        """Arguments, then results."""
        return [*(tensor for _, tensor in self.each_argument()), *self.outputs]


def call_of(func: Any, args: Any, kwargs: Any, out: Any) -> Call:
    """The call of an operator as the dispatcher made it."""
    outputs = tuple(leaf for leaf in _pytree.tree_leaves(out) if isinstance(leaf, torch.Tensor))
    schema = getattr(func, "_schema", None)
    if schema is None:  # a higher-order operator
        named = inspect.signature(func.__call__).bind(*args, **kwargs).arguments
        return Call(str(func), str(func), named, outputs)
    full_name = schema.name.replace("::", ".")
    name = full_name[:-1] if full_name.endswith("_") and not full_name.endswith("__") else full_name  # add for add_
    written = tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    targets = tuple(a.name for a in schema.arguments if a.is_out)
    only_view = torch.Tag.inplace_view in func.tags
    defaults = {argument.name: argument.default_value for argument in schema.arguments}
    given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)}
    return Call(name, full_name, {**defaults, **given, **kwargs}, outputs, written, targets, only_view)


# ---------------------------------------------------------------------------------------------------------------------
# A formula: an operator's class, its FLOP from a call, and the matrix products in it.

Count = Callable[[Call], float]


@dataclass(frozen=True, slots=True)
class Formula:
    """How operators of one name count; `flop` gives None where the arguments are such that nobody here knows."""

    kind: str
    flop: Callable[[Call], float | None]
    matmuls: Callable[[Call], tuple[Matmul, ...]] = lambda call: ()


def nothing(call: Call) -> float:
    """No floating-point operation."""
    return 0.0


def table(kind: str, counts: dict[str, Count]) -> dict[str, Formula]:
    """Formulas of one kind, keyed by aten.NAME; a key may hold several names, separated by spaces."""
    return {f"aten.{name}": Formula(kind, count) for names, count in counts.items() for name in names.split()}


def free(kind: str, names: str) -> dict[str, Formula]:
    """Operators of one kind that count nothing, their names separated by spaces."""
    return table(kind, {names: nothing})


# ---------------------------------------------------------------------------------------------------------------------
# In which form an operator runs: along rows or columns, broadcast or strided. Bytes and FLOP do not tell, times do.

_TWO = {"add", "sub", "mul", "div", "rsub", "pow", "maximum", "minimum"}
_ALONG = {"reduction", "softmax", "scan"}
_TRAILING = ("native_layer_norm", "_fused_rms_norm", "native_layer_norm_backward", "_fused_rms_norm_backward")
_COUNTED = {"index_add": "source", "scatter_add": "index", "embedding_dense_backward": "grad_output"}
"""Of what indexes into a tensor, the argument whose elements are gone through; of any other it is the result."""
_ALONE = ("new_", "_thnn_fused")
"""What reads nothing, or a cell's gates and state: the sizes of its arguments say nothing of its form."""
_ELEMENTWISE = ("aten.gather", "aten.scatter")
"""What has an index for each element: within rows it stays near."""


def form_of(call: Call, kind: str) -> Form:
    """The form of a call of an operator of this kind; the empty one where there is nothing to tell."""
    if (walked := _walked(call)) is not None:
        return walked
    if kind in ("pointwise", "copy") and call.of_lists:
        sizes = [tensor.numel() for tensor in call.tensors(next(iter(call.args)))]
        longest = max(sizes, default=0)  # which decides where there are few pieces
        return Form("tensors", math.ceil(sum(sizes) / max(longest, 1)), longest)
    along = kind in _ALONG or call.name in _SORTS
    if along and (x := call.args.get("self", call.args.get("grad_output"))) is not None:
        return _along(x, call.args.get("dim")) if isinstance(x, torch.Tensor) else Form()
    if kind == "norm" and isinstance(call.args.get("input"), torch.Tensor):
        return _normed(call, call.tensor("input"))
    if kind in ("pointwise", "copy", "random") and call.outputs:
        return _crossing(call) or _elementwise(call)
    if kind in _SPECIAL and call.outputs:
        form, x = _SPECIAL[kind](call), call.args.get("self")
        copies = {"index": _refilled, "transform": _scattered}.get(kind)
        copied = copies is not None and isinstance(x, torch.Tensor) and copies(call, x)
        return replace(form, name=form.name + TURNED * copied)
    return Form()


def _crossing(call: Call) -> Form | None:
    """Of a copy between the host's memory and a GPU's. What need not wait is taken to be of pinned memory."""
    source = call.args.get("src", call.args.get("self"))
    if call.name not in CROSSING or not isinstance(source, torch.Tensor) or not (source.dim() or call.output.dim()):
        return None
    there = is_gpu(call.output.device)
    if is_gpu(source.device) == there:
        return None
    return Form(f"{COPIED} {'in' if there else 'out'}{', pinned' if call.args.get('non_blocking') else ''}")


_SORTS = ("aten.sort", "aten.topk", "aten.kthvalue", "aten.median", "aten.mode")
"""Of unknown FLOP; their time goes with how long their lines are."""
CROSSING = ("aten._to_copy", "aten.copy")


STEPS, LAST = "steps", ", channels last"
"""Forms whose `lines` are threads, and whose `length` is what each goes through one after the other; or one each."""
_WALKS: dict[str, tuple[int, ...]] = {name: dims for dims, names in (
    ((0, 1), "upsample_linearnd upsample_bilinearnd upsample_trilinearnd upsample_bicubicnd"),
    ((0, 1), "upsample_linearnd_backward upsample_bicubicnd_backward"),
    ((0,), "upsample_nearestnd_backward _upsample_nearest_exactnd_backward"),
    ((1,), "grid_sampler_nd grid_sampler_nd_backward"),
    ((), "upsample_bilinearnd_backward upsample_trilinearnd_backward reflection_padnd replication_padnd"),
    ((), "reflection_padnd_backward replication_padnd_backward"),
) for name in names.split()}  # fmt: skip
"""Kernels of torch in which a thread has a place of an image, and the dimensions that it goes through there: images,
channels, or none (`native/cuda` of torch 2.11)."""
_TURNED = ("upsample_bilinearnd", "upsample_nearestnd_backward")
"""Those that have another kernel for images that lie channels last: a thread for each element."""
_PAIR = 256
"""Threads of a block that computes one distance."""


def numbered(name: str) -> str:
    """An operator's name for any number of dimensions: upsample_bilinearnd for upsample_bilinear2d."""
    return re.sub(r"\d(?=d)", "n", name)


def last(x: torch.Tensor) -> bool:
    """Whether images lie channels last."""
    return x.dim() == 4 and x.shape[1] > 1 and x.is_contiguous(memory_format=torch.channels_last)


def _in_order(x: torch.Tensor) -> bool:
    """Whether it has no holes, and lies in the order of its dimensions or channels last."""
    return x.is_contiguous() or last(x)


def _walked(call: Call) -> Form | None:
    """Threads and their steps, of kernels that no sweep holds."""
    name = numbered(call.name.removeprefix("aten."))
    if name in ("_cdist_forward", "_pdist_forward"):
        return Form(STEPS, call.output.numel() * _PAIR, 1)
    if name == "_pdist_backward":
        return Form(EACH, call.tensor("pdist").numel() * call.output.shape[-1], 1)
    if name in ("_embedding_bag", "_embedding_bag_forward_only"):
        bags, width = call.output.numel(), call.output.shape[-1]
        return Form(STEPS, bags, math.ceil(call.tensor("indices").numel() * width / max(bags, 1)))
    if name == "im2col":
        images = x.shape[0] if (x := call.tensor("self")).dim() > 3 else 1  # each in a kernel of its own
        return Form(IN_TURN, call.output.numel() // window(call) // images, window(call) * images, 1, images)
    if name not in _WALKS:
        return None
    x = call.output if "nearest" in name else call.args.get("grad_output", call.output)
    through = () if last(x) and name in _TURNED else _WALKS[name]
    steps = math.prod(x.shape[dim] for dim in through)
    crowd = 1 if x.stride(1) == 1 else max(1, x.numel() // call.output.numel())  # a warp adds up in one place
    return Form(STEPS if through else EACH, x.numel() // max(steps, 1), steps, 1 if through else crowd)


def _indexed(call: Call) -> Form:
    named = _COUNTED.get(call.name.removeprefix("aten.").rstrip("_"))
    x, table = call.tensor(named) if named else call.output, next(iter(call.args.values()))
    dim = call.args.get("dim")
    if call.name.startswith("aten._embedding_bag"):
        rows = call.args.get("num_weights") or len(call.tensor("weight"))
        return Form("rows", call.tensor("indices").numel(), call.tensor("grad").shape[-1], int(rows))
    if call.name.startswith(_ELEMENTWISE) and x.dim() > 1 and dim is not None and int(dim) % x.dim() == x.dim() - 1:
        return Form("rows, within", x.numel() // max(x.shape[-1], 1), x.shape[-1], int(table.shape[-1]))
    rows = call.args.get("num_weights") or (table.shape[0] if isinstance(table, torch.Tensor) and table.dim() else 1)
    return Form("rows", x.numel() // max(x.shape[-1], 1), x.shape[-1], int(rows)) if x.dim() else Form()


def _convolved(call: Call) -> Form:
    """Positions of the result, the numbers that each of its elements is summed over; how images lie."""
    weight, groups = call.tensor("weight"), int(call.args["groups"])
    above = call.args.get("grad_output")
    result = above if isinstance(above, torch.Tensor) else call.output
    lines, length = result.numel() // max(result.shape[1], 1), weight[0].numel()
    window = math.prod(weight.shape[2:])
    name = "single" if window == 1 else "signal" if weight.dim() == 3 else "window"
    if groups > 1:
        name = "depthwise" if weight.shape[1] == 1 else "grouped"
        window = groups if weight.shape[1] > 1 else window
    spread = [each for each in call.args.get("dilation", ()) if each > 1]
    if call.args.get("transposed") or spread or weight.dim() == 5:
        name = "transposed" if call.args.get("transposed") else "dilated" if spread else "volume"
    x = call.tensor("input")
    lies = LAST * last(x) + ABOVE * (isinstance(above, torch.Tensor) and last(x) and last(above))
    return Form(name + lies, lines, length, x.shape[0], window)


def _attended(call: Call) -> Form:
    """Rows of all queries, and the width of a head."""
    query, hidden = call.tensor("query"), call.has("attn_mask") or call.has("attn_bias")
    masked = hidden and query.element_size() == 2  # in float32 the same kernel takes a mask or none
    name = "causal" if call.args.get("is_causal") else "masked" if masked else "all"
    return Form(name, query.numel() // query.shape[-1], query.shape[-1])


def window(call: Call) -> int:
    """The elements of a pooling window; one size is that of all its sides, of which its name tells how many."""
    sizes, sides = call.args.get("kernel_size", (1,)), next((n for n in (1, 3) if f"{n}d" in call.name), 2)
    return int(math.prod(sizes) if len(sizes) > 1 else sizes[0] ** sides)


def _pooled(call: Call) -> Form:
    above = call.args.get("grad_output")
    x = above if isinstance(above, torch.Tensor) else call.output
    dense = "_pool2d" in call.name and x.numel() == call.tensor("self").numel()  # a window at each place
    return Form("dense" if dense else "window", x.numel(), window(call))


def _lost(call: Call) -> Form:
    x = call.args.get("self")
    return Form("rows", x.shape[0], x.numel() // x.shape[0]) if isinstance(x, torch.Tensor) and x.dim() > 1 else Form()


def _transformed(call: Call) -> Form:
    """Transforms and their length, and as `window` the passes over memory: one for each side of a length that fits a
    multiprocessor, one more for each time as long, for scaling, for the copy that a transform to reals of one side
    destroys, and where a longer one of reals is made of one of half as many complex numbers.
    """
    to_real = "last_dim_size" in call.args
    x = call.output if to_real else call.tensor("self")
    sides = [x.shape[dim] for dim in call.args["dim"]]
    passes = sum(math.ceil(math.log(max(side, 2), _FITS)) * (_ODD if _SMOOTH % side else 1) for side in sides)
    length, scaled = math.prod(sides), bool(call.args["normalization"])
    filled = 2 * (call.args.get("onesided") is False)  # the other half, whose places are calculated
    real = (to_real and len(sides) == 1) + ("onesided" in call.args or to_real) * (sides[-1] > _FITS)
    return Form("transform", x.numel() // max(1, length), length, 1, passes + scaled + real + filled)


_FITS, _ODD, _SMOOTH = 2**14, 6, math.factorial(127) ** 24
"""Numbers that one kernel of cuFFT transforms; passes for a length with a prime factor of more than 127, which becomes
two transforms of at least twice the length, and products (L. Bluestein, 1970); what all other lengths divide."""


def _refilled(call: Call, x: torch.Tensor) -> bool:
    """Whether a result lies in order and begins as a copy of what does not."""
    return call.name.startswith(_BEGUN) and not call.written and not x.is_contiguous()


def _scattered(call: Call, x: torch.Tensor) -> bool:
    """Whether the transforms of a call do not lie one behind another; cuFFT takes a single distance between them."""
    batch = sorted((x.stride(dim), n) for dim, n in enumerate(x.shape) if dim not in call.args["dim"] and n > 1)
    return any(step != stride * n for (stride, n), (step, _) in pairwise(batch))


_BEGUN = ("aten.index_copy", "aten.index_add", "aten.index_reduce", "aten.scatter")
_CELLS = ("relu", "tanh", "lstm", "gru")
"""cuDNN's recurrent layers by its numbers for them."""


def _repeated(call: Call) -> Form:
    """Of a recurrent layer of cuDNN: steps of so many units, how many sequences, and so many layers and directions."""
    of, batch = call.args, call.tensor("hx").shape[1]
    marks = {"both ways": of["bidirectional"], "packed": of["batch_sizes"], "projected": of["proj_size"]}
    steps = len(of["batch_sizes"]) or call.tensor("input").shape[of["batch_first"]]
    name = ", ".join([_CELLS[of["mode"]], *(mark for mark, there in marks.items() if there)])
    return Form(name, steps, of["hidden_size"], batch, len(call.tensor("hx")))


_SPECIAL: dict[str, Callable[[Call], Form]] = {
    "index": _indexed, "convolution": _convolved, "attention": _attended, "pooling": _pooled, "loss": _lost,
    "transform": _transformed, "recurrent": _repeated,
}  # fmt: skip


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
    images = (x.shape[0], math.prod(x.shape[2:])) if x.dim() > 2 else (1, 1)
    if name in _TRAILING:
        length, sums = math.prod(call.args["normalized_shape"]), any(call.args.get("output_mask", ())[1:])
        return Form("rows and sums" if sums else "rows", x.numel() // max(length, 1), length)
    if name.startswith("native_group_norm"):
        lines = call.args["N"] * call.args["group"]
        turned = TURNED * (not x.is_contiguous())  # is copied first
        return Form("rows" + turned, lines, x.numel() // max(lines, 1), *images)
    if "batch_norm" in name and x.dim() > 1:
        fixed = "backward" not in name and not call.args.get("training", "no_training" not in name)
        lies = LAST * last(x) + ", strided" * (x.dim() > 2 and not _in_order(x))
        if fixed:
            return Form("fixed" + lies, x.shape[0] * x.shape[1], math.prod(x.shape[2:]))
        name = "columns" if x.dim() == 2 else "channels" + lies
        return Form(name, x.shape[1], x.numel() // max(x.shape[1], 1), *images)
    return Form()


def _spreads(shape: Sequence[int], over: Sequence[int]) -> bool:
    pairs = zip(reversed(shape), reversed(over), strict=False)
    return len(shape) <= len(over) and all(one in (1, other) for one, other in pairs)


def _run(out: torch.Tensor, taken: Sequence[torch.Tensor]) -> int:
    """Elements of a line: the last dimension, and those before it that run on in each operand, broadcast or not."""
    spread = [each for each in taken if each.numel() > 1 and _spreads(each.shape, out.shape)]
    strides = [each.expand(out.shape).stride() for each in spread]
    length = 1
    for place in reversed(range(out.dim())):
        if place < out.dim() - 1 and any(each[place] != each[place + 1] * out.shape[place + 1] for each in strides):
            break
        length *= out.shape[place]
    return length


def _turned(out: torch.Tensor, taken: Sequence[torch.Tensor]) -> Form:
    """Of operands that lie in another order than the result: lines as they are written, and how far apart the elements
    of one are read. Where each lies in one piece, only places are calculated, as for a broadcast."""
    order = sorted(range(out.dim()), key=lambda dim: (out.shape[dim] > 1, -out.stride()[dim]))
    out, taken = out.permute(order), [each.permute(order) for each in taken]
    length = _run(out, taken)
    apart = max(each.stride(-1) for each in taken)
    if apart in (0, out.stride(-1)):
        return Form("broadcast", out.numel() // max(length, 1), length)
    lines, apart = out.numel() // max(length, 1), max(apart, 1)
    return Form("strided", lines, length, max(1, lines // apart), apart)


def _elementwise(call: Call) -> Form:
    out, name = call.output, call.name.removeprefix("aten.")
    taken = [tensor for _, tensor in call.each_argument()]
    if name in ("cat", "stack"):  # in pieces, as those of the first one that holds anything
        piece = next((t for t in taken if t.numel()), out)
        length = max(math.prod(piece.shape[int(call.args.get("dim") or 0) :]), 1)
        return Form("" if all(map(_in_order, taken)) else "strided", out.numel() // length, length)
    if name == "roll":  # a kernel for each dimension
        return Form(TURNED * (not taken[0].is_contiguous()), max(1, len(call.args["dims"])), out.numel())
    length = _run(out, taken)
    lines = out.numel() // max(length, 1)
    if not name.startswith(_ALONE) and any(t.numel() < out.numel() for t in taken):  # also one number on the device
        return Form("broadcast", lines, length)
    turned = [t for t in taken if t.shape == out.shape and t.stride() != out.stride() and out.dim() > 1]
    if turned:
        return _turned(out, turned)
    if name == "_to_copy" and taken and taken[0].dtype != out.dtype:
        return Form(f"to-{str(out.dtype).removeprefix('torch.')}", 1, out.numel())
    return Form("scalar" if name in _TWO and len(taken) == 1 else "", 1, out.numel())
