"""Factors in two float16 terms, so that a split product under Strassen's needs no pass over memory more.

>>> high, low, exponents = split_prefix(torch.full((2, 16), 3.0), "left", "strassen", 1)
>>> high[0, 0, 0] * 2.0 ** exponents[0, 0]
tensor(6.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch

from brrr.core.errors import ArgumentError
from brrr.strassen.algebra.forms import STRASSEN as STRASSEN
from brrr.strassen.algebra.forms import Form
from brrr.strassen.algebra.shapes import buffer_shape
from brrr.strassen.passes.launch import Kernels, Run, in_turn, prepared
from brrr.strassen.passes.work import (
    Shape,
    assembled_work,
    check_buffer,
    check_matrix,
    check_tensors,
    chosen_form,
    factors_work,
    signs_of,
)


class SplitBuffers(NamedTuple):
    """Factors in two terms, (high + low) * 2^exponents: float16 [7^L, rows, columns], and int32 [7^L, rows]."""

    high: torch.Tensor
    low: torch.Tensor
    exponents: torch.Tensor


def split_prefix(
    x: torch.Tensor, side: str, form: str | Form, level: int, *,
    transposed: bool = False, out: SplitBuffers | None = None, kernels: Kernels = "auto",
) -> SplitBuffers:  # fmt: skip
    """The factors in two float16 terms, so that a product of split terms under Strassen's needs no pass more.

    >>> high, low, exponents = split_prefix(torch.full((2, 16), 3.0), "left", "strassen", 1)
    >>> high[0, 0, 0] * 2.0 ** exponents[0, 0]
    tensor(6.)

    Each row of a block has one exponent, by the largest number in the rows that it sums: see `split_exponents`.
    """
    if out is None:
        out = split_buffers(x, side, level, transposed)
    prepared_split_prefix(x, side, form, level, transposed=transposed, out=out, kernels=kernels)()
    return out


def prepared_split_prefix(
    x: torch.Tensor, side: str, form: str | Form, level: int, *,
    transposed: bool = False, out: SplitBuffers, kernels: Kernels = "auto",
) -> Run:  # fmt: skip
    """`split_prefix` as a function of no arguments: it finds the exponents anew each time."""
    exponents = out.exponents[0]
    work = factors_work("split_prefix", x, side, form, level, transposed, out.high, out.low, exponents)
    assert work.spread is not None
    find = _finding(x, work.side, work.spread, level, exponents, kernels)
    return in_turn(find, prepared(work, kernels))


def split_buffers(x: torch.Tensor, side: str, level: int, transposed: bool = False) -> SplitBuffers:
    """What `split_prefix` writes, empty."""
    check_tensors("split_prefix", x=x)
    check_matrix("split_prefix", "x", x, None, written=False)
    shape = buffer_shape(x.shape[0], x.shape[1], side, level, transposed)
    high, low = (torch.empty(shape, dtype=torch.float16, device=x.device) for _ in range(2))
    return SplitBuffers(high, low, torch.empty(shape[1], dtype=torch.int32, device=x.device).expand(shape[:2]))


def split_exponents(x: torch.Tensor, side: str, form: Form, level: int, out: torch.Tensor) -> torch.Tensor:
    """Into `out`, int32 (rows of a block,): the exponents that bring all sums below 2^15, within float16's range.

    >>> split_exponents(torch.full((2, 16), 3.0), "left", STRASSEN, 1, torch.empty(1, dtype=torch.int32))
    tensor([-12], dtype=torch.int32)

    The largest finite number in the rows that are summed is below 2^e; a sum of a level adds at most 2 blocks
    (Strassen) or 4 (Winograd), so it gains 1 or 2 binary places. What is 2^18 times smaller than the largest loses
    digits of its low term: an error of 2^-40 of the largest. side: "left", "right" or "transposed".
    """
    sizes = torch.where(x.isfinite(), x, 0.0).abs().float()
    largest = sizes.amax(1) if x.numel() else sizes.new_zeros(x.shape[0])
    places = (largest.contiguous().view(torch.int32) >> 23) - 126  # zeros and subnormal numbers: -126
    whole = torch.full((len(out) << level,), -126, dtype=torch.int32, device=x.device)
    whole[: len(places)] = places
    most = whole.view(1 << level, len(out)).amax(0)
    return out.copy_((most + _gain(form, side, level) - 15).clamp(-110, 126))


def _gain(form: Form, side: str, level: int) -> int:
    """Binary places that a sum of blocks may have more than its blocks."""
    terms = int(signs_of(form, side).abs().sum(1).max())
    return (terms - 1).bit_length() * level


def _finding(
    x: torch.Tensor, side: str, form: Form, level: int, exponents: torch.Tensor, kernels: Kernels
) -> Callable[[], object]:
    """`split_exponents`, ready to run: in one launch where the kernel reads x."""
    from brrr.strassen.split import exponents as kernel

    if kernels in ("auto", "cuda") and x.numel() and exponents.is_contiguous() and kernel.fits(x):
        return kernel.prepared(x, exponents, 1 << level, _gain(form, side, level))
    return partial(split_exponents, x, side, form, level, exponents)


def split_step(
    products: torch.Tensor, form: str | Form, level: int, shape: Shape, *,
    out: SplitBuffers, bias: torch.Tensor | None = None, relu: bool = True,
    next_form: str | Form | None = None, keep: torch.Tensor | None = None, kernels: Kernels = "auto",
) -> SplitBuffers:  # fmt: skip
    """`step` into two terms, of the same level, by the exponents that `out` brings: what is too large becomes infinite.

    A layer's output is not known before it is made, so its exponents must be bounds: the largest number expected is
    below 2^(exponent + 15) after the sums, which at most double (Strassen) or quadruple (Winograd) it a level.
    """
    prepared_split_step(
        products, form, level, shape, out=out, bias=bias, relu=relu, next_form=next_form, keep=keep, kernels=kernels
    )()
    return out


def prepared_split_step(
    products: torch.Tensor, form: str | Form, level: int, shape: Shape, *,
    out: SplitBuffers, bias: torch.Tensor | None = None, relu: bool = True,
    next_form: str | Form | None = None, keep: torch.Tensor | None = None, kernels: Kernels = "auto",
) -> Run:  # fmt: skip
    """`split_step` as a function of no arguments."""
    work = assembled_work("split_step", products, form, level, shape, bias, relu, keep)
    for name, each in (("out.high", out.high), ("out.low", out.low)):
        check_buffer("split_step", name, each, buffer_shape(*shape, "left", level))
        if each.dtype != torch.float16:
            raise ArgumentError("split_step", name, str(each.dtype), "float16")
    then = chosen_form(form if next_form is None else next_form, level, "split_step")
    exponents = out.exponents[0]
    return prepared(replace(work, spread=then, high=out.high, low=out.low, exponents=exponents), kernels)
