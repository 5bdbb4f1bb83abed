"""The kernels of `repeat.cu` launched in two ways: by NVIDIA's cuda-bindings and by PyCUDA's prepared call."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from brrr.errors import ArgumentError
from brrr.kernels.nvrtc import F32, I32, I64, PTR, compiled_for, kernel
from brrr.kernels.pycuda_context import pycuda_driver, require_default_stream

if TYPE_CHECKING:
    import torch

SOURCE = "repeat.cu"
THREADS, WORD, WORDS = 256, 16, 2
"""Threads a block, and what each loads: two words of 16 bytes."""

Launch = Callable[[], None]


def by_bindings(x: torch.Tensor, out: torch.Tensor, repeat: int, factor: float, addend: float | None = None) -> Launch:
    """A function that launches `x * factor` (or `x * factor + addend`), `repeat` times over, into `out`.

    >>> launch = by_bindings(x, out, 64, 1.01)  # doctest: +SKIP
    >>> launch()                                # doctest: +SKIP

    Both are contiguous tensors of one type (float32, float16 or bfloat16) and size on the same GPU, at addresses that
    16 divides; ArgumentError for any others, checked once, here.
    """
    _check(x, out, repeat)
    run = kernel(SOURCE, kernel_name(x, addend), x.device.index)
    grid, block = (blocks(x.numel(), x.element_size()), 1, 1), (THREADS, 1, 1)
    ends = (x.data_ptr(), PTR), (out.data_ptr(), PTR), (x.numel(), I64)
    return lambda: run(grid, block, *ends, (repeat, I32), (factor, F32), (addend or 0.0, F32))


def by_pycuda(x: torch.Tensor, out: torch.Tensor, repeat: int, factor: float, addend: float | None = None) -> Launch:
    """The same by PyCUDA; UnavailableError where it is not, or where another stream than torch's default is current."""
    _check(x, out, repeat)
    require_default_stream()
    call = _prepared(kernel_name(x, addend), x.device.index).prepared_call
    grid, block = (blocks(x.numel(), x.element_size()), 1), (THREADS, 1, 1)
    source, target, count = x.data_ptr(), out.data_ptr(), x.numel()
    return lambda: call(grid, block, source, target, count, repeat, factor, addend or 0.0)


def kernel_name(x: torch.Tensor, addend: float | None) -> str:
    """The kernel for a tensor's type, with an addition or without."""
    return f"brrr_repeat_{'mul' if addend is None else 'fma'}_{str(x.dtype).removeprefix('torch.')}"


def blocks(count: int, itemsize: int) -> int:
    """So many blocks cover `count` elements.

    >>> blocks(1, 4), blocks(2048, 4), blocks(2049, 4), blocks(4096, 2)
    (1, 1, 2, 1)
    """
    words = -(-count * itemsize // WORD)
    return -(-words // (THREADS * WORDS))


@lru_cache(maxsize=16)
def _prepared(name: str, device_index: int) -> Any:
    """A kernel of `repeat.cu` as PyCUDA's prepared function, in torch's own context (see `relu.prepared`)."""
    import atexit

    import torch

    torch.zeros(1, device=f"cuda:{device_index}")  # torch makes the primary context, with its own settings
    driver = pycuda_driver(device_index)
    function = driver.module_from_buffer(compiled_for(SOURCE, device_index)).get_function(name)
    function.prepare("PPqiff")
    atexit.unregister(_prepared.cache_clear)  # last registered, first called: before PyCUDA lets go of the context
    atexit.register(_prepared.cache_clear)
    return function


def _check(x: torch.Tensor, out: torch.Tensor, repeat: int) -> None:
    """ArgumentError for what the kernels cannot take: they look at addresses and a count, and at nothing else."""
    import torch

    call, dtypes = "repeat", (torch.float32, torch.float16, torch.bfloat16)
    if isinstance(repeat, bool) or not isinstance(repeat, int) or not 0 <= repeat < 2**31:
        raise ArgumentError(call, "repeat", repeat, "a whole number from 0 to 2^31 - 1")
    for name, tensor in (("x", x), ("out", out)):
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cuda":
            where = tensor.device if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise ArgumentError(call, name, str(where), "a tensor on a GPU", "Move it there with .cuda()")
        if tensor.dtype not in dtypes or not tensor.is_contiguous():
            found = f"{tensor.dtype}, strides {tensor.stride()}"
            raise ArgumentError(call, name, found, "float32, float16 or bfloat16, contiguous")
        if tensor.data_ptr() % WORD:
            raise ArgumentError(call, name, hex(tensor.data_ptr()), "an address that 16 divides", "Use .clone()")
    if (x.numel(), x.dtype, x.device) != (out.numel(), out.dtype, out.device) or not x.numel():
        found = f"{out.dtype} {tuple(out.shape)} on {out.device}"
        raise ArgumentError(call, "out", found, f"as many elements as x, {x.numel()} of {x.dtype} on {x.device}")
