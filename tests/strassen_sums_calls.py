"""The sums of blocks as calls that make their own buffers, for tests."""

from __future__ import annotations

from typing import Any

import torch

from brrr.strassen.algebra.blocks import buffer_shape
from brrr.strassen.passes.launch import SplitBuffers, prepared_split_pre_add
from brrr.strassen.passes.steps import prepared_post_add, prepared_pre_add, prepared_step
from brrr.strassen.passes.work import check_matrix, check_tensors


def pre_add(
    x: torch.Tensor, side: str, form: Any, level: int, *, transposed: bool = False, out: Any = None, **more: Any
) -> torch.Tensor:
    """All products' factors of one operand."""
    if out is None:
        check_tensors("pre_add", x=x)
        check_matrix("pre_add", "x", x, None, written=False)
        out = x.new_empty(buffer_shape(x.shape[0], x.shape[1], side, level, transposed))
    prepared_pre_add(x, side, form, level, transposed=transposed, out=out, **more)()
    return out


def post_add(
    products: torch.Tensor, form: Any, level: int, shape: tuple[int, int], *, out: Any = None, **more: Any
) -> torch.Tensor:
    """The result of size `shape` from all products."""
    out = products.new_empty(shape) if out is None else out
    prepared_post_add(products, form, level, shape, out=out, **more)()
    return out


def step(
    products: torch.Tensor, form: Any, level: int, shape: tuple[int, int], *, next_level: int | None = None,
    out: Any = None, **more: Any,
) -> torch.Tensor:  # fmt: skip
    """The next layer's left factors from all products."""
    if out is None:
        out = products.new_empty(buffer_shape(*shape, "left", level if next_level is None else next_level))
    prepared_step(products, form, level, shape, next_level=next_level, out=out, **{"relu": True, **more})()
    return out


def split_pre_add(
    x: torch.Tensor, side: str, form: Any, level: int, *, transposed: bool = False, **more: Any
) -> SplitBuffers:
    """The factors in two float16 terms."""
    out = split_buffers(x, side, level, transposed)
    prepared_split_pre_add(x, side, form, level, transposed=transposed, out=out, **more)()
    return out


def split_buffers(x: torch.Tensor, side: str, level: int, transposed: bool = False) -> SplitBuffers:
    """What `split_pre_add` writes, empty."""
    shape = buffer_shape(x.shape[0], x.shape[1], side, level, transposed)
    high, low = (torch.empty(shape, dtype=torch.float16, device=x.device) for _ in range(2))
    return SplitBuffers(high, low, torch.empty(shape[1], dtype=torch.int32, device=x.device).expand(shape[:2]))
