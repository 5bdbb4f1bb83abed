"""A split product's steps: both sides in two float16 terms, by rows, then the product of the terms.

>>> a, b, out = torch.randn(20, 30), torch.randn(30, 10), torch.empty(20, 10)
>>> for step in split_steps(Way("fp16x3", 1, "strassen"), a, Right.of(b), out, Arena(2**20, "cpu")):
...     _ = step()
>>> torch.allclose(out, a @ b, atol=1e-4)
True

With levels, the terms are made in the pass that makes the sums: no pass over memory is added, but for a right operand
that lies as (k, n), which is first turned.
"""

from __future__ import annotations

from functools import partial

import torch

from brrr.kernels.strassen_sums_split import SplitBuffers, prepared_split_prefix
from brrr.strassen.arena import Arena
from brrr.strassen.operands import Right
from brrr.strassen.shapes import buffer_shape, products_shape
from brrr.strassen.split_terms import Terms
from brrr.strassen.splits import Part, prepared_splits
from brrr.strassen.splitting import prepared_product
from brrr.strassen.sums import Step, suffix_step
from brrr.strassen.ways import Way


def split_steps(way: Way, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> list[Step]:
    """All of a product: terms of the left side, of the right side unless they are made, the product, and its sums."""
    if not way.level:
        return _plain_steps(a, right, out, arena)
    if right.factors:
        before: list[Step] = []
        below = _as_terms(way, right.factors, right.k)
    else:
        before, made = right_terms(way, right, arena)
        below = _as_terms(way, made, right.k)
    making, left = _terms(way, a, "left", arena)
    m, n = out.shape
    products = arena.take(products_shape(m, n, way.level), torch.float32)
    return [*before, *making, prepared_product(left, below, products), suffix_step(products, way, out)]


def _plain_steps(a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> list[Step]:
    """Without levels, one launch splits what is not split."""
    left = _part(a, arena)
    if right.factors:
        hi, lo, exponents = right.factors
        below = Terms(hi, lo, exponents, right.k, True)
        return [prepared_splits(left), prepared_product(left.out, below, out)]
    other = _part(right.matrix.t(), arena)
    return [prepared_splits(left, other), prepared_product(left.out, other.out, out)]


def _part(x: torch.Tensor, arena: Arena) -> Part:
    """x (rows, k) to be split, its terms in the arena."""
    rows, k = x.shape
    both = arena.take((2, 1, rows, -(-k // 8) * 8), torch.float16)
    terms = Terms(both[0], both[1], arena.take((1, rows), torch.int32), k, True)
    turned = x.stride(0) == 1 and x.stride(1) != 1
    return Part(x.t() if turned else x, terms, turned)


def right_terms(way: Way, right: Right, arena: Arena) -> tuple[list[Step], tuple[torch.Tensor, ...]]:
    """The right side's terms: always by rows of (n, k), as they are summed along k, however it lies."""
    making, terms = _terms(way, right.matrix.t(), "right", arena)
    return making, (terms.hi, terms.lo, terms.exponents)


def _terms(way: Way, x: torch.Tensor, side: str, arena: Arena) -> tuple[list[Step], Terms]:
    """What makes a side's terms, and where; x is (rows, k)."""
    rows, k = x.shape
    if not way.level:
        part = _part(x, arena)
        return [prepared_splits(part)], part.out
    transposed = side == "right"
    before: list[Step] = []
    if transposed and x.stride(1) != 1 and k > 1:  # the sums are made along k, and would read columns number by number
        copy = arena.take((rows, k), x.dtype)
        before, x = [partial(copy.copy_, x)], copy
    shape = buffer_shape(rows, k, side, way.level, transposed)
    both = arena.take((2, *shape), torch.float16)
    exponents = arena.take((shape[1],), torch.int32).expand(shape[:2])
    buffers = SplitBuffers(both[0], both[1], exponents)
    run = prepared_split_prefix(x, side, str(way.form), way.level, transposed=transposed, out=buffers)
    return [*before, run], Terms(both[0], both[1], exponents, shape[2], False)


def _as_terms(way: Way, factors: tuple[torch.Tensor, ...], k: int) -> Terms:
    hi, lo, exponents = factors
    return Terms(hi, lo, exponents, hi.shape[2] if way.level else k, not way.level)
