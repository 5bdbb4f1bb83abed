"""How many FLOP each torch operator counts.

| operators | FLOP |
| --- | --- |
| mm, bmm, mv, dot, grouped products | 2mnk, batch by batch; of groups the rows of all together |
| addmm, baddbmm, addbmm, linear | 2mnk, and mn for what is added; mn more for each of alpha and beta not 0 or 1 |
| linears of packed or quantised weights | the same, by what goes in and comes out |
| convolution | 2 x outputs x (input channels of a group) x taps, and 1 per output for the bias |
| convolution, backward | the forward's products once for each gradient, of input and weight; the bias's is a sum |
| attention kernels | their two products, five in the backward; all of them where the mask is causal; no softmax |
| cuDNN's recurrent layers | their products and biases; per unit and step RNN 2, GRU 16, LSTM 22 |
| the same, backward | the products once for all inputs, once for the weights; biases; RNN 4 (relu 3), GRU 17, LSTM 23 |
| add, sub, mul, div, sqrt, exp, sin, tanh, erf, max, compare, where, relu and their like | 1 per element |
| add with alpha other than 1 | 2 per element; addcmul and addcdiv 2, with a value other than 1: 3 |
| lerp 3, sigmoid and silu 4, gelu 5 (tanh form 9), softplus 6, clamp 1 per bound | per element, by formula |
| their backwards: relu 2, tanh and sigmoid 3, silu 9, gelu 11 (tanh form 18) | per element, by formula |
| sum, max, prod, argmax | n - 1 per result; mean n |
| var 4n, std 4n + 1, 2-norm 2n, logsumexp 4n | per result, in two passes |
| softmax 5n - 2, log_softmax 5n - 1, backward of both 4n - 1 | per row |
| layer, group and batch norm | 5n + 2 per group; n for the weight, n for the bias; 7 a channel for running statistics |
| the same, backward | 9n per group, n for the weight; its gradient 2n - 1, the bias's n - 1 for n summed elements |
| RMS norm | 3n + 2, n for the weight; backward 6n and n; the weight's gradient 2n - 1 |
| cumsum, cumprod | n - 1 per row |
| nll_loss 1, mse_loss 2 per element; their mean n, their sum n - 1 more | by formula |
| smooth L1, Huber, binary cross-entropy 8, soft margin 4 per element; then as above | by formula |
| distances of rows (cdist, pdist): 3n, 4n for powers but 0, 1, 2, inf; a product where torch runs one | per pair |
| max pooling window - 1, average pooling window | per output |
| linear, bilinear, trilinear, bicubic interpolation 3, 9, 21, 35; a grid's samples the same | per output |
| scatter_add, index_add, the backward of embedding, of padding and of nearest neighbours | 1 per element added |
| a bag of embeddings: 1 per element summed or compared; 1 more for a weight, 1 per output for the mean | by look-ups |
| a fused optimizer's step: Adam 13, AdaGrad 7, SGD 2, its momentum 2, Nesterov's 4; decay 2, AdamW's 1 | each |
| copies, casts, fills, padding, indexing, views (also those made in place) | 0 |
| random numbers | 0, and named in `Cost.random`; dropout 2 per element for mask and scale |
| elementwise and reducing operators on whole numbers and booleans | 0: they are no floating-point operations |
| products of complex numbers 8mnk; FFT of n complex numbers 5n log2 n, of real ones half | per product, transform |
| anything else, and all other complex arithmetic | unknown, and named in `Cost.unknown` |

The counts follow formulas as a textbook writes them, not one library's code: two kernels for one formula cost alike.
Matrix products, convolutions and attention agree with `torch.utils.flop_counter` but for the added bias, and for the
weight gradient of a grouped convolution, which that counts once for each group too often.
"""

import math
from collections.abc import Callable
from functools import cache

import torch

from brrr.counting.call import Call, Count, Formula, free, numbered, table
from brrr.counting.cost import Matmul
from brrr.counting.forms import form_of
from brrr.counting.matmuls import products, recurrent
from brrr.counting.reductions import losses, norms, reductions

# ---------------------------------------------------------------------------------------------------------------------
# Operators that move data, draw random numbers, or add up what they move.

_COPY = (
    "copy _to_copy clone contiguous fill zero zeros ones full zeros_like ones_like full_like new_zeros new_ones "
    "new_full arange range linspace logspace eye scalar_tensor tril_indices triu_indices cat _chunk_cat stack "
    "block_diag slice_backward select_backward diagonal_backward roll rot90 flip repeat tril triu diag_embed "
    "constant_pad_nd reflection_padnd replication_padnd pixel_shuffle pixel_unshuffle im2col max_unpoolnd "
    "upsample_nearestnd _upsample_nearest_exactnd slice_scatter select_scatter diagonal_scatter as_strided_scatter "
    "lift _local_scalar_dense equal _linalg_check_errors _assert_async set _pin_memory _foreach_copy _foreach_zero "
    "_foreach_clone _pack_padded_sequence quantize_per_tensor quantize_per_tensor_dynamic quantize_per_channel "
    "dequantize int_repr"
)
_INDEX = (
    "embedding gather index_select index take index_copy index_fill masked_select masked_scatter nonzero "
    "put nonzero_static _unsafe_index one_hot _unsafe_masked_index masked_scatter_backward"
)
_RANDOM = (
    "bernoulli normal uniform exponential random log_normal cauchy geometric rand randn randint randperm "
    "rand_like randn_like randint_like multinomial poisson binomial _standard_gamma _sample_dirichlet"
)


def looked_up(call: Call) -> int:
    """The elements of the rows of a table that indices name, one after the other."""
    rows = call.tensor("weight" if "weight" in call.args else "self")
    return call.tensor("indices").numel() * rows.shape[-1]


def _bags(call: Call) -> float:
    """Each row is added to its bag's, or compared with it; a product for a weight of its own; a mean's division."""
    elements, mean = looked_up(call), call.args["mode"] == 1
    summed = max(0, elements - call.output.numel())
    return float(summed + elements * call.has("per_sample_weights") + mean * call.output.numel())


def _bags_backward(call: Call) -> float:
    """Each row of the gradient is added once for each look-up of its bag, times what the sum had."""
    elements = call.tensor("indices").numel() * call.tensor("grad").shape[-1]
    return float(elements * (1 + call.has("per_sample_weights") + (call.args["mode"] == 1)))


def _per_source(call: Call) -> float:
    """self + alpha * source, one element of the source at a time."""
    return float(call.tensor("source").numel() * (1 if call.args.get("alpha", 1) == 1 else 2))


def indexed_elements(call: Call) -> int:
    """How many elements of `self` the indices of `index_put` name: their broadcast shape, times the other dims."""
    given = [index for index in call.args["indices"] if index is not None]
    if any(index.dtype == torch.bool for index in given):
        return call.tensor("self").numel()  # at most
    named = torch.broadcast_shapes(*(index.shape for index in given))
    places = list(call.args["indices"]) + [None] * call.tensor("self").dim()
    others = (n for n, index in zip(call.tensor("self").shape, places, strict=False) if index is None)
    return math.prod((*named, *others))


def movement() -> dict[str, Formula]:
    """Copies and fills, indexing, random numbers."""
    return {
        **free("copy", _COPY),
        **free("view", "empty _efficientzerotensor empty_like empty_strided empty_permuted new_empty new_empty_strided "
                       "resize resize_as"),
        **free("index", _INDEX),
        **free("random", _RANDOM),
        # Drawing the mask counts 0; multiplying by it and by 1 / (1 - p) counts 2.
        **table("random", {"native_dropout": lambda call: 2.0 * call.output.numel()}),
        **table("index", {
            "index_put _index_put_impl _unsafe_index_put": lambda call: (
                float(indexed_elements(call)) if call.args.get("accumulate") else 0.0
            ),
            "_embedding_bag _embedding_bag_forward_only": _bags,
            # The 2-norm of each row, and its scale.
            "embedding_renorm": lambda call: 3.0 * looked_up(call),
            # The product of each row and its bag's gradient.
            "_embedding_bag_per_sample_weights_backward": lambda call: 2.0 * looked_up(call),
            "_embedding_bag_backward _embedding_bag_dense_backward": _bags_backward,
            # `scatter` with a reduction combines once for each index; without, it only moves.
            "scatter": lambda call: float(call.tensor("index").numel() * (call.args.get("reduce") is not None)),
            "scatter_add scatter_reduce": lambda call: float(call.tensor("index").numel()),
            "index_add index_reduce": _per_source,
            # Each row of the gradient is added to the row that its index names.
            "embedding_dense_backward": lambda call: float(call.tensor("grad_output").numel()),
        }),
    }  # fmt: skip


_ON_REALS = {"pointwise", "reduction", "scan", "softmax", "pooling", "index"}
_OF_COMPLEX = {"matmul", "transform"}
"""Kinds whose formulas count complex numbers, too."""


def _transform(call: Call) -> float:
    """5 n log2 n for each transform of n complex numbers, half of it where they are real on one side (FFTW's count)."""
    form = form_of(call, "transform")
    each = 5.0 * form.length * math.log2(max(form.length, 2))
    return form.lines * each / (1 if call.name.endswith("c2c") else 2)


@cache
def formulas() -> dict[str, Formula]:
    """Every operator that is known, by name."""
    known = {**pointwise(), **reductions(), **norms(), **losses(), **movement(), **products(), **recurrent()}
    return {**known, **table("transform", {"_fft_c2c _fft_r2c _fft_c2r": _transform})}


def counted(call: Call) -> tuple[str, float | None, tuple[Matmul, ...]]:
    """The kind, the FLOP (None: unknown) and the matrix products of a call."""
    known, name = formulas(), numbered(call.name)
    formula = known.get(call.name) or known.get("aten.copy" if name.endswith("_copy") else name)
    if formula is None:
        return "unknown", None, ()
    tensors = call.all_tensors()
    if formula.kind in _ON_REALS and not any(t.is_floating_point() or t.is_complex() for t in tensors):
        return formula.kind, 0.0, ()
    matmuls = tuple(each for each in formula.matmuls(call) if each.flop)  # none of an empty tensor
    flop = formula.flop(call) + sum(each.flop for each in matmuls)
    if flop and formula.kind not in _OF_COMPLEX and any(t.is_complex() for t in tensors):
        return formula.kind, None, ()
    return formula.kind, flop, matmuls


def dtype_of(call: Call) -> str:
    """The type that a call computes in: its first floating-point tensor's, else its first tensor's."""
    tensors = call.all_tensors()
    found = next((t for t in tensors if t.is_floating_point() or t.is_complex()), next(iter(tensors), None))
    return str(found.dtype if found is not None else torch.float32).removeprefix("torch.")


# ---------------------------------------------------------------------------------------------------------------------
# FLOP of elementwise operators: how many elementary operations each element of the result takes.

PerElement = float | Callable[[Call], float]

_ELEMENTARY = (
    "mul div true_divide maximum minimum fmax fmin pow reciprocal neg abs sign sgn square sqrt rsqrt exp exp2 expm1 "
    "log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 erf erfc erfinv sinc "
    "lgamma digamma floor ceil round trunc fmod remainder relu clamp_min clamp_max masked_fill where "
    "eq ne lt le gt ge isnan isinf isfinite isposinf isneginf signbit copysign heaviside "
    "logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not "
    "bitwise_left_shift bitwise_right_shift deg2rad rad2deg __and__ __or__ __xor__ __lshift__ __rshift__"
)


def _bounds(call: Call) -> int:
    return sum(call.args.get(bound) is not None for bound in ("min", "max"))


_PER_ELEMENT: dict[str, PerElement] = {
    _ELEMENTARY: 1,
    # a + alpha * b.
    "add sub rsub": lambda call: 1 if call.args.get("alpha", 1) == 1 else 2,
    # a / b, then rounded if asked for.
    "div true_divide": lambda call: 1 if call.args.get("rounding_mode") is None else 2,
    "floor_divide": 2,
    # a + value * b * c, or / c.
    "addcmul addcdiv": lambda call: 2 if call.args.get("value", 1) == 1 else 3,
    "clamp": _bounds,
    "frac": 2,
    "threshold": 2,  # compare, select
    "lerp": 3,  # a + w (b - a)
    "hypot": 4,
    "ldexp xlogy _masked_scale": 2,
    "special_xlog1py special_entr linalg_cross": 3,
    "addr": lambda call: 2 + sum(call.args.get(each, 1) != 1 for each in ("alpha", "beta")),
    "isclose allclose": 4,
    "hardtanh": 2,
    "leaky_relu": 3,  # compare, multiply, select
    "prelu _prelu_kernel": 3,
    "hardshrink softshrink hardshrink_backward softshrink_backward rrelu_with_noise rrelu_with_noise_backward": 3,
    "_prelu_kernel_backward": 5,  # compare, g w, select; g x, select
    "elu": 4,  # compare, expm1, multiply, select
    "celu selu": 5,
    "sigmoid silu": 4,  # 1 / (1 + exp(-x)), and x / (1 + exp(-x))
    "hardsigmoid": 4,
    "hardswish": 5,  # x * min(max(x + 3, 0), 6) / 6
    "softplus": 6,
    "mish": 4,  # x * tanh(log1p(exp(x)))
    "glu": 5,  # a * sigmoid(b)
    "log_sigmoid_forward": 6,  # min(0, x) - log1p(exp(-|x|))
    "logaddexp logaddexp2": 7,
    "logit": 3,  # log(x / (1 - x))
    "nan_to_num": 6,
    # 0.5 x (1 + erf(c x)) is 5; 0.5 x (1 + tanh(c (x + k x x x))) is 9.
    "gelu": lambda call: 9 if call.args.get("approximate") == "tanh" else 5,
    "threshold_backward": 2,
    "tanh_backward sigmoid_backward": 3,  # g (1 - y y), g (1 - y) y
    "hardtanh_backward leaky_relu_backward": 3,
    "hardsigmoid_backward": 4,
    "elu_backward": 5,
    "hardswish_backward": 7,  # g (x / 3 + 1 / 2), g or 0: two comparisons and selections
    "softplus_backward": 7,
    "log_sigmoid_backward": 8,  # g times 0 or 1, less or plus a sigmoid of 4
    "mish_backward": 13,  # t = tanh(log1p(exp(x))), s a sigmoid of 4; g (t + x s (1 - t t)) 6
    "logit_backward": 3,
    "glu_backward": 4.5,  # of two results: s a sigmoid of 4, g s 1, g a s (1 - s) 4
    "silu_backward": 9,  # s = 1 / (1 + exp(-x)); g s (1 + x (1 - s))
    # Exact: cdf 4, pdf 4, g (cdf + x pdf) 3. tanh: the argument 5, tanh 1, and 12 for its derivative.
    "gelu_backward": lambda call: 18 if call.args.get("approximate") == "tanh" else 11,
    "native_dropout_backward": 2,
    # Of each element of the state: sums of gates, three or two sigmoids (4), a tanh or two, and their products.
    "_thnn_fused_lstm_cell": 31,
    "_thnn_fused_lstm_cell_backward_impl": 29,
    "_thnn_fused_gru_cell": 26,
    # Optimizers' steps: two averages (3 and 4), a root and two more below, three for the step; decay 2, or 1 apart.
    "_fused_adam": lambda call: 13 + 2 * bool(call.args["weight_decay"]) + call.args["amsgrad"],
    "_fused_adamw": lambda call: 13 + bool(call.args["weight_decay"]) + call.args["amsgrad"],
    "_fused_sgd": lambda call: (
        2 + 2 * (bool(call.args["weight_decay"]) + (1 + call.args["nesterov"]) * bool(call.args["momentum"]))
    ),
    "_fused_adagrad": lambda call: 7 + 2 * bool(call.args["weight_decay"]),
    "_amp_foreach_non_finite_check_and_unscale _amp_update_scale": 2,
}


def _count(each: PerElement) -> Count:
    return lambda call: float((each(call) if callable(each) else each) * call.size)


def pointwise() -> dict[str, Formula]:
    """The elementwise operators, and their forms that take lists of tensors (`_foreach_add` and so on)."""
    counts = {names: _count(per_element) for names, per_element in _PER_ELEMENT.items()}
    single = table("pointwise", counts)
    lists = {name.replace("aten.", "aten._foreach_"): formula for name, formula in single.items()}
    return {**single, **lists}
