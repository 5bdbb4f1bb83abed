"""A product run as it is planned: within the memory that there is, its buffers made for it.

>>> a, b = torch.randn(20, 30), torch.randn(30, 10)
>>> y = product(a, Right.of(b), (None, 1, "strassen", "sgemm", None), None, None)
>>> torch.allclose(y, a @ b, atol=1e-4)
True
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch

from brrr.core.errors import ArgumentError, DeviceMemoryError, UnavailableError
from brrr.gpu import is_gpu
from brrr.gpu.precision import in_full_precision
from brrr.strassen.accuracy import PLAIN, Constraints, Inners, checked
from brrr.strassen.algebra.scaling import STEPS, Scaling
from brrr.strassen.choosing import ProductPlan, plan_of
from brrr.strassen.execution import run_all, steps
from brrr.strassen.kept import kept_steps
from brrr.strassen.operands import Arena, Right, check_out, operand_name
from brrr.strassen.peeling import Sizes
from brrr.strassen.schedules import run_depth_first
from brrr.strassen.ways import Way

MOST_KEPT = 4096
"""Shapes whose plans, and that they are torch's, are remembered."""

RESERVED = 64 * 2**20
"""Bytes of a GPU's free memory that are left alone: libraries take workspaces of their own."""


_HAD: dict[torch.device, int] = {}
"""On each GPU, the largest workspace that was there."""

Asked = tuple[float | str | None, int | None, str | None, Inners, int | None]
"""accuracy, level, form, inner, workspace_bytes."""

NOTHING: Asked = (None, None, None, None, None)


class Torchs(set[tuple[Any, ...]]):
    """Calls that were found to be torch's own, by what that depends on: short ones wait for the host."""

    def has(self, kind: tuple[Any, ...], x: torch.Tensor) -> bool:
        """Whether one like it was, and torch multiplies what is like x in full precision now."""
        return kind in self and (x.dtype != torch.float32 or in_full_precision())

    def note(self, kind: tuple[Any, ...]) -> None:
        """From now on; all others are forgotten when there are too many."""
        if len(self) >= MOST_KEPT:
            self.clear()
        self.add(kind)


def plan_for(a: torch.Tensor, right: Right, limits: Asked, *, known: bool = False) -> ProductPlan:
    """The plan within what is free. known: as much memory as was had before is taken to be there, and not asked for.

    Asking a GPU, and torch's allocator, for what is free takes the host longer than a short product.
    """
    given = (plan_of, (a.shape[0], right.n, right.k), a.dtype, right.way, a.device.type, *limits)
    try:
        made, chosen = _planned(*given)
    except TypeError:  # a list of inners cannot be remembered
        made, chosen = _planned.__wrapped__(*given)
    if chosen.workspace_bytes <= RESERVED or (known and chosen.workspace_bytes <= _HAD.get(a.device, 0)):
        return chosen
    free = free_bytes(a.device)
    if free is None or chosen.workspace_bytes <= free:
        return chosen
    return plan_of(_within(made, free), a.device.type)


@lru_cache(maxsize=MOST_KEPT, typed=True)
def _planned(
    planner: Callable[[Constraints, str], ProductPlan], sizes: Sizes, dtype: torch.dtype, way: Way | None, kind: str,
    accuracy: float | str | None, level: int | None, form: str | None, inner: Inners, workspace_bytes: int | None,
) -> tuple[Constraints, ProductPlan]:  # fmt: skip
    """The request and its plan, whatever is free; `way`: for which the right operand is prepared."""
    if way is not None:
        level, form, inner = way.level, way.form, way.inner
    operand = str(dtype).removeprefix("torch.")
    made = checked(*sizes, operand, accuracy, level, form, inner, workspace_bytes, way is not None, eager=True)
    return made, planner(made, kind)


def _within(limits: Constraints, free: int) -> Constraints:
    """The limits on a device with so much free memory, rounded down so that plans are found again."""
    return replace(limits, free_bytes=free >> 24 << 24)


def free_bytes(device: torch.device) -> int | None:
    """What can be taken on a GPU, torch's own reserve with it; None for a CPU, which has no sharp end."""
    if not is_gpu(device):
        return None
    free, _ = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(0, int(free + held - RESERVED))


def product(
    a: torch.Tensor, right: Right, limits: Asked, out: torch.Tensor | None, scaling: str | None
) -> torch.Tensor:
    """The product of operands that were checked, into `out` or a new tensor; no gradient flows through it."""
    if scaling is not None:
        return _scaled(a, right, limits, out, scaling)
    if out is None:
        out = _empty(a, right.n)
    else:
        check_out("matmul", out, a, right.n, right.source)
    chosen = plan_for(a, right, limits, known=True)
    if chosen.way.kind.split and out.stride(-1) != 1:  # its kernel writes rows
        return out.copy_(product(a, right, limits, None, None))
    if chosen.way.level and a.stride(1) != 1 and limits[-1] is None:
        a = a.contiguous()  # the sums would read columns number by number
    try:
        _run_known(chosen, a, right, out, limits)
    except UnavailableError as missing:
        accuracy, level, form, inner, workspace_bytes = limits
        if inner is not None or right.way is not None:
            raise
        warnings.warn(f"matmul: {missing}; the library's product is taken instead", stacklevel=3)
        return product(a, right, (accuracy, level, form, PLAIN[operand_name(a)], workspace_bytes), out, None)
    return out


def _run_known(chosen: ProductPlan, a: torch.Tensor, right: Right, out: torch.Tensor, limits: Asked) -> None:
    """The plan; where the memory that was there once is gone, another that needs less."""
    try:
        _run(chosen, a, right, out)
    except DeviceMemoryError:
        if _HAD.pop(a.device, None) is None:
            raise
        again = plan_for(a, right, limits)
        if again.workspace_bytes >= chosen.workspace_bytes:
            raise
        _run(again, a, right, out)


def _run(chosen: ProductPlan, a: torch.Tensor, right: Right, out: torch.Tensor) -> None:
    """The plan, its buffers made for it."""
    arena = Arena(chosen.workspace_bytes, a.device)
    if is_gpu(a.device) and chosen.workspace_bytes > _HAD.get(a.device, 0):
        _HAD[a.device] = chosen.workspace_bytes
    if chosen.depth:
        run_depth_first(chosen.way, chosen.depth, a, right, out, arena)
    else:
        run_all(kept_steps(steps, chosen.way, a, right, out, arena))


def _empty(a: torch.Tensor, n: int) -> torch.Tensor:
    try:
        return a.new_empty(a.shape[0], n)
    except torch.OutOfMemoryError as error:
        needed = a.shape[0] * n * a.element_size()
        raise DeviceMemoryError(f"matmul: its result needs {needed} bytes on {a.device}, and there are less") from error


def _scaled(a: torch.Tensor, right: Right, limits: Asked, out: torch.Tensor | None, scaling: str) -> torch.Tensor:
    """The product of the scaled matrices, scaled back."""
    if scaling not in STEPS:
        raise ArgumentError("matmul", "scaling", scaling, f"one of {', '.join(STEPS)}")
    if right.made:
        raise ArgumentError("matmul", "scaling", scaling, "None with a prepared right operand")
    found = Scaling.of(a, right.matrix, scaling)
    left, below = found.apply(a, right.matrix)
    made = found.undo(product(left, Right.of(below), limits, None, None))
    if out is None:
        return made
    check_out("matmul", out, a, right.n, right.source)
    return out.copy_(made)
