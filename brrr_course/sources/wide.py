"""Checks in float64 on an accelerator that has no such numbers."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from brrr.gpu import is_cuda, is_gpu


class WideOnTheCpu(TorchFunctionMode):
    """Inside, what is made in float64 is made on the CPU: for an accelerator without such numbers, as Apple's."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [*args, *(kwargs or {}).values()]
        if func is torch.Tensor.double or any(each is torch.float64 for each in given):
            args, kwargs = tree_map(_on_the_cpu, (args, {**(kwargs or {})}))
        return func(*args, **(kwargs or {}))


def _on_the_cpu(each: Any) -> Any:
    if isinstance(each, torch.Tensor):
        return each.cpu()
    return "cpu" if isinstance(each, torch.device) or (isinstance(each, str) and is_gpu(each)) else each


def exact_on(device: str) -> AbstractContextManager[Any]:
    """What lets a device's results be checked in float64, where the device has none."""
    if not is_gpu(device) or is_cuda(device):
        return nullcontext()
    try:
        torch.ones(1, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):
        return WideOnTheCpu()
    return nullcontext()
