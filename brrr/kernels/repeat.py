"""A multiplication, or a multiplication and an addition, repeated in Triton: one load, `repeat` steps, one store.

    y = x;  `repeat` times: y = y * factor        or        y = y * factor + addend

The arithmetic is done in float32 whatever the type of x, and rounded once, at the end. The number of steps comes at run
time, so one compiled kernel serves all; factor and addend do too, so that no steps can be folded into one.
"""

# Triton's decorator has no types, and neither has what it compiles.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

from __future__ import annotations

import torch
import triton
import triton.language as tl

from brrr.errors import ArgumentError, UnavailableError

ROUND = 16
"""Steps between two turns of the loop: its own instructions then weigh little."""

BLOCK_BYTES, WARPS = 4096, 4
"""A program's share: each of its 128 threads loads 16 bytes twice."""

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


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
    out = torch.empty_like(x) if out is None and isinstance(x, torch.Tensor) else out
    _check(x, out, repeat)
    assert out is not None
    if x.numel():
        block = BLOCK_BYTES // x.element_size()
        _repeat[(triton.cdiv(x.numel(), block),)](
            x, out, float(factor), 0.0 if addend is None else float(addend), x.numel(), repeat // ROUND, repeat % ROUND,
            FMA=addend is not None, ROUND=ROUND, BLOCK=block, num_warps=WARPS,
        )  # fmt: skip
    return out


def _check(x: torch.Tensor, out: torch.Tensor | None, repeat: int) -> None:
    if isinstance(repeat, bool) or not isinstance(repeat, int) or not 0 <= repeat < 2**31:
        raise ArgumentError("repeat_multiply", "repeat", repeat, "a whole number from 0 to 2^31 - 1")
    for name, tensor in (("x", x), ("out", out)):
        if not isinstance(tensor, torch.Tensor) or tensor.dtype not in DTYPES:
            given = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise ArgumentError("repeat_multiply", name, given, "a tensor of float32, float16 or bfloat16")
        if not tensor.is_contiguous():
            raise ArgumentError("repeat_multiply", name, tensor.stride(), "a contiguous tensor", "Use .contiguous()")
    assert out is not None
    if (out.shape, out.dtype, out.device) != (x.shape, x.dtype, x.device):
        found = f"{out.dtype} {tuple(out.shape)} on {out.device}"
        raise ArgumentError("repeat_multiply", "out", found, f"{x.dtype} {tuple(x.shape)} on {x.device}, as x is")
    if not x.is_cuda and not triton.knobs.runtime.interpret:
        raise UnavailableError(
            "repeat_multiply: x is on the CPU, and a Triton kernel needs an NVIDIA GPU. Move it with .cuda(), or set "
            "TRITON_INTERPRET=1 before Triton is loaded to run the kernel in its interpreter"
        )
