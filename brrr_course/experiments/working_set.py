"""The same passes over more and more memory: where do the caches end?

A sustained pass goes over its working set again and again within one kernel, so that what it reaches is the rate of the
level of memory that holds the set. A single pass, one torch operator on a hot cache, shows what a program sees: on
small sets the kernel's start and end weigh more than the memory.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Estimate, Measurement, Point
from brrr.counting.cost import Cost
from brrr.gpu import CUDA
from brrr.gpu.datasheet import Hardware
from brrr.gpu.probe import energy_j
from brrr_course.experiments.checked import must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import alone, moving
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Variant, Workload

DENSE = (*(3 * 2**k for k in range(20, 27)), *(n * 2**k for k in range(21, 26) for n in (5, 7)))
NBYTES = tuple(sorted((*(2**k for k in range(16, 33)), *DENSE)))
"""64 KiB to 4 GiB, four times as dense from 8 MiB to 256 MiB, where the L2 caches of GPUs end."""

SUSTAINED_BYTES = 2**28
"""A sustained pass moves so much at least, as in `brrr.roofline.calibrate.gpu_bandwidth`."""

KINDS = {"read": 1, "copy": 2}
WORD, LINES = 16, 64
ENERGY_BYTES, ENERGY_S = (2**23, 2**30), 1.5


def supports(variant: Variant, point: Point) -> bool:
    """Energy is counted within an L2 of 16 MB or more, and beyond it."""
    return variant.timer != "own" or point["nbytes"] in ENERGY_BYTES


def set_bytes(kind: str, nbytes: int) -> int:
    """The working set, cut to whole cache lines in each of the kind's arrays.

    >>> set_bytes("copy", 65536), set_bytes("copy", 70000)
    (65536, 69632)
    """
    arrays = KINDS[kind]
    return arrays * (nbytes // (WORD * arrays) // LINES * LINES) * WORD


def cost(variant: Variant, point: Point) -> Cost:
    """Every array of the set moved once in each pass."""
    kind, nbytes = variant.operation, int(point["nbytes"])
    within = set_bytes(kind, nbytes)
    passes = max(1, -(-SUSTAINED_BYTES // nbytes)) if variant.implementation == "sustained" else 1
    return Cost(0.0, float(within * passes))


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """One torch operator; None for the sustained passes, since it is such passes that bandwidths are measured with."""
    if variant.implementation == "sustained":
        return None
    return alone(moving("copy_", set_bytes(variant.operation, int(point["nbytes"])) // 8, 4))


def bandwidth(hardware: Hardware | None, point: Point) -> float | None:
    """The memory's bandwidth by the datasheet, in B/s, for sets of more than twice the L2: a cache is faster."""
    if hardware is None or hardware.l2_bytes is None or int(point["nbytes"]) < 2 * hardware.l2_bytes:
        return None
    return hardware.memory_bytes_per_s


EXPERIMENT = Experiment(
    title="Working sets",
    question="How fast is memory that fits into a cache?",
    axes=(
        Axis("nbytes", NBYTES, label="working set (bytes that a pass moves)", quick=(2**16, 2**20, 2**24),
             most={"cpu-queue": 2**28}, noun="bytes"),
    ),
    variants=(
        *(Variant(f"sustained-{kind}", f"{kind}, sustained", implementation="sustained", operation=kind,
                  line=kind, needs="CUDA") for kind in KINDS),
        Variant("energy-copy", "copy, a second of it", timer="own", implementation="sustained",
                operation="copy", prepare_s=ENERGY_S, shown=False, needs="CUDA"),
        Variant("once-copy", "copy, one torch operator", implementation="once", operation="copy", line="torch copy"),
        Variant.twin("once-copy", "cpu-queue", "copy, one order", implementation="once", operation="copy",
                     stands_in_for=("torch copy",)),
    ),
    field="busy_s",
    package=__name__,
    anchors=({"nbytes": 2**20}, {"nbytes": 2**30}),
    rate=Rate("bytes", "B/s", "bytes moved a second"),
    guides=(Guide("bandwidth", "the memory's bandwidth", "DATASHEET", "rate", bandwidth),),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `working_set` experiment runs: passes over a set of memory, by our kernels or by one torch operator.

BLOCKS_A_MULTIPROCESSOR = 4
"""Blocks of 512 threads: as many as a multiprocessor holds at once, so that none waits for its turn."""


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's passes over fresh random numbers."""
    how, kind = variant.implementation, variant.operation
    nbytes, device = int(point["nbytes"]), variant.processor
    must_fit(2 * nbytes, device, f"{variant.label} within {nbytes} bytes")
    if how == "sustained":
        return _sustained(variant, point, kind, nbytes)
    # an array of random numbers into one of NaN, which together are the working set
    x = torch.randn(set_bytes(kind, nbytes) // 8, device=device)
    y = torch.full_like(x, math.nan)
    return Workload(lambda: y.copy_(x), lambda found: 0.0 if torch.equal(found, x) else math.nan, 0.0, warm=True)


def _sustained(variant: Variant, point: Point, kind: str, nbytes: int) -> Workload:
    """A kernel of `peaks.cu`; its own check compares every word (WrongResultError), so nothing is left to tolerate."""
    from brrr.roofline.calibrate.gpu_bandwidth import Streams

    streams = Streams(nbytes)
    wanted = BLOCKS_A_MULTIPROCESSOR * torch.cuda.get_device_properties().multi_processor_count
    stream = min(streams.of(kind, nbytes, once=False), key=lambda each: abs(each.blocks - wanted))
    described = cost(variant, point)
    assert stream.moved_bytes == described.bytes, f"{stream.moved_bytes} bytes moved, {described.bytes} counted"

    def error(result: Any) -> float:
        stream.check()
        return 0.0

    told = {"measured": lambda: energy_launched(stream.call)} if variant.timer == "own" else {}
    return Workload(stream.call, error, 0.0, others=told)


# ---- what a call takes of energy: a second of a loop, by the driver's count of joules ----

SETTLE_S, LOOP_S, AHEAD = 0.3, 1.0, 16
"""A loop's energy is counted for so long, after so long; so many calls are launched at once."""


def energy_launched(run: Callable[[], object]) -> Measurement:
    """The time and the power of a call long enough that the host launches the next meanwhile.

    UnavailableError where no joules are counted.
    """
    _loop(run, SETTLE_S)
    joules = energy_j()
    calls, passed = _loop(run, LOOP_S)
    after = energy_j()
    if joules is None or after is None or after <= joules:
        raise UnavailableError("the driver counts no joules here")
    power_w = (after - joules) / passed
    return Measurement(period_s=Estimate.of([passed / (AHEAD * calls)]), power_w=power_w, device=CUDA)


def _loop(run: Callable[[], object], seconds: float) -> tuple[int, float]:
    """How often AHEAD calls were made in so many seconds and a little more, and in how many."""
    began, rounds = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(AHEAD):
            run()
        rounds += 1
        if rounds % 4 == 0:
            torch.cuda.synchronize()  # so that the loop ends in time
    torch.cuda.synchronize()
    return rounds, time.perf_counter() - began
