"""A product run as it is planned: within the memory that there is, its buffers made for it, its launches kept.

>>> a, b = torch.randn(20, 30), torch.randn(30, 10)
>>> y = product(a, b, Limits(level=1, form="strassen", inner="sgemm"))
>>> torch.allclose(y, a @ b, atol=1e-4)
True

Launches take the host several times as long to make as to issue (docs/strassen_tried.md). Those of a call with tensors
at the same addresses are kept, and do not keep the caller's memory alive.
"""

import warnings
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from brrr.core.errors import DeviceMemoryError, UnavailableError
from brrr.gpu import CUDA, free_bytes, is_gpu
from brrr.gpu.precision import in_full_precision
from brrr.strassen.accuracy import PLAIN
from brrr.strassen.execution import steps
from brrr.strassen.implementations import Implementation, Sizes
from brrr.strassen.launcher import Run, run_all
from brrr.strassen.operands import Arena, Right, allocated, check_out, operand_name
from brrr.strassen.planner import ProductPlan, plan_of
from brrr.strassen.request import Limits, Request

MOST_KEPT = 4096
"""Shapes whose plans, and that they are torch's, are remembered."""

RESERVED = 64 * 2**20
"""Bytes of a GPU's free memory that are left alone: libraries take workspaces of their own."""


class PlainCalls(set[tuple[Any, ...]]):
    """Calls that were found to be torch's own product, by what that depends on: short ones wait for the host."""

    def note(self, kind: tuple[Any, ...]) -> None:
        """From now on; all others are forgotten when there are too many."""
        if len(self) >= MOST_KEPT:
            self.clear()
        self.add(kind)


def exact(x: Tensor) -> bool:
    """Whether torch multiplies what is like x as exactly as its type; RuntimeError where its settings contradict.

    A GPU's is asked as cuBLAS asks, which is the quickest way: a short product waits for it.
    """
    if x.dtype is not torch.float32:
        return True
    return not torch._C._get_cublas_allow_tf32() if x.is_cuda else in_full_precision("mkldnn")


def plan_for(a: Tensor, n: int, limits: Limits, *, within: bool = True) -> ProductPlan:
    """The plan of a product of n columns; `within` what is free, which takes a GPU long to tell."""
    request, chosen = _planned(plan_of, (a.shape[0], n, a.shape[1]), a.dtype, a.device.type, limits)
    if not within or not is_gpu(a.device) or chosen.workspace_bytes <= RESERVED:
        return chosen
    free = max(0, free_bytes(a.device) - RESERVED)
    if chosen.workspace_bytes <= free:
        return chosen
    return plan_of(replace(request, free_bytes=free >> 24 << 24), a.device.type)  # rounded, so that it is found again


@lru_cache(maxsize=MOST_KEPT, typed=True)
def _planned(
    planner: Callable[[Request, str], ProductPlan], sizes: Sizes, dtype: torch.dtype, kind: str, limits: Limits
) -> tuple[Request, ProductPlan]:
    """The request and its plan, whatever is free."""
    made = Request(*sizes, str(dtype), limits, eager=True)
    return made, planner(made, kind)


def product(a: Tensor, b: Tensor, limits: Limits, out: Tensor | None = None) -> Tensor:
    """The product of operands that were checked, into `out` or a new tensor; no gradient flows through it."""
    if out is None:
        out = allocated((a.shape[0], b.shape[1]), a.dtype, a.device, "its result")
    else:
        check_out("matmul", out, a, b.shape[1], b)
    chosen = plan_for(a, b.shape[1], limits, within=False)
    if chosen.implementation.kind.split and out.stride(-1) != 1:  # its kernel writes rows
        return out.copy_(product(a, b, limits))
    if chosen.implementation.level and a.stride(1) != 1 and limits.workspace_bytes is None:
        with suppress(torch.OutOfMemoryError):  # then the sums read columns number by number
            a = a.contiguous()
    try:
        _run(chosen, a, b, out)
    except DeviceMemoryError:
        again = plan_for(a, b.shape[1], limits)  # what needs no more than there is
        if again.workspace_bytes >= chosen.workspace_bytes:
            raise
        _run(again, a, b, out)
    except UnavailableError as missing:
        if limits.inners:
            raise
        warnings.warn(f"matmul: {missing}; the library's product is taken instead", stacklevel=3)
        return product(a, b, replace(limits, inner=PLAIN[operand_name(a)]), out)
    return out


def _run(chosen: ProductPlan, a: Tensor, b: Tensor, out: Tensor) -> None:
    """The plan, its buffers made for it."""
    arena = Arena(chosen.workspace_bytes, a.device)  # held until all has run: what is kept does not hold it
    run_all(kept_steps(steps, chosen.implementation, a, b, out, arena))


# ---------------------------------------------------------------------------------------------------------------------
# Launches kept for the next call with tensors at the same addresses, of the same shapes and strides.

KINDS = (CUDA,)
"""Where launches are worth keeping."""

MOST = 64
"""Products whose launches are kept; the one that was used longest ago goes first."""

_KEPT: OrderedDict[tuple[Any, ...], list[Run]] = OrderedDict()


def kept_steps(
    make: Callable[..., list[Run]], how: Implementation, a: Tensor, b: Tensor, out: Tensor, arena: Arena
) -> list[Run]:
    """What `make` (`execution.steps`) makes of these, or has made of others at the same addresses.

    While a CUDA Graph is captured nothing is kept or taken: what is made then may lie in the graph's own memory.
    """
    if a.device.type not in KINDS or (a.is_cuda and torch.cuda.is_current_stream_capturing()):
        return make(how, a, Right.of(b), out, arena)
    stream = int(torch.cuda.current_stream(a.device).cuda_stream) if a.is_cuda else 0
    tensors = a, b, out, arena.memory
    places = [(each.data_ptr(), each.shape, each.stride()) for each in tensors]
    key = (how, a.dtype, a.device, stream, *places)
    found = _KEPT.pop(key, None)
    if found is None:
        with torch.inference_mode(False), torch.no_grad():
            left, right, result, memory = map(pointing, tensors)
            found = make(how, left, Right.of(right), result, Arena.over(memory))
    _KEPT[key] = found
    while len(_KEPT) > MOST:
        _KEPT.popitem(last=False)
    return found


def pointing(x: Tensor) -> Tensor:
    """A tensor of the same numbers that does not keep them alive.

    >>> x = torch.arange(6.0).view(2, 3).t()
    >>> torch.equal(pointing(x), x), pointing(x).data_ptr() == x.data_ptr()
    (True, True)
    """
    memory = x.untyped_storage()
    same = torch._C._construct_storage_from_data_pointer(memory.data_ptr(), x.device, memory.nbytes())
    return x.new_empty(0).set_(same, x.storage_offset(), x.shape, x.stride())
