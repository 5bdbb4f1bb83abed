"""Errors of `pseudo_linear.py`'s kernels, in Triton's interpreter."""

from typing import Any

import torch

from brrr.kernels import pseudo_linear as kernels
from brrr_course.experiments.pseudo_linear import pseudo_error

SHAPES = ((1, 1), (1, 64), (64, 1), (3, 7), (31, 64), (65, 67), (130, 257), (7, 1031), (2500, 17), (4100, 3))
TYPES = ("float32", "bfloat16", "float16")


def errors_of(batch: int, width: int, dtype: torch.dtype) -> dict[str, float]:
    """The worst error of the forward pass, and of it with the gradients, against float64."""
    x, g = (torch.randn(batch, width, dtype=dtype) for _ in range(2))
    w, b = (torch.randn(width, dtype=dtype) for _ in range(2))
    forward = pseudo_error(x, w, b, None)(kernels.pseudo_linear(x, w, b))
    leaves = [each.clone().requires_grad_() for each in (x, w, b)]
    y = kernels.pseudo_linear(*leaves)
    both = pseudo_error(x, w, b, g)((y, *torch.autograd.grad(y, leaves, g)))
    return {"forward": forward, "both": both}


def special_cases() -> dict[str, bool]:
    """What has no error to print: empty batches, other shapes and strides, types that differ, the same bits twice."""
    torch.manual_seed(0)
    w, b = torch.randn(37), torch.randn(37)
    x = torch.randn(2, 5, 37)
    strided = torch.randn(37, 12).t()
    mixed = kernels.pseudo_linear(x.bfloat16(), w, b)
    leaves = [each.clone().requires_grad_() for each in (x, w, b)]
    gradients = [torch.autograd.grad(kernels.pseudo_linear(*leaves).sum(), leaves) for _ in range(2)]
    empty = [torch.empty(0, 37, requires_grad=True), *leaves[1:]]
    of_empty = torch.autograd.grad(kernels.pseudo_linear(*empty).sum(), empty)
    frozen = kernels.pseudo_linear(x, leaves[1], leaves[2])
    return {
        "three axes": torch.allclose(kernels.pseudo_linear(x, w, b), x * w + b, atol=1e-6),
        "strides": torch.allclose(kernels.pseudo_linear(strided, w, b), strided * w + b, atol=1e-6),
        "an expanded gradient": torch.allclose(gradients[0][1], x.sum((0, 1)), atol=1e-4),
        "the same bits twice": all(torch.equal(*pair) for pair in zip(*gradients, strict=True)),
        "x keeps its type": mixed.dtype == torch.bfloat16,
        "an empty batch": of_empty[0].shape == (0, 37) and not of_empty[1].any() and not of_empty[2].any(),
        "x without a gradient": torch.allclose(
            torch.autograd.grad(frozen.sum(), leaves[1])[0], x.sum((0, 1)), atol=1e-4
        ),
        "no gradient, no graph": kernels.pseudo_linear(x, w, b).grad_fn is None,
    }


def cases() -> dict[str, dict[str, Any]]:
    """All of them."""
    found = {
        f"{batch}x{width} {name}": errors_of(batch, width, getattr(torch, name))
        for name in TYPES
        for batch, width in (SHAPES if name == "float32" else SHAPES[3:8])
    }
    return {"errors": found, "special": special_cases()}
