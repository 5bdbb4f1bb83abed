"""Sums of blocks by torch, straight into their buffers: nothing is allocated, on any device.

>>> out = torch.empty(7, 1, 8)
>>> prefix_into(torch.ones(2, 16), "left", "strassen", 1, False, out)
>>> out[:, 0, 0]  # A11 + A22, A21 + A22, A11, A22, ...
tensor([2., 2., 1., 1., 2., 0., 0.])

The kernels make all sums in one pass over memory; this takes a pass a block. `reference.py` shares partial sums, but
needs memory for them. Sums are made in the buffers' own type, so that these are for float32 and float64.
"""

from __future__ import annotations

import torch

from brrr.strassen.forms import coefficients
from brrr.strassen.shapes import block_place


def prefix_into(x: torch.Tensor, side: str, form: str, level: int, transposed: bool, out: torch.Tensor) -> None:
    """All products' factors from one operand, as `reference.prefix`."""
    signs = coefficients(form, level)
    of_side = signs.left if side == "left" else signs.right_transposed if transposed else signs.right
    rows, columns = out.shape[1:]
    blocks = [_block(x, rows, columns, *block_place(block, level)) for block in range(4**level)]
    for factor, row in zip(out, of_side.tolist(), strict=True):
        signed_into(factor, [(sign, block) for sign, block in zip(row, blocks, strict=True) if sign])


def suffix_into(products: torch.Tensor, form: str, level: int, out: torch.Tensor) -> None:
    """The result from all products, as `reference.suffix`."""
    result = coefficients(form, level).result.tolist()
    rows, columns = products.shape[1:]
    for number, row in enumerate(result):
        block = _block(out, rows, columns, *block_place(number, level))
        if block.numel():
            height, width = block.shape
            terms = [(sign, each[:height, :width]) for sign, each in zip(row, products, strict=True) if sign]
            signed_into(block, terms)


Terms = list[tuple[float, torch.Tensor]]
"""Parts, each with its sign: -1 or 1, or a half or a quarter where a form has those."""


def signed_into(out: torch.Tensor, terms: Terms) -> None:
    """Write a sum of parts; a part may be smaller than `out`, and counts as zero beyond its end."""
    (sign, first), *rest = terms
    whole = first.shape == out.shape
    if rest and whole and rest[0][1].shape == out.shape and sign == 1:
        torch.add(first, rest[0][1], alpha=rest[0][0], out=out)
        rest = rest[1:]
    else:
        if not whole:
            out.zero_()
        target = out[: first.shape[0], : first.shape[1]]
        target.copy_(first) if sign == 1 else torch.mul(first, sign, out=target)
    for sign, part in rest:
        out[: part.shape[0], : part.shape[1]].add_(part, alpha=sign)


def _block(x: torch.Tensor, rows: int, columns: int, i: int, j: int) -> torch.Tensor:
    """A block of x; smaller where it hangs over x's end."""
    return x[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
