"""Steps kept for the next call with the same addresses: in a loop, `matmul` makes its launches once.

>>> a, b, out, arena = torch.ones(8, 8), torch.ones(8, 8), torch.empty(8, 8), Arena(2**14, "cpu")
>>> run = kept_steps(steps, Way("sgemm", 1, "strassen"), a, Right.of(b), out, arena)
>>> run_all(run)
>>> out[0, 0]
tensor(8.)

Making a product's launches takes the host longer than issuing them. Torch's allocator gives a loop the same memory
again and again; then the same launches are right again, for all they know is addresses, sizes and a stream. What is
kept holds no memory: it is made of tensors that only point to where operands, result and workspace lie. They are read
and written only inside a call, whose own tensors are then there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from brrr.strassen.arena import Arena
from brrr.strassen.execution import run_all as run_all
from brrr.strassen.execution import steps as steps
from brrr.strassen.operands import Right
from brrr.strassen.passes.steps import Step
from brrr.strassen.ways import Way

KINDS = ("cuda",)
"""Where launches are worth keeping."""

MOST = 64
"""Products that are kept; the one that was used longest ago goes first."""

_KEPT: OrderedDict[tuple[Any, ...], list[Step]] = OrderedDict()

Make = Callable[[Way, torch.Tensor, Right, torch.Tensor, Arena], list[Step]]


def kept_steps(make: Make, way: Way, a: torch.Tensor, right: Right, out: torch.Tensor, arena: Arena) -> list[Step]:
    """What `make` (`execution.steps`) makes of these, or has made of others at the same addresses.

    While a CUDA Graph is captured nothing is kept or taken: what is made then may lie in the graph's own memory. Nor
    for a nested way that is prepared, whose many parts would have to be compared, nor by a torch that has no tensors
    over memory they do not own.
    """
    if a.device.type not in KINDS or not _can_point() or right.parts or _capturing(a):
        return make(way, a, right, out, arena)
    tensors = (a, right.source, out, arena.memory, *right.factors)
    key = (way, right.transposed, right.made_transposed, right.core, _stream(a), *map(_place, tensors))
    found = _KEPT.pop(key, None)
    if found is None:
        with torch.inference_mode(False), torch.no_grad():
            left, source, result, memory, *factors = map(pointing, tensors)
            below = replace(right, source=source, factors=tuple(factors))
            found = make(way, left, below, result, Arena.over(memory))
    _KEPT[key] = found
    while len(_KEPT) > MOST:
        _KEPT.popitem(last=False)
    return found


def forget() -> None:
    """Empties the memory."""
    _KEPT.clear()


def _can_point() -> bool:
    """Whether this torch makes tensors over memory that they don't own; it is no public function of it."""
    return hasattr(torch._C, "_construct_storage_from_data_pointer")


def pointing(x: torch.Tensor) -> torch.Tensor:
    """A tensor of the same numbers that does not keep them alive.

    >>> x = torch.arange(6.0).view(2, 3).t()
    >>> torch.equal(pointing(x), x), pointing(x).data_ptr() == x.data_ptr()
    (True, True)
    """
    elements = 1 + sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    made: torch.Tensor = torch.empty(0, dtype=x.dtype, device=x.device)
    storage = torch._C._construct_storage_from_data_pointer(x.data_ptr(), x.device, elements * x.element_size())
    return made.set_(storage, 0, x.shape, x.stride())


def _place(x: torch.Tensor) -> tuple[Any, ...]:
    """All that a launch knows of a tensor."""
    return x.data_ptr(), x.dtype, x.device, x.shape, x.stride()


def _stream(x: torch.Tensor) -> int:
    if not x.is_cuda:
        return 0
    from brrr.gpu.prepared import raw_stream

    return raw_stream(x.device.index)


def _capturing(x: torch.Tensor) -> bool:
    return x.is_cuda and torch.cuda.is_current_stream_capturing()
