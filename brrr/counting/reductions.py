"""FLOP of reductions, scans, softmax and pooling: n is the elements that one result is made of."""

from __future__ import annotations

import math

import torch

from brrr.counting.call import Call, Formula, free, table


def _combine(call: Call) -> float:
    """n - 1 combinations for each result."""
    return float(call.tensor("self").numel() - call.output.numel())


def _mean(call: Call) -> float:
    """n - 1 additions and a division."""
    return float(call.tensor("self").numel())


def _variance(call: Call) -> float:
    """Mean n, differences n, squares n, their sum n - 1, a division: 4n."""
    return 4.0 * call.tensor("self").numel()


def _deviation(call: Call) -> float:
    """The variance and a root."""
    return _variance(call) + call.output.numel()


def _both_ends(call: Call) -> float:
    return 2 * _combine(call)


def _vector_norm(call: Call) -> float:
    """Of order 2: n squares, n - 1 sums, a root. 1 and infinity: no root. 0: compares. Else |x|^p and a root."""
    order = call.args.get("ord", call.args.get("p"))
    order = 2 if order is None else order
    n, results = call.tensor("self").numel(), call.output.numel()
    if order == 2:
        return 2.0 * n
    return 2.0 * n - results if order in (0, 1) or math.isinf(order) else 3.0 * n


def _logsumexp(call: Call) -> float:
    """Maximum n - 1, differences n, exponentials n, sum n - 1, logarithm, addition: 4n."""
    return 4.0 * call.tensor("self").numel()


def rows(tensor: torch.Tensor, dim: int) -> int:
    """How many rows run along a dimension."""
    return tensor.numel() // max(tensor.shape[dim], 1) if tensor.dim() else 1


def _softmax(call: Call) -> float:
    """Maximum n - 1, differences n, exponentials n, sum n - 1, divisions n: 5n - 2."""
    x = call.tensor("self")
    return 5.0 * x.numel() - 2 * rows(x, call.args["dim"])


def _safe_softmax(call: Call) -> float:
    """A softmax that compares with -inf and selects 0 in rows that are masked out."""
    return _softmax(call) + 2 * call.output.numel()


def _log_softmax(call: Call) -> float:
    """Maximum n - 1, differences n, exponentials n, sum n - 1, logarithm, differences n: 5n - 1."""
    x = call.tensor("self")
    return 5.0 * x.numel() - rows(x, call.args["dim"])


def _softmax_backward(call: Call) -> float:
    """y (g - sum(g y)), or g - exp(y) sum(g): 4n - 1 both."""
    grad = call.tensor("grad_output")
    return 4.0 * grad.numel() - rows(grad, call.args["dim"])


def _scan(call: Call) -> float:
    x = call.tensor("self")
    return float(x.numel() - rows(x, call.args["dim"]))


def _window(call: Call) -> int:
    """The elements of a pooling window; one size is that of both sides."""
    sizes = call.args["kernel_size"]
    return int(math.prod(sizes) if len(sizes) > 1 else sizes[0] ** 2)


def _max_pool(call: Call) -> float:
    return float(call.output.numel() * (_window(call) - 1))


def _avg_pool(call: Call) -> float:
    return float(call.output.numel() * _window(call))


def _max_pool_backward(call: Call) -> float:
    """Each gradient is added where its maximum stood."""
    return float(call.tensor("grad_output").numel())


def _avg_pool_backward(call: Call) -> float:
    """Each gradient is divided, then added to its whole window."""
    return float(call.tensor("grad_output").numel() * (_window(call) + 1))


def reductions() -> dict[str, Formula]:
    """Reductions, scans, softmax and pooling."""
    return {
        **table(
            "reduction",
            {
                "sum nansum prod amax amin max min argmax argmin": _combine,
                "mean": _mean,
                "var var_mean": _variance,
                "std std_mean": _deviation,
                "aminmax": _both_ends,
                "linalg_vector_norm norm": _vector_norm,
                "logsumexp": _logsumexp,
            },
        ),
        **free("reduction", "any all"),
        **table("scan", {"cumsum cumprod cummax cummin": _scan}),
        **table(
            "softmax",
            {
                "_softmax": _softmax,
                "_safe_softmax": _safe_softmax,
                "_log_softmax": _log_softmax,
                "_softmax_backward_data _log_softmax_backward_data": _softmax_backward,
            },
        ),
        **table(
            "pooling",
            {
                "max_pool2d_with_indices": _max_pool,
                "avg_pool2d": _avg_pool,
                "max_pool2d_with_indices_backward": _max_pool_backward,
                "avg_pool2d_backward": _avg_pool_backward,
                "_adaptive_avg_pool2d": _mean,
            },
        ),
    }
