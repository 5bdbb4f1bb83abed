"""Errors of `repeat`'s kernel, in Triton's interpreter."""

from itertools import product
from typing import Any

import torch

from brrr.kernels.repeat import repeat_multiply
from brrr_course.experiments.repeat import fused_error

COUNTS = (1, 3, 1023, 1024, 1025, 4099)
REPEATS = (0, 1, 15, 16, 17, 100)
TYPES = ("float32", "bfloat16", "float16")


def error_of(dtype: torch.dtype, count: int, repeat: int, addend: float | None) -> float:
    few = torch.rand(count) + 0.5  # a sum that nearly cancels would have no relative precision
    x = (few if count < 1000 else torch.randn(count)).to(dtype)
    out = torch.full_like(x, float("nan"))
    result = repeat_multiply(x, repeat, 1 + 2**-7, addend, out)
    assert result is out
    return fused_error(x, 1 + 2**-7, addend, repeat)(result)


def cases() -> dict[str, dict[str, Any]]:
    """All of them."""
    x, every = torch.randn(3, 5), product(COUNTS, REPEATS, (None, 2**-7), TYPES)
    special = {
        "a shape": torch.allclose(repeat_multiply(x, 2, 2.0), 4 * x),
        "in place": repeat_multiply(x, 1, 2.0, None, x) is x,
        "nothing": repeat_multiply(torch.empty(0), 3, 2.0).numel() == 0,
        "NaN stays": bool(repeat_multiply(torch.tensor([float("nan"), 1.0]), 2, 2.0).isnan().tolist() == [True, False]),
    }
    errors = {
        f"{count} elements, {repeat} steps, {'mul' if addend is None else 'fma'}, {name}": {
            "y": error_of(getattr(torch, name), count, repeat, addend)
        }
        for count, repeat, addend, name in every
    }
    return {"errors": errors, "special": special}
