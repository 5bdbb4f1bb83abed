"""Bias and ReLU in place, alone or fused, by PyCUDA: CUDA C++ on torch's tensors, context and stream, without a copy.

>>> prepared("bias_relu", y, b)()    # doctest: +SKIP

The kernels stand in `bias_relu.cu`; compiled once, they are kept on the disk. The same work in Triton is
`brrr.kernels.fused.bias_relu`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from brrr.core.errors import ArgumentError
from brrr.core.heavy import torch
from brrr.gpu.launching import packed_launch, pycuda_function, pycuda_stream
from brrr.kernels.alone import CudaFile, Example, alone, giving
from brrr.kernels.checks import check_on_gpu, check_shape, check_tensors

Operation = Literal["bias", "relu", "bias_relu"]

SOURCE = "kernels/bias_relu.cu"
ARGUMENTS = "PPqii"
"""y, b, rows, width, words: the types of the kernels' arguments."""

PER_THREAD, WARP, MOST_THREADS = 4, 32, 256
MOST_ROWS_OF_BLOCKS = 65535
"""The largest second extent of a grid (CUDA C++ Programming Guide, "Technical Specifications")."""

WIDEST = 2**30
"""Columns are counted in 32 bits."""


def prepared(operation: Operation, y: torch.Tensor, b: torch.Tensor | None = None) -> Callable[[], None]:
    """A function of no arguments that launches one of the three in place on torch's current stream as it is now.

    bias: `y += b`, b added to each row; relu: `y = max(y, 0)`; bias_relu: both in one kernel. y: (rows, width), b:
    (width,): float32 or bfloat16, contiguous, on one GPU; an empty y is left alone. ArgumentError for any others.
    UnavailableError where there is no PyCUDA, or where torch's current stream is neither its default one nor
    `shared_stream`'s. Tensors and stream are checked once, here; the function must not outlive the tensors.
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
    if operation != "relu" and b is None:
        raise ArgumentError(operation, "b", b, "a tensor, as wide as y")
    more = {} if b is None or operation == "relu" else {"b": b}
    check_tensors(operation, {"y": y, **more}, ("float32", "bfloat16"), alike=True)
    if y.ndim != 2 or y.shape[1] > WIDEST:
        raise ArgumentError(operation, "y", tuple(y.shape), f"shape (rows, width), at most {WIDEST} wide")
    for each in more.values():
        check_shape(operation, "b", each, y.shape[1:])
    check_on_gpu(operation, {"y": y})


def _nothing() -> None:
    """There is nothing to launch."""


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.kernels.bias_relu`.


def examples(device: str) -> Iterator[Example]:
    """Bias and ReLU of a layer of 4096, fused, in place: the first launch is checked."""
    y, b = torch.randn(4096, 4096, device=device), torch.randn(4096, device=device)
    expected = (y.double() + b.double()).relu()
    launch = giving(y, prepared("bias_relu", y, b))
    yield Example("bias and ReLU", 2.0 * y.numel(), 2.0 * y.nbytes, launch, expected)


if __name__ == "__main__":
    alone(examples, CudaFile(SOURCE))
