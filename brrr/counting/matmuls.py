"""FLOP of matrix products, convolutions and attention, and the products each amounts to."""

import math
from dataclasses import replace

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from brrr.counting.call import Call, Count, Formula, nothing, table
from brrr.counting.cost import Matmul

Shape = tuple[int, ...]


def dtype_name(tensor: torch.Tensor) -> str:
    """float32 for torch.float32."""
    return str(tensor.dtype).removeprefix("torch.")


def _product(a: torch.Tensor, b: torch.Tensor) -> tuple[Matmul, ...]:
    """The product of vectors, matrices or batches of matrices; a vector is a matrix of one row or one column.

    A complex one counts as the real product of twice as many rows and columns: four products, and as many numbers.
    """
    parts, dtype = (2, a.dtype.to_real()) if a.is_complex() else (1, a.dtype)
    m, n = (a.shape[-2] if a.dim() > 1 else 1), (b.shape[-1] if b.dim() > 1 else 1)
    batch, layout = a.shape[0] if a.dim() == 3 else 1, (_by_columns(a), _by_columns(b))
    return (Matmul(parts * m, parts * n, a.shape[-1], batch, str(dtype).removeprefix("torch."), layout),)


def _by_columns(tensor: torch.Tensor) -> bool:
    """Whether a matrix lies column by column, as the transpose of one does."""
    return tensor.dim() > 1 and tensor.stride(-2) == 1 and tensor.shape[-1] > 1 and tensor.stride(-1) != 1


def _two(first: str, second: str) -> Formula:
    """A product of the tensors of these names; what is added to it (`self`) is counted from alpha and beta."""
    return Formula("matmul", _added, lambda call: _product(call.tensor(first), call.tensor(second)))


def _added(call: Call) -> float:
    """beta C + alpha A B: an addition unless beta is 0, a multiplication for each factor that is not 1; activated."""
    each = {None: 0, False: 1, True: 5}[call.args.get("use_gelu")]  # ReLU or GELU, as `conventions` has them
    if "beta" in call.args:
        alpha, beta = call.args["alpha"], call.args["beta"]
        each += int(alpha != 1) + int(beta != 0) + int(beta not in (0, 1))
    else:
        each += call.has("bias")
    return float(call.output.numel() * (1 + call.output.is_complex()) * each)


def _grouped(call: Call) -> tuple[Matmul, ...]:
    """Rows, columns or summands of the whole, each of one group: who has how many are values, their sum is known."""
    a, b = call.tensors(next(iter(call.args)))[0], call.tensor("mat2" if "mat2" in call.args else "mat_b")
    return (Matmul(a.shape[-2], b.shape[-1], a.shape[-1], len(a) if a.dim() == b.dim() == 3 else 1, dtype_name(a)),)


def _packed(call: Call) -> tuple[Matmul, ...]:
    """Of a weight in a form of its own: the sizes are those of what goes in and what comes out."""
    x, out = next(iter(call.each_argument()))[1], call.output
    return (Matmul(out.numel() // out.shape[-1], out.shape[-1], x.shape[-1], 1, dtype_name(x)),)


def _biased(call: Call) -> float:
    """An addition for each result, where there is a bias."""
    with unset_fake_temporarily():  # a packed weight unpacks itself to tell
        biased = call.has("bias") or (call.has("W_prepack") and call.args["W_prepack"].bias() is not None)
    return float(call.output.numel() * biased)


def _distances(call: Call) -> float:
    """Of each pair of rows of n: differences n, their powers n (n more for |d|^p), sums n - 1, a root."""
    x = next(iter(call.each_argument()))[1]
    return float(call.output.numel() * x.shape[-1] * (3 if call.args.get("p", 2) in (0, 1, 2, math.inf) else 4))


def _convolution(call: Call, out: torch.Tensor) -> Matmul:
    """The product that it amounts to: pixels by the output channels of a group, over the products of one output.

    Transposed, the image's pixels count, and the weight lies the other way round: (input channels, output channels).
    """
    x, weight, groups, turned = (call.args[name] for name in ("input", "weight", "groups", "transposed"))
    pixels = x.shape[0] * math.prod((x if turned else out).shape[2:])
    n, k = weight.shape[0] // groups, math.prod(weight.shape[1:])
    return Matmul(pixels, *((k, n) if turned else (n, k)), groups, dtype_name(weight))


def _convolution_gradients(call: Call) -> tuple[Matmul, ...]:
    """Each gradient, of the input and of the weight, is a product with the forward one's FLOP."""
    one = _convolution(call, call.tensor("grad_output"))
    to_input, to_weight, _ = call.args["output_mask"]
    by_input, by_weight = replace(one, n=one.k, k=one.n), replace(one, m=one.n, n=one.k, k=one.m)
    return (*[by_input] * to_input, *[by_weight] * to_weight)


def _bias_gradient(call: Call) -> float:
    grad = call.tensor("grad_output")
    return float((grad.numel() - grad.shape[1]) * call.args["output_mask"][2])


def _attention_sizes(call: Call) -> tuple[int, int, int, int, int, str]:
    """(batch times query heads, queries, keys, width of a key, width of a value, dtype).

    The memory-efficient kernel takes (batch, heads, tokens, width) here as the others do.
    """
    query, key, value = (call.tensor(name) for name in ("query", "key", "value"))
    *outer, queries, width = query.shape
    return math.prod(outer), queries, key.shape[-2], width, value.shape[-1], dtype_name(query)


def _attention_matmuls(call: Call) -> tuple[Matmul, ...]:
    batch, queries, keys, width, depth, dtype = _attention_sizes(call)
    return Matmul(queries, keys, width, batch, dtype), Matmul(queries, depth, keys, batch, dtype)


def _attention_backward_matmuls(call: Call) -> tuple[Matmul, ...]:
    """The scores again, then the gradients of the probabilities, the values, the queries and the keys."""
    batch, queries, keys, width, depth, dtype = _attention_sizes(call)
    of_both = ((queries, keys, width), (queries, keys, depth), (keys, depth, queries))
    sizes = (*of_both, (queries, width, keys), (keys, width, queries))
    return tuple(Matmul(*each, batch, dtype) for each in sizes)


_KERNELS = "flash_attention flash_attention_for_cpu efficient_attention cudnn_attention fused_attention_overrideable"
ATTENTION = tuple(f"aten._scaled_dot_product_{kernel}" for kernel in _KERNELS.split())


PACKED = (
    "aten._weight_int4pack_mm", "aten._weight_int4pack_mm_for_cpu", "aten._weight_int4pack_mm_with_scales_and_zeros",
    "aten._weight_int8pack_mm", "aten._dyn_quant_matmul_4bit", "aten._mixed_dtypes_linear", "aten.mkldnn_linear",
    "quantized.linear", "quantized.linear_relu", "quantized.linear_dynamic", "quantized.linear_relu_dynamic",
    "quantized.linear_dynamic_fp16", "onednn.qlinear_pointwise", "onednn.linear_dynamic_fp16",
)  # fmt: skip
"""Linear layers whose weight is quantised, or packed for one kernel."""


def products() -> dict[str, Formula]:
    """Matrix products, convolutions, attention."""
    plain, grouped = _two("self", "mat2"), Formula("matmul", _biased, _grouped)
    convolution = Formula("convolution", _biased, lambda call: (_convolution(call, call.output),))
    backward = Formula("convolution", _bias_gradient, _convolution_gradients)
    forward_attention = Formula("attention", nothing, _attention_matmuls)
    backward_attention = Formula("attention", nothing, _attention_backward_matmuls)
    return {
        **dict.fromkeys(("aten.mm", "aten.bmm", "aten._int_mm", "aten._scaled_mm", "aten._scaled_mm_v2"), plain),
        **dict.fromkeys(("aten.addmm", "aten._addmm_activation"), _two("mat1", "mat2")),
        **dict.fromkeys(("aten.baddbmm", "aten.addbmm"), _two("batch1", "batch2")),
        **dict.fromkeys(("aten._grouped_mm", "aten._scaled_grouped_mm", "aten._scaled_grouped_mm_v2"), grouped),
        **dict.fromkeys(PACKED, Formula("matmul", _biased, _packed)),
        **table("reduction", {
            "dot vdot": lambda call: 2.0 * call.tensor("self").numel(),
            "_cdist_forward _pdist_forward": _distances,
            # g / d for each pair, times x - y, summed; for one set, taken off the other row's sum.
            "_cdist_backward": lambda call: call.tensor("cdist").numel() * (1.0 + 3 * call.tensor("x1").shape[-1]),
            "_pdist_backward": lambda call: call.tensor("pdist").numel() * (1.0 + 4 * call.tensor("self").shape[-1]),
        }),
        "aten.mv": _two("self", "vec"),
        "aten.addmv": _two("mat", "vec"),
        **dict.fromkeys(("aten.convolution", "aten.convolution_overrideable"), convolution),
        **dict.fromkeys(("aten.convolution_backward", "aten.convolution_backward_overrideable"), backward),
        **dict.fromkeys((*ATTENTION, "flex_attention"), forward_attention),
        "flex_attention_backward": backward_attention,
        **{f"{name}_backward": backward_attention for name in ATTENTION if not name.endswith("cpu")},
        "aten._scaled_dot_product_flash_attention_for_cpu_backward": backward_attention,
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# FLOP of cuDNN's recurrent layers, which run all steps in one call.

# For each unit and step, beside the products and their biases, by cuDNN's mode: relu, tanh, LSTM, GRU.
# RNN: the sum of both products, then the activation. LSTM: 4 sums, 3 sigmoids of 4, a tanh, f c + i g, o tanh(c).
# GRU: 2 sums and 2 sigmoids of 4, then tanh(n + r h) and n + z (h - n).
_PER_UNIT = {0: 2, 1: 2, 2: 22, 3: 16}
# Back: a sum of what comes from above and from the next step (an LSTM's cell has another), each activation's gradient
# as `conventions` counts it (2 for relu, else 3), and of the rest 6 products for an LSTM, 4 and 4 sums for a GRU.
_PER_UNIT_BACK = {0: 3, 1: 4, 2: 2 + 5 * 3 + 6, 3: 1 + 3 * 3 + 4 + 3}


def _steps(call: Call) -> list[int]:
    """The batch of each step, which gets smaller in packed sequences."""
    x, batch = call.tensor("input"), call.tensor("hx").shape[1]
    return list(call.args["batch_sizes"]) or [batch] * (x.numel() // x.shape[-1] // batch)


def _matmuls(call: Call) -> tuple[Matmul, ...]:
    """A layer has the input's weight, which all steps share a product with; then the state's and a projection's."""
    batches = _steps(call)
    found: list[Matmul] = []
    for place, weight in enumerate(call.tensors("weight")):
        if weight.dim() == 2:
            rows = batches if place % call.args["weight_stride0"] else [sum(batches)]
            width, depth = weight.shape
            found += [Matmul(each, width, depth, dtype=dtype_name(weight)) for each in rows]
    return tuple(found)


def _backward_matmuls(call: Call) -> tuple[Matmul, ...]:
    """For the inputs as many products as forward, for each weight one of all rows; cuDNN always finds the inputs'."""
    rows = sum(_steps(call))
    of_inputs = [Matmul(each.m, each.k, each.n, dtype=each.dtype) for each in _matmuls(call)]
    weights = [each for each in call.tensors("weight") if each.dim() == 2 and call.args["output_mask"][3]]
    of_weights = [Matmul(len(each), each.shape[1], rows, dtype=dtype_name(each)) for each in weights]
    return (*of_inputs, *of_weights)


def _cells(per_unit: dict[int, int]) -> Count:
    """A bias added to each product or its gradient summed, and the cell."""

    def flop(call: Call) -> float:
        wanted = call.args.get("output_mask", (True,))[-1]
        biases = sum(bias.numel() for bias in call.tensors("weight") if bias.dim() == 1) * wanted
        units = call.args["hidden_size"] * len(call.tensor("hx"))
        return float(sum(_steps(call)) * (biases + units * per_unit[call.args["mode"]]))

    return flop


def recurrent() -> dict[str, Formula]:
    """cuDNN's calls, forward and backward."""
    return {
        "aten._cudnn_rnn": Formula("recurrent", _cells(_PER_UNIT), _matmuls),
        "aten._cudnn_rnn_backward": Formula("recurrent", _cells(_PER_UNIT_BACK), _backward_matmuls),
    }
