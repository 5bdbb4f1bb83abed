"""FLOP of reductions, scans, softmax, pooling, norms and losses: n is the elements that one result is made of."""

import math

from brrr.counting.call import Call, Count, Formula, free, table, window


def _combine(call: Call) -> float:
    """n - 1 combinations for each result."""
    return float(call.tensor("self").numel() - call.output.numel())


def _taken(each: int) -> Count:
    """So many for each element that it takes."""
    return lambda call: float(each * call.tensor("self").numel())


def _vector_norm(call: Call) -> float:
    """Of order 2: n squares, n - 1 sums, a root. 1 and infinity: no root. 0: compares. Else |x|^p and a root."""
    order = call.args.get("ord", call.args.get("p"))
    order = 2 if order is None else order
    n, results = call.tensor("self").numel(), call.output.numel()
    if order == 2:
        return 2.0 * n
    return 2.0 * n - results if order in (0, 1) or math.isinf(order) else 3.0 * n


def _by_rows(each: int, less: int) -> Count:
    """So many for each element, and for each row so many less: what combines n elements is n - 1."""

    def flop(call: Call) -> float:
        x = call.tensor("grad_output" if "grad_output" in call.args else "self")
        rows = x.numel() // max(x.shape[call.args["dim"]], 1) if x.dim() else 1
        return float(each * x.numel() - less * rows)

    return flop


def _each(*count: int) -> Count:
    """So many for each result, in a backward for each gradient; of a grid's samples by how they are found: between the
    neighbours, the nearest, of cubic curves."""

    def flop(call: Call) -> float:
        of = call.tensor("grad_output") if "grad_output" in call.args else call.output
        return float(count[call.args.get("interpolation_mode", 0)] * of.numel())

    return flop


def reductions() -> dict[str, Formula]:
    """Reductions, scans, softmax and pooling."""
    return {
        **table("reduction", {
            "sum nansum prod amax amin max min argmax argmin": _combine,
            "mean": _taken(1),  # n - 1 additions and a division
            "var var_mean": _taken(4),  # mean n, differences n, squares n, their sum n - 1, a division
            "std std_mean": lambda call: _taken(4)(call) + call.output.numel(),  # and a root
            "aminmax": lambda call: 2 * _combine(call),
            "linalg_vector_norm norm": _vector_norm,
            "dist renorm": _taken(3),
            "_foreach_norm": lambda call: 2.0 * sum(each.numel() for each in call.tensors("self")),
            "logsumexp": _taken(4),  # maximum n - 1, differences n, exponentials n, sum n - 1, logarithm, addition
        }),
        **free("reduction", "any all count_nonzero _is_all_true _is_any_true"),
        **table("scan", {"cumsum cumprod cummax cummin": _by_rows(1, 1), "logcumsumexp": _by_rows(7, 7)}),
        **table("softmax", {
            "_softmax": _by_rows(5, 2),  # maximum n - 1, differences n, exponentials n, sum n - 1, divisions n
            "_safe_softmax": _by_rows(7, 2),  # and compares with -inf, and selects 0 in rows that are masked out
            "_log_softmax": _by_rows(5, 1),  # a logarithm, and differences in place of divisions
            "_softmax_backward_data _log_softmax_backward_data": _by_rows(4, 1),  # y (g - sum(g y)), g - exp(y) sum(g)
        }),
        **table("pooling", {
            "max_poolnd_with_indices fractional_max_poolnd": lambda call: float(call.size * (window(call) - 1)),
            "avg_poolnd": lambda call: float(call.size * window(call)),
            # Each gradient is divided, then added to its whole window.
            "avg_poolnd_backward": lambda call: float(call.tensor("grad_output").numel() * (window(call) + 1)),
            "_adaptive_avg_poolnd_backward": lambda call: float(call.tensor("grad_output").numel() + call.size),
            "_adaptive_avg_poolnd adaptive_avg_poolnd": _taken(1),
            "adaptive_max_poolnd": _combine,
            # Each gradient is added where its value came from.
            "max_poolnd_with_indices_backward adaptive_max_poolnd_backward fractional_max_poolnd_backward "
            "reflection_padnd_backward replication_padnd_backward upsample_nearestnd_backward "
            "_upsample_nearest_exactnd_backward": _each(1),
            "unfold_backward col2im": lambda call: float(next(call.each_argument())[1].numel()),
            # lerp is 3; of a cubic four products and three sums for each of four rows, and of what they give.
            "upsample_linear1d": _each(3), "upsample_bilinear2d": _each(9), "upsample_trilinear3d": _each(21),
            "upsample_bicubic2d": _each(35), "grid_sampler_2d": _each(9, 0, 35), "grid_sampler_3d": _each(21, 0),
            # Each gradient times each weight and added; of a grid the slopes of the weights along each side too.
            "upsample_linear1d_backward": _each(4), "upsample_bilinear2d_backward": _each(8),
            "upsample_trilinear3d_backward": _each(16), "upsample_bicubic2d_backward": _each(32),
            "grid_sampler_2d_backward": _each(24, 1, 96), "grid_sampler_3d_backward": _each(64, 1),
        }),
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# FLOP of normalisations and losses, forward and backward: n is the elements that share one mean.

MEAN, NONE = 1, 0  # torch's numbers for reductions; 2 is the sum


def _affine(call: Call, elements: int) -> float:
    """One multiplication by the weight and one addition of the bias for each element."""
    return float(elements * (call.has("weight") + call.has("bias")))


def _normalised(call: Call, groups: int) -> float:
    """Mean n, differences n, squares n, their mean n, + eps, rsqrt, times n: 5n + 2 a group; then the affine part."""
    x = call.tensor("input").numel()
    return 5.0 * x + 2 * groups + _affine(call, x)


def trains(call: Call) -> bool:
    """Whether a batch norm takes the batch's own mean and variance."""
    default = "no_training" not in call.name and "no_update" not in call.name
    return bool(call.args.get("training", call.args.get("train", call.args.get("update", default))))


def _batch_norm(call: Call) -> float:
    """Training: 5n + 2 a channel, and 7 to update the running mean (3) and unbiased variance (4); else 2n + 2."""
    x, channels = call.tensor("input").numel(), call.tensor("input").shape[1]
    if not trains(call):
        return 2.0 * x + 2 * channels + _affine(call, x)
    return _normalised(call, channels) + 7 * channels * call.has("running_mean")


def _rms_norm(call: Call) -> float:
    """Squares n, mean n, + eps, rsqrt, times n: 3n + 2 a row; then the weight."""
    x = call.tensor("input")
    return 3.0 * x.numel() + 2 * call.outputs[1].numel() + _affine(call, x.numel())


def wanted(call: Call) -> tuple[bool, ...]:
    """Which gradients a backward operator gives: of the input, the weight, the bias."""
    return tuple(call.args.get("output_mask", (True, True, True)))


def _norm_backward(call: Call, per_element: int, alone: int = 2) -> float:
    """The input's gradient costs `per_element`, and 1 for a weight; without it the normalised input costs `alone`.

    x^ = (x - mean) rstd is 2, and 1 without a mean. Each weight's gradient is a sum of products (2 an element, less 1),
    each bias's a sum (1 an element, less 1).
    """
    x, weighted = call.tensor("input").numel(), call.has("weight")
    size = call.tensor("weight").numel() if weighted else 0
    to_input, to_weight, to_bias = (*wanted(call), False)[:3]
    flop = x * (per_element + weighted) if to_input else alone * x * to_weight
    return float(flop + (to_weight and weighted) * (2 * x - size) + (to_bias and weighted) * (x - size))


def _centred_backward(call: Call) -> float:
    """x^ is 2; (g w - mean(g w) - x^ mean(g w x^)) rstd is 7 more, and 1 for g w."""
    return _norm_backward(call, 9)


def _batch_norm_backward(call: Call) -> float:
    """In evaluation the statistics are constants: rstd is 2 a channel, g rstd 1, and 1 for the weight."""
    if trains(call):
        return _centred_backward(call)
    x, channels = call.tensor("input").numel(), call.tensor("input").shape[1]
    return _norm_backward(call, 1) + 2 * channels + 2 * x * all(wanted(call)[:2])


def norms() -> dict[str, Formula]:
    """Layer, group, batch and RMS norm, forward and backward."""
    return table("norm", {
        "native_layer_norm": lambda call: _normalised(call, call.outputs[1].numel()),
        "native_group_norm": lambda call: _normalised(call, call.args["N"] * call.args["group"]),
        "_fused_rms_norm": _rms_norm,
        "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training cudnn_batch_norm "
        "_batch_norm_with_update _batch_norm_no_update": _batch_norm,
        "native_layer_norm_backward native_group_norm_backward": _centred_backward,
        "native_batch_norm_backward cudnn_batch_norm_backward batch_norm_backward": _batch_norm_backward,
        # x^ is 1; (g w - x^ mean(g w x^)) rstd is 5 more, and 1 for g w.
        "_fused_rms_norm_backward": lambda call: _norm_backward(call, 6, 1),
        # g v / |v|: a 2-norm a row, and a product; backward: the sum of g v, its share of v taken off, scaled.
        "_weight_norm_interface": lambda call: 3.0 * call.output.numel() + call.outputs[1].numel(),
        "_weight_norm_interface_backward": lambda call: 5.0 * call.output.numel(),
    })  # fmt: skip


def _reduced(call: Call, elements: int, each: int) -> float:
    """`each` for every element, then their sum, then a division where the mean is asked for."""
    reduction = call.args["reduction"]
    if reduction == NONE:
        return float(each * elements)
    return float(each * elements + elements - 1 + (reduction == MEAN))


def _loss(each: int) -> Count:
    """So many for each element; one more for a weight, and three for one of the positive ones, 1 + (p - 1) y."""

    def count(call: Call) -> float:
        weights = call.has("weight") + 3 * call.has("pos_weight")
        return _reduced(call, call.tensor("self").numel(), each + weights)

    return count


def _nll(call: Call) -> float:
    """-x[target] for each sample, times its weight if there is one, whose sum then is the divisor."""
    samples, weighted = call.tensor("target").numel(), call.has("weight")
    sum_of_weights = (samples - 1) * (weighted and call.args["reduction"] == MEAN)
    return _reduced(call, samples, 1 + weighted) + sum_of_weights


def _nll_backward(call: Call) -> float:
    """-g for each sample, times its weight, over the divisor of a mean."""
    return float(call.tensor("target").numel() * (1 + call.has("weight") + (call.args["reduction"] == MEAN)))


def losses() -> dict[str, Formula]:
    """The losses that are operators of their own."""
    return table("loss", {
        "nll_loss_forward nll_loss2d_forward": _nll,
        "nll_loss_backward nll_loss2d_backward": _nll_backward,
        "mse_loss": _loss(2),
        "soft_margin_loss": _loss(4),  # log1p(exp(-x y))
        # y log x + (1 - y) log(1 - x), negated; max(x, 0) - x y + log1p(exp(-|x|)).
        "binary_cross_entropy binary_cross_entropy_with_logits": _loss(8),
        # d = x - y; of |d| < b d d / (2 b), else |d| - b / 2.
        "smooth_l1_loss huber_loss": _loss(8),
        # 2/n (x - y) g; the 2/n is one constant.
        "mse_loss_backward": lambda call: 3.0 * call.output.numel(),
        "soft_margin_loss_backward binary_cross_entropy_backward": lambda call: 6.0 * call.output.numel(),
        # x - y, two comparisons and selections, scaled, times g.
        "smooth_l1_loss_backward huber_loss_backward": lambda call: 7.0 * call.output.numel(),
    })  # fmt: skip
