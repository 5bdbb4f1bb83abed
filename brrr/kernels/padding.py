"""`padded_matmul`: a product whose rows begin at odd bytes, computed on rows of whole 16 bytes where that pays."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from math import inf
from operator import truediv

from brrr.core.errors import ArgumentError
from brrr.core.heavy import torch
from brrr.counting.cost import Matmul
from brrr.kernels.alone import CudaFile, Example, alone
from brrr.roofline.peaks import MissingPeakError
from brrr.roofline.shapes import TYPES, VECTOR, copy_s, has_units, product_time_s, whole

THREADS = 256
STEPS, MOST_WIDER = (16, 32, 64, 128), 1.25
"""Of what N is made a multiple, and how much wider it may become."""
SHORT = 2**16
"""With fewer elements in an operand the launches of the copies take longer than they can save."""
TRIAL_S = 0.03
WORTH = 0.9
"""Padding must be predicted to take at most this share of the time without, to be tried."""


def padded_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply two matrices on padded copies if that is faster: rows should begin at multiples of 16 bytes.

    >>> import torch
    >>> padded_matmul(torch.ones(2, 3), torch.ones(3, 5)).shape
    torch.Size([2, 5])

    Parameters
    ----------
    a : torch.Tensor
        Of shape (M, K).
    b : torch.Tensor
        Of shape (K, N), of the same type and on the same device.

    Returns
    -------
    torch.Tensor
        ``a @ b``, of shape (M, N). It is a view of the padded result, so its rows may lie further apart than N
        elements. It is differentiable.

    Raises
    ------
    ArgumentError
        For anything but two matrices of one type on one device.

    Notes
    -----
    Tensor cores load 16 bytes at once; where a row begins elsewhere, the library takes kernels that are several times
    slower (lesson 07). If padding is predicted to pay, the first call of a shape tries a few paddings and torch.mm,
    which takes about half a second; later calls take the fastest. In a CUDA graph's capture the prediction decides. On
    a CPU, with few elements, and where nothing needs padding, it is ``torch.mm(a, b)``.
    """
    try:  # told first, with as little as tells it: such products wait for the host
        (m, k), (_, n) = a.shape, b.shape
        if not (m | k | n) % VECTOR or k * m < SHORT or k * n < SHORT:
            return a.mm(b)
        key = m, k, n, a.dtype, a.stride(1), b.stride(1)
        if key in _TORCHS:
            return a.mm(b)
    except (AttributeError, RuntimeError, ValueError):
        _checked(a, b)
        raise
    if key not in _CHOSEN:
        _checked(a, b)
        if not a.is_cuda:
            return a.mm(b)
        ways = paddings(
            m, k, n, str(a.dtype)[6:], (_transposed(a), _transposed(b)), torch.cuda.get_device_name(a.device)
        )
        if len(ways) > 1 and torch.cuda.is_current_stream_capturing():
            return _padded(a, b, ways[1])
        _CHOSEN[key] = _fastest(a.detach(), b.detach(), ways)
        if _CHOSEN[key] == (m, k, n):
            _TORCHS.add(key)
    return _padded(a, b, _CHOSEN[key])


Sizes = tuple[int, int, int]
"""M, K and N to round up to."""
_CHOSEN: dict[object, Sizes] = {}
_TORCHS: set[object] = set()
"""Of those chosen, what is left as it is."""


@lru_cache(maxsize=4096)
def paddings(m: int, k: int, n: int, dtype: str, transposed: tuple[bool, bool], device: str) -> tuple[Sizes, ...]:
    """The sizes as they are, then those to try, the least padding first; none of them where it is not predicted to pay.

    >>> paddings(2048, 2048, 1025, "bfloat16", (False, False), "h200")[:3]
    ((2048, 2048, 1025), (2048, 2048, 1032), (2048, 2048, 1040))
    >>> paddings(2048, 2048, 1024, "bfloat16", (False, False), "h200")
    ((2048, 2048, 1024),)
    """
    if dtype not in TYPES or not m * k * n:
        return ((m, k, n),)
    plain = Matmul(m, n, k, dtype=dtype, transposed=transposed)
    made = whole(plain)
    sizes = (made.m, made.k, made.n)
    if made == plain or not _pays(plain, made, device):
        return ((m, k, n),)
    wider = dict.fromkeys(-(-made.n // step) * step for step in STEPS)
    return ((m, k, n), sizes, *((made.m, made.k, each) for each in wider if made.n < each <= MOST_WIDER * made.n))


def _pays(plain: Matmul, made: Matmul, device: str) -> bool:
    """Whether the padded product and the copies that it needs are predicted to be faster.

    Nothing is gained where a GPU has no tensor cores for the type.
    """
    pairs = (((plain.m, plain.k), (made.m, made.k)), ((plain.k, plain.n), (made.k, made.n)))
    if not has_units(made.dtype, device):
        return False
    try:
        copies = sum(copy_s(grown[0] * grown[1], made.dtype, device) for own, grown in pairs if own != grown)
        return product_time_s(made, device) + copies < WORTH * product_time_s(plain, device)
    except MissingPeakError:
        return False


def _fastest(a: torch.Tensor, b: torch.Tensor, ways: tuple[Sizes, ...]) -> Sizes:
    """The sizes that gain most where they gain least: in a loop, where the host may be slower, or for who waits."""
    from brrr.timing import measure_together

    if len(ways) == 1:
        return ways[0]
    timed = measure_together([partial(_padded, a, b, sizes) for sizes in ways], budget_s=TRIAL_S)
    seconds = [[each.median if each else inf for each in (m.period_s, m.latency_s)] for m in timed]
    return min(zip(ways, seconds, strict=True), key=lambda way: max(map(truediv, way[1], seconds[0])))[0]


def _padded(a: torch.Tensor, b: torch.Tensor, sizes: Sizes) -> torch.Tensor:
    m, k, n = sizes
    if (m, k) == a.shape and (k, n) == b.shape:
        return torch.mm(a, b)
    return torch.mm(_grown(a, m, k), _grown(b, k, n))[: a.shape[0], : b.shape[1]]


def _grown(matrix: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """A copy with more rows and columns, zero where there is nothing to copy; it lies as the matrix does."""
    if tuple(matrix.shape) == (rows, columns):
        return matrix
    if _transposed(matrix):
        return _grown(matrix.t(), columns, rows).t()
    learns = matrix.requires_grad and torch.is_grad_enabled()
    if learns or not matrix.is_cuda or matrix.element_size() != 2 or matrix.stride(1) != 1:
        return torch.nn.functional.pad(matrix, (0, columns - matrix.shape[1], 0, rows - matrix.shape[0]))
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


def _checked(a: torch.Tensor, b: torch.Tensor) -> None:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise ArgumentError("padded_matmul", "a, b", shapes, "matrices (M, K) and (K, N)")
    if a.dtype != b.dtype or a.device != b.device:
        found = f"{a.dtype} on {a.device} and {b.dtype} on {b.device}"
        raise ArgumentError("padded_matmul", "a, b", found, "one type on one device")


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.kernels.padding`.


def examples(device: str) -> Iterator[Example]:
    """A product in bfloat16 that padding makes faster."""
    a, b = (torch.randn(shape, device=device).bfloat16() for shape in ((4096, 4096), (4096, 4097)))
    nbytes = float(2 * (a.nbytes + b.nbytes))
    yield Example("4096 x 4097 x 4096", 2.0 * 4096**2 * 4097, nbytes, partial(padded_matmul, a, b),
                  a.double() @ b.double(), 1e-2, "bf16")  # fmt: skip


if __name__ == "__main__":
    alone(examples, CudaFile("kernels/padding.cu"))
