"""Matrix multiplication on the CPU and the GPU, with transfers and without, and the clock stopped right and wrong.

The question, the sizes and the claims follow the `matmul` part of "GPU Performance: Parallel Processing vs Overhead"
(2024), which timed 2^0 to 2^15 on an A100.
"""

from __future__ import annotations

from functools import partial

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import CUDA, is_cpu, is_queue
from brrr_course.experiments.checked import drawn_on, must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import alone, product
from brrr_course.nouns.experiment import Axis, Experiment, Line, PredictedRun, Run, Variant, Workload, stand_in

SIZES = tuple(2**k for k in range(16))
ODD_SIZES = (100, 1000, 3000, 6000, 10000)
FIRST_CALL_SIZES = (1, 1024)


def supports(variant: Variant, point: Point) -> bool:
    """The first call is timed at two sizes only."""
    return variant.timer != "first-call" or point["size"] in FIRST_CALL_SIZES


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of the product, the same for every variant."""
    size = int(point["size"])
    return matmul_cost(size, size, size, itemsize=4)


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The product alone."""
    size = int(point["size"])
    return alone(product("mm", size, size, size, 4)) if variant.implementation in ("cpu", "gpu", "queue") else None


EXPERIMENT = Experiment(
    title="Matrix multiplication",
    question="Why does the GPU's time look constant?",
    axes=(
        Axis("size", tuple(sorted(SIZES + ODD_SIZES)), label="matrix size n (an n × n by n × n product, float32)",
             quick=(64, 256, 512), most={"cpu-queue": 4096}),  # above, a laptop's CPU needs a second and more
    ),
    variants=(
        Variant("cpu", "CPU", "cpu"),
        Variant("gpu-transfers", "GPU, data sent there and back"),
        Variant("gpu-first", "GPU, first call in a fresh process", timer="first-call"),
        Variant("gpu", "GPU, data already there"),
        Variant("queue", "CPU queue (a CPU queue)", "cpu-queue"),
        Variant("webgpu", "your GPU, in the browser", "webgpu", timer="browser"),
    ),
    lines=(
        Line("cpu", "cpu", "latency_s", "CPU"),
        Line("transfers", "gpu-transfers", "latency_s", "GPU with transfers"),
        Line("unsynchronized", "gpu", "host_s", "GPU, clock stopped without waiting"),
        Line("synchronized", "gpu", "latency_s", "GPU, clock stopped after synchronize()"),
        Line("first call", "gpu-first", "latency_s", "GPU with transfers, first call", shown=False),
        stand_in("unsynchronized", "queue", "host_s", "CPU queue, clock stopped without waiting"),
        stand_in("synchronized", "queue", "latency_s", "CPU queue, clock stopped after synchronize()"),
        stand_in("unsynchronized", "webgpu", "host_s", "your GPU, clock stopped without waiting"),
        stand_in("synchronized", "webgpu", "latency_s", "your GPU, clock stopped when its work is done"),
    ),
    package=__name__,
    anchors=({"size": 1024}, {"size": 8192}),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `matmul` experiment runs: torch's float32 product, without TF32, on each device.

TOLERANCE = 1e-4
"""float32 stays far below; TF32, near 3e-4, would be found out."""


def workload(variant: Variant, point: Point) -> Workload:
    """The product of two fresh random n x n matrices on the variant's device."""
    from brrr.roofline.calibrate.part import product_error

    n = int(point["size"])
    if is_queue(variant.device):
        return queued_product(n)
    on_gpu = variant.implementation == "gpu"
    must_fit(3 * n * n * 4, variant.processor, f"matmul {n}")
    a, b = (_random(n, on_gpu) for _ in range(2))
    there, device = on_gpu or is_cpu(variant.device), variant.processor
    run: Run = (lambda: a @ b) if there else (lambda: (a.to(device) @ b.to(device)).cpu())
    return Workload(run, product_error(a, b), TOLERANCE)


def _random(n: int, on_gpu: bool) -> torch.Tensor:
    """A fresh random matrix; drawn on the GPU where it is in use already, for a CPU needs seconds for 32768^2."""
    drawn = torch.randn(n, n, device=drawn_on(CUDA if on_gpu else "cpu"))
    return drawn if on_gpu else drawn.cpu()


def queued_product(n: int) -> Workload:
    """The product of two fresh random n x n matrices on the CPU queue, into memory that was spoilt before."""
    from brrr.roofline.calibrate.part import product_error

    must_fit(3 * n * n * 4, "cpu", f"product {n}")
    a, b = _random(n, on_gpu=False), _random(n, on_gpu=False)
    out = torch.full_like(a, float("nan"))
    return Workload.in_orders([partial(torch.mm, a, b, out=out)], out, product_error(a, b), TOLERANCE)
