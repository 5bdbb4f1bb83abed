"""The parts of a GPU's calibration, the most needed first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from brrr.errors import WrongResultError
from brrr.measurement import Estimate
from brrr.peaks import host_cost
from brrr.peaks.gpu_arithmetic import chains, measure_arithmetic
from brrr.peaks.gpu_bandwidth import measure_bandwidth
from brrr.peaks.gpu_launch import measure_between_replays, measure_floor, measure_gaps, measure_replay
from brrr.peaks.gpu_operators import sweep_operators
from brrr.peaks.gpu_products import sweep_products
from brrr.peaks.gpu_times import gated
from brrr.peaks.matrix import measure_products
from brrr.peaks.parts import Findings, Part, said

SIZES = (1024, 2048, 4096, 8192, 16384)
QUICK_SIZES = (1024, 2048)
WARM_UP_S = 0.5

# The oldest compute capability whose tensor cores have the type; older ones run it in another way, or not at all.
SINCE = {"fp32": (0, 0), "fp64": (0, 0), "fp16": (0, 0), "bf16": (8, 0), "tf32": (8, 0), "int8": (7, 5), "fp8": (8, 9)}


def warm_up(found: Findings) -> None:
    """Keep the GPU busy until its clock is up: an idle one runs at a fraction of it."""
    made = chains("fp32_fma", torch.float32, addition=True)
    until = time.perf_counter() + min(WARM_UP_S, found.left_s / 10)
    while time.perf_counter() < until:
        for _ in range(50):
            made.call()
        torch.cuda.synchronize()


def products(found: Findings) -> None:
    """Products of matrices by data type: torch's, with TF32 for tf32 only; fp8 and int8 through torch's own calls."""
    capability = torch.cuda.get_device_capability()
    share_s = 0.4 * found.left_s / len(SINCE)
    for dtype, since in SINCE.items():
        if capability < since:
            found.note(f"matmul.{dtype}: this GPU's tensor cores do not have it")
            continue
        try:
            sizes = QUICK_SIZES if found.quick else SIZES
            measure_products(dtype, sizes, "cuda", _timed, found, share_s=share_s, by=_BY.get(dtype, "torch.matmul"))
        except WrongResultError:
            raise
        except Exception as error:  # this torch, or this GPU, lacks the call, or the memory does not suffice
            found.note(f"matmul.{dtype}: not measured: {said(error)}")
        torch.cuda.empty_cache()


_BY = {"fp8": "torch._scaled_mm, e4m3, fast accumulation, bfloat16 result", "int8": "torch._int_mm, int32 result"}


def _timed(call: Callable[[], Any]) -> Estimate:
    """A product of milliseconds by few samples, a short one by more."""
    first = gated(call, repeats=1, rounds=1)
    repeats = max(1, min(16, int(0.05 / max(first.median, 1e-6))))
    return gated(call, repeats=repeats, rounds=max(2, 6 // repeats))


def bandwidth(found: Findings) -> None:
    """Bandwidth by working set; its arena is given back afterwards."""
    measure_bandwidth(found)
    torch.cuda.empty_cache()


def host(found: Findings) -> None:
    """What each class of operators costs the host."""
    host_cost.measure_host("cuda", found)


def compiled(found: Findings) -> None:
    """What calling a compiled function costs the host; compiling it takes a while."""
    host_cost.measure_compiled("cuda", found)


PARTS = (
    Part("warm-up", warm_up),
    Part("arithmetic", measure_arithmetic),
    Part("kernel floor", measure_floor),
    Part("gaps", measure_gaps),
    Part("bandwidth", bandwidth),
    Part("matmul", products),
    Part("host", host),
    Part("graph-replay", measure_replay),
    Part("gap between replays", measure_between_replays),
    Part("host.compiled", compiled, needs_s=20.0),
    Part("sweep of products", sweep_products),
    Part("sweep of operators", sweep_operators),
)
