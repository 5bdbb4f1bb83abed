"""The passes over memory, each as a function of no arguments: by the kernels on a GPU, by torch elsewhere.

>>> out = torch.empty(7, 1, 8)
>>> pre_add_step(torch.ones(2, 16), "left", Way("sgemm", 1, "strassen"), out)()
>>> out[0, 0, 0]
tensor(2.)
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch

from brrr.strassen.algebra.blocks import block_place, buffer_shape, level_of
from brrr.strassen.algebra.forms import Form, coefficients
from brrr.strassen.passes.launch import Kernels, Run, in_turn, prepared
from brrr.strassen.passes.work import (
    Shape,
    Work,
    assembled_work,
    check_buffer,
    check_tensors,
    chosen_form,
    factors_work,
)
from brrr.strassen.ways import Way

# ---------------------------------------------------------------------------------------------------------------------
# The sums of blocks before and after the products of Strassen's algorithm, all levels in one pass over memory.


def prepared_pre_add(
    x: torch.Tensor, side: str, form: str | Form, level: int, *,
    transposed: bool = False, out: torch.Tensor, kernels: Kernels = "auto",
) -> Run:  # fmt: skip
    """All products' factors of one operand into `out`, as a function of no arguments.

    x: (m, k) on the left, (k, n) on the right, or (n, k) `transposed` as Linear's weights; any strides, any sizes.
    out: [7^L, rows, columns] as `buffer_shape` says, contiguous. float32, float16 or bfloat16, not necessarily the same
    (and float64 by torch). ArgumentError for any others; UnavailableError where the kernels asked for cannot run.
    """
    work = factors_work("pre_add", x, side, form, level, transposed, out, None, None)
    return prepared(work, kernels)


def prepared_post_add(
    products: torch.Tensor, form: str | Form, level: int, shape: Shape, *,
    bias: torch.Tensor | None = None, relu: bool = False, out: torch.Tensor, kernels: Kernels = "auto",
) -> Run:  # fmt: skip
    """The result of size `shape` from all products, then bias and ReLU, into `out`, as a function of no arguments.

    products: [7^L, rows, columns] as `products_shape` says, contiguous. bias: (n,). out: any strides.
    """
    return prepared(assembled_work("post_add", products, form, level, shape, bias, relu, out), kernels)


def prepared_step(
    products: torch.Tensor, form: str | Form, level: int, shape: Shape, *,
    bias: torch.Tensor | None = None, relu: bool = True, next_form: str | Form | None = None,
    next_level: int | None = None, keep: torch.Tensor | None = None, out: torch.Tensor, kernels: Kernels = "auto",
) -> Run:  # fmt: skip
    """Between two layers: post-additions, bias, ReLU, and the next layer's left factors into `out`.

    One pass over memory where both layers have one level, or where either has none and nothing is kept; else two.
    next_form, next_level: this layer's if None. keep: (m, n), any strides, gets the layer's output too.
    """
    work = assembled_work("step", products, form, level, shape, bias, relu, keep)
    check_tensors("step", products=products, out=out)
    then = level if next_level is None else level_of(next_level, "step")
    check_buffer("step", "out", out, buffer_shape(*shape, "left", then))
    spread = chosen_form(form if next_form is None else next_form, then, "step")
    return in_turn(*(prepared(each, kernels) for each in passes(work, spread, then, out)))


def passes(work: Work, spread: Form, then: int, out: torch.Tensor) -> list[Work]:
    """The passes over memory that a step needs: one where levels allow it, else two by way of the layer's output."""
    block = (out.shape[1], out.shape[2])
    if then == work.level:
        return [replace(work, spread=spread, high=out)]
    if not work.level and work.matrix is None:  # the product is the layer's matrix already
        source = work.source[0, :, : work.shape[1]]
        return [replace(work, level=then, source=source, from_products=False, block=block, spread=spread, high=out)]
    if not then and block == work.shape and work.matrix is None:
        return [replace(work, matrix=out[0])]
    between = work.matrix
    if between is None:
        wide = torch.float64 if out.dtype == torch.float64 else torch.float32
        between = torch.empty(work.shape, dtype=wide, device=out.device)
    return [
        replace(work, matrix=between),
        Work(then, between, False, work.shape, block, spread=spread, high=out),
    ]


def pre_add_step(x: torch.Tensor, side: str, way: Way, out: torch.Tensor, *, transposed: bool = False) -> Run:
    """All products' factors of one operand into `out`, in its type, rounded once."""
    if _by_blocks(x, out):
        return partial(pre_add_into, x, side, _form(way), way.level, transposed, out)
    return prepared_pre_add(x, side, _form(way), way.level, transposed=transposed, out=out)


def post_add_step(
    products: torch.Tensor, way: Way, out: torch.Tensor, *, bias: torch.Tensor | None = None, relu: bool = False
) -> Run:
    """The result from all products into `out`, in its type, rounded once; then bias and ReLU."""
    if bias is None and not relu and _by_blocks(products, out):
        return partial(post_add_into, products, _form(way), way.level, out)
    return prepared_post_add(
        products, _form(way), way.level, (out.shape[0], out.shape[1]), bias=bias, relu=relu, out=out
    )


def layer_step(
    products: torch.Tensor, way: Way, shape: Shape, out: torch.Tensor, next_way: Way, *,
    bias: torch.Tensor | None, relu: bool, keep: torch.Tensor | None = None,
) -> Run:  # fmt: skip
    """Post-additions, bias, ReLU and the next layer's left factors in one pass; `keep` also gets the layer's output."""
    return prepared_step(
        products, _form(way), way.level, shape, bias=bias, relu=relu, next_form=_form(next_way),
        next_level=next_way.level, keep=keep, out=out,
    )  # fmt: skip


def _by_blocks(x: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether torch sums them block by block: where no kernel does, and there is nothing to round."""
    return x.dtype == out.dtype and (x.dtype == torch.float64 or (x.dtype == torch.float32 and not x.is_cuda))


def _form(way: Way) -> str:
    """A way's form; any where there is no level, for none is used."""
    return way.form or "strassen"


# ---------------------------------------------------------------------------------------------------------------------
# Sums of blocks by torch, straight into their buffers: nothing is allocated, on any device.


def pre_add_into(x: torch.Tensor, side: str, form: str, level: int, transposed: bool, out: torch.Tensor) -> None:
    """All products' factors from one operand, as `reference.pre_add`."""
    signs = coefficients(form, level)
    of_side = signs.left if side == "left" else signs.right_transposed if transposed else signs.right
    rows, columns = out.shape[1:]
    blocks = [_block(x, rows, columns, *block_place(block, level)) for block in range(4**level)]
    for factor, row in zip(out, of_side.tolist(), strict=True):
        signed_into(factor, [(sign, block) for sign, block in zip(row, blocks, strict=True) if sign])


def post_add_into(products: torch.Tensor, form: str, level: int, out: torch.Tensor) -> None:
    """The result from all products, as `reference.post_add`."""
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
