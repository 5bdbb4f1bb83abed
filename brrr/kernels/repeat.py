"""A multiplication, or a multiplication and an addition, repeated in Triton: one load, `repeat` steps, one store.

    y = x;  `repeat` times: y = y * factor        or        y = y * factor + addend

The arithmetic is done in float32 whatever the type of x, and rounded once, at the end. The number of steps comes at run
time, so one compiled kernel serves all; factor and addend do too, so that no steps can be folded into one.
"""

# Triton's decorator has no types, and neither has what it compiles.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import triton
import triton.language as tl

from brrr.core.errors import whole
from brrr.gpu import is_gpu
from brrr.gpu.nvrtc import F32, I32, I64, PTR, prepared
from brrr.kernels.alone import CudaFile, Example, alone, giving
from brrr.kernels.checks import WORD, check_launch, check_shape, check_tensors, require_triton

ROUND = 16
"""Steps between two turns of the loop: its own instructions then weigh little."""
MOST = 2**31 - 1
"""Steps are counted in 32 bits."""

BLOCK_BYTES, WARPS = 4096, 4
"""A program's share: each of its 128 threads loads 16 bytes twice."""


@triton.jit(do_not_specialize=["rounds", "rest"])
def _repeat(x, y, factor, addend, count, rounds, rest, FMA: tl.constexpr, ROUND: tl.constexpr, BLOCK: tl.constexpr):
    """One block of elements, `rounds * ROUND + rest` steps each."""
    # count may exceed 2^31: the block's start is 64 bits wide, an offset inside the block need not be.
    start = tl.program_id(0).to(tl.int64) * BLOCK
    offsets = tl.arange(0, BLOCK)
    inside = offsets < count - start
    value = tl.load(x + start + offsets, mask=inside, other=0.0).to(tl.float32)
    while rounds > 0:  # not `range`: Triton's interpreter cannot take its end from an argument with NumPy 2.4
        for _ in tl.static_range(ROUND):
            value = value * factor + addend if FMA else value * factor
        rounds -= 1
    while rest > 0:
        value = value * factor + addend if FMA else value * factor
        rest -= 1
    tl.store(y + start + offsets, value.to(y.dtype.element_ty), mask=inside)


def repeat_multiply(
    x: torch.Tensor, repeat: int, factor: float, addend: float | None = None, out: torch.Tensor | None = None
) -> torch.Tensor:
    """`x * factor`, `repeat` times over; with an addend, `x * factor + addend` each time. Fused into one kernel.

    >>> repeat_multiply(torch.ones(4, device="cuda"), 3, 2.0)  # doctest: +SKIP
    tensor([8., 8., 8., 8.], device='cuda:0')

    x: float32, float16 or bfloat16, contiguous, of any shape; `out`, if given, of the same type and shape.
    ArgumentError for anything else; UnavailableError for a CPU tensor outside Triton's interpreter.
    """
    whole("repeat_multiply", "repeat", repeat, 0, MOST)
    check_tensors("repeat_multiply", {"x": x, **({} if out is None else {"out": out})}, alike=True)
    out = torch.empty_like(x) if out is None else out
    check_shape("repeat_multiply", "out", out, x.shape)
    require_triton("repeat_multiply", x)
    if x.numel():
        block = BLOCK_BYTES // x.element_size()
        _repeat[(triton.cdiv(x.numel(), block),)](
            x, out, float(factor), 0.0 if addend is None else float(addend), x.numel(), repeat // ROUND, repeat % ROUND,
            FMA=addend is not None, ROUND=ROUND, BLOCK=block, num_warps=WARPS,
        )  # fmt: skip
    return out


# ---------------------------------------------------------------------------------------------------------------------
# The kernels of `repeat.cu`, launched by NVIDIA's cuda-bindings.

SOURCE = "kernels/repeat.cu"
THREADS, WORDS = 256, 2
"""Threads a block, and what each loads: two words of 16 bytes."""

Launch = Callable[[], None]


def by_bindings(x: torch.Tensor, out: torch.Tensor, repeat: int, factor: float, addend: float | None = None) -> Launch:
    """A function that launches `x * factor` (or `x * factor + addend`), `repeat` times over, into `out`.

    >>> launch = by_bindings(x, out, 64, 1.01)  # doctest: +SKIP
    >>> launch()                                # doctest: +SKIP

    Both are contiguous tensors of one type (float32, float16 or bfloat16) and size on the same GPU, at addresses that
    16 divides; ArgumentError for any others, checked once, here.
    """
    whole("repeat", "repeat", repeat, 0, MOST)
    check_launch("repeat", x, out)
    given = (x.data_ptr(), PTR), (out.data_ptr(), PTR), (x.numel(), I64), (repeat, I32), (factor, F32)
    grid = blocks(x.numel(), x.element_size())
    return prepared(SOURCE, kernel_name(x, addend), x.device.index, grid, THREADS, *given, (addend or 0.0, F32))


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


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.kernels.repeat`.


def examples(device: str) -> Iterator[Example]:
    """Sixty-four fused multiply-adds of each of many numbers, by Triton and in CUDA C++."""
    on_gpu, steps, factor, addend = is_gpu(device), 64, 1.01, 0.5
    x = torch.randn(2**24 if on_gpu else 2**12, device=device)
    out, expected = torch.full_like(x, torch.nan), x.double()
    for _ in range(steps):
        expected = expected * factor + addend
    yield Example("Triton", 2.0 * steps * x.numel(), 2.0 * x.nbytes,
                  lambda: repeat_multiply(x, steps, factor, addend, out), expected)  # fmt: skip
    if on_gpu:
        launch = giving(out, by_bindings(x, out, steps, factor, addend))
        yield Example("CUDA C++", 2.0 * steps * x.numel(), 2.0 * x.nbytes, launch, expected)


if __name__ == "__main__":
    alone(examples, CudaFile(SOURCE))
