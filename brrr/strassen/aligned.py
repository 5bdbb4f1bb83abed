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

import torch

from brrr.strassen.arena import Arena
from brrr.strassen.blocks import product_step
from brrr.strassen.fitting import Copied, aligned_size
from brrr.strassen.operands import Right, operand_name
from brrr.strassen.sums import Step, prefix_step, suffix_step
from brrr.strassen.ways import Way
from brrr.strassen.workspace import product_dtype, rounded

KINDS = ("cuda",)
"""Where a library's products gain by it; a CPU's do not."""

STARTS = 16
"""Bytes at whose multiples what is not copied must start."""


def aligned_steps(
    way: Way, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena, copies: Copied
) -> list[Step] | None:
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
    steps = [prefix_step(a, "left", way, left)] if copies.left else []
    steps += [prefix_step(right.source, "right", way, below, transposed=right.transposed)] if copies.right else []
    steps.append(product_step(way.kind, left, below, product, right_transposed=right.transposed))
    return [*steps, suffix_step(product, way, out)] if copies.result else steps


def _lies(x: torch.Tensor) -> bool:
    return x.is_contiguous() and x.data_ptr() % STARTS == 0
