"""The shape of a product: what it is predicted to take, and the sizes near it that are better."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from brrr.core.errors import BrrrError
from brrr.counting.cost import ITEMSIZE, Form, Matmul, OperatorCost
from brrr.roofline.device_model import DATASHEET, DeviceModel, model_of
from brrr.roofline.terms import operator_time

VECTOR = 16
"""Bytes that a tensor core's kernels load at once."""


@lru_cache(maxsize=8)
def _model(device: str) -> DeviceModel:
    """The figures measured for a device, else its datasheet's; of a device that nobody knows, an H200's datasheet."""
    try:
        return model_of(device)
    except BrrrError:
        return model_of(f"{DATASHEET}h200")


def product_time_s(product: Matmul, device: str) -> float:
    """Predicted seconds of a product's kernel on a device."""
    size = ITEMSIZE.get(product.dtype, 4)
    read = float(size * product.batch * product.k * (product.m + product.n))
    written = float(size * product.batch * product.m * product.n)
    each = OperatorCost("aten.mm", product.flop, read, written, product.dtype, (), "matmul", (product,))
    return _device_s(each, device)


def copy_s(elements: int, dtype: str, device: str) -> float:
    """Predicted seconds of a copy."""
    nbytes = float(ITEMSIZE.get(dtype, 4) * elements)
    return _device_s(OperatorCost("aten.copy_", 0.0, nbytes, nbytes, dtype, (), "copy", form=Form("", 1, elements)),
                     device)  # fmt: skip


def _device_s(each: OperatorCost, device: str) -> float:
    found = operator_time(each, _model(device), each.bytes, host_s=0.0).device_s
    assert found is not None
    return found


def whole(product: Matmul) -> Matmul:
    """The same product with each size along which a matrix lies rounded up to whole 16 bytes.

    >>> whole(Matmul(7, 1025, 64, dtype="bfloat16")).n
    1032
    """
    each, (left, right) = VECTOR // ITEMSIZE.get(product.dtype, 4), product.transposed
    m = _up(product.m, each) if left else product.m
    k = product.k if left and not right else _up(product.k, each)
    return replace(product, m=m, n=_up(product.n, each), k=k)


def _up(size: int, to: int) -> int:
    return -(-size // to) * to
