"""The same product for twenty seconds, back to back and with pauses: how long it takes, at which clock and power.

"Back-to-back runs lose 15 % on a B200" and "the same kernel N times gives N answers" are reports of this. Nothing is
set: the clock, the power and what holds the clock back are read while the products run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from statistics import median
from typing import Any, NamedTuple

from brrr.core.measurement import Estimate, Measurement, Point, Processor
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import is_gpu
from brrr.gpu.probe import power_w, sm_clock_hz, throttle_reasons
from brrr_course.experiments.checked import must_fit, one_thread
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import unpredicted
from brrr_course.nouns.experiment import Axis, Experiment, Variant, Workload
from brrr_course.nouns.source import quick

SECONDS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20)
LONGEST_ON_CPU, QUICK = 5, (0.25, 1)
SIZE = {"cuda": 8192, "cpu": 256}


def cost(variant: Variant, point: Point) -> Cost:
    """One product: bfloat16 on a GPU, float32 on a CPU."""
    n = SIZE["cuda" if variant.on_gpu else "cpu"]
    return matmul_cost(n, n, n, 2 if variant.on_gpu else 4)


EXPERIMENT = Experiment(
    title="Twenty seconds of products",
    question="Does the same matmul take as long after ten seconds as at first?",
    axes=(Axis("seconds", SECONDS, label="seconds since the start", integer=False, quick=QUICK,
               most={"cpu": LONGEST_ON_CPU}, noun="seconds"),),
    variants=(
        Variant("back-to-back", "back to back", timer="own", prepare_s=3.0),
        Variant("paused", "with pauses", timer="own", prepare_s=3.0),
        Variant.twin("back-to-back", "cpu", "CPU: back to back", timer="own"),
        Variant.twin("paused", "cpu", "CPU: with pauses", timer="own"),
    ),
    field="period_s",
    package=__name__,
    needs="CUDA",
    predicts=unpredicted,
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `clocks` experiment runs: one series for all points of a variant.

BATCH, PAUSES, REST_S, WINDOW = 16, 3.0, 2.0, 0.5
"""Products between two events; pauses, of so many batches' time; the rest before a series; a point tells of the time
from this share of its seconds on."""


class Moment(NamedTuple):
    """What was seen of a batch, at so many seconds; of a CPU no more than its time."""

    at_s: float
    call_s: float
    clock_hz: float | None = None
    power_w: float | None = None
    reasons: frozenset[str] = frozenset()


def workload(variant: Variant, point: Point) -> Workload:
    """A point of the variant's series; on a live source it may have been measured a while ago."""
    from brrr.roofline.calibrate.part import product_error

    device, at, rest = variant.processor, float(point["seconds"]), PAUSES * (variant.implementation == "paused")
    until = max(at, QUICK[-1] if quick() else SECONDS[-1] if variant.on_gpu else LONGEST_ON_CPU)
    a, b = operands(device)
    return Workload(lambda: a @ b, product_error(a, b), 1e-2,
                    others={"measured": lambda: seen(series(device, rest, until), at, variant.device)})  # fmt: skip


def operands(device: Processor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two matrices of random numbers."""
    n, dtype = (SIZE["cuda"], torch.bfloat16) if is_gpu(device) else (SIZE["cpu"], torch.float32)
    must_fit(5 * n * n * 4, device, f"clocks {n}")
    return torch.randn(n, n, device=device, dtype=dtype), torch.randn(n, n, device=device, dtype=dtype)


def seen(moments: list[Moment], at_s: float, device: Any) -> Measurement:
    """The median of what was seen in the last part of so many seconds."""
    part = [each for each in moments if WINDOW * at_s <= each.at_s <= at_s] or moments[-1:]
    clock, power = (median(filter(None, each)) if any(each) else None for each in [*zip(*part, strict=True)][2:4])
    capped = any(each.reasons & {"power-cap", "power-brake"} for each in part)
    return Measurement(period_s=Estimate.of([each.call_s for each in part]), sm_clock_hz=clock, power_w=power,
                       flags=("power-capped",) * capped, device=device)  # fmt: skip


@lru_cache(maxsize=4)
@one_thread()
def series(device: Processor, pauses: float, until_s: float) -> list[Moment]:
    """Batches of products for so many seconds; between two of them a pause of so many batches' time, or none at all."""
    (a, b), gpu, found = operands(device), is_gpu(device), list[Moment]()

    def launch() -> Callable[[], object]:
        """A batch; what is returned waits for its end."""
        for _ in range(BATCH):
            torch.mm(a, b)
        end: Any = torch.cuda.Event() if gpu else None
        return (end.record(), end.synchronize)[1] if gpu else lambda: None

    launch()()
    time.sleep(REST_S * gpu)
    began = start = time.perf_counter()
    batch = launch()
    while not found or found[-1].at_s < until_s:
        following = launch() if gpu and not pauses else None  # so that the GPU never waits for what is read here
        batch()
        end = time.perf_counter()
        told = (sm_clock_hz(), power_w(), throttle_reasons()) if gpu else ()
        found.append(Moment(end - began, (end - start) / BATCH, *told))
        time.sleep(pauses * (end - start))
        start = end if following else time.perf_counter()
        batch = following or launch()
    batch()
    return found
