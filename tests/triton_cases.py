"""Errors of the course's Triton kernels, in Triton's interpreter."""

from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch.nn import functional

from brrr.kernels import fused
from brrr.kernels.linear_relu import launch, prepared, tilings
from brrr.kernels.pseudo_linear import pseudo_linear
from brrr.kernels.repeat import repeat_multiply
from brrr.networks.launched_implementations import triton
from brrr.networks.network import Network, Weights
from brrr_course.experiments.pseudo_linear import pseudo_error
from brrr_course.experiments.repeat import fused_error

TYPES = ("float32", "bfloat16", "float16")
Shape = tuple[int, ...]


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    """||found - expected|| / ||expected||, both in float64; over 1 where nothing is expected."""
    return float(torch.linalg.norm(found.double() - expected)) / (float(torch.linalg.norm(expected)) or 1.0)


def at_each(shapes: tuple[Shape, ...], some: slice, errors: Callable[..., dict[str, float]]) -> dict[str, Any]:
    """The errors at every shape in float32, and at some in the other types."""
    each = ((shape, name) for name in TYPES for shape in (shapes if name == "float32" else shapes[some]))
    return {f"{'x'.join(map(str, shape))} {name}": errors(*shape, getattr(torch, name)) for shape, name in each}


# ---- pseudo_linear.py ----


def pseudo_errors(batch: int, width: int, dtype: torch.dtype) -> dict[str, float]:
    """The worst error of the forward pass, and of it with the gradients, against float64."""
    x, g = (torch.randn(batch, width, dtype=dtype) for _ in range(2))
    w, b = (torch.randn(width, dtype=dtype) for _ in range(2))
    forward = pseudo_error(x, w, b, None)(pseudo_linear(x, w, b))
    leaves = [each.clone().requires_grad_() for each in (x, w, b)]
    y = pseudo_linear(*leaves)
    both = pseudo_error(x, w, b, g)((y, *torch.autograd.grad(y, leaves, g)))
    return {"forward": forward, "both": both}


def pseudo_cases() -> dict[str, bool]:
    """What has no error to print: empty batches, other shapes and strides, types that differ, the same bits twice."""
    torch.manual_seed(0)
    w, b = torch.randn(37), torch.randn(37)
    x = torch.randn(2, 5, 37)
    strided = torch.randn(37, 12).t()
    mixed = pseudo_linear(x.bfloat16(), w, b)
    leaves = [each.clone().requires_grad_() for each in (x, w, b)]
    gradients = [torch.autograd.grad(pseudo_linear(*leaves).sum(), leaves) for _ in range(2)]
    empty = [torch.empty(0, 37, requires_grad=True), *leaves[1:]]
    of_empty = torch.autograd.grad(pseudo_linear(*empty).sum(), empty)
    frozen = pseudo_linear(x, leaves[1], leaves[2])
    return {
        "three axes": torch.allclose(pseudo_linear(x, w, b), x * w + b, atol=1e-6),
        "strides": torch.allclose(pseudo_linear(strided, w, b), strided * w + b, atol=1e-6),
        "an expanded gradient": torch.allclose(gradients[0][1], x.sum((0, 1)), atol=1e-4),
        "the same bits twice": all(torch.equal(*pair) for pair in zip(*gradients, strict=True)),
        "x keeps its type": mixed.dtype == torch.bfloat16,
        "an empty batch": of_empty[0].shape == (0, 37) and not of_empty[1].any() and not of_empty[2].any(),
        "x without a gradient": torch.allclose(
            torch.autograd.grad(frozen.sum(), leaves[1])[0], x.sum((0, 1)), atol=1e-4
        ),
        "no gradient, no graph": pseudo_linear(x, w, b).grad_fn is None,
    }


# ---- fused.py ----


def of_arrays(size: int, dtype: torch.dtype) -> dict[str, float]:
    """The kernels that look at no shape."""
    x, r = torch.randn(size, dtype=dtype), torch.randn(size, dtype=dtype)
    wide, other = x.double(), r.double()
    chain, cosines = fused.scale_add_relu(x, 1.75, r), fused.cos_cos(x)
    return {"chain": relative(chain, (wide * 1.75 + other).relu()), "cos_cos": relative(cosines, wide.cos().cos())}


def of_rows(rows: int, width: int, dtype: torch.dtype) -> dict[str, float]:
    """The kernels that work along rows; a mean far from zero would show digits that the variance lost."""
    x = (torch.randn(rows, width) + 3).to(dtype)
    w, b = (torch.randn(width, dtype=dtype) for _ in range(2))
    wide = x.double()
    normed = functional.layer_norm(wide, (width,), w.double(), b.double())
    return {
        "bias_relu": relative(fused.bias_relu(x - 3, b), ((x - 3).double() + b.double()).relu()),
        "layer_norm": relative(fused.layer_norm(x, w, b), normed),
        "softmax": relative(fused.softmax(x), wide.softmax(-1)),
    }


def chained(x: torch.Tensor) -> torch.Tensor:
    return fused.scale_add_relu(x, 2.0, x)


def fused_cases() -> dict[str, bool]:
    """What has no error to print."""
    nan = torch.tensor([1.0, float("nan"), -2.0])
    ones, zero = torch.ones(4), torch.zeros(3)
    return {
        "a NaN stays one": bool(fused.scale_add_relu(nan, 1.0, zero).isnan().tolist() == [False, True, False]),
        "a NaN stays one under a bias": bool(fused.bias_relu(nan[None], zero).isnan()[0, 1]),
        "empty": chained(torch.empty(0)).shape == (0,) and fused.softmax(torch.empty(0, 4)).shape == (0, 4),
        "three axes": torch.equal(chained(torch.ones(2, 3, 5)), torch.full((2, 3, 5), 3.0)),
        "large values": torch.allclose(fused.softmax(torch.full((1, 4), 1e4)), ones / 4),
        "very negative values": torch.allclose(fused.softmax(torch.full((1, 3), -1e30)), torch.ones(3) / 3),
        "the input is unchanged": bool((fused.scale_add_relu(ones, 2.0, -ones) == 1).all() and (ones == 1).all()),
    }


# ---- linear_relu.py ----


def linear_relu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    out = torch.empty((x.shape[0], w.shape[0]), dtype=x.dtype) if out is None else out
    prepared(x, w, b, out)()
    return out


def expected(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The layer in float64."""
    return (x.double() @ w.double().t() + b.double()).relu()


def layer(batch: int, k: int, n: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random numbers of a layer; where its result is one number, drawn again until its terms do not cancel.

    A relative error over what is left of two terms of opposite sign tells of the draw, not of the kernel.
    """
    x, w, b = torch.randn(batch, k, dtype=dtype), torch.randn(n, k, dtype=dtype), torch.randn(n, dtype=dtype)
    left, terms = (x.double() @ w.double().t() + b.double()).abs(), x.abs().double() @ w.abs().double().t() + b.abs()
    return layer(batch, k, n, dtype) if batch * n == 1 and bool(left < terms / 10) else (x, w, b)


def every_tiling() -> float:
    """The largest error of any tiling, on sizes that none of them divides."""
    worst = 0.0
    for batch in (3, 11, 40, 130):
        tensors = layer(batch, 70, 37, torch.float32)
        for tiling in tilings(batch, 70):
            out = torch.full((batch, 37), float("nan"))
            launch(*tensors, out, tiling, False)()
            worst = max(worst, relative(out, expected(*tensors)))
    return worst


def layer_cases() -> dict[str, bool]:
    """What has no error to print."""
    x, w, b = layer(4, 8, 6, torch.float32)
    x[1, 3] = float("nan")
    spoilt = linear_relu(x, w, b).isnan()
    out = torch.full((4, 6), 7.0)
    weights = Weights.random(Network(3, 5, 33), "cpu")
    run = triton(weights)
    again = Weights.random(Network(3, 5, 33), "cpu").x
    weights.x.copy_(again)
    return {
        "a NaN stays one, in its row only": bool(spoilt[1].all() and not spoilt[[0, 2, 3]].any()),
        "into out": linear_relu(x[2:3], w, b, out[2:3]).data_ptr() == out[2:3].data_ptr()
        and bool((out[:2] == 7).all() and (out[3] == 7).all()),
        "no rows": linear_relu(x[:0], w, b).shape == (0, 6),
        "no columns": bool((linear_relu(x[:, :0].contiguous(), w[:, :0].contiguous(), b) == b.relu()).all()),
        "a network reads x anew": weights.error(run()) <= weights.tolerance,
    }


def layer_error(batch: int, k: int, n: int, dtype: torch.dtype) -> dict[str, float]:
    tensors = layer(batch, k, n, dtype)
    return {"y": relative(linear_relu(*tensors), expected(*tensors))}


# ---- repeat.py ----


def repeat_error(count: int, repeat: int, addend: float | None, dtype: torch.dtype) -> dict[str, float]:
    few = torch.rand(count) + 0.5  # a sum that nearly cancels would have no relative precision
    x = (few if count < 1000 else torch.randn(count)).to(dtype)
    out = torch.full_like(x, float("nan"))
    result = repeat_multiply(x, repeat, 1 + 2**-7, addend, out)
    assert result is out
    return {"y": fused_error(x, 1 + 2**-7, addend, repeat)(result)}


def repeat_cases() -> dict[str, bool]:
    """What has no error to print."""
    x = torch.randn(3, 5)
    return {
        "a shape": torch.allclose(repeat_multiply(x, 2, 2.0), 4 * x),
        "in place": repeat_multiply(x, 1, 2.0, None, x) is x,
        "nothing": repeat_multiply(torch.empty(0), 3, 2.0).numel() == 0,
        "NaN stays": bool(repeat_multiply(torch.tensor([float("nan"), 1.0]), 2, 2.0).isnan().tolist() == [True, False]),
    }


def cases() -> dict[str, dict[str, Any]]:
    """All of them, by kernel: errors at each shape and type, and what has none."""
    all_ = slice(None)
    sizes = tuple((size,) for size in (1, 7, 1023, 1024, 1025, 4099))
    shapes = ((1, 1), (1, 64), (64, 1), (3, 7), (31, 64), (65, 67), (130, 257), (7, 1031), (2500, 17), (4100, 3))
    rows = ((1, 1), (3, 7), (5, 64), (33, 100), (2, 1025), (700, 5), (3, 5000))
    layers = ((1, 1, 1), (2, 128, 128), (3, 7, 5), (17, 100, 33), (33, 65, 130), (65, 64, 96), (5, 1, 70))
    steps = tuple(product((1, 3, 1023, 1024, 1025, 4099), (0, 1, 15, 16, 17, 100), (None, 2**-7)))
    errors = {
        "pseudo_linear": at_each(shapes, slice(3, 8), pseudo_errors),
        "fused": at_each(sizes, all_, of_arrays) | at_each(rows, slice(1, 5), of_rows),
        "linear_relu": {"every tiling float32": {"y": every_tiling()}, **at_each(layers, all_, layer_error)},
        "repeat": at_each(steps, all_, repeat_error),
    }
    special = {
        "pseudo_linear": pseudo_cases(), "fused": fused_cases(), "linear_relu": layer_cases(), "repeat": repeat_cases(),
    }  # fmt: skip
    return {name: {"errors": errors[name], "special": special[name]} for name in errors}
