"""What kernels refuse: they look at addresses and sizes, and at nothing else. A network's numbers are refused alike."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.heavy import torch

FLOATS = ("float32", "float16", "bfloat16")
WORD = 16
"""Bytes that a thread reads and writes at once."""


def check_tensors(
    call: str, tensors: Mapping[str, torch.Tensor], types: Sequence[str] = FLOATS, *, alike: bool = False,
    strided: bool = False,
) -> None:  # fmt: skip
    """ArgumentError unless all are tensors of the types on one device.

    `alike`: of one type; `strided`: they need not be contiguous.
    """
    first, *_ = tensors
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor) or str(tensor.dtype).removeprefix("torch.") not in types:
            given = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise ArgumentError(call, name, given, f"a tensor of {' or '.join(types)}")
        if alike and tensor.dtype != tensors[first].dtype:
            raise ArgumentError(call, name, tensor.dtype, f"{tensors[first].dtype}, as {first}: all of one type")
        if not strided and not tensor.is_contiguous():
            raise ArgumentError(call, name, f"strides {tensor.stride()}", "a contiguous tensor", "Use .contiguous()")
        if tensor.device != tensors[first].device:
            raise ArgumentError(call, name, str(tensor.device), f"a tensor on {tensors[first].device}, as {first}")


def check_shape(call: str, name: str, tensor: torch.Tensor, shape: Collection[int]) -> None:
    """ArgumentError for another shape."""
    if tensor.shape != (*shape,):
        raise ArgumentError(call, name, tuple(tensor.shape), f"shape {(*shape,)}")


def check_on_gpu(call: str, tensors: Mapping[str, torch.Tensor], word: int = 1) -> None:
    """ArgumentError for a tensor on a CPU, or at an address that `word` does not divide."""
    for name, tensor in tensors.items():
        if not tensor.is_cuda:
            raise ArgumentError(call, name, str(tensor.device), "a tensor on a GPU", "Move it there with .cuda()")
        if tensor.data_ptr() % word:
            raise ArgumentError(call, name, hex(tensor.data_ptr()), f"an address that {word} divides", "Use .clone()")


def check_launch(call: str, x: torch.Tensor, out: torch.Tensor, types: Sequence[str] = FLOATS) -> None:
    """ArgumentError unless a kernel can go from `x` to `out` in words of 16 bytes: both of one type and size."""
    check_tensors(call, {"x": x, "out": out}, types, alike=True)
    check_on_gpu(call, {"x": x, "out": out}, WORD)
    if x.numel() != out.numel() or not x.numel():
        raise ArgumentError(call, "out", tuple(out.shape), f"as many elements as x, {x.numel()}, and one or more")


def require_triton(call: str, x: torch.Tensor) -> None:
    """UnavailableError for a tensor on the CPU outside Triton's interpreter."""
    if not x.is_cuda and not sys.modules["triton"].knobs.runtime.interpret:
        raise UnavailableError(
            f"{call}: the tensors are on the CPU, and a Triton kernel needs an NVIDIA GPU. Move them with .cuda(), or "
            "set TRITON_INTERPRET=1 before Triton is loaded to run the kernel in its interpreter"
        )
