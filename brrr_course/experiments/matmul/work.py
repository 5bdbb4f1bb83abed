"""What the `matmul` experiment runs: torch's float32 product, without TF32, on each device."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.counting.cost import matmul_cost
from brrr.gpu import is_cpu, is_queue
from brrr.roofline.calibrate.part import product_error
from brrr_course.experiments.checked import in_orders, refuse_too_large
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = 1e-4
"""float32 stays far below; TF32, near 3e-4, would be found out."""


def workload(variant: Variant, point: Point) -> Workload:
    """The product of two fresh random n x n matrices on the variant's device."""
    n = int(point["size"])
    if is_queue(variant.device):
        return queued_product(n)
    on_gpu = variant.way == "gpu"
    refuse_too_large(3 * n * n * 4, variant.processor, f"matmul {n}")
    a, b = (_random(n, on_gpu) for _ in range(2))
    cost = matmul_cost(n, n, n, 4)
    if is_cpu(variant.device):
        return Workload(lambda: a @ b, cost, product_error(a, b), TOLERANCE)
    run: Callable[[], Any] = (lambda: a @ b) if on_gpu else (lambda: (a.cuda() @ b.cuda()).cpu())
    return Workload(run, cost, product_error(a, b), TOLERANCE, synchronize=torch.cuda.synchronize)


def _random(n: int, on_gpu: bool) -> torch.Tensor:
    """A fresh random matrix; drawn on the GPU where it is in use already, for a CPU needs seconds for 32768^2."""
    drawn = torch.randn(n, n, device="cuda" if on_gpu or torch.cuda.is_initialized() else "cpu")
    return drawn if on_gpu else drawn.cpu()


def queued_product(n: int) -> Workload:
    """The product of two fresh random n x n matrices on the CPU queue, into memory that was spoilt before."""
    refuse_too_large(3 * n * n * 4, "cpu", f"product {n}")
    a, b = _random(n, on_gpu=False), _random(n, on_gpu=False)
    out = torch.full_like(a, float("nan"))
    order = partial(torch.mm, a, b, out=out)
    return in_orders([order], out, matmul_cost(n, n, n, 4), product_error(a, b), TOLERANCE)
