"""Plain arithmetic on a GPU: the kernels of `flops.cu`, each chain's end compared with the recurrence's solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from brrr.gpu.nvrtc import F32, I32, PTR, kernel
from brrr.roofline.calibrate import part
from brrr.roofline.calibrate.cpu import Recurrence
from brrr.roofline.calibrate.gpu_times import clock_conditions, gated
from brrr.roofline.calibrate.part import Findings
from brrr.roofline.peaks.peak import Peak

CHAINS, STEPS_A_ROUND = 8, 32  # as in flops.cu
STEPS = 8192
BLOCK, BLOCKS_A_MULTIPROCESSOR = 256, 4
"""1024 threads a multiprocessor, all resident on any GPU: with eight chains each, more than its latency asks for."""

LIMITS = {torch.float32: 1e-4, torch.float64: 1e-12}
"""Relative error of a chain's end. The roundings add up to 3e-6 and 2e-14; one round of steps left out, to 1.5e-3."""


@dataclass(frozen=True)
class Chains:
    """One kernel of chains, ready to run: `flop` a call, and the check of the chains' ends."""

    call: Callable[[], None]
    check: Callable[[], None]
    flop: float


def chains(name: str, dtype: torch.dtype, *, addition: bool) -> Chains:
    """The kernel `brrr_<name>` on all multiprocessors; with an addition a step is 2 FLOP, else 1."""
    blocks = BLOCKS_A_MULTIPROCESSOR * torch.cuda.get_device_properties().multi_processor_count
    count = blocks * BLOCK * CHAINS
    ends = torch.empty(count, dtype=dtype, device="cuda")
    run = kernel("roofline/calibrate/flops.cu", f"brrr_{name}", torch.cuda.current_device())
    recurrence = Recurrence.over(STEPS, addition=addition)
    numbers = (recurrence.factor, F32), (recurrence.addend, F32), (STEPS // STEPS_A_ROUND, I32)

    def call() -> None:
        run((blocks, 1, 1), (BLOCK, 1, 1), (ends.data_ptr(), PTR), *numbers)

    def check() -> None:
        ends.fill_(torch.nan)
        call()
        starts = 0.5 + torch.arange(count, device="cuda").remainder(1024).double() / 2048
        part.close(ends, recurrence.end(starts), LIMITS[dtype], f"brrr_{name}")

    return Chains(call, check, float(recurrence.flop_a_step) * STEPS * count)


def measure_arithmetic(found: Findings) -> None:
    """`arithmetic.fp32.fma`, `.mul_add` (the same two operations unfused) and `.mul`; for fp64 the first and last."""
    for name, dtype, addition in (
        ("fp32_fma", torch.float32, True),
        ("fp32_mul_add", torch.float32, True),
        ("fp32_mul", torch.float32, False),
        ("fp64_fma", torch.float64, True),
        ("fp64_mul", torch.float64, False),
    ):
        made = chains(name, dtype, addition=addition)
        made.check()
        estimate = gated(made.call)
        by = f"brrr_{name}: {CHAINS} independent chains a thread, {STEPS} steps"
        kind, operation = name.split("_", 1)
        peak = Peak.rate(made.flop, estimate, "FLOP/s", by=by, **clock_conditions())
        found.measured[f"arithmetic.{kind}.{operation}"] = peak
