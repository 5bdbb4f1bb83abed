"""Errors of the kernels of `fused.py`, in Triton's interpreter."""

from typing import Any

import torch
from torch.nn import functional

from brrr.kernels import fused

SIZES = (1, 7, 1023, 1024, 1025, 4099)
SHAPES = ((1, 1), (3, 7), (5, 64), (33, 100), (2, 1025), (700, 5), (3, 5000))
TYPES = ("float32", "bfloat16", "float16")


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    """||found - expected|| / ||expected||, both in float64; over 1 where nothing is expected."""
    scale = float(torch.linalg.norm(expected)) or 1.0
    return float(torch.linalg.norm(found.double() - expected)) / scale


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


def special_cases() -> dict[str, bool]:
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


def cases() -> dict[str, dict[str, Any]]:
    """All of them."""
    found = {f"{size} {name}": of_arrays(size, getattr(torch, name)) for size in SIZES for name in TYPES}
    found |= {
        f"{r}x{w} {name}": of_rows(r, w, getattr(torch, name))
        for name in TYPES
        for r, w in (SHAPES if name == "float32" else SHAPES[1:5])
    }
    return {"errors": found, "special": special_cases()}
