"""Steps kept for the next call with tensors at the same addresses: in a loop, `matmul` makes its launches once.

Launches take the host several times as long to make as to issue (docs/strassen.md). What is kept does not keep
the caller's memory alive, so it is only taken where every address, shape and stride is the same.
"""

import ctypes
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from brrr.gpu import CUDA
from brrr.strassen.implementations import Implementation
from brrr.strassen.launcher import Run
from brrr.strassen.operands import Arena, Right

KINDS = (CUDA,)
"""Where launches are worth keeping."""

MOST = 64
"""Products that are kept; the one that was used longest ago goes first."""

_KEPT: OrderedDict[tuple[Any, ...], list[Run]] = OrderedDict()

Make = Callable[[Implementation, Tensor, Right, Tensor, Arena], list[Run]]


def kept_steps(make: Make, how: Implementation, a: Tensor, right: Right, out: Tensor, arena: Arena) -> list[Run]:
    """What `make` (`execution.steps`) makes of these, or has made of others at the same addresses.

    While a CUDA Graph is captured nothing is kept or taken: what is made then may lie in the graph's own memory. Nor on
    a CPU.
    """
    if a.device.type not in KINDS or (a.is_cuda and torch.cuda.is_current_stream_capturing()):
        return make(how, a, right, out, arena)
    tensors = (a, right.source, out, arena.memory, *right.factors)
    stream = int(torch.cuda.current_stream(a.device).cuda_stream) if a.is_cuda else 0
    key = (how, right.transposed, right.made_transposed, right.core, stream, *map(_place, tensors))
    found = _KEPT.pop(key, None)
    if found is None:
        with torch.inference_mode(False), torch.no_grad():
            left, source, result, memory, *factors = map(pointing, tensors)
            below = replace(right, source=source, factors=tuple(factors))
            found = make(how, left, below, result, Arena.over(memory))
    _KEPT[key] = found
    while len(_KEPT) > MOST:
        _KEPT.popitem(last=False)
    return found


class _Bytes:
    """Bytes of a GPU at an address, as other libraries show theirs to torch."""

    def __init__(self, address: int, count: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (count,), "typestr": "|u1", "data": (address, False), "strides": None, "version": 2,
        }  # fmt: skip


def pointing(x: Tensor) -> Tensor:
    """A tensor of the same numbers that does not keep them alive.

    >>> x = torch.arange(6.0).view(2, 3).t()
    >>> torch.equal(pointing(x), x), pointing(x).data_ptr() == x.data_ptr()
    (True, True)
    """
    if not x.numel():
        return x.new_empty(x.shape)
    last = sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))
    address, count = x.data_ptr(), (1 + last) * x.element_size()
    if x.is_cuda:
        memory = torch.as_tensor(_Bytes(address, count), device=x.device)
    else:
        memory = torch.frombuffer((ctypes.c_char * count).from_address(address), dtype=torch.uint8)
    return memory.view(x.dtype).as_strided(x.shape, x.stride())


def _place(x: Tensor) -> tuple[Any, ...]:
    """All that a launch knows of a tensor."""
    return x.data_ptr(), x.dtype, x.device, x.shape, x.stride()
