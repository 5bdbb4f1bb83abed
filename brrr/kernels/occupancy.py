"""Words added up by blocks whose threads have so many loads in flight, no more: Little's law, seen at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from brrr.gpu import nvrtc
from brrr.gpu.nvrtc import PTR
from brrr.kernels.alone import CudaFile, Example, alone, giving
from brrr.kernels.checks import check_on_gpu

SOURCE = "kernels/occupancy.cu"
THREADS, NUMBERS, WARP = 256, 256, 32
"""As in `occupancy.cu`: threads of a block, numbers that each of them reads; a sum is written for each warp."""
LOADS = (1, 2, 4, 8)


def prepared(words: torch.Tensor, sums: torch.Tensor, loads: int) -> Callable[[], None]:
    """A function that launches the kernel with `loads` (one of LOADS) in flight; it must not outlive the tensors.

    words: whole blocks of THREADS * NUMBERS words of 32 bits, none of them negative; sums: one for each warp.
    """
    check_on_gpu("occupancy", {"words": words, "sums": sums})
    given, blocks = ((words.data_ptr(), PTR), (sums.data_ptr(), PTR)), words.numel() // (THREADS * NUMBERS)
    return nvrtc.prepared(SOURCE, f"brrr_in_flight_{loads}", words.device.index, blocks, THREADS, *given)


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.kernels.occupancy`.


def examples(device: str) -> Iterator[Example]:
    """A GB of small words, whose sums do not wrap round, by each number of loads."""
    words = torch.randint(2**16, (2**12, NUMBERS, THREADS // WARP, WARP), dtype=torch.int32, device=device)
    expected = words.sum((1, 3), dtype=torch.int64).flatten().double()
    for loads in LOADS:
        sums = torch.full(expected.shape, -1, dtype=torch.int32, device=device)
        launch = giving(sums, prepared(words, sums, loads))
        yield Example(f"loads in flight: {loads}", 0.0, float(words.nbytes), launch, expected, 0.0)


if __name__ == "__main__":
    alone(examples, CudaFile(SOURCE))
