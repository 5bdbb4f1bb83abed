"""ReLU launched by hand in two ways: by PyCUDA's prepared call and by NVIDIA's cuda-bindings.

Both launch the kernels of `relu.cu`, compiled by NVRTC, on torch's context and torch's current stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from brrr.core.errors import ArgumentError
from brrr.gpu.launching import pycuda_function, require_default_stream
from brrr.gpu.nvrtc import I64, PTR, kernel
from brrr.kernels.alone import CudaFile, Example, alone
from brrr.kernels.checks import check_on_gpu, check_tensors

if TYPE_CHECKING:
    import torch

SOURCE = "kernels/relu.cu"
KERNEL, ARGUMENTS = "brrr_relu4", "PPq"
THREADS = 256
PER_THREAD = 4
WORD = 16
"""The kernel reads and writes words of so many bytes."""


def by_bindings(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """ReLU by `cuLaunchKernel` through cuda-bindings.

    >>> by_bindings(x, out)  # doctest: +SKIP
    tensor([0.0000, 1.2500], device='cuda:0')

    Both are contiguous float32 tensors of one size on the same GPU; ArgumentError for any others.
    """
    bindings_launch(x, out)()
    return out


def by_pycuda(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """ReLU by PyCUDA's prepared call, whose arguments were described once, so that each launch only packs them.

    >>> by_pycuda(x, out)  # doctest: +SKIP
    tensor([0.0000, 1.2500], device='cuda:0')

    Arguments and errors as those of `by_bindings`; UnavailableError where there is no PyCUDA, or where torch's current
    stream is not its default one: PyCUDA can launch on its own streams and on the default one, no others.
    """
    prepared_launch(x, out)()
    return out


def prepared_launch(x: torch.Tensor, out: torch.Tensor) -> Any:
    """A function of no arguments that launches ReLU of `x` into `out` by PyCUDA, everything looked up beforehand.

    Arguments and errors as those of `by_pycuda`; they are checked once, here.
    """
    check(x, out)
    require_default_stream()
    call = pycuda_function(SOURCE, KERNEL, ARGUMENTS, x.device.index).prepared_call
    grid, block = (blocks(x.numel()), 1), (THREADS, 1, 1)
    source, target, count = x.data_ptr(), out.data_ptr(), x.numel()
    return lambda: call(grid, block, source, target, count)


def bindings_launch(x: torch.Tensor, out: torch.Tensor) -> Any:
    """A function of no arguments that launches ReLU of `x` into `out` by cuda-bindings; checked once, here."""
    check(x, out)
    relu = kernel(SOURCE, KERNEL, x.device.index)
    grid, block = (blocks(x.numel()), 1, 1), (THREADS, 1, 1)
    args = (x.data_ptr(), PTR), (out.data_ptr(), PTR), (x.numel(), I64)
    return lambda: relu(grid, block, *args)


def blocks(count: int) -> int:
    """So many blocks cover `count` elements.

    >>> blocks(1), blocks(1024), blocks(1025)
    (1, 1, 2)
    """
    return -(-count // (THREADS * PER_THREAD))


def check(x: torch.Tensor, out: torch.Tensor) -> None:
    """ArgumentError for tensors that the kernel cannot take."""
    check_tensors("relu", {"x": x, "out": out}, ("float32",))
    check_on_gpu("relu", {"x": x, "out": out}, WORD)
    if x.numel() != out.numel() or not x.numel():
        raise ArgumentError("relu", "out", tuple(out.shape), f"as many elements as x, {x.numel()}, and one or more")


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.kernels.relu`.


def examples(device: str) -> Iterator[Example]:
    """ReLU of 16 million numbers, launched in both ways."""
    import torch

    x = torch.randn(2**24, device=device)
    for name, launch in (("PyCUDA", by_pycuda), ("cuda-bindings", by_bindings)):
        call = partial(launch, x, torch.full_like(x, torch.nan))
        yield Example(f"ReLU by {name}", x.numel(), 2.0 * x.nbytes, call, x.double().relu())


if __name__ == "__main__":
    alone(examples, CudaFile(SOURCE))
