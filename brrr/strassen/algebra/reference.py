"""Every step of a product by seven products, in plain torch: on the CPU or a GPU, for any type, exact for integers.

>>> a, b = torch.arange(15).view(5, 3), torch.arange(12).view(3, 4)
>>> bool((product(a, b, "winograd", 2) == a @ b).all())
True

What the kernels are compared with, and what runs where they cannot: level by level, in their order. Sums of float16 and
bfloat16 are made in float32 and rounded once, as the kernels do; other types are summed in themselves.
"""

import torch
from torch import Tensor

from brrr.strassen.algebra.blocks import BLOCK_COUNT, PRODUCTS, buffer_shape, level_of
from brrr.strassen.algebra.forms import BilinearForm, Signs, form_of

_NARROW = (torch.float16, torch.bfloat16)


def pre_add(x: Tensor, side: str, form: str | BilinearForm, level: int, *, transposed: bool = False) -> Tensor:
    """All products' factors from one operand: the sums of blocks before the products.

    >>> pre_add(torch.ones(2, 16), "left", "strassen", 1)[:, 0, 0]  # A11 + A22, A21 + A22, A11, A22, ...
    tensor([2., 2., 1., 1., 2., 0., 0.])

    x: (m, k) on the left, (k, n) on the right, or (n, k) `transposed`; any strides. Gives [7^L, rows, columns] as
    `buffer_shape` says, in x's type.
    """
    out = _wide(x).new_empty(buffer_shape(x.shape[0], x.shape[1], side, level_of(level, "pre_add")))
    pre_add_into(_wide(x), signs_of(form_of(form), "transposed" if transposed else side), level, out)
    return out.to(x.dtype)


def post_add(products: Tensor, form: str | BilinearForm, level: int, shape: tuple[int, int]) -> Tensor:
    """The result of size `shape` from all products: their signed sums, in their type.

    >>> products = torch.zeros(7, 1, 8)
    >>> products[0] = 1.0  # M1 is in C11 and C22
    >>> post_add(products, "strassen", 1, (2, 16))[:, ::8]
    tensor([[1., 0.],
            [0., 1.]])

    products: [7^L, rows, columns] as `products_shape` says.
    """
    wide = _wide(products)
    return post_add_into(wide, form_of(form).result, level, wide.new_empty(shape)).to(products.dtype)


def product(a: Tensor, b: Tensor, form: str | BilinearForm, level: int) -> Tensor:
    """a @ b by `form`, `level` times.

    >>> product(torch.ones(1, 3), torch.ones(3, 1), "strassen", 3)
    tensor([[3.]])

    Any sizes, 0 and 1 among them. The products are torch.bmm's, in the operands' type; whole numbers' on the CPU.
    """
    left, right = pre_add(a, "left", form, level), pre_add(b, "right", form, level)
    device = a.device if a.dtype.is_floating_point else "cpu"  # a GPU has no products of whole numbers
    products = torch.bmm(left.to(device), right.to(device)).to(a.device)
    return post_add(products, form, level, (a.shape[0], b.shape[1]))


def signs_of(form: BilinearForm, side: str) -> Signs:
    """A form's signs of the blocks, (7, 4), for the left operand, the right, or the right that lies "transposed"."""
    return form.left if side == "left" else form.right if side == "right" else form.right[:, [0, 2, 1, 3]]


# ---------------------------------------------------------------------------------------------------------------------
# Sums of blocks straight into their buffers; with one level nothing is allocated, on any device.


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


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in _NARROW else x
