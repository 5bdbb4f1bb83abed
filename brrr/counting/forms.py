"""In which form an operator runs: along rows or columns, broadcast or strided. Bytes and FLOP do not tell, times do."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import torch

from brrr.counting.call import Call, numbered, window
from brrr.counting.cost import ABOVE, COPIED, EACH, IN_TURN, TURNED, Form
from brrr.counting.reductions import trains
from brrr.gpu import is_gpu

FormOf = Callable[[Call], Form]


def form_of(call: Call, kind: str) -> Form:
    """The form of a call of an operator of this kind; the empty one where there is nothing to tell."""
    own = _BY_NAME.get(numbered(call.name)) or _BY_KIND.get(kind)
    return own(call) if own and (call.outputs or call.of_lists) else Form()


# ---------------------------------------------------------------------------------------------------------------------
# Kernels that no sweep holds: threads and their steps.

STEPS, LAST = "steps", ", channels last"
"""Forms whose `lines` are threads, and whose `length` is what each goes through one after the other; or one each."""
_PAIR = 256
"""Threads of a block that computes one distance."""


def _last(x: torch.Tensor) -> bool:
    """Whether images lie channels last."""
    return x.dim() == 4 and x.shape[1] > 1 and x.is_contiguous(memory_format=torch.channels_last)


def _in_order(x: torch.Tensor) -> bool:
    """Whether it has no holes, and lies in the order of its dimensions or channels last."""
    return x.is_contiguous() or _last(x)


def _walking(*through: int, made: bool = False, turned: bool = False) -> FormOf:
    """A thread has a place of an image, and goes through these dimensions there: images, channels, or none.

    `made`: the image is the result, also of a gradient. `turned`: for images that lie channels last there is another
    kernel, with a thread for each element (`native/cuda` of torch 2.11).
    """

    def form(call: Call) -> Form:
        x = call.output if made else call.args.get("grad_output", call.output)
        dims = () if turned and _last(x) else through
        steps = math.prod(x.shape[dim] for dim in dims)
        crowd = 1 if x.stride(1) == 1 else max(1, x.numel() // call.output.numel())  # a warp adds up in one place
        return Form(STEPS if dims else EACH, x.numel() // max(steps, 1), steps, 1 if dims else crowd)

    return form


def _summed_bags(call: Call) -> Form:
    bags, width = call.output.numel(), call.output.shape[-1]
    return Form(STEPS, bags, math.ceil(call.tensor("indices").numel() * width / max(bags, 1)))


def _unfolded(call: Call) -> Form:
    images = x.shape[0] if (x := call.tensor("self")).dim() > 3 else 1  # each in a kernel of its own
    return Form(IN_TURN, call.output.numel() // window(call) // images, window(call) * images, 1, images)


# ---------------------------------------------------------------------------------------------------------------------
# Forms of classes: indexing, convolutions, attention, pooling, losses, transforms, recurrent layers, reductions, norms.


def _bags(call: Call) -> Form:
    rows = call.args.get("num_weights") or len(call.tensor("weight"))
    return Form("rows", call.tensor("indices").numel(), call.tensor("grad").shape[-1], int(rows))


def _indexing(of: str = "", *, within: bool = False, begun: bool = False) -> FormOf:
    """Among the rows of a table, the elements of an argument, or of the result.

    `within`: with an index for each element, which within rows stays near. `begun`: the result begins as a copy of the
    table, which is turned first where that does not lie in order.
    """

    def form(call: Call) -> Form:
        x, table = call.tensor(of) if of else call.output, next(iter(call.args.values()))
        if not x.dim():
            return Form()
        near = within and x.dim() > 1 and int(call.args["dim"]) % x.dim() == x.dim() - 1
        sides = table.shape if isinstance(table, torch.Tensor) and table.dim() else (1,)
        rows = call.args.get("num_weights") or sides[-1 if near else 0]
        turned = begun and not call.written and not table.is_contiguous()
        name = "rows" + ", within" * near + TURNED * turned
        return Form(name, x.numel() // max(x.shape[-1], 1), x.shape[-1], int(rows))

    return form


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
    lies = LAST * _last(x) + ABOVE * (isinstance(above, torch.Tensor) and _last(x) and _last(above))
    return Form(name + lies, lines, length, x.shape[0], window)


def _attended(call: Call) -> Form:
    """Rows of all queries, and the width of a head."""
    query, hidden = call.tensor("query"), call.has("attn_mask") or call.has("attn_bias")
    masked = hidden and query.element_size() == 2  # in float32 the same kernel takes a mask or none
    name = "causal" if call.args.get("is_causal") else "masked" if masked else "all"
    return Form(name, query.numel() // query.shape[-1], query.shape[-1])


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
    name = "transform" + TURNED * _scattered(call)
    return Form(name, x.numel() // max(1, length), length, 1, passes + scaled + real + filled)


_FITS, _ODD, _SMOOTH = 2**14, 6, math.factorial(127) ** 24
"""Numbers that one kernel of cuFFT transforms; passes for a length with a prime factor of more than 127, which becomes
two transforms of at least twice the length, and products (L. Bluestein, 1970); what all other lengths divide."""


def _scattered(call: Call) -> bool:
    """Whether the transforms of a call do not lie one behind another; cuFFT takes a single distance between them."""
    x = call.tensor("self")
    batch = sorted((x.stride(dim), n) for dim, n in enumerate(x.shape) if dim not in call.args["dim"] and n > 1)
    return any(step != stride * n for (stride, n), (step, _) in pairwise(batch))


_CELLS = ("relu", "tanh", "lstm", "gru")
"""cuDNN's recurrent layers by its numbers for them."""


def _repeated(call: Call) -> Form:
    """Of a recurrent layer of cuDNN: steps of so many units, how many sequences, and so many layers and directions."""
    of, batch = call.args, call.tensor("hx").shape[1]
    marks = {"both ways": of["bidirectional"], "packed": of["batch_sizes"], "projected": of["proj_size"]}
    steps = len(of["batch_sizes"]) or call.tensor("input").shape[of["batch_first"]]
    name = ", ".join([_CELLS[of["mode"]], *(mark for mark, there in marks.items() if there)])
    return Form(name, steps, of["hidden_size"], batch, len(call.tensor("hx")))


def _along(call: Call) -> Form:
    """A reduction over some dimensions: the last ones are rows, any others columns."""
    x, dim = call.args.get("self", call.args.get("grad_output")), call.args.get("dim")
    if not isinstance(x, torch.Tensor):
        return Form()
    given = [dim] if isinstance(dim, int) else list(dim) if isinstance(dim, list | tuple) else []
    dims = sorted({each % max(x.dim(), 1) for each in given}) or list(range(x.dim()))
    length = math.prod(x.shape[each] for each in dims) if x.dim() else 1
    if len(dims) == x.dim():
        return Form("whole" if not given else "rows", 1, length)
    name = "rows" if dims == list(range(x.dim() - len(dims), x.dim())) else "columns"
    return Form(name, x.numel() // max(length, 1), length)


def _trailing(call: Call) -> Form:
    length, sums = math.prod(call.args["normalized_shape"]), any(call.args.get("output_mask", ())[1:])
    return Form("rows and sums" if sums else "rows", call.tensor("input").numel() // max(length, 1), length)


def _grouped(call: Call) -> Form:
    x, lines = call.tensor("input"), call.args["N"] * call.args["group"]
    turned = TURNED * (not x.is_contiguous())  # is copied first
    return Form(
        "rows" + turned, lines, x.numel() // max(lines, 1), x.shape[0] if x.dim() > 2 else 1, math.prod(x.shape[2:])
    )


def _images(x: torch.Tensor) -> tuple[int, int]:
    return (x.shape[0], math.prod(x.shape[2:])) if x.dim() > 2 else (1, 1)


def _batch(call: Call) -> Form:
    x = call.args.get("input")
    if not isinstance(x, torch.Tensor) or x.dim() < 2:
        return Form()
    lies = LAST * _last(x) + ", strided" * (x.dim() > 2 and not _in_order(x))
    if "backward" not in call.name and not trains(call):
        return Form("fixed" + lies, x.shape[0] * x.shape[1], math.prod(x.shape[2:]))
    name = "columns" if x.dim() == 2 else "channels" + lies
    return Form(
        name, x.shape[1], x.numel() // max(x.shape[1], 1), x.shape[0] if x.dim() > 2 else 1, math.prod(x.shape[2:])
    )


# ---------------------------------------------------------------------------------------------------------------------
# Elementwise operators and copies.

_TWO = {"add", "sub", "mul", "div", "rsub", "pow", "maximum", "minimum"}
_ALONE = ("new_", "_thnn_fused")
"""What reads nothing, or a cell's gates and state: the sizes of its arguments say nothing of its form."""


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
    if call.of_lists:
        sizes = [tensor.numel() for tensor in call.tensors(next(iter(call.args)))]
        longest = max(sizes, default=0)  # which decides where there are few pieces
        return Form("tensors", math.ceil(sum(sizes) / max(longest, 1)), longest)
    out, name = call.output, call.name.removeprefix("aten.")
    taken = [tensor for _, tensor in call.each_argument()]
    length = _run(out, taken)
    lines = out.numel() // max(length, 1)
    if not name.startswith(_ALONE) and any(t.numel() < out.numel() for t in taken):  # also one number on the device
        return Form("broadcast", lines, length)
    turned = [t for t in taken if t.shape == out.shape and t.stride() != out.stride() and out.dim() > 1]
    if turned:
        return _turned(out, turned)
    return Form("scalar" if name in _TWO and len(taken) == 1 else "", 1, out.numel())


def _copied(call: Call) -> Form:
    """Between the host's memory and a GPU's, where what need not wait is taken to be of pinned memory; or a cast."""
    source, out = call.args.get("src", call.args.get("self")), call.output
    there = is_gpu(out.device)
    if isinstance(source, torch.Tensor) and (source.dim() or out.dim()) and is_gpu(source.device) != there:
        return Form(f"{COPIED} {'in' if there else 'out'}{', pinned' if call.args.get('non_blocking') else ''}")
    form = _elementwise(call)
    cast = not form.name and call.tensor("self").dtype != out.dtype
    return replace(form, name=f"to-{str(out.dtype).removeprefix('torch.')}") if cast else form


def _joined(call: Call) -> Form:
    """In pieces, as those of the first one that holds anything."""
    taken = [tensor for _, tensor in call.each_argument()]
    piece = next((t for t in taken if t.numel()), call.output)
    length = max(math.prod(piece.shape[int(call.args.get("dim") or 0) :]), 1)
    return Form("" if all(map(_in_order, taken)) else "strided", call.output.numel() // length, length)


_BY_KIND: dict[str, FormOf] = {
    **dict.fromkeys(("pointwise", "copy", "random"), _elementwise),
    **dict.fromkeys(("reduction", "softmax", "scan"), _along), "norm": _batch, "index": _indexing(),
    "convolution": _convolved, "attention": _attended, "pooling": _pooled, "loss": _lost, "transform": _transformed,
    "recurrent": _repeated,
}  # fmt: skip
_BY_NAME: dict[str, FormOf] = {f"aten.{name}": form for form, names in (
    (_walking(0, 1), "upsample_linearnd upsample_trilinearnd upsample_bicubicnd"),
    (_walking(0, 1), "upsample_linearnd_backward upsample_bicubicnd_backward"),
    (_walking(0, 1, turned=True), "upsample_bilinearnd"),
    (_walking(0, made=True, turned=True), "upsample_nearestnd_backward"),
    (_walking(0, made=True), "_upsample_nearest_exactnd_backward"),
    (_walking(1), "grid_sampler_nd grid_sampler_nd_backward"),
    (_walking(), "upsample_bilinearnd_backward upsample_trilinearnd_backward reflection_padnd replication_padnd"),
    (_walking(), "reflection_padnd_backward replication_padnd_backward"),
    (lambda call: Form(STEPS, call.output.numel() * _PAIR, 1), "_cdist_forward _pdist_forward"),
    (lambda call: Form(EACH, call.tensor("pdist").numel() * call.output.shape[-1], 1), "_pdist_backward"),
    (_summed_bags, "_embedding_bag _embedding_bag_forward_only"),
    (_unfolded, "im2col"),
    (_bags, "_embedding_bag_backward _embedding_bag_dense_backward _embedding_bag_per_sample_weights_backward"),
    (_indexing("source", begun=True), "index_add"),
    (_indexing("index", within=True, begun=True), "scatter_add"),
    (_indexing("grad_output"), "embedding_dense_backward"),
    (_indexing(within=True), "gather"),
    (_indexing(within=True, begun=True), "scatter scatter_reduce"),
    (_indexing(begun=True), "index_copy index_reduce"),
    (_along, "sort topk kthvalue median mode"),  # of unknown FLOP; their time goes with how long their lines are
    (_trailing, "native_layer_norm _fused_rms_norm native_layer_norm_backward _fused_rms_norm_backward"),
    (_grouped, "native_group_norm native_group_norm_backward"),
    (_copied, "copy _to_copy"),
    (_joined, "cat stack"),
    (lambda call: Form(TURNED * (not call.tensor("self").is_contiguous()), max(1, len(call.args["dims"])),
                       call.output.numel()), "roll"),  # a kernel for each dimension
) for name in names.split()}  # fmt: skip
"""Operators whose form is not that of their kind."""
