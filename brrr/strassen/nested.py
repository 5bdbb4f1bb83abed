"""More levels than one pass over memory takes: the outermost around seven products of half the size, one by one.

>>> a, b, out = torch.randn(70, 64), torch.randn(64, 40), torch.empty(70, 40)
>>> way = Way("sgemm", 4, "strassen")
>>> for step in nested_steps(way, a, Right.of(b), out, Arena(workspace_bytes(way, 70, 40, 64), "cpu")):
...     _ = step()
>>> torch.allclose(out, a @ b, atol=1e-3)
True

The outermost level has one pass over each operand and one behind its products, as levels by themselves have. Each of
its seven products is one of three levels: its buffers are a seventh of what all at once would need, and the same for
all seven. What it adds to memory traffic is small: an operand is read once more and its seven factors are written once
and read once, at a quarter of its size each.
"""

from __future__ import annotations

import torch

from brrr.strassen.arena import Arena
from brrr.strassen.execution import prepare_right, steps
from brrr.strassen.operands import Right
from brrr.strassen.shapes import buffer_shape, products_shape
from brrr.strassen.sums import Step, prefix_step, suffix_step
from brrr.strassen.ways import Way
from brrr.strassen.workspace import rounded
from brrr.strassen.workspace import workspace_bytes as workspace_bytes


def nested_steps(way: Way, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> list[Step]:
    """The outermost level's sums, seven products of one level less, and the sums of those."""
    left = arena.take(buffer_shape(a.shape[0], right.k, "left", 1), a.dtype)
    made = [prefix_step(a, "left", way.outermost, left)]
    if right.parts:
        parts = right.parts
    else:
        making, parts = _outermost(way, right, arena)
        made.append(making)
    products = arena.take(products_shape(out.shape[0], out.shape[1], 1), out.dtype)
    for factor, part, product in zip(left, parts, products, strict=True):
        with arena.mark():  # they run one after another
            made += steps(way.within, factor, part, product, arena, whole=True)
    return [*made, suffix_step(products, way.outermost, out)]


def prepared_parts(way: Way, right: Right, *, once: bool = True) -> tuple[Right, ...]:
    """The seven parts of a right operand, each with its sums of one level less; the parts themselves are not kept."""
    shape = _shape(right)
    size = shape[0] * shape[1] * shape[2] * right.source.element_size()
    making, parts = _outermost(way, right, Arena(rounded(size), right.source.device))
    making()
    return tuple(_without_source(prepare_right(part, way.within, once=once)) for part in parts)


def _outermost(way: Way, right: Right, arena: Arena) -> tuple[Step, tuple[Right, ...]]:
    """What makes the outermost level's seven factors of the right operand, and where they will be."""
    factors = arena.take(_shape(right), right.source.dtype)
    making = prefix_step(right.source, "right", way.outermost, factors, transposed=right.transposed)
    return making, tuple(Right(each, right.transposed) for each in factors)


def _shape(right: Right) -> tuple[int, int, int]:
    rows, columns = right.source.shape
    return buffer_shape(rows, columns, "right", 1, right.transposed)


def _without_source(part: Right) -> Right:
    """The part's sums alone: of what they were made from, only the sizes."""
    return Right(part.source.to("meta"), part.transposed, part.way, part.factors, part.made_transposed, part.parts)
