"""A split product's steps: both sides in two float16 terms, by rows, then the product of the terms.

>>> a, b, out = torch.randn(64, 48), torch.randn(48, 32), torch.empty(64, 32)
>>> for step in split_steps(Implementation("fp16x3"), a, Right.of(b), out, Arena(2**20, "cpu")):
...     _ = step()
>>> torch.allclose(out, a @ b, atol=1e-4)
True
"""

from dataclasses import replace
from functools import partial

import torch

from brrr.core.errors import UnavailableError
from brrr.strassen.algebra.blocks import buffer_shape, products_shape
from brrr.strassen.algebra.forms import FORMS
from brrr.strassen.implementations import Implementation
from brrr.strassen.launcher import Run
from brrr.strassen.operands import Arena, Right
from brrr.strassen.passes.launch import post_add_step, prepared
from brrr.strassen.passes.sums import factors_work
from brrr.strassen.split.guard import guard_step, noted
from brrr.strassen.split.operands_kernel import SplitSource, Terms, fits, places_of, prepared_exponents, prepared_splits
from brrr.strassen.split.product_kernel import has_kernel, prepared_product


def split_steps(how: Implementation, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> list[Run]:
    """All of a product: terms of the left side, of the right side unless they are made, the product, and its sums.

    Without levels the guard stands behind them. UnavailableError on a GPU that has no kernel for the product.
    """
    if a.is_cuda and not has_kernel(a.device):
        raise UnavailableError(f"fp16x3: {a.device} is not of compute capability 9.0; inner='sgemm' runs there")
    if not how.level:
        return _plain_steps(a, right, out, arena)
    before, made = ([], right.factors) if right.factors else right_terms(how, right, arena)
    making, left = _terms(how, a, "left", arena)
    products = arena.take(products_shape(out.shape[0], out.shape[1], how.level), torch.float32)
    product = prepared_product(left, Terms(*made), products)
    return [*before, *making, product, post_add_step(products, how, out)]


def _plain_steps(a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> list[Run]:
    """Without levels: one launch splits what is not split, and behind the product stands the guard."""
    peaks, inner = noted(right.k, a.device)
    left = replace(_source(a, arena), peaks=peaks)
    if right.factors:
        *made, inner = right.factors
        split, below = prepared_splits(left), Terms(*made)
    else:
        other = replace(_source(right.matrix.t(), arena), inner=inner)
        split, below = prepared_splits(left, other), other.out
    guard = guard_step(a, right.matrix, out, peaks, inner, keep=bool(right.factors))
    return [split, prepared_product(left.out, below, out), guard]


def _source(x: torch.Tensor, arena: Arena) -> SplitSource:
    """x (rows, k) to be split, its terms in the arena."""
    rows, k = x.shape
    hi, lo = arena.take((2, 1, rows, -(-k // 8) * 8), torch.float16)
    return SplitSource(x, Terms(hi, lo, arena.take((1, rows), torch.int32)))


def right_terms(how: Implementation, right: Right, arena: Arena) -> tuple[list[Run], tuple[torch.Tensor, ...]]:
    """The right side's terms: always by rows of (n, k), as they are summed along k, however it lies.

    Without levels the sizes inside it come fourth, for the guard.
    """
    x = right.matrix.t()
    if how.level:
        return _terms(how, x, "transposed", arena)
    inner = noted(right.k, x.device)[1]
    source = replace(_source(x, arena), inner=inner)
    return [prepared_splits(source)], (*source.out, inner)


# ---------------------------------------------------------------------------------------------------------------------
# The sums of a level in two terms, each row of a block with one exponent, by the largest number in the rows summed.


def _terms(how: Implementation, x: torch.Tensor, side: str, arena: Arena) -> tuple[list[Run], Terms]:
    """What makes a side's terms for a way with levels, and where; x is (rows, k)."""
    before: list[Run] = []
    if side == "transposed" and x.stride(1) != 1 and x.shape[1] > 1:  # else it would be read number by number
        copy = arena.take((x.shape[0], x.shape[1]), x.dtype)
        before, x = [partial(copy.copy_, x)], copy
    shape = buffer_shape(x.shape[0], x.shape[1], side, how.level)
    hi, lo = arena.take((2, *shape), torch.float16)
    terms = Terms(hi, lo, arena.take((shape[1],), torch.int32).expand(shape[:2]))
    return [*before, *split_pre_add(x, side, how, terms)], terms


def split_pre_add(x: torch.Tensor, side: str, how: Implementation, out: Terms) -> list[Run]:
    """What makes the factors in two float16 terms: the exponents, which are found anew each time, and the sums.

    Rows of terms lie along k: a right operand is (n, k), as Linear's weights lie, and its side "transposed".
    """
    exponents, form, level = out.exponents[0], str(how.form), how.level
    find: Run = partial(split_exponents, x, side, form, level, exponents)
    along = x.numel() and (x.stride(1) == 1 or x.shape[1] == 1) and exponents.is_contiguous()
    if along and x.dtype == torch.float32 and fits(x):  # in one launch
        find = prepared_exponents(x, exponents, 1 << level, _gain(form, side, level))
    work = factors_work(x, side, how.form, out.hi, level=level, low=out.lo, exponents=exponents)
    return [find, prepared(work)]


def split_exponents(x: torch.Tensor, side: str, form: str, level: int, out: torch.Tensor) -> torch.Tensor:
    """Into `out`, int32 (rows of a block,): the exponents that bring all sums below 2^15, within float16's range.

    >>> split_exponents(torch.full((2, 16), 3.0), "left", "strassen", 1, torch.empty(1, dtype=torch.int32))
    tensor([-12], dtype=torch.int32)

    The largest finite number in the rows that are summed is below 2^e; a sum of a level adds at most 2 blocks
    (Strassen) or 4 (Winograd), so it gains 1 or 2 binary places. What is 2^18 times smaller than the largest loses
    digits of its low term: an error of 2^-40 of the largest. side: "left", "right" or "transposed".
    """
    places = places_of(x)
    whole = torch.full((len(out) << level,), -126, dtype=torch.int32, device=x.device)
    whole[: len(places)] = places
    most = whole.view(1 << level, len(out)).amax(0)
    return out.copy_((most + _gain(form, side, level) - 15).clamp(-110, 126))


def _gain(form: str, side: str, level: int) -> int:
    """Binary places that a sum of blocks may have more than its blocks."""
    terms = int(abs(FORMS[form].signs(side)).sum(1).max())
    return (terms - 1).bit_length() * level
