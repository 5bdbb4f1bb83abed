"""A pass over memory around the products, described by its tensors: what the kernel and torch's version both do.

>>> x, out = torch.ones(2, 16), torch.empty(7, 1, 8)
>>> run_in_torch(factors_work(x, "left", "strassen", out, level=1))
>>> out[:, 0, 0]
tensor([2., 2., 1., 1., 2., 0., 0.])
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from brrr.core.errors import ArgumentError
from brrr.strassen.algebra.blocks import BLOCK_COUNT, PRODUCTS, buffer_shape
from brrr.strassen.algebra.forms import FORMS, Signs

Shape = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Work:
    """Blocks from a matrix or from products, a layer's bias and ReLU, and where they go: a matrix, buffers, or both.

    shape: the matrix's, read or written; block: that of a block. collect, spread: the forms whose products make the
    blocks and whose sums they make (any without levels); side: of the factors, "left", "right" or "transposed". high,
    low: the buffers; both where each number becomes two of float16, scaled by 2^-exponents, one for each row of a block
    or one for all.
    """

    level: int
    source: Tensor
    from_products: bool
    shape: Shape
    block: Shape
    collect: str = "strassen"
    spread: str = "strassen"
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
    return Work(
        level, x, False, (x.shape[0], x.shape[1]), (high.shape[1], high.shape[2]), spread=form or "strassen", side=side,
        high=high, low=low, exponents=exponents,
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
    return Work(level, products, True, shape, block, collect=form or "strassen", bias=bias, relu=relu, matrix=out)


def run_in_torch(work: Work) -> None:
    """The work by torch's operators, on any device: numbers of 16 bits are summed in float32, others in their own type.

    Straight into matrix and buffers where nothing is rounded: then one level allocates nothing.
    """
    wide = torch.float32 if work.source.dtype.itemsize == 2 else work.source.dtype
    blocks, matrix, high = work.source.to(wide), work.matrix, work.high
    if work.from_products:
        own = matrix if matrix is not None and matrix.dtype == wide else blocks.new_empty(work.shape)
        blocks = post_add_into(blocks, FORMS[work.collect].result, work.level, own)
        blocks = blocks if work.bias is None else blocks.add_(work.bias.to(wide))
        blocks = blocks.clamp_min_(0) if work.relu else blocks
        if matrix is not None and blocks is not matrix:
            matrix.copy_(blocks)
    if high is None:
        return
    sums = high if high.dtype == wide else blocks.new_empty(high.shape)
    pre_add_into(blocks, FORMS[work.spread].signs(work.side), work.level, sums)
    if work.low is not None and work.exponents is not None:
        sums = torch.ldexp(sums, -work.exponents.expand(sums.shape[1])[None, :, None])
    if sums is not high:
        high.copy_(sums)
    if work.low is not None:
        work.low.copy_(sums - high.to(wide))


def product(
    a: Tensor, b: Tensor, form: str, level: int, multiply: Callable[[Tensor, Tensor], Tensor] = torch.bmm
) -> Tensor:
    """a @ b by `form`, `level` times, in plain torch: for any sizes and type, exact for whole numbers.

    >>> product(torch.ones(1, 3), torch.ones(3, 1), "strassen", 3)
    tensor([[3.]])

    multiply: makes the products of blocks, (7^L, m, k) by (7^L, k, n).
    """
    factors, out = list[Tensor](), a.new_empty(a.shape[0], b.shape[1])
    for x, side in ((a, "left"), (b, "right")):
        factors.append(x.new_empty(buffer_shape(x.shape[0], x.shape[1], side, level)))
        run_in_torch(factors_work(x, side, form, factors[-1], level=level))
    run_in_torch(assembled_work(multiply(*factors), form, level, (a.shape[0], b.shape[1]), None, False, out))
    return out


# ---------------------------------------------------------------------------------------------------------------------
# By torch's operators, level by level in the kernel's order, straight into the buffers: one level allocates nothing.


def pre_add_into(x: Tensor, signs: Signs, level: int, out: Tensor) -> None:
    """All products' factors from one operand into `out`, [7^L, rows, columns]; x counts as zero beyond its end."""
    if not level:
        return signed_into(out[0], [(1, x)])
    inner, rows, columns = len(out) // PRODUCTS, out.shape[1] << level - 1, out.shape[2] << level - 1
    blocks = [_block(x, rows, columns, number) for number in range(BLOCK_COUNT)]
    for number, row in enumerate(signs.tolist()):
        made = out[number * inner : (number + 1) * inner]
        part = made[0] if level == 1 else x.new_empty(rows, columns)
        signed_into(part, [(sign, block) for sign, block in zip(row, blocks, strict=True) if sign])
        if level > 1:
            pre_add_into(part, signs, level - 1, made)
    return None


def post_add_into(products: Tensor, signs: Signs, level: int, out: Tensor) -> Tensor:
    """The result from all products, [7^L, rows, columns], into `out`, which is returned."""
    if not level:
        return out.copy_(products[0, : out.shape[0], : out.shape[1]])
    inner, rows, columns = (len(products) // PRODUCTS, products.shape[1] << level - 1, products.shape[2] << level - 1)
    each = products.split(inner) if inner else ()
    parts = [of[0] if level == 1 else post_add_into(of, signs, level - 1, of.new_empty(rows, columns)) for of in each]
    for number, row in enumerate(signs.tolist()):
        block = _block(out, rows, columns, number)
        height, width = block.shape
        if block.numel():
            signed_into(block, [(sign, x[:height, :width]) for sign, x in zip(row, parts, strict=True) if sign])
    return out


def signed_into(out: Tensor, terms: list[tuple[int, Tensor]]) -> None:
    """Write a sum of parts, each with its sign; a part may be smaller than `out`, and counts as zero beyond its end."""
    (sign, first), *rest = terms
    whole = first.shape == out.shape
    if rest and whole and rest[0][1].shape == out.shape and sign == 1:
        torch.add(first, rest[0][1], alpha=rest[0][0], out=out)
        rest = rest[1:]
    else:
        if not whole:
            out.zero_()
        target = out[: first.shape[0], : first.shape[1]]
        target.copy_(first) if sign == 1 else torch.neg(first, out=target)
    for sign, part in rest:
        out[: part.shape[0], : part.shape[1]].add_(part, alpha=sign)


def _block(x: Tensor, rows: int, columns: int, number: int) -> Tensor:
    """One of the four blocks of x; smaller where it hangs over x's end."""
    i, j = divmod(number, 2)
    return x[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
