"""A tensor's shape and type without its memory: what `brrr.cost` and `brrr.predict` take instead of data."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.heavy import torch
from brrr.counting.cost import ITEMSIZE
from brrr.gpu import gpu_here, tensors_on

_SHORT = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8_e4m3fn"}


@dataclass(frozen=True, slots=True)
class Description:
    """An array that is described, not allocated; `array` makes one."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    requires_grad: bool = False
    device: str | None = None

    @property
    def numel(self) -> int:
        """Its elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that it would take."""
        return self.numel * ITEMSIZE[self.dtype]

    def __repr__(self) -> str:
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"array({self.shape}, {self.dtype!r}{grad}): {units.quantity(self.nbytes, 'B')} described, not allocated"


def array(
    shape: int | Iterable[int], dtype: object = "float32", *, requires_grad: bool = False, device: str | None = None
) -> Description:
    """Describe an array by its shape and type, without allocating it.

    >>> array((4096, 4096), "bfloat16")
    array((4096, 4096), 'bfloat16'): 33.6 MB described, not allocated

    `cost` and `predict` take it in place of a tensor, however large it is.

    Parameters
    ----------
    shape : int or iterable of int
        One length or several, all at least 1.
    dtype : str or torch.dtype
        The element type, such as "float32" (or "fp32").
    requires_grad : bool
        Whether ``cost(..., backward=True)`` counts its gradient.
    device : str, optional
        The device whose operators are counted, a kind as `measure` takes it. By default that of the other arguments'
        tensors, else the GPU if there is one.

    Returns
    -------
    Description
        A stand-in for the tensor.

    Raises
    ------
    ArgumentError
        If the shape or the type cannot be used.
    """
    name = _dtype_name(dtype)
    if requires_grad and not name.startswith(("float", "bfloat", "complex")):
        raise ArgumentError("array", "requires_grad", True, f"False for {name}: only floating-point arrays have one")
    return Description(_sizes(shape), name, requires_grad, device)


def _dtype_name(dtype: object) -> str:
    name = str(dtype).removeprefix("torch.")
    name = _SHORT.get(name, name)
    if name not in ITEMSIZE:
        raise ArgumentError("array", "dtype", dtype, f"one of {', '.join(ITEMSIZE)}")
    return name


def _sizes(shape: int | Iterable[int]) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(size) for size in (shape if isinstance(shape, Iterable) else (shape,)))
    except TypeError:
        raise ArgumentError("array", "shape", shape, "a whole number or several, such as (1024, 512)") from None
    if any(size < 1 for size in sizes):
        raise ArgumentError("array", "shape", shape, "sizes of at least 1", "An empty array costs nothing.")
    return sizes


# ---------------------------------------------------------------------------------------------------------------------


def device_around(held: Iterable[Any]) -> torch.device:
    """The device of the first tensor, or module, of some objects, so that descriptions join it; else the GPU's.

    Tensors on "meta" are descriptions themselves.

    >>> import torch
    >>> device_around([torch.nn.Linear(2, 2)])
    device(type='cpu')
    """
    for each in held:
        inside = (*each.parameters(), *each.buffers()) if isinstance(each, torch.nn.Module) else (each,)
        for tensor in inside:
            if isinstance(tensor, torch.Tensor) and not tensor.is_meta:
                return tensor.device
    return torch.device(tensors_on(gpu_here()))
