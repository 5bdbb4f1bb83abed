"""A classical product whose operands are copied to rows that start at 16 bytes, where a library is slow without.

>>> a, b = torch.randn(1537, 1537).bfloat16(), torch.randn(1537, 64).bfloat16()
>>> out, way = torch.empty(1537, 64).bfloat16(), Way("bf16")
>>> made = aligned_steps(way, a, Right.of(b), out, Arena(2**24, "cpu"), Copied(True, True, False))
>>> for step in made or []:
...     _ = step()
>>> bool((out.float() - a.float() @ b.float()).norm() < 0.01 * out.float().norm())
True

Rows are filled up with zeros, by the pass over memory that makes a Strassen level's factors, with no level; so another
type is rounded to in the same pass. Which are copied, `fitting.copied` says.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch

from brrr.core.errors import UnavailableError
from brrr.strassen.algebra.blocks import buffer_shape, products_shape
from brrr.strassen.gemm.products import product_step
from brrr.strassen.operands import Arena, Right, operand_name
from brrr.strassen.passes.launch import Run, SplitBuffers, prepared_split_pre_add
from brrr.strassen.passes.steps import post_add_step, pre_add_step
from brrr.strassen.peeling import Copied, aligned_size
from brrr.strassen.split.guard import guard_step, noted
from brrr.strassen.split.splits import Part, Terms, prepared_splits
from brrr.strassen.split.splitting import prepared_product, product_way
from brrr.strassen.ways import Way
from brrr.strassen.workspace import product_dtype, rounded

KINDS = ("cuda",)
"""Where a library's products gain by it; a CPU's do not."""

STARTS = 16
"""Bytes at whose multiples what is not copied must start."""


def aligned_steps(
    way: Way, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena, copies: Copied
) -> list[Run] | None:
    """Copies, product and copy back; None where the arena has no room for them, or the rest does not lie as it must."""
    m, k, n = a.shape[0], aligned_size(right.k), aligned_size(right.n)
    dtype, made = getattr(torch, way.dtype), getattr(torch, product_dtype(way, operand_name(a)))
    shapes = ((m, k), dtype), ((n, k) if right.transposed else (k, n), dtype), ((m, n), made)
    needed = sum(rounded(s[0] * s[1] * t.itemsize) for copy, (s, t) in zip(copies, shapes, strict=True) if copy)
    given = a, right.source, out
    if needed > arena.left_bytes or not all(copy or _lies(x) for copy, x in zip(copies, given, strict=True)):
        return None
    left, below, product = (
        arena.take((1, *s), t) if copy else x[None] for copy, (s, t), x in zip(copies, shapes, given, strict=True)
    )
    steps = [pre_add_step(a, "left", way, left)] if copies.left else []
    steps += [pre_add_step(right.source, "right", way, below, transposed=right.transposed)] if copies.right else []
    steps.append(product_step(way.kind, left, below, product, right_transposed=right.transposed))
    return [*steps, post_add_step(product, way, out)] if copies.result else steps


def _lies(x: torch.Tensor) -> bool:
    return x.is_contiguous() and x.data_ptr() % STARTS == 0


# ---------------------------------------------------------------------------------------------------------------------
# A split product's steps: both sides in two float16 terms, by rows, then the product of the terms.


def split_steps(way: Way, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> list[Run]:
    """All of a product: terms of the left side, of the right side unless they are made, the product, and its sums.

    Without levels the guard stands behind them. UnavailableError on a GPU that has no kernel for the product.
    """
    if a.is_cuda and product_way(a.device) != "cuda":
        raise UnavailableError(f"fp16x3: {a.device} is not of compute capability 9.0; inner='sgemm' runs there")
    if not way.level:
        return _plain_steps(a, right, out, arena)
    if right.factors:
        before: list[Run] = []
        below = _as_terms(way, right.factors, right.k)
    else:
        before, made = right_terms(way, right, arena)
        below = _as_terms(way, made, right.k)
    making, left = _terms(way, a, "left", arena)
    m, n = out.shape
    products = arena.take(products_shape(m, n, way.level), torch.float32)
    return [*before, *making, prepared_product(left, below, products), post_add_step(products, way, out)]


def _plain_steps(a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> list[Run]:
    """Without levels: one launch splits what is not split, and behind the product stands the guard."""
    peaks, inner = noted(right.k, a.device)
    left = replace(_part(a, arena), peaks=peaks)
    if right.factors:
        *_, inner = right.factors
        split, below = prepared_splits(left), _as_terms(Way("fp16x3"), right.factors, right.k)
    else:
        other = replace(_part(right.matrix.t(), arena), inner=inner)
        split, below = prepared_splits(left, other), other.out
    guard = guard_step(a, right.matrix, out, peaks, inner, keep=bool(right.factors))
    return [split, prepared_product(left.out, below, out), guard]


def _part(x: torch.Tensor, arena: Arena) -> Part:
    """x (rows, k) to be split, its terms in the arena."""
    rows, k = x.shape
    both = arena.take((2, 1, rows, -(-k // 8) * 8), torch.float16)
    terms = Terms(both[0], both[1], arena.take((1, rows), torch.int32), k, True)
    turned = x.stride(0) == 1 and x.stride(1) != 1
    return Part(x.t() if turned else x, terms, turned)


def right_terms(way: Way, right: Right, arena: Arena) -> tuple[list[Run], tuple[torch.Tensor, ...]]:
    """The right side's terms: always by rows of (n, k), as they are summed along k, however it lies.

    Without levels the sizes inside it come fourth, for the guard.
    """
    x = right.matrix.t()
    if way.level:
        making, terms = _terms(way, x, "right", arena)
        return making, (terms.hi, terms.lo, terms.exponents)
    part = replace(_part(x, arena), inner=noted(right.k, x.device)[1])
    assert part.inner is not None
    return [prepared_splits(part)], (part.out.hi, part.out.lo, part.out.exponents, part.inner)


def _terms(way: Way, x: torch.Tensor, side: str, arena: Arena) -> tuple[list[Run], Terms]:
    """What makes a side's terms for a way with levels, and where; x is (rows, k)."""
    rows, k = x.shape
    transposed = side == "right"
    before: list[Run] = []
    if transposed and x.stride(1) != 1 and k > 1:  # the sums are made along k, and would read columns number by number
        copy = arena.take((rows, k), x.dtype)
        before, x = [partial(copy.copy_, x)], copy
    shape = buffer_shape(rows, k, side, way.level, transposed)
    both = arena.take((2, *shape), torch.float16)
    exponents = arena.take((shape[1],), torch.int32).expand(shape[:2])
    buffers = SplitBuffers(both[0], both[1], exponents)
    run = prepared_split_pre_add(x, side, str(way.form), way.level, transposed=transposed, out=buffers)
    return [*before, run], Terms(both[0], both[1], exponents, shape[2], False)


def _as_terms(way: Way, factors: tuple[torch.Tensor, ...], k: int) -> Terms:
    hi, lo, exponents = factors[:3]
    return Terms(hi, lo, exponents, hi.shape[2] if way.level else k, not way.level)
