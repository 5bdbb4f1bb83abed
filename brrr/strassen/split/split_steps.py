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
from brrr.strassen.implementations import Implementation
from brrr.strassen.operands import Arena, Right
from brrr.strassen.passes.launch import Run, post_add_step
from brrr.strassen.split.exponents import prepared_split_pre_add
from brrr.strassen.split.guard import guard_step, noted
from brrr.strassen.split.splitting import SplitSource, Terms, has_kernel, prepared_product, prepared_splits


def split_steps(how: Implementation, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> list[Run]:
    """All of a product: terms of the left side, of the right side unless they are made, the product, and its sums.

    Without levels the guard stands behind them. UnavailableError on a GPU that has no kernel for the product.
    """
    if a.is_cuda and not has_kernel(a.device):
        raise UnavailableError(f"fp16x3: {a.device} is not of compute capability 9.0; inner='sgemm' runs there")
    if not how.level:
        return _plain_steps(a, right, out, arena)
    if right.factors:
        before: list[Run] = []
        below = _as_terms(how, right.factors, right.k)
    else:
        before, made = right_terms(how, right, arena)
        below = _as_terms(how, made, right.k)
    making, left = _terms(how, a, "left", arena)
    m, n = out.shape
    products = arena.take(products_shape(m, n, how.level), torch.float32)
    return [*before, *making, prepared_product(left, below, products), post_add_step(products, how, out)]


def _plain_steps(a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> list[Run]:
    """Without levels: one launch splits what is not split, and behind the product stands the guard."""
    peaks, inner = noted(right.k, a.device)
    left = replace(_source(a, arena), peaks=peaks)
    if right.factors:
        *_, inner = right.factors
        split, below = prepared_splits(left), _as_terms(Implementation("fp16x3"), right.factors, right.k)
    else:
        other = replace(_source(right.matrix.t(), arena), inner=inner)
        split, below = prepared_splits(left, other), other.out
    guard = guard_step(a, right.matrix, out, peaks, inner, keep=bool(right.factors))
    return [split, prepared_product(left.out, below, out), guard]


def _source(x: torch.Tensor, arena: Arena) -> SplitSource:
    """x (rows, k) to be split, its terms in the arena."""
    rows, k = x.shape
    both = arena.take((2, 1, rows, -(-k // 8) * 8), torch.float16)
    return SplitSource(x, Terms(both[0], both[1], arena.take((1, rows), torch.int32), k))


def right_terms(how: Implementation, right: Right, arena: Arena) -> tuple[list[Run], tuple[torch.Tensor, ...]]:
    """The right side's terms: always by rows of (n, k), as they are summed along k, however it lies.

    Without levels the sizes inside it come fourth, for the guard.
    """
    x = right.matrix.t()
    if how.level:
        making, terms = _terms(how, x, "right", arena)
        return making, (terms.hi, terms.lo, terms.exponents)
    inner = noted(right.k, x.device)[1]
    source = replace(_source(x, arena), inner=inner)
    return [prepared_splits(source)], (source.out.hi, source.out.lo, source.out.exponents, inner)


def _terms(how: Implementation, x: torch.Tensor, side: str, arena: Arena) -> tuple[list[Run], Terms]:
    """What makes a side's terms for a way with levels, and where; x is (rows, k)."""
    rows, k = x.shape
    transposed = side == "right"
    before: list[Run] = []
    if transposed and x.stride(1) != 1 and k > 1:  # the sums are made along k, and would read columns number by number
        copy = arena.take((rows, k), x.dtype)
        before, x = [partial(copy.copy_, x)], copy
    shape = buffer_shape(rows, k, side, how.level)
    both = arena.take((2, *shape), torch.float16)
    exponents = arena.take((shape[1],), torch.int32).expand(shape[:2])
    terms = Terms(both[0], both[1], exponents, shape[2])
    step = prepared_split_pre_add(x, side, how.form, how.level, transposed=transposed, out=terms)
    return [*before, step], terms


def _as_terms(how: Implementation, factors: tuple[torch.Tensor, ...], k: int) -> Terms:
    hi, lo, exponents = factors[:3]
    return Terms(hi, lo, exponents, hi.shape[2] if how.level else k)
