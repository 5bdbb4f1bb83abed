"""A tensor's shape and type without its memory: what `brrr.cost` and `brrr.predict` take instead of data."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.counting.cost import ITEMSIZE
from brrr.gpu import GPU

if TYPE_CHECKING:
    import torch

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
    """Describe an array: nothing is allocated, however large it is.

    >>> array((4096, 4096), "bfloat16")
    array((4096, 4096), 'bfloat16'): 33.6 MB described, not allocated

    `shape` is a whole number or several, all at least 1; `dtype` a name such as "float32" (or fp32), or a torch dtype.
    `requires_grad=True` asks `cost(..., backward=True)` for its gradient. `device` is the one whose operators are
    counted ("cuda" where there is a GPU); without it, that of the tensors around it, else the GPU where there is one.
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
# The tensors that a callable holds: a module's parameters, a closure's variables.


def device_around(fn: Any, leaves: Iterable[Any]) -> torch.device:
    """The device of the tensors given or held, so that descriptions join them; without any, the GPU if there is one.

    >>> import torch
    >>> device_around(torch.nn.Linear(2, 2), [])
    device(type='cpu')
    """
    import torch
    from torch.utils import _pytree

    for tensor in (*_pytree.tree_leaves(list(leaves)), *held(fn)):
        if isinstance(tensor, torch.Tensor):
            return tensor.device
    return torch.device(GPU if torch.cuda.is_available() else "cpu")


def held(value: Any, depth: int = 3) -> Iterator[torch.Tensor]:
    """Tensors within a value: itself, a module's, those a function can reach by its closure, defaults and globals."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from (*value.parameters(), *value.buffers())
    elif depth:
        for inner in _within(value):
            yield from held(inner, depth - 1)


def _within(value: Any) -> list[Any]:
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    if hasattr(value, "__self__"):
        return [value.__self__, value.__func__] if hasattr(value, "__func__") else [value.__self__]
    if callable(value) and not isinstance(value, type) and not hasattr(value, "__code__"):
        return list(getattr(value, "__dict__", {}).values())
    if hasattr(value, "__code__"):
        return [*_cells(value), *(value.__defaults__ or ()), *_globals(value)]
    return []


def _cells(function: Any) -> list[Any]:
    """What a closure's variables hold; one that is not set yet holds nothing."""
    contents = []
    for cell in function.__closure__ or ():
        try:
            contents.append(cell.cell_contents)
        except ValueError:
            continue
    return contents


def _globals(function: Any) -> list[Any]:
    """The tensors, modules and functions among the globals that a function names; not whole libraries."""
    import torch

    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    return [value for value in named if isinstance(value, torch.Tensor | torch.nn.Module) or _is_own(value, function)]


def _is_own(value: Any, function: Any) -> bool:
    return callable(value) and getattr(value, "__module__", None) == function.__module__
