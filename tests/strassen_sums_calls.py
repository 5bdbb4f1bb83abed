"""The sums of blocks as calls that make their own buffers, for tests; `kernels`: by the kernel, or by torch."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from brrr.strassen import Implementation
from brrr.strassen.algebra.blocks import buffer_shape
from brrr.strassen.launcher import run_all
from brrr.strassen.passes import launch
from brrr.strassen.passes.sums import Work, assembled_work, factors_work, layer_works, run_in_torch
from brrr.strassen.split.operands_kernel import Terms
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


def step_works(
    products: torch.Tensor, form: str, level: int, shape: tuple[int, int], next_way: Implementation,
    out: torch.Tensor, *,
    bias: Any = None, keep: Any = None,
) -> list[Work]:  # fmt: skip
    """The passes between two layers."""
    return layer_works(assembled_work(products, form, level, shape, bias, True, keep), next_way, out)


def step(
    products: torch.Tensor, form: str, level: int, shape: tuple[int, int], *, next_level: int | None = None,
    next_form: str | None = None, kernels: str = "auto", **more: Any,
) -> torch.Tensor:  # fmt: skip
    """The next layer's left factors from all products."""
    way = Implementation("sgemm", level if next_level is None else next_level, next_form or form)
    out = products.new_empty(buffer_shape(*shape, "left", way.level))
    for work in step_works(products, form, level, shape, way, out, **more):
        run(work, kernels)
    return out


def split_pre_add(x: torch.Tensor, side: str, form: str, level: int) -> SplitBuffers:
    """The factors in two float16 terms."""
    out = split_buffers(x, side, level)
    run_all(split_sums(x, side, Implementation("fp16x3", level, form), Terms(*out)))
    return out


def exponents_in_torch(x: torch.Tensor, side: str, form: str, level: int, find: Callable[..., Any]) -> torch.Tensor:
    """What `split_exponents` finds."""
    from brrr.strassen.algebra.forms import form_of

    rows = split_buffers(x, side, level).exponents.shape[1]
    made: torch.Tensor = find(x, side, form_of(form), level, torch.empty(rows, dtype=torch.int32, device=x.device))
    return made


def split_buffers(x: torch.Tensor, side: str, level: int) -> SplitBuffers:
    """What `split_pre_add` writes, empty."""
    shape = buffer_shape(x.shape[0], x.shape[1], side, level)
    high, low = (torch.empty(shape, dtype=torch.float16, device=x.device) for _ in range(2))
    return SplitBuffers(high, low, torch.empty(shape[1], dtype=torch.int32, device=x.device).expand(shape[:2]))
