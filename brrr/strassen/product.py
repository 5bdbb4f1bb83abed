"""A product run as it is planned: within the memory that there is, its buffers made for it.

>>> a, b = torch.randn(20, 30), torch.randn(30, 10)
>>> y = product(a, Right.of(b), Limits(level=1, form="strassen", inner="sgemm"))
>>> torch.allclose(y, a @ b, atol=1e-4)
True
"""

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch

from brrr.core.errors import DeviceMemoryError, UnavailableError
from brrr.gpu import free_bytes, is_gpu
from brrr.gpu.precision import in_full_precision
from brrr.strassen.accuracy import PLAIN
from brrr.strassen.execution import steps
from brrr.strassen.kept import kept_steps
from brrr.strassen.launcher import run_all
from brrr.strassen.operands import Arena, Right, check_out, operand_name
from brrr.strassen.planner import ProductPlan, plan_of
from brrr.strassen.problem import Sizes
from brrr.strassen.request import Limits, Request

MOST_KEPT = 4096
"""Shapes whose plans, and that they are torch's, are remembered."""

RESERVED = 64 * 2**20
"""Bytes of a GPU's free memory that are left alone: libraries take workspaces of their own."""


class PlainCalls(set[tuple[Any, ...]]):
    """Calls that were found to be torch's own product, by what that depends on: short ones wait for the host."""

    def has(self, kind: tuple[Any, ...], x: torch.Tensor) -> bool:
        """Whether one like it was, and torch multiplies what is like x in full precision now."""
        return kind in self and (x.dtype is not torch.float32 or in_full_precision())

    def note(self, kind: tuple[Any, ...]) -> None:
        """From now on; all others are forgotten when there are too many."""
        if len(self) >= MOST_KEPT:
            self.clear()
        self.add(kind)


def exact(x: torch.Tensor) -> bool:
    """Whether torch multiplies what is like x as exactly as its type; RuntimeError where its settings contradict.

    A GPU's is asked as cuBLAS asks, which is the quickest way: a short product waits for it.
    """
    if x.dtype is not torch.float32:
        return True
    return not torch._C._get_cublas_allow_tf32() if x.is_cuda else in_full_precision("mkldnn")


def plan_for(a: torch.Tensor, n: int, limits: Limits, *, within: bool = True) -> ProductPlan:
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


def product(a: torch.Tensor, right: Right, limits: Limits, out: torch.Tensor | None = None) -> torch.Tensor:
    """The product of operands that were checked, into `out` or a new tensor; no gradient flows through it."""
    if out is None:
        out = _empty(a, right.n)
    else:
        check_out("matmul", out, a, right.n, right.source)
    chosen = plan_for(a, right.n, limits, within=False)
    if chosen.implementation.kind.split and out.stride(-1) != 1:  # its kernel writes rows
        return out.copy_(product(a, right, limits))
    if chosen.implementation.level and a.stride(1) != 1 and limits.workspace_bytes is None:
        with suppress(torch.OutOfMemoryError):  # then the sums read columns number by number
            a = a.contiguous()
    try:
        _run(chosen, a, right, out)
    except DeviceMemoryError:
        again = plan_for(a, right.n, limits)  # what needs no more than there is
        if again.workspace_bytes >= chosen.workspace_bytes:
            raise
        _run(again, a, right, out)
    except UnavailableError as missing:
        if limits.inners:
            raise
        warnings.warn(f"matmul: {missing}; the library's product is taken instead", stacklevel=3)
        return product(a, right, replace(limits, inner=PLAIN[operand_name(a)]), out)
    return out


def _run(chosen: ProductPlan, a: torch.Tensor, right: Right, out: torch.Tensor) -> None:
    """The plan, its buffers made for it."""
    arena = Arena(chosen.workspace_bytes, a.device)  # held until all has run: what is kept does not hold it
    run_all(kept_steps(steps, chosen.implementation, a, right, out, arena))


def _empty(a: torch.Tensor, n: int) -> torch.Tensor:
    try:
        return a.new_empty(a.shape[0], n)
    except torch.OutOfMemoryError as error:
        needed = a.shape[0] * n * a.element_size()
        raise DeviceMemoryError(f"matmul: its result needs {needed} bytes on {a.device}, and there are less") from error
