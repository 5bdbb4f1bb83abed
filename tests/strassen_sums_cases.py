"""Runs `strassen_sums_triton` in Triton's interpreter and prints its errors, for `test_strassen_sums.py`.

A process of its own, for the interpreter must be chosen before Triton is loaded.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import torch

from brrr.strassen.algebra.blocks import buffer_shape, products_shape
from brrr.strassen.passes import launch, steps

SHAPES = ((1, 1), (5, 8), (17, 33), (3, 70))


def differing(run: Callable[..., Any], *written: torch.Tensor) -> int:
    """How many numbers the kernel writes otherwise than torch's operators do; all, where it writes none.

    The interpreter cuts float32 to bfloat16 where a GPU rounds: there a number may be one unit of the last place off.
    """
    for each in written:
        each.fill_(math.nan)
    run(kernels="triton")
    found = [each.clone() for each in written]
    for each in written:
        each.fill_(math.nan)
    run(kernels="torch")
    return sum(unlike(mine, theirs) for mine, theirs in zip(found, written, strict=True))


def unlike(mine: torch.Tensor, theirs: torch.Tensor) -> int:
    """A NaN is like nothing."""
    allowed = 2.0**-7 * theirs.double().abs() if theirs.dtype == torch.bfloat16 else 0.0
    return int((~((mine.double() - theirs.double()).abs() <= allowed)).sum())


def laid_out(rows: int, columns: int, dtype: torch.dtype, number: int) -> torch.Tensor:
    """Contiguous, transposed, or a part of a larger one."""
    if number % 3 == 1:
        return torch.randn(columns, rows).to(dtype).t()
    if number % 3 == 2:
        return torch.randn(rows + 1, columns + 3).to(dtype)[1:, 2:-1]
    return torch.randn(rows, columns).to(dtype)


def of_shape(number: int, shape: tuple[int, int], level: int, dtype: torch.dtype) -> dict[str, int]:
    """Pre-additions, post-additions, step and split pre-additions of one shape."""
    form, side, turned = (("strassen", "left", False), ("winograd", "right", True), ("winograd", "right", False))[
        number % 3
    ]
    x = laid_out(*shape, dtype, number)
    out = torch.empty(buffer_shape(*shape, side, level, turned), dtype=dtype)
    products, bias = torch.randn(products_shape(*shape, level)).to(dtype), torch.randn(shape[1]).to(dtype)
    y, factors = laid_out(*shape, dtype, number), torch.empty(buffer_shape(*shape, "left", level), dtype=dtype)
    options: dict[str, Any] = {"bias": bias if number % 2 else None, "relu": number % 2 == 0}
    split = launch.split_buffers(x, "left", level)
    return {
        "pre_add": differing(lambda **by: steps.pre_add(x, side, form, level, transposed=turned, out=out, **by), out),
        "post_add": differing(lambda **by: steps.post_add(products, form, level, shape, out=y, **options, **by), y),
        "step": differing(
            lambda **by: steps.step(products, form, level, shape, bias=bias, keep=y, out=factors, **by), y, factors
        ),
        "split": differing(
            lambda **by: launch.split_pre_add(x, "left", form, level, out=split, **by), split.high, split.low
        ),
    }


def of_levels(level: int, then: int) -> dict[str, int]:
    """A step between layers of different levels."""
    shape = (19, 40)
    products, bias = torch.randn(products_shape(*shape, level)), torch.randn(shape[1])
    out = torch.empty(buffer_shape(*shape, "left", then))
    form = "strassen"
    return {
        "step": differing(
            lambda **by: steps.step(products, form, level, shape, bias=bias, next_level=then, out=out, **by), out
        )
    }


def main() -> None:
    """All cases as JSON."""
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    each = ((0, "float32"), (1, "float32"), (1, "float16"), (2, "float32"), (2, "bfloat16"))
    found = {
        f"{shape} level {level} {name}": of_shape(number, shape, level, getattr(torch, name))
        for number, shape in enumerate(SHAPES)
        for level, name in each[number % 2 :: 2]  # each shape with some, each type and level with two shapes
    }
    found |= {f"{shape} level 3 float32": of_shape(n, shape, 3, torch.float32) for n, shape in enumerate(SHAPES[1:3])}
    found |= {f"level {level} to {then}": of_levels(level, then) for level, then in ((0, 2), (2, 0), (1, 2))}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
