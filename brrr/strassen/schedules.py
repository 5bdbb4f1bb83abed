"""A product in little memory: the outer levels one product after another, each in the same few buffers.

>>> from brrr.strassen.workspace import workspace_bytes
>>> a, b, out = torch.randn(64, 48), torch.randn(48, 32), torch.empty(64, 32)
>>> way = Way("sgemm", 2, "winograd")
>>> run_depth_first(way, 2, a, Right.of(b), out, Arena(workspace_bytes(way, 64, 32, 48, depth=2), "cpu"))
>>> torch.allclose(out, a @ b, atol=1e-3)
True

What it takes is `workspace.workspace_bytes` with that depth, whatever the level less than one more matrix for squares.
The order is the form's own, its sums made anew for each product. Schedules that need still less, by writing into the
result's blocks before they are final: B. Boyer, J.-G. Dumas, C. Pernet and W. Zhou, "Memory efficient scheduling of
Strassen-Winograd's matrix multiplication algorithm", 2009.
"""

from __future__ import annotations

import torch

from brrr.strassen.algebra.forms import Form, form_of
from brrr.strassen.execution import run_all, steps
from brrr.strassen.operands import Arena, Right
from brrr.strassen.passes.steps import signed_into
from brrr.strassen.peeling import halves
from brrr.strassen.ways import Way

Blocks = list[torch.Tensor]


def run_depth_first(way: Way, depth: int, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> None:
    """The product with its outer `depth` levels depth first; the rest of the levels breadth first inside them."""
    if not depth:
        with arena.mark():
            run_all(steps(way, a, right, out, arena, whole=True))
        return
    form = form_of(str(way.form))
    rows, columns, deep = halves(a.shape[0], right.n, right.k)
    with arena.mark():
        factor = arena.take((rows, deep), a.dtype)
        other = arena.take((deep, columns), a.dtype)
        product = arena.take((rows, columns), a.dtype)
        left, results = quarters(a, rows, deep), quarters(out, rows, columns)
        below = quarters(right.matrix, deep, columns)
        for number in range(len(form.left)):
            _sum(factor, form.left[number].tolist(), left)
            _sum(other, form.right[number].tolist(), below)
            run_depth_first(way.within, depth - 1, factor, Right(other), product, arena)
            _give(form, number, product, results)


def quarters(x: torch.Tensor, rows: int, columns: int) -> Blocks:
    """The four blocks, in rows; those at the end may be smaller.

    >>> [tuple(each.shape) for each in quarters(torch.ones(3, 9), 2, 8)]
    [(2, 8), (2, 1), (1, 8), (1, 1)]
    """
    return [x[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns] for i in range(2) for j in range(2)]


def _sum(out: torch.Tensor, signs: list[float], blocks: Blocks) -> None:
    signed_into(out, [(sign, block) for sign, block in zip(signs, blocks, strict=True) if sign])


def _give(form: Form, number: int, product: torch.Tensor, results: Blocks) -> None:
    """Add a product to the blocks of the result that it belongs to; the first one that comes there is written."""
    for signs, block in zip(form.result.tolist(), results, strict=True):
        if not signs[number] or not block.numel():
            continue
        part = product[: block.shape[0], : block.shape[1]]
        if any(signs[:number]):
            block.add_(part, alpha=signs[number])
        else:
            signed_into(block, [(signs[number], part)])
