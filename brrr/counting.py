"""The bytes that a call of a function moves, as far as torch's operators show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NOT_MOVED = ("aten::empty", "aten::detach")
"""Operators that touch no element, besides those that only look at a tensor in another way."""


class Counting(TorchDispatchMode):
    """Adds up the bytes of all tensors that torch's operators read and write while it is on.

    >>> import torch
    >>> with Counting() as seen:
    ...     y = torch.relu(torch.ones(100).view(10, 10))
    >>> seen.bytes
    1200.0

    A view moves nothing. An operator that is one kernel reads each input once and writes each output once; what it
    moves inside, if it is several, is not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view and not func.name().startswith(NOT_MOVED):
            self.bytes += sum(_nbytes(leaf) for leaf in tree_leaves((args, kwargs, out)))
        return out


def _nbytes(leaf: Any) -> float:
    import torch

    return float(leaf.numel() * leaf.element_size()) if isinstance(leaf, torch.Tensor) else 0.0


def bytes_of(function: Callable[[], Any]) -> float:
    """Bytes that one call moves; 0 where torch's operators do not show it, as inside a CUDA Graph.

    >>> import torch
    >>> x = torch.zeros(8, 8)
    >>> bytes_of(lambda: x + x)
    768.0
    """
    seen = Counting()
    with seen:
        function()
    return seen.bytes
