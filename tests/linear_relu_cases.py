"""Errors of the kernel of `linear_relu.py`, in Triton's interpreter."""

from typing import Any

import torch

from brrr.kernels.linear_relu import launch, prepared, tilings
from brrr.networks.launched_implementations import triton
from brrr.networks.network import Network, Weights

SHAPES = ((1, 1, 1), (2, 128, 128), (3, 7, 5), (17, 100, 33), (33, 65, 130), (65, 64, 96), (5, 1, 70))
TYPES = ("float32", "bfloat16", "float16")


def linear_relu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    out = torch.empty((x.shape[0], w.shape[0]), dtype=x.dtype) if out is None else out
    prepared(x, w, b, out)()
    return out


def expected(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The layer in float64."""
    return (x.double() @ w.double().t() + b.double()).relu()


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """||found - wanted|| / ||wanted||, both in float64; over 1 where nothing is expected."""
    return float(torch.linalg.norm(found.double() - wanted)) / (float(torch.linalg.norm(wanted)) or 1.0)


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


def special_cases() -> dict[str, bool]:
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


def cases() -> dict[str, dict[str, Any]]:
    """All of them."""
    errors = {"every tiling float32": {"y": every_tiling()}}
    for name in TYPES:
        for shape in SHAPES:
            tensors = layer(*shape, getattr(torch, name))
            errors[f"{shape} {name}"] = {"y": relative(linear_relu(*tensors), expected(*tensors))}
    return {"errors": errors, "special": special_cases()}
