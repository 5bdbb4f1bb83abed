"""The passes over memory, each as a function of no arguments: by the kernels on a GPU, by torch elsewhere.

>>> out = torch.empty(7, 1, 8)
>>> prefix_step(torch.ones(2, 16), "left", Way("sgemm", 1, "strassen"), out)()
>>> out[0, 0, 0]
tensor(2.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from brrr.strassen.algebra import reference
from brrr.strassen.algebra.forms import coefficients
from brrr.strassen.algebra.shapes import block_place
from brrr.strassen.ways import Way

Step = Callable[[], Any]
_PLAIN = (torch.float32, torch.float64)


def prefix_step(x: torch.Tensor, side: str, way: Way, out: torch.Tensor, *, transposed: bool = False) -> Step:
    """All products' factors of one operand into `out`, in its type, rounded once."""
    form, level = _form(way), way.level
    if kernels_here(x, out):
        from brrr.strassen.passes import sums

        made: Step = sums.prepared_prefix(x, side, form, level, transposed=transposed, out=out)
        return made
    if x.dtype == out.dtype and x.dtype in _PLAIN:
        return partial(prefix_into, x, side, form, level, transposed, out)
    return partial(_reference_prefix, x, side, form, level, transposed, out)


def suffix_step(
    products: torch.Tensor, way: Way, out: torch.Tensor, *, bias: torch.Tensor | None = None, relu: bool = False
) -> Step:
    """The result from all products into `out`, in its type, rounded once; then bias and ReLU."""
    form, level, (m, n) = _form(way), way.level, out.shape
    if kernels_here(products, out):
        from brrr.strassen.passes import sums

        made: Step = sums.prepared_suffix(products, form, level, (m, n), bias=bias, relu=relu, out=out)
        return made
    if bias is None and not relu and products.dtype == out.dtype and out.dtype in _PLAIN:
        return partial(suffix_into, products, form, level, out)
    return partial(_reference_suffix, products, form, level, bias, relu, out)


def layer_step(
    products: torch.Tensor, way: Way, shape: tuple[int, int], out: torch.Tensor, next_way: Way, *,
    bias: torch.Tensor | None, relu: bool, keep: torch.Tensor | None = None,
) -> Step:  # fmt: skip
    """Suffix, bias, ReLU and the next layer's left factors in one pass; `keep` also gets the layer's output."""
    form, level, then = str(way.form), way.level, str(next_way.form)
    if kernels_here(products, out):
        from brrr.strassen.passes import sums

        made: Step = sums.prepared_step(
            products, form, level, shape, bias=bias, relu=relu, next_form=then, next_level=next_way.level, keep=keep,
            out=out,
        )  # fmt: skip
        return made
    return partial(
        reference.step, products, form, level, shape, bias=bias, relu=relu, next_form=then, next_level=next_way.level,
        keep=keep, out=out,
    )  # fmt: skip


def kernels_here(*tensors: torch.Tensor) -> bool:
    """Whether the kernels take these tensors: on a GPU, of no type wider than float32."""
    return all(each.is_cuda and each.dtype != torch.float64 for each in tensors)


def _form(way: Way) -> str:
    """A way's form; any where there is no level, for none is used."""
    return way.form or "strassen"


def _reference_prefix(x: torch.Tensor, side: str, form: str, level: int, transposed: bool, out: torch.Tensor) -> None:
    """Summed in the wider of the two types."""
    wide = x if x.element_size() >= out.element_size() else x.to(out.dtype)
    wide = wide.float() if wide.dtype in (torch.float16, torch.bfloat16) else wide
    out.copy_(reference.prefix(wide, side, form, level, transposed=transposed))


def _reference_suffix(
    products: torch.Tensor, form: str, level: int, bias: torch.Tensor | None, relu: bool, out: torch.Tensor
) -> None:
    made = reference.suffix(products, form, level, tuple(out.shape), bias=bias, relu=relu, dtype=out.dtype)  # type: ignore[arg-type]
    out.copy_(made)


# ---------------------------------------------------------------------------------------------------------------------
# Sums of blocks by torch, straight into their buffers: nothing is allocated, on any device.


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
