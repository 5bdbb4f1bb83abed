"""The sums of blocks before and after the products of Strassen's algorithm, all levels in one pass over memory.

>>> x = torch.ones(2, 16)
>>> left = prefix(x, "left", "strassen", 1)
>>> left.shape, left[:, 0, 0]
(torch.Size([7, 1, 8]), tensor([2., 2., 1., 1., 2., 0., 0.]))

`kernels` says by what: "cuda" is CUDA C++ (strassen_sums.cu), "triton" is strassen_sums_triton.py, "torch" runs
anywhere, and "auto" takes the first of these that is there. Each function has a `prepared_` form that returns a
function of no arguments: checked once, it launches again and again, also while a CUDA Graph is captured. Shapes, forms
and the order of blocks and products are those of `brrr.strassen.algebra.forms`; sums are float32 whatever the types.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from brrr.strassen.algebra.forms import Form
from brrr.strassen.algebra.shapes import buffer_shape, level_of
from brrr.strassen.passes.launch import Kernels, Run, in_turn, prepared
from brrr.strassen.passes.split import SplitBuffers as SplitBuffers
from brrr.strassen.passes.split import prepared_split_prefix as prepared_split_prefix
from brrr.strassen.passes.split import prepared_split_step as prepared_split_step
from brrr.strassen.passes.split import split_buffers as split_buffers
from brrr.strassen.passes.split import split_prefix as split_prefix
from brrr.strassen.passes.split import split_step as split_step
from brrr.strassen.passes.work import (
    Shape,
    Work,
    assembled_work,
    check_buffer,
    check_matrix,
    check_tensors,
    chosen_form,
    factors_work,
)


def prefix(
    x: torch.Tensor, side: str, form: str | Form, level: int, *,
    transposed: bool = False, out: torch.Tensor | None = None, kernels: Kernels = "auto",
) -> torch.Tensor:  # fmt: skip
    """All products' factors of one operand, into `out` or a new tensor of x's type.

    x: (m, k) on the left, (k, n) on the right, or (n, k) `transposed` as Linear's weights; any strides, any sizes.
    out: [7^L, rows, columns] as `buffer_shape` says, contiguous. float32, float16 or bfloat16, not necessarily the same
    (and float64 by torch). ArgumentError for any others; UnavailableError where the kernels asked for cannot run.
    """
    if out is None:
        check_tensors("prefix", x=x)
        check_matrix("prefix", "x", x, None, written=False)
        out = x.new_empty(buffer_shape(x.shape[0], x.shape[1], side, level, transposed))
    prepared_prefix(x, side, form, level, transposed=transposed, out=out, kernels=kernels)()
    return out


def prepared_prefix(
    x: torch.Tensor, side: str, form: str | Form, level: int, *,
    transposed: bool = False, out: torch.Tensor, kernels: Kernels = "auto",
) -> Run:  # fmt: skip
    """`prefix` as a function of no arguments."""
    work = factors_work("prefix", x, side, form, level, transposed, out, None, None)
    return prepared(work, kernels)


def suffix(
    products: torch.Tensor, form: str | Form, level: int, shape: Shape, *,
    bias: torch.Tensor | None = None, relu: bool = False, out: torch.Tensor | None = None,
    dtype: torch.dtype | None = None, kernels: Kernels = "auto",
) -> torch.Tensor:  # fmt: skip
    """The result of size `shape` from all products, then bias and ReLU; into `out` or a new tensor.

    >>> suffix(torch.ones(7, 1, 8), "strassen", 1, (2, 16))[:, ::8]
    tensor([[2., 2.],
            [2., 2.]])

    products: [7^L, rows, columns] as `products_shape` says, contiguous. bias: (n,). out: any strides. dtype: of a new
    result, the products' if None.
    """
    if out is None:
        check_tensors("suffix", products=products)
        out = torch.empty(shape, dtype=dtype or products.dtype, device=products.device)
    prepared_suffix(products, form, level, shape, bias=bias, relu=relu, out=out, kernels=kernels)()
    return out


def prepared_suffix(
    products: torch.Tensor, form: str | Form, level: int, shape: Shape, *,
    bias: torch.Tensor | None = None, relu: bool = False, out: torch.Tensor, kernels: Kernels = "auto",
) -> Run:  # fmt: skip
    """`suffix` as a function of no arguments."""
    return prepared(assembled_work("suffix", products, form, level, shape, bias, relu, out), kernels)


def step(
    products: torch.Tensor, form: str | Form, level: int, shape: Shape, *,
    bias: torch.Tensor | None = None, relu: bool = True, next_form: str | Form | None = None,
    next_level: int | None = None, keep: torch.Tensor | None = None, out: torch.Tensor | None = None,
    kernels: Kernels = "auto",
) -> torch.Tensor:  # fmt: skip
    """Between two layers: suffix, bias, ReLU, and the next layer's left factors, into `out` or a new tensor.

    >>> step(torch.ones(7, 2, 8), "strassen", 1, (4, 16)).shape
    torch.Size([7, 2, 8])

    One pass over memory where both layers have one level, or where either has none and nothing is kept; else two.
    next_form, next_level: this layer's if None. keep: (m, n), any strides, gets the layer's output too.
    """
    if out is None:
        check_tensors("step", products=products)
        shape_of_out = buffer_shape(*shape, "left", level if next_level is None else next_level)
        out = torch.empty(shape_of_out, dtype=products.dtype, device=products.device)
    prepared_step(
        products, form, level, shape, bias=bias, relu=relu, next_form=next_form, next_level=next_level, keep=keep,
        out=out, kernels=kernels,
    )()  # fmt: skip
    return out


def prepared_step(
    products: torch.Tensor, form: str | Form, level: int, shape: Shape, *,
    bias: torch.Tensor | None = None, relu: bool = True, next_form: str | Form | None = None,
    next_level: int | None = None, keep: torch.Tensor | None = None, out: torch.Tensor, kernels: Kernels = "auto",
) -> Run:  # fmt: skip
    """`step` as a function of no arguments."""
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
