"""ReLU launched by hand, by PyCUDA's prepared call, whose arguments were described once: each launch only packs them.

The kernel of `relu.cu` is compiled by NVRTC, and runs in torch's context on its default stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from brrr.core.heavy import torch
from brrr.gpu.launching import pycuda_function, pycuda_stream
from brrr.kernels.alone import CudaFile, Example, alone, giving
from brrr.kernels.checks import check_launch

SOURCE = "kernels/relu.cu"
KERNEL, ARGUMENTS = "brrr_relu4", "PPq"
THREADS = 256
PER_THREAD = 4


def prepared_launch(x: torch.Tensor, out: torch.Tensor) -> Any:
    """A function of no arguments that launches ReLU of `x` into `out`, everything looked up beforehand.

    >>> prepared_launch(x, out)()  # doctest: +SKIP

    Both are contiguous float32 tensors of one size on the same GPU; ArgumentError for any others, checked once, here.
    UnavailableError where there is no PyCUDA, or where torch's current stream is not its default one: PyCUDA can launch
    on its own streams (`shared_stream` is one) and on the default one, no others.
    """
    check_launch("relu", x, out, ("float32",))
    index, grid, block = x.device.index, (blocks(x.numel()), 1), (THREADS, 1, 1)
    call = pycuda_function(SOURCE, KERNEL, ARGUMENTS, index).prepared_async_call
    return partial(call, grid, block, pycuda_stream(index), x.data_ptr(), out.data_ptr(), x.numel())


def blocks(count: int) -> int:
    """So many blocks cover `count` elements.

    >>> blocks(1), blocks(1024), blocks(1025)
    (1, 1, 2)
    """
    return -(-count // (THREADS * PER_THREAD))


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.kernels.relu`.


def examples(device: str) -> Iterator[Example]:
    """ReLU of 16 million numbers."""
    x = torch.randn(2**24, device=device)
    out = torch.full_like(x, torch.nan)
    yield Example("ReLU", x.numel(), 2.0 * x.nbytes, giving(out, prepared_launch(x, out)), x.double().relu())


if __name__ == "__main__":
    alone(examples, CudaFile(SOURCE))
