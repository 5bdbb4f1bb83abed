"""FLOP of elementwise operators: how many elementary operations each element of the result takes."""

from __future__ import annotations

from collections.abc import Callable

from brrr.counting.call import Call
from brrr.counting.formula import Count, Formula, table

PerElement = int | Callable[[Call], int]

_ELEMENTARY = (
    "mul div true_divide maximum minimum fmax fmin pow reciprocal neg abs sign sgn square sqrt rsqrt exp exp2 expm1 "
    "log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 erf erfc erfinv sinc "
    "lgamma digamma floor ceil round trunc fmod remainder relu clamp_min clamp_max masked_fill where "
    "eq ne lt le gt ge isnan isinf isfinite isposinf isneginf signbit copysign heaviside "
    "logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not "
    "bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__"
)


def _scaled_sum(call: Call) -> int:
    """a + alpha * b."""
    return 1 if call.args.get("alpha", 1) == 1 else 2


def _scaled_product(call: Call) -> int:
    """a + value * b * c, or / c."""
    return 2 if call.args.get("value", 1) == 1 else 3


def _division(call: Call) -> int:
    """a / b, then rounded if asked for."""
    return 1 if call.args.get("rounding_mode") is None else 2


def _bounds(call: Call) -> int:
    return sum(call.args.get(bound) is not None for bound in ("min", "max"))


def _gelu(call: Call) -> int:
    """0.5 x (1 + erf(c x)) is 5; 0.5 x (1 + tanh(c (x + k x x x))) is 9."""
    return 9 if call.args.get("approximate") == "tanh" else 5


def _gelu_backward(call: Call) -> int:
    """Exact: cdf 4, pdf 4, g (cdf + x pdf) 3. tanh: the argument 5, tanh 1, and 12 for its derivative."""
    return 18 if call.args.get("approximate") == "tanh" else 11


_PER_ELEMENT: dict[str, PerElement] = {
    _ELEMENTARY: 1,
    "add sub rsub": _scaled_sum,
    "div true_divide": _division,
    "floor_divide": 2,
    "addcmul addcdiv": _scaled_product,
    "clamp": _bounds,
    "frac": 2,
    "threshold": 2,  # compare, select
    "lerp": 3,  # a + w (b - a)
    "hypot": 4,
    "hardtanh": 2,
    "leaky_relu": 3,  # compare, multiply, select
    "prelu _prelu_kernel": 3,
    "elu": 4,  # compare, expm1, multiply, select
    "celu selu": 5,
    "sigmoid silu": 4,  # 1 / (1 + exp(-x)), and x / (1 + exp(-x))
    "hardsigmoid": 4,
    "hardswish": 5,  # x * min(max(x + 3, 0), 6) / 6
    "softplus": 6,
    "mish": 4,  # x * tanh(log1p(exp(x)))
    "glu": 5,  # a * sigmoid(b)
    "log_sigmoid_forward": 6,  # min(0, x) - log1p(exp(-|x|))
    "logaddexp": 7,
    "logit": 3,  # log(x / (1 - x))
    "nan_to_num": 6,
    "gelu": _gelu,
    "threshold_backward": 2,
    "tanh_backward sigmoid_backward": 3,  # g (1 - y y), g (1 - y) y
    "hardtanh_backward leaky_relu_backward": 3,
    "hardsigmoid_backward": 4,
    "elu_backward": 5,
    "hardswish_backward": 7,  # g (x / 3 + 1 / 2), g or 0: two comparisons and selections
    "softplus_backward": 7,
    "silu_backward": 9,  # s = 1 / (1 + exp(-x)); g s (1 + x (1 - s))
    "gelu_backward": _gelu_backward,
    "native_dropout_backward": 2,
}


def _count(per_element: PerElement) -> Count:
    if callable(per_element):
        return lambda call: float(per_element(call) * call.size)
    return lambda call: float(per_element * call.size)


def pointwise() -> dict[str, Formula]:
    """The elementwise operators, and their forms that take lists of tensors (`_foreach_add` and so on)."""
    counts = {names: _count(per_element) for names, per_element in _PER_ELEMENT.items()}
    single = table("pointwise", counts)
    lists = {name.replace("aten.", "aten._foreach_"): formula for name, formula in single.items()}
    return {**single, **lists}
