"""What the `matmul` experiment runs: torch's float32 product, without TF32, on each device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from brrr import units
from brrr.counting.cost import matmul_cost
from brrr.errors import DeviceMemoryError
from brrr.experiment import Point, Variant, Workload
from brrr.timing.cpu_queue import CpuQueue

TOLERANCE = 1e-4
"""float32 stays far below; TF32, near 3e-4, would be found out."""

PROBES = 8
CHUNK = 2048


def workload(variant: Variant, point: Point) -> Workload:
    """The product of two fresh random n x n matrices on the variant's device."""
    n = int(point["size"])
    if variant.device == "cpu-queue":
        return queued_product(n)
    on_gpu = variant.name == "gpu"
    refuse_too_large(3 * n * n * 4, "cuda" if variant.device == "cuda" else "cpu", f"matmul {n}")
    a, b = (_random(n, on_gpu) for _ in range(2))
    cost = matmul_cost(n, n, n, 4)
    if variant.device == "cpu":
        return Workload(lambda: a @ b, cost, product_error(a, b), TOLERANCE)
    run: Callable[[], Any] = (lambda: a @ b) if on_gpu else (lambda: (a.cuda() @ b.cuda()).cpu())
    return Workload(run, cost, product_error(a, b), TOLERANCE, synchronize=torch.cuda.synchronize)


def _random(n: int, on_gpu: bool) -> torch.Tensor:
    """A fresh random matrix; drawn on the GPU where it is in use already, for a CPU needs seconds for 32768^2."""
    drawn = torch.randn(n, n, device="cuda" if on_gpu or torch.cuda.is_initialized() else "cpu")
    return drawn if on_gpu else drawn.cpu()


def queued_product(n: int) -> Workload:
    """The product of two fresh random n x n matrices on the toy accelerator, into memory that was spoilt before."""
    refuse_too_large(3 * n * n * 4, "cpu", f"product {n}")
    a, b = _random(n, on_gpu=False), _random(n, on_gpu=False)
    out = torch.full_like(a, float("nan"))
    queue = CpuQueue()

    def run() -> torch.Tensor:
        queue.submit(lambda: torch.mm(a, b, out=out))
        return out

    return Workload(
        run,
        matmul_cost(n, n, n, 4),
        product_error(a, b),
        TOLERANCE,
        synchronize=queue.synchronize,
        close=queue.close,
        queue=queue,
    )


def product_error(a: torch.Tensor, b: torch.Tensor) -> Callable[[torch.Tensor], float]:
    """The relative error of a product, by Freivalds' check: compare C v with A (B v) in float64 for random v.

    With normal v the expected squared norm of (C - AB) v is that of C - AB itself, so a few v estimate the error of
    the whole product at a thousandth of its cost (R. Freivalds, 1977).
    """

    def error(c: torch.Tensor) -> float:
        probes = torch.randn(b.shape[1], PROBES, dtype=torch.float64, device=b.device)
        expected = _times(a, _times(b, probes))
        found = _times(c, probes.to(c.device)).to(expected.device)
        return float(torch.linalg.norm(found - expected) / torch.linalg.norm(expected))

    return error


def _times(matrix: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """A float64 product a block of rows at a time, so that no float64 copy of the whole matrix is needed."""
    return torch.cat([rows.double() @ vectors for rows in matrix.split(CHUNK)])


def refuse_too_large(needed_bytes: int, device: str, what: str) -> None:
    """DeviceMemoryError before anything is allocated, with what is needed and what is free."""
    if device == "cuda":
        free = torch.cuda.mem_get_info()[0] if torch.cuda.is_initialized() else needed_bytes
    else:
        import psutil

        free = psutil.virtual_memory().available
    if needed_bytes > free:
        raise DeviceMemoryError(
            f"{what} needs {units.nbytes(needed_bytes)} and {units.nbytes(free)} is free on the "
            f"{'GPU' if device == 'cuda' else 'CPU'}; choose a smaller size"
        )
