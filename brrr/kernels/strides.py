"""One number in every `stride`, read or written: of the sectors that the memory moves, only a part is of use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from brrr.gpu.nvrtc import I64, PTR, U32, prepared
from brrr.kernels.alone import CudaFile, Example, alone, giving
from brrr.kernels.checks import check_on_gpu

SOURCE = "kernels/strides.cu"
THREADS, READS, WRITES, WARP = 128, 16, 8, 32
"""As in `strides.cu`: the threads of a block, and how many of the numbers each thread reads, or writes."""


def blocks(count: int, each: int) -> int:
    """So many blocks cover `count` numbers, if each thread handles `each` of them.

    >>> blocks(1, 8), blocks(1024, 8), blocks(1025, 8)
    (1, 1, 2)
    """
    return -(-count // (THREADS * each))


def strided_sums(x: torch.Tensor, count: int, stride: int, offset: int = 0) -> tuple[torch.Tensor, Callable[[], None]]:
    """Where the sums of `count` words go, modulo 2^32 and one for each warp, and what launches the kernel."""
    check_on_gpu("strided_sums", {"x": x})
    grid = blocks(count, READS)
    sums = torch.full((grid * THREADS // WARP,), -1, dtype=torch.int32, device=x.device)
    given = (x.data_ptr(), PTR), (sums.data_ptr(), PTR), (count, I64), (stride, I64), (offset, I64)
    return sums, prepared(SOURCE, "brrr_strided_read", x.device.index, grid, THREADS, *given)


def strided_write(x: torch.Tensor, base: int, count: int, stride: int, offset: int = 0) -> Callable[[], None]:
    """What writes base, base + 1, ... into `count` words of 32 bits."""
    check_on_gpu("strided_write", {"x": x})
    given = (x.data_ptr(), PTR), (base, U32), (count, I64), (stride, I64), (offset, I64)
    return prepared(SOURCE, "brrr_strided_write", x.device.index, blocks(count, WRITES), THREADS, *given)


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.kernels.strides`.


def examples(device: str) -> Iterator[Example]:
    """Every number of 2^27, and one in every eight: the same sectors are moved, an eighth of the bytes is of use."""
    for stride in (1, 8):
        x = torch.randint(2**16, (2**27,), dtype=torch.int32, device=device)
        count = x.numel() // stride
        sums, launch = strided_sums(x, count, stride)
        expected = x[::stride].view(-1, READS, THREADS // WARP, WARP).sum((1, 3), dtype=torch.int64).flatten().double()
        yield Example(f"read, stride {stride}", 0.0, 4.0 * count, giving(sums, launch), expected, 0.0)
        expected = torch.arange(count, device=device).double()
        yield Example(f"write, stride {stride}", 0.0, 4.0 * count,
                      giving(x[::stride], strided_write(x, 0, count, stride)), expected, 0.0)  # fmt: skip


if __name__ == "__main__":
    alone(examples, CudaFile(SOURCE))
