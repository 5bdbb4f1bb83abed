"""Answers to exercise 05b-fuse in Triton's interpreter, marked; prints the marks for `test_fusion_experiments.py`."""

# Triton's decorator has no types, and neither has what it compiles.
# mypy: disable-error-code="untyped-decorator, no-untyped-def"

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from brrr_course.lessons.checking import check

BLOCK = 256


@triton.jit
def kernel(x, r, y, scale, count, RELU: tl.constexpr, MASK: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < (count if MASK else count - 1)
    value = tl.load(x + offsets, mask=inside) * scale + tl.load(r + offsets, mask=inside)
    value = tl.where(value < 0, 0.0, value) if RELU else value
    tl.store(y + offsets, value, mask=inside)


def launched(relu: bool = True, mask: bool = True, into_x: bool = False, one: bool = False) -> Callable[..., Any]:
    def fused(x: torch.Tensor, scale: float, r: torch.Tensor) -> torch.Tensor:
        y = x if into_x else torch.full_like(x, -5.0)
        grid = (1 if one else triton.cdiv(x.numel(), BLOCK),)
        kernel[grid](x, r, y, scale, x.numel(), RELU=relu, MASK=mask, BLOCK=BLOCK)
        return y

    return fused


def by_torch(x: torch.Tensor, scale: float, r: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * scale + r)


def nothing(x: torch.Tensor, scale: float, r: torch.Tensor) -> None:
    return None


def raises(x: torch.Tensor, scale: float, r: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("no such thing")


CASES = {
    "right": launched(), "no relu": launched(relu=False), "mask": launched(mask=False), "one block": launched(one=True),
    "input": launched(into_x=True), "torch": by_torch, "nothing": nothing, "raises": raises, "number": 3,
}  # fmt: skip

if __name__ == "__main__":
    marks = {name: check("05b-fuse", fused=function) for name, function in CASES.items()}
    json.dump({name: [mark.status, mark.text, mark.hint] for name, mark in marks.items()}, sys.stdout)
