"""Every step of a product by seven products, in plain torch: on the CPU or a GPU, for any type, exact for integers.

>>> a, b = torch.arange(15).view(5, 3), torch.arange(12).view(3, 4)
>>> bool((product(a, b, "winograd", 2) == a @ b).all())
True

What the kernels are compared with, and what runs where they cannot. Sums of float16 and bfloat16 are made in float32
and rounded once, as the kernels do; other types are summed in themselves.
"""

from __future__ import annotations

import torch

from brrr.core.errors import ArgumentError
from brrr.strassen.algebra.blocks import PRODUCTS, buffer_shape, level_of, products_shape
from brrr.strassen.algebra.forms import Form, Signs, form_of

_NARROW = (torch.float16, torch.bfloat16)


def pre_add(x: torch.Tensor, side: str, form: str | Form, level: int, *, transposed: bool = False) -> torch.Tensor:
    """All products' factors from one operand: the sums of blocks before the products.

    >>> pre_add(torch.ones(2, 16), "left", "strassen", 1)[:, 0, 0]  # A11 + A22, A21 + A22, A11, A22, ...
    tensor([2., 2., 1., 1., 2., 0., 0.])

    x: (m, k) on the left, (k, n) on the right, or (n, k) `transposed`; any strides. Gives [7^L, rows, columns] as
    `buffer_shape` says, in x's type.
    """
    form, level = form_of(form, "pre_add"), level_of(level, "pre_add")
    _matrix("pre_add", "x", x)
    _summable("pre_add", "x", x, form)
    shape = buffer_shape(x.shape[0], x.shape[1], side, level, transposed)
    signs = form.left if side == "left" else form.right[:, [0, 2, 1, 3]] if transposed else form.right
    parts = _padded(_wide(x), shape[1] << level, shape[2] << level)[None]
    for _ in range(level):
        parts = _factors(parts, signs)
    return parts.to(x.dtype).contiguous()


def post_add(
    products: torch.Tensor, form: str | Form, level: int, shape: tuple[int, int], *,
    bias: torch.Tensor | None = None, relu: bool = False,
) -> torch.Tensor:  # fmt: skip
    """The result of size `shape` from all products: their signed sums, and then bias and ReLU.

    >>> products = torch.zeros(7, 1, 8)
    >>> products[0] = 1.0  # M1 is in C11 and C22
    >>> post_add(products, "strassen", 1, (2, 16))[:, ::8]
    tensor([[1., 0.],
            [0., 1.]])

    products: [7^L, rows, columns] as `products_shape` says. bias: (n,). The result is of their type.
    """
    made = _assembled(products, form, level, shape)
    return _activated(made, bias, relu).to(products.dtype).contiguous()


def batched(left: torch.Tensor, right: torch.Tensor, right_transposed: bool = False) -> torch.Tensor:
    """All products of the factors, one by one; integers exactly, on the CPU where a GPU has no such product.

    >>> batched(torch.ones(7, 2, 8), torch.ones(7, 3, 8), right_transposed=True).shape
    torch.Size([7, 2, 3])
    """
    turned = right.transpose(1, 2) if right_transposed else right
    if left.is_cuda and not left.dtype.is_floating_point:
        return torch.bmm(left.cpu(), turned.cpu()).to(left.device)
    return torch.bmm(left, turned)


def product(
    a: torch.Tensor, b: torch.Tensor, form: str | Form, level: int, *, right_transposed: bool = False,
    bias: torch.Tensor | None = None, relu: bool = False,
) -> torch.Tensor:  # fmt: skip
    """a @ b by `form`, `level` times; with `right_transposed` a @ b.t(), as Linear does.

    >>> product(torch.ones(1, 3), torch.ones(3, 1), "strassen", 3)
    tensor([[3.]])

    Any sizes, 0 and 1 among them. The products are torch.bmm's, in the operands' type.
    """
    _matrix("product", "a", a)
    _matrix("product", "b", b)
    inner, columns = (b.shape[1], b.shape[0]) if right_transposed else (b.shape[0], b.shape[1])
    if a.shape[1] != inner or a.dtype != b.dtype or a.device != b.device:
        found = f"{b.dtype} {tuple(b.shape)} on {b.device}"
        raise ArgumentError("product", "b", found, f"{a.dtype}, inner size {a.shape[1]}, on {a.device}")
    left = pre_add(a, "left", form, level)
    right = pre_add(b, "right", form, level, transposed=right_transposed)
    return post_add(batched(left, right, right_transposed), form, level, (a.shape[0], columns), bias=bias, relu=relu)


def _factors(parts: torch.Tensor, signs: Signs) -> torch.Tensor:
    """One level: [count, rows, columns] to [count * 7, rows / 2, columns / 2], the outer number more significant."""
    count, rows, columns = parts.shape
    blocks = parts.view(count, 2, rows // 2, 2, columns // 2).permute(1, 3, 0, 2, 4)
    four = [blocks[i, j] for i in range(2) for j in range(2)]
    made = torch.stack([_signed(row, four) for row in signs.tolist()], dim=1)
    return made.view(count * PRODUCTS, rows // 2, columns // 2)


def _assembled(products: torch.Tensor, form: str | Form, level: int, shape: tuple[int, int]) -> torch.Tensor:
    """All products to the result, in the type that sums are made in."""
    form, level = form_of(form, "post_add"), level_of(level, "post_add")
    _summable("post_add", "products", products, form)
    wanted = products_shape(*shape, level)
    if tuple(products.shape) != wanted:
        raise ArgumentError("post_add", "products", tuple(products.shape), f"{wanted} for a result of {tuple(shape)}")
    parts = _wide(products)
    for _ in range(level):
        parts = _results(parts, form.result)
    made = parts[0, : shape[0], : shape[1]]
    return made if level else made.clone()  # never a view of the products


def _results(parts: torch.Tensor, signs: Signs) -> torch.Tensor:
    """One level back: [count * 7, rows, columns] to [count, 2 * rows, 2 * columns]."""
    rows, columns = parts.shape[1:]
    seven = list(parts.reshape(parts.shape[0] // PRODUCTS, PRODUCTS, rows, columns).unbind(1))
    made = torch.stack([_signed(row, seven) for row in signs.tolist()])
    grid = made.view(2, 2, len(seven[0]), rows, columns).permute(2, 0, 3, 1, 4)
    return grid.reshape(len(seven[0]), 2 * rows, 2 * columns)


def _signed(signs: list[float], parts: list[torch.Tensor]) -> torch.Tensor:
    """The sum of those with a sign, from left to right."""
    total: torch.Tensor | None = None
    for sign, part in zip(signs, parts, strict=True):
        if not sign:
            continue
        signed = part if sign == 1 else -part if sign == -1 else part * sign  # exact: only sums are rounded
        total = signed if total is None else total + signed
    return torch.zeros_like(parts[0]) if total is None else total


def _padded(x: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    whole = x.new_zeros(rows, columns)
    whole[: x.shape[0], : x.shape[1]] = x
    return whole


def _activated(made: torch.Tensor, bias: torch.Tensor | None, relu: bool) -> torch.Tensor:
    if bias is not None:
        if tuple(bias.shape) != (made.shape[1],):
            raise ArgumentError("post_add", "bias", tuple(bias.shape), f"shape ({made.shape[1]},)")
        made = made + bias.to(made.dtype)
    return made.clamp_min(0) if relu else made


def _summable(call: str, name: str, x: torch.Tensor, form: Form) -> None:
    if not form.whole and not x.dtype.is_floating_point:
        raise ArgumentError(call, name, x.dtype, f"a floating-point type: form {form.name} has halves")


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in _NARROW else x


def _matrix(call: str, name: str, x: torch.Tensor) -> None:
    if not isinstance(x, torch.Tensor) or x.dim() != 2:
        found = tuple(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise ArgumentError(call, name, found, "a tensor of two dimensions")
