"""A pass over memory around the products, described by its tensors: what the kernel and torch's version both do.

>>> x, out = torch.ones(2, 16), torch.empty(7, 1, 8)
>>> run_in_torch(factors_work(x, "left", "strassen", out, level=1))
>>> out[:, 0, 0]
tensor([2., 2., 1., 1., 2., 0., 0.])
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from brrr.core.errors import ArgumentError
from brrr.strassen.algebra.forms import STRASSEN, BilinearForm, form_of
from brrr.strassen.algebra.reference import post_add_into, pre_add_into, signs_of
from brrr.strassen.implementations import Implementation

Shape = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Work:
    """Blocks from a matrix or from products, a layer's bias and ReLU, and where they go: a matrix, buffers, or both.

    shape: the matrix's, read or written; block: that of a block. collect, spread: the forms whose products make the
    blocks and whose sums they make; side: of the factors, "left", "right" or "transposed". high, low: the buffers; both
    where each number becomes two of float16, scaled by 2^-exponents, one for each row of a block or one for all.
    """

    level: int
    source: Tensor
    from_products: bool
    shape: Shape
    block: Shape
    collect: BilinearForm = STRASSEN
    spread: BilinearForm = STRASSEN
    side: str = "left"
    bias: Tensor | None = None
    relu: bool = False
    matrix: Tensor | None = None
    high: Tensor | None = None
    low: Tensor | None = None
    exponents: Tensor | None = None

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """All of them, in the kernel's order."""
        return self.source, self.bias, self.matrix, self.high, self.low, self.exponents


def factors_work(
    x: Tensor, side: str, form: str | None, high: Tensor, *, level: int = 0, low: Tensor | None = None,
    exponents: Tensor | None = None,
) -> Work:  # fmt: skip
    """All products' factors of one operand: x is (m, k) on the "left", (k, n) on the "right", or (n, k) "transposed".

    x: any strides, any sizes. `low` and `exponents`, one for each row of a block, where numbers become two terms.
    """
    block = (high.shape[1], high.shape[2])
    return Work(
        level, x, False, (x.shape[0], x.shape[1]), block, spread=chosen_form(form), side=side, high=high, low=low,
        exponents=exponents,
    )  # fmt: skip


def assembled_work(
    products: Tensor, form: str | None, level: int, shape: Shape, bias: Tensor | None, relu: bool, out: Tensor | None
) -> Work:
    """The result of size `shape` from all products, then bias (n,) and ReLU, into `out`, of any strides.

    `out` may be missing where a step adds its buffers.
    """
    if bias is not None and not bias.is_contiguous():
        raise ArgumentError("post_add", "bias", f"strides {bias.stride()}", "contiguous", "Use .contiguous()")
    block = (products.shape[1], products.shape[2])
    return Work(level, products, True, shape, block, collect=chosen_form(form), bias=bias, relu=relu, matrix=out)


def chosen_form(form: str | None) -> BilinearForm:
    """The form; any where there is no level, for none is used."""
    return STRASSEN if form is None else form_of(form)


def run_in_torch(work: Work) -> None:
    """The work by torch's operators, on any device and in any type: sums in float32, or in float64 for that type.

    Straight into matrix and buffers where nothing is rounded: then one level allocates nothing.
    """
    wide = torch.float64 if work.source.dtype == torch.float64 else torch.float32
    blocks, matrix, high = work.source.to(wide), work.matrix, work.high
    if work.from_products:
        own = matrix if matrix is not None and matrix.dtype == wide else blocks.new_empty(work.shape)
        blocks = post_add_into(blocks, work.collect.result, work.level, own)
        blocks = blocks if work.bias is None else blocks.add_(work.bias.to(wide))
        blocks = blocks.clamp_min_(0) if work.relu else blocks
        if matrix is not None and blocks is not matrix:
            matrix.copy_(blocks)
    if high is None:
        return
    sums = high if high.dtype == wide else blocks.new_empty(high.shape)
    pre_add_into(blocks, signs_of(work.spread, work.side), work.level, sums)
    if work.low is not None and work.exponents is not None:
        sums = torch.ldexp(sums, -work.exponents.expand(sums.shape[1])[None, :, None])
    if sums is not high:
        high.copy_(sums)
    if work.low is not None:
        work.low.copy_(sums - high.to(wide))


def layer_works(work: Work, behind: Implementation, out: Tensor) -> list[Work]:
    """The passes between two layers with levels: `work` makes the output of one, `out` are the next one's left factors.

    One pass over memory where both have as many levels, else two by way of the layer's output.
    """
    if behind.level == work.level:
        return [replace(work, spread=chosen_form(behind.form), high=out)]
    between = work.matrix
    if between is None:
        wide = torch.float64 if out.dtype == torch.float64 else torch.float32
        between = torch.empty(work.shape, dtype=wide, device=out.device)
    return [replace(work, matrix=between), factors_work(between, "left", behind.form, out, level=behind.level)]
