"""Exponents for sums of blocks that are split into two float16 terms, in one launch of `split_operands.cu`.

>>> import torch
>>> summed_rows(torch.ones(5, 8), 3, 2, 1).groups
2
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

from brrr.strassen.split.operands import SOURCE, THREADS

if TYPE_CHECKING:
    import torch

KERNEL = "brrr_split_exponents"


class Summed(ctypes.Structure):
    """The kernel's argument of that name."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "exponents")),
        ("x_row", ctypes.c_longlong),
        *((name, ctypes.c_int) for name in ("rows", "k", "block_rows", "groups", "gain", "whole")),
    )


def summed_rows(x: torch.Tensor, block_rows: int, groups: int, gain: int) -> Summed:
    """x (rows, k) in so many blocks of rows, which are summed; the exponents' address is still missing."""
    stride, (rows, k) = x.stride(0), x.shape
    whole = x.data_ptr() % 16 == 0 and (stride % 4 == 0 or rows == 1)
    return Summed(x.data_ptr(), None, stride, rows, k, block_rows, groups, gain, whole)


def fits(x: torch.Tensor) -> bool:
    """Whether the kernel reads it: float32 on a GPU from compute capability 8.0 on, its rows contiguous."""
    import torch

    along = x.dtype == torch.float32 and (x.stride(1) == 1 or x.shape[1] == 1)
    return along and x.is_cuda and torch.cuda.get_device_capability(x.device) >= (8, 0)


def prepared(x: torch.Tensor, out: torch.Tensor, groups: int, gain: int) -> Callable[[], None]:
    """A function of no arguments that finds int32 exponents (rows of a block,), packed; nothing is checked."""
    from brrr.gpu.nvrtc import function as function_of
    from brrr.gpu.prepared import PreparedLaunch, on_current_stream

    argument, device = summed_rows(x, out.shape[0], groups, gain), x.device.index
    argument.exponents = out.data_ptr()
    function = function_of(SOURCE, KERNEL, device)
    launch = PreparedLaunch(function, (out.shape[0], 1, 1), (THREADS, 1, 1), [argument])
    return on_current_stream(launch, device, x, out)
