"""`padded_matmul`: a product whose rows begin at odd bytes, computed on rows of whole 16 bytes where that pays."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from brrr.core.errors import ArgumentError
from brrr.counting.cost import Matmul
from brrr.roofline.shapes import VECTOR, copy_s, product_time_s, whole

if TYPE_CHECKING:
    import torch

THREADS = 256
WORTH = 0.9
"""Padding must be predicted to take at most this share of the time without."""


def padded_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`a @ b` of two matrices, an (M, K) and a (K, N), on padded copies where these are predicted to be faster.

    >>> import torch
    >>> padded_matmul(torch.ones(2, 3), torch.ones(3, 5)).shape
    torch.Size([2, 5])

    Tensor cores load 16 bytes at once. Where a row of a, of b or of the result begins anywhere else, the library takes
    kernels that are several times slower; then sizes are rounded up to whole 16 bytes, with zeros. The result is a
    view of the padded one, so its rows may lie further apart than N. Gradients pass. What need not be padded, and
    anything on a CPU, is `torch.mm(a, b)`. ArgumentError for anything but two matrices of one type on one device.
    """
    _checked(a, b)
    import torch

    m, k, n = a.shape[0], a.shape[1], b.shape[1]
    lies = (_transposed(a), _transposed(b))
    if not a.is_cuda or not (padded := pads(m, n, k, str(a.dtype).removeprefix("torch."), lies, _device(a))):
        return torch.mm(a, b)
    rows, columns, depth = padded
    return torch.mm(_grown(a, rows, depth), _grown(b, depth, columns))[:m, :n]


@lru_cache(maxsize=4096)
def pads(m: int, n: int, k: int, dtype: str, transposed: tuple[bool, bool], device: str) -> tuple[int, int, int] | None:
    """The sizes M, N, K to round up to; None where that is not predicted to pay.

    >>> pads(2048, 1025, 2048, "bfloat16", (False, False), "h200")
    (2048, 1032, 2048)
    >>> pads(2048, 1024, 2048, "bfloat16", (False, False), "h200") is None
    True
    """
    plain = Matmul(m, n, k, dtype=dtype, transposed=transposed)
    made = whole(plain)
    if made == plain:
        return None
    copied = sum(
        copy_s(rows * columns, dtype, device)
        for rows, columns, grown in ((m, k, (made.m, made.k) != (m, k)), (k, n, (made.k, made.n) != (k, n)))
        if grown
    )
    pays = product_time_s(made, device) + copied < WORTH * product_time_s(plain, device)
    return (made.m, made.n, made.k) if pays else None


def _grown(matrix: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """A copy with more rows and columns, zero where there is nothing to copy; it lies as the matrix does."""
    import torch

    if tuple(matrix.shape) == (rows, columns):
        return matrix
    if _transposed(matrix):
        return _grown(matrix.t(), columns, rows).t()
    if matrix.requires_grad or not matrix.is_cuda or matrix.element_size() != 2 or matrix.stride(1) != 1:
        more = (0, columns - matrix.shape[1], 0, rows - matrix.shape[0])
        return torch.nn.functional.pad(matrix, more)
    from brrr.gpu.nvrtc import I64, PTR, kernel

    made = torch.empty(rows, columns, dtype=matrix.dtype, device=matrix.device)
    vectors = columns * made.element_size() // VECTOR
    sizes = (*matrix.shape, matrix.stride(0), rows, vectors)
    launch = kernel("kernels/padding.cu", "brrr_pad", matrix.device.index)
    grid = (-(-rows * vectors // THREADS), 1, 1)
    launch(grid, (THREADS, 1, 1), (matrix.data_ptr(), PTR), (made.data_ptr(), PTR), *((each, I64) for each in sizes))
    return made


def _transposed(matrix: torch.Tensor) -> bool:
    """Whether a matrix lies column by column."""
    return matrix.stride(1) != 1 and matrix.stride(0) == 1


def _device(matrix: torch.Tensor) -> str:
    import torch

    return str(torch.cuda.get_device_name(matrix.device))


def _checked(a: torch.Tensor, b: torch.Tensor) -> None:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise ArgumentError("padded_matmul", "a, b", shapes, "matrices (M, K) and (K, N)")
    if a.dtype != b.dtype or a.device != b.device:
        found = f"{a.dtype} on {a.device} and {b.dtype} on {b.device}"
        raise ArgumentError("padded_matmul", "a, b", found, "one type on one device")
