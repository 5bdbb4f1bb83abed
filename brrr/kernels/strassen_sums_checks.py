"""What the sums of blocks are given, checked, and made into the work of one pass.

>>> work = factors_work("prefix", torch.ones(2, 16), "left", "strassen", 1, False, torch.empty(7, 1, 8), None, None)
>>> work.block
(1, 8)
"""

from __future__ import annotations

import torch

from brrr.errors import ArgumentError
from brrr.kernels.strassen_sums_work import Work
from brrr.strassen.forms import STRASSEN, Form, form_of
from brrr.strassen.shapes import buffer_shape, level_of, products_shape

Shape = tuple[int, int]


def factors_work(
    call: str, x: torch.Tensor, side: str, form: str | Form, level: int, transposed: bool,
    high: torch.Tensor, low: torch.Tensor | None, exponents: torch.Tensor | None,
) -> Work:  # fmt: skip
    """The work of a prefix, checked."""
    check_tensors(call, x=x, out=high, low=low)
    check_matrix(call, "x", x, None, written=False)
    level = level_of(level, call)
    if low is not None and side == "right" and not transposed:
        hint = "Give (n, k), as Linear's weights lie, and transposed=True: a split product's rows lie along k"
        raise ArgumentError(call, "transposed", transposed, "True for a right operand in two terms", hint)
    shape = buffer_shape(x.shape[0], x.shape[1], side, level, transposed)
    for name, each in (("out", high), ("low", low)):
        if each is not None:
            check_buffer(call, name, each, shape)
            if low is not None and each.dtype != torch.float16:
                raise ArgumentError(call, name, str(each.dtype), "float16")
    return Work(
        level, x, False, (x.shape[0], x.shape[1]), (shape[1], shape[2]), spread=chosen_form(form, level, call),
        side="transposed" if transposed else side, high=high, low=low, exponents=exponents,
    )  # fmt: skip


def assembled_work(
    call: str, products: torch.Tensor, form: str | Form, level: int, shape: Shape,
    bias: torch.Tensor | None, relu: bool, out: torch.Tensor | None,
) -> Work:  # fmt: skip
    """The work of a suffix, checked; `out` may be missing where a step adds its buffers."""
    check_tensors(call, products=products, bias=bias, out=out)
    level = level_of(level, call)
    wanted = products_shape(*shape, level)
    check_buffer(call, "products", products, wanted)
    if bias is not None and (tuple(bias.shape) != (shape[1],) or not bias.is_contiguous()):
        found = f"shape {tuple(bias.shape)}, strides {bias.stride()}"
        raise ArgumentError(call, "bias", found, f"shape ({shape[1]},), contiguous")
    if out is not None:
        check_matrix(call, "out", out, shape, written=True)
    collect = chosen_form(form, level, call)
    return Work(level, products, True, shape, wanted[1:], collect=collect, bias=bias, relu=relu, matrix=out)


def chosen_form(form: str | Form, level: int, call: str) -> Form:
    """The form; any where there is no level, for none is used."""
    return form_of(form, call) if level else STRASSEN


def check_tensors(call: str, **tensors: torch.Tensor | None) -> None:
    """ArgumentError for a tensor of a type that no kernel takes, or on another device than the first."""
    first: torch.Tensor | None = None
    for name, each in tensors.items():
        if each is None:
            continue
        if not isinstance(each, torch.Tensor) or not each.dtype.is_floating_point:
            found = str(each.dtype) if isinstance(each, torch.Tensor) else type(each).__name__
            raise ArgumentError(call, name, found, "a tensor of float32, float16 or bfloat16")
        first = each if first is None else first
        if each.device != first.device:
            raise ArgumentError(call, name, str(each.device), f"a tensor on {first.device}, as the others")


def check_buffer(call: str, name: str, given: torch.Tensor, shape: tuple[int, ...]) -> None:
    """ArgumentError for a buffer of another shape, with gaps, or at an address at which no word of 16 bytes starts."""
    if tuple(given.shape) != shape:
        raise ArgumentError(call, name, tuple(given.shape), f"shape {shape}")
    if not given.is_contiguous() or given.data_ptr() % 16:
        found = f"strides {given.stride()} at an address {given.data_ptr() % 16} past a multiple of 16"
        raise ArgumentError(call, name, found, "a contiguous tensor at a multiple of 16 bytes")


def check_matrix(call: str, name: str, given: torch.Tensor, shape: tuple[int, int] | None, written: bool) -> None:
    """ArgumentError for what is no matrix of that shape; a written one must hold each element once."""
    if given.dim() != 2 or (shape is not None and tuple(given.shape) != tuple(shape)):
        expected = "a matrix: a tensor of two dimensions" if shape is None else f"shape {tuple(shape)}"
        raise ArgumentError(call, name, f"shape {tuple(given.shape)}", expected)
    if written and any(step == 0 and size > 1 for step, size in zip(given.stride(), given.shape, strict=True)):
        raise ArgumentError(call, name, f"strides {given.stride()}", "a tensor whose elements lie apart")
