"""Bias and ReLU in place, alone or fused, by PyCUDA: CUDA C++ on torch's tensors, context and stream, without a copy.

>>> bias_relu(y, b)    # doctest: +SKIP
tensor([[0.0000, 1.2500]], device='cuda:0')

The kernels stand in `bias_relu.cu`; compiled once, they are kept on the disk. The same work in Triton is
`brrr.kernels.fused.bias_relu`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from brrr.core.errors import ArgumentError
from brrr.gpu.launching import packed_launch, pycuda_function, pycuda_stream

if TYPE_CHECKING:
    import torch

Operation = Literal["bias", "relu", "bias_relu"]

SOURCE = "kernels/bias_relu.cu"
ARGUMENTS = "PPqii"
"""y, b, rows, width, words: the types of the kernels' arguments."""

PER_THREAD, WARP, MOST_THREADS = 4, 32, 256
MOST_ROWS_OF_BLOCKS = 65535
"""The largest second extent of a grid (CUDA C++ Programming Guide, "Technical Specifications")."""

WIDEST = 2**30
"""Columns are counted in 32 bits."""


def bias(y: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`y += b` in place, b added to each row; returns y.

    y: (rows, width), b: (width,): float32 or bfloat16, contiguous, on one GPU; an empty y is left alone. ArgumentError
    for any others. UnavailableError where there is no PyCUDA, or where torch's current stream is neither its default
    one nor `pycuda_context.shared_stream`'s. The other two functions take and refuse the same.
    """
    prepared("bias", y, b)()
    return y


def relu(y: torch.Tensor) -> torch.Tensor:
    """`y = max(y, 0)` in place; returns y."""
    prepared("relu", y)()
    return y


def bias_relu(y: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`y = max(y + b, 0)` in place, in one kernel; returns y."""
    prepared("bias_relu", y, b)()
    return y


def prepared(operation: Operation, y: torch.Tensor, b: torch.Tensor | None = None) -> Callable[[], None]:
    """A function of no arguments that launches one of the three on torch's current stream as it is now.

    Tensors and stream are checked once, here; the function must not outlive the tensors.
    """
    check(operation, y, b)
    rows, width = y.shape
    if not y.numel():
        return _nothing
    index = y.device.index
    stream = pycuda_stream(index)
    function = pycuda_function(SOURCE, kernel_name(operation, y), ARGUMENTS, index)
    words = in_words(width, y.element_size(), y.data_ptr(), b.data_ptr() if b is not None else 0)
    arguments = (y.data_ptr(), b.data_ptr() if b is not None else 0, rows, width, int(words))
    return packed_launch(function, *launch_of(rows, width), arguments, stream)


def kernel_name(operation: Operation, y: torch.Tensor) -> str:
    """The kernel for an operation on a tensor's type."""
    return f"brrr_{operation}_{str(y.dtype).removeprefix('torch.')}"


def launch_of(rows: int, width: int) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """Grid and block for so many rows: threads lie along a row, four columns to each, and blocks go down the rows.

    >>> launch_of(16, 256)
    ((1, 16), (64, 1, 1))
    >>> launch_of(100_000, 4097)
    ((5, 65535), (256, 1, 1))
    """
    threads = min(MOST_THREADS, -(-width // (PER_THREAD * WARP)) * WARP)
    return (-(-width // (PER_THREAD * threads)), min(rows, MOST_ROWS_OF_BLOCKS)), (threads, 1, 1)


def in_words(width: int, itemsize: int, *addresses: int) -> bool:
    """Whether every row, and the bias, may be read and written four numbers at a time.

    >>> in_words(256, 4, 512, 1024), in_words(257, 4, 512, 1024), in_words(256, 4, 516, 1024)
    (True, False, False)
    """
    word = PER_THREAD * itemsize
    return width % PER_THREAD == 0 and all(address % word == 0 for address in addresses)


def check(operation: str, y: torch.Tensor, b: torch.Tensor | None) -> None:
    """ArgumentError for tensors that the kernels cannot take: they look at addresses and sizes, and at nothing else."""
    if operation not in ("bias", "relu", "bias_relu"):
        raise ArgumentError("bias_relu.prepared", "operation", operation, '"bias", "relu" or "bias_relu"')
    _check_tensor(operation, "y", y, 2)
    if y.shape[1] > WIDEST:
        raise ArgumentError(operation, "y", tuple(y.shape), f"at most {WIDEST} columns")
    if operation == "relu":
        return
    if b is None:
        raise ArgumentError(operation, "b", b, f"a tensor of shape ({y.shape[1]},)")
    _check_tensor(operation, "b", b, 1)
    if b.shape != y.shape[1:] or b.dtype != y.dtype or b.device != y.device:
        found = f"{b.dtype} {tuple(b.shape)} on {b.device}"
        raise ArgumentError(operation, "b", found, f"{y.dtype} of shape ({y.shape[1]},) on {y.device}, as y")


def _check_tensor(call: str, name: str, tensor: torch.Tensor, axes: int) -> None:
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise ArgumentError(call, name, type(tensor).__name__, "a tensor on a GPU")
    if tensor.dtype not in (torch.float32, torch.bfloat16) or tensor.ndim != axes:
        shape = "(rows, width)" if axes == 2 else "(width,)"
        raise ArgumentError(
            call, name, f"{tensor.dtype} {tuple(tensor.shape)}", f"float32 or bfloat16 of shape {shape}"
        )
    if not tensor.is_contiguous():
        raise ArgumentError(call, name, f"strides {tensor.stride()}", "a contiguous tensor", "Use .contiguous()")
    if not tensor.is_cuda:
        raise ArgumentError(call, name, str(tensor.device), "a tensor on a GPU", "Move it there with .cuda()")


def _nothing() -> None:
    """There is nothing to launch."""
