"""The sums of blocks as calls that make their own buffers, for tests; `kernels`: by the kernel, or by torch."""

from dataclasses import replace
from typing import Any, NamedTuple

import torch

from brrr.strassen import Implementation
from brrr.strassen.algebra.blocks import buffer_shape
from brrr.strassen.launcher import run_all
from brrr.strassen.passes import launch
from brrr.strassen.passes.sums import Work, assembled_work, factors_work, run_in_torch
from brrr.strassen.split.operands_kernel import Terms
from brrr.strassen.split.split_steps import split_exponents
from brrr.strassen.split.split_steps import split_pre_add as split_sums


class SplitBuffers(NamedTuple):
    """Factors in two terms, (high + low) * 2^exponents."""

    high: torch.Tensor
    low: torch.Tensor
    exponents: torch.Tensor


def run(work: Work, kernels: str = "auto") -> None:
    """One pass: "cuda", "torch", or as the package chooses."""
    run_in_torch(work) if kernels == "torch" else launch.prepared(work)()


def pre_add(
    x: torch.Tensor, side: str, form: str, level: int, *, transposed: bool = False, kernels: str = "auto"
) -> torch.Tensor:
    """All products' factors of one operand."""
    out = x.new_empty(buffer_shape(x.shape[0], x.shape[1], side, level))
    run(factors_work(x, "transposed" if transposed else side, form, out, level=level), kernels)
    return out


def post_add(
    products: torch.Tensor, form: str, level: int, shape: tuple[int, int], *, bias: Any = None, relu: bool = False,
    kernels: str = "auto",
) -> torch.Tensor:  # fmt: skip
    """The result of size `shape` from all products."""
    out = products.new_empty(shape)
    run(assembled_work(products, form, level, shape, bias, relu, out), kernels)
    return out


def step_work(
    products: torch.Tensor, form: str, level: int, shape: tuple[int, int], *, next_form: str | None = None,
    bias: Any = None, keep: Any = None,
) -> Work:  # fmt: skip
    """The pass between two layers, to the next one's left factors."""
    out = products.new_empty(buffer_shape(*shape, "left", level))
    work = assembled_work(products, form, level, shape, bias, True, keep)
    return replace(work, spread=next_form or form, high=out)


def step(
    products: torch.Tensor, form: str, level: int, shape: tuple[int, int], *, kernels: str = "auto", **more: Any
) -> torch.Tensor:
    """The next layer's left factors from all products."""
    work = step_work(products, form, level, shape, **more)
    run(work, kernels)
    assert work.high is not None
    return work.high


def split_pre_add(x: torch.Tensor, side: str, form: str, level: int) -> SplitBuffers:
    """The factors in two float16 terms."""
    out = split_buffers(x, side, level)
    run_all(split_sums(x, side, Implementation("fp16x3", level, form), Terms(*out)))
    return out


def exponents_in_torch(x: torch.Tensor, side: str, form: str, level: int) -> torch.Tensor:
    """What `split_exponents` finds."""
    rows = split_buffers(x, side, level).exponents.shape[1]
    return split_exponents(x, side, form, level, torch.empty(rows, dtype=torch.int32, device=x.device))


def split_buffers(x: torch.Tensor, side: str, level: int) -> SplitBuffers:
    """What `split_pre_add` writes, empty."""
    shape = buffer_shape(x.shape[0], x.shape[1], side, level)
    high, low = (torch.empty(shape, dtype=torch.float16, device=x.device) for _ in range(2))
    return SplitBuffers(high, low, torch.empty(shape[1], dtype=torch.int32, device=x.device).expand(shape[:2]))
