"""Products of square matrices by data type and size, on random data: the best rate that the library reaches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from brrr.core.measurement import Estimate
from brrr.core.values import Value
from brrr.gpu.precision import precision_of
from brrr.roofline.calibrate import part
from brrr.roofline.calibrate.part import Findings, product_error
from brrr.roofline.peaks.peak import Curve, Peak, Unit

# Relative errors (Frobenius) that a right product stays below: float32 lies at 1e-6 and TF32 at 3e-4, so that TF32 in
# place of float32 is found out; the 16-bit types round their result to 2^-9 and 2^-12; fp8 is compared on
# what it holds, and int8 has none.
LIMITS = {"fp64": 1e-12, "fp32": 5e-5, "tf32": 2e-3, "fp16": 3e-3, "bf16": 1e-2, "fp8": 5e-2, "int8": 1e-12}

CALLS = 10
"""So often about is a product called, for the check and the times."""

Timer = Callable[[Callable[[], Any]], Estimate]
"""Times a call, in seconds."""


@dataclass(frozen=True)
class Product:
    """One product, ready to run, and its operands for the check."""

    call: Callable[[], torch.Tensor]
    a: torch.Tensor
    b: torch.Tensor


def product(dtype: str, size: int, device: str) -> Product:
    """A product of two fresh random size x size matrices: normal values, whole numbers of 8 bits for int8."""
    if dtype == "int8":
        x, y = (torch.randint(-128, 128, (size, size), dtype=torch.int8, device=device) for _ in range(2))
        return Product(lambda: torch._int_mm(x, y.t()), x, y.t())  # column by column, as the tensor cores take it
    a, b = (torch.randn(size, size, device=device) for _ in range(2))
    if dtype == "fp8":
        return _fp8(a, b)
    kind = {"fp64": torch.float64, "fp16": torch.float16, "bf16": torch.bfloat16}.get(dtype, torch.float32)
    a, b = a.to(kind), b.to(kind)
    return Product(lambda: a @ b, a, b)


def _fp8(a: torch.Tensor, b: torch.Tensor) -> Product:
    """The scaled product of 8-bit floats; the second operand lies column by column, as cuBLASLt asks for."""
    x, y = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t().contiguous().t()
    one = torch.ones((), device=a.device)
    fast = a.is_cuda
    run = lambda: torch._scaled_mm(  # noqa: E731
        x, y, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast
    )
    return Product(run, x, y)


def measure_products(
    dtype: str, sizes: Sequence[int], device: str, timed: Timer, found: Findings, *, share_s: float, by: str
) -> None:
    """The rates of one data type by size, in the curve `matmul.<dtype>`; what would take too long is left out."""
    points: list[tuple[float, Peak]] = []
    last_s, last = 0.0, 1
    with precision_of(dtype), torch.no_grad():
        for size in sizes:
            if CALLS * last_s * (size / last) ** 3 > min(share_s, found.left_s):
                found.note(f"matmul.{dtype}: size {size} left out, for lack of time")
                break
            estimate = _timed(product(dtype, size, device), dtype, timed)
            last_s, last = estimate.median, size
            unit: Unit = "IOP/s" if dtype == "int8" else "FLOP/s"
            points.append((size, Peak.rate(2.0 * size**3, estimate, unit, **_clock(device))))
    if points:
        found.curves[f"matmul.{dtype}"] = Curve("size", tuple(points), {"by": by, "data": "random", "cache": "hot"})


def _timed(made: Product, dtype: str, timed: Timer) -> Estimate:
    error = product_error(made.a, made.b)(made.call())
    part.require(error <= LIMITS[dtype], f"a {dtype} product of {len(made.a)} (relative error {error:.2g})")
    return timed(made.call)


def _clock(device: str) -> dict[str, Value]:
    if device != "cuda":
        return {}
    from brrr.roofline.calibrate.gpu_times import clock_conditions

    return clock_conditions()
