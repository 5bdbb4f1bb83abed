"""What the driver calls utilisation, beside what the GPU does: matmuls in a loop, from tiny to large.

NVML's utilisation is the share of time in which at least one kernel was running, whatever part of the GPU it used.
Launched one by one, small ones leave gaps; in a CUDA Graph there are hardly any. All three lines are seconds of each
second, which `show={"y": "share"}` tells in percent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Estimate, Measurement, Point, Value
from brrr.counting.cost import Cost
from brrr.gpu import CUDA
from brrr.gpu.datasheet import find_hardware
from brrr.gpu.device import this_device
from brrr.gpu.probe import utilisation
from brrr.running.graphs import capture
from brrr.timing import measure
from brrr_course.experiments.lazily import torch
from brrr_course.nouns.experiment import Axis, Experiment, Variant, Workload

SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
EAGER, GRAPH = "one by one", "as a CUDA Graph"
TINY: dict[str, Value] = {"how": EAGER, "size": 256}


def cost(variant: Variant, point: Point) -> Cost:
    """One product of bfloat16 matrices."""
    n = float(int(point["size"]))
    return Cost(2 * n**3, 6 * n**2)


EXPERIMENT = Experiment(
    title="The driver's utilisation",
    question="A GPU is 100 % utilised. Does it work?",
    axes=(
        Axis("how", (EAGER, GRAPH), label="matmuls", scale="category"),
        Axis("size", SIZES, label="matrix size n", quick=(256, 2048)),
    ),
    variants=(
        Variant("driver", "utilisation, as nvidia-smi reports it", timer="own"),
        Variant("busy", "a kernel is running", timer="own"),
        Variant("peak", "FLOP done, of the datasheet's peak", timer="own"),
    ),
    field="busy_s",
    package=__name__,
    needs="CUDA",
    anchors=(TINY,),
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `utilisation` experiment measures: the driver is asked while products run in a loop.

SECONDS, SETTLE_S, AHEAD = 2.0, 1.0, 64
"""How long the loop runs, after how long the driver's figure counts, and so many products are issued at once."""


def workload(variant: Variant, point: Point) -> Workload:
    """Seconds of each second: as the driver reports, with a kernel running, and needed at the datasheet's peak."""
    shares, error = found(int(point["size"]), point["how"] == GRAPH)
    value = shares[variant.implementation]
    step = 0.01 if variant.implementation == "driver" else 0.0  # the driver tells whole percents
    own = Measurement(busy_s=Estimate.of(value, step), device=variant.device)
    return Workload(lambda: None, lambda _: error, 1e-2, others={"measured": lambda: own})


@lru_cache(maxsize=1)
def found(n: int, graph: bool) -> tuple[dict[str, list[float]], float]:
    """The three shares, and the product's error."""
    from brrr.roofline.calibrate.part import product_error

    a, b = (torch.randn(n, n, device=CUDA, dtype=torch.bfloat16) for _ in range(2))
    error = product_error(a, b)(a @ b)

    def many() -> None:
        for _ in range(AHEAD):
            torch.mm(a, b)

    run = capture(many).replay if graph else many
    loop_s, told = loop(run)
    call_s = loop_s / AHEAD
    busy_s = measure(lambda: torch.mm(a, b), device=CUDA, budget_s=0.1).busy_s
    hardware = find_hardware(this_device(CUDA).name)
    if busy_s is None or hardware is None or not told:
        raise UnavailableError("utilisation: the driver, the profiler or the datasheet tells nothing here")
    peak = hardware.peak("bf16", "tensor cores")
    return {"driver": told, "busy": [min(1.0, busy_s.median / call_s)], "peak": [2 * n**3 / call_s / peak]}, error


def loop(run: Callable[[], object]) -> tuple[float, list[float]]:
    """Seconds of one call in a loop, and what the driver told meanwhile."""
    told: list[float | None] = []
    began, rounds = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < SECONDS:
        run()
        rounds += 1
        if rounds % 8 == 0:
            torch.cuda.synchronize()  # so that the loop ends in time
        if passed > SETTLE_S and len(told) < 8 * (passed - SETTLE_S):
            told.append(utilisation())
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / rounds, [each for each in told if each is not None]
