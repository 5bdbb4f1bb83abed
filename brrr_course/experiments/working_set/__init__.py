"""The same passes over more and more memory: where do the caches end?

A sustained pass goes over its working set again and again within one kernel, so that what it reaches is the rate of the
level of memory that holds the set. A single pass, one torch operator on a hot cache, shows what a program sees: on
small sets the kernel's start and end weigh more than the memory.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.predicted import alone, moving
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Variant

DENSE = (*(3 * 2**k for k in range(20, 27)), *(n * 2**k for k in range(21, 26) for n in (5, 7)))
NBYTES = tuple(sorted((*(2**k for k in range(16, 33)), *DENSE)))
"""64 KiB to 4 GiB, four times as dense from 8 MiB to 256 MiB, where the L2 caches of GPUs end."""

SUSTAINED_BYTES = 2**28
"""A sustained pass moves so much at least, as in `brrr.roofline.calibrate.gpu_bandwidth`."""

QUEUE_MAX = 2**28
KINDS = {"read": 1, "copy": 2}
WORD, LINES = 16, 64
ENERGY_BYTES, ENERGY_S = (2**23, 2**30), 1.5


def supports(variant: Variant, point: Point) -> bool:
    """The CPU queue stops at QUEUE_MAX bytes; energy is counted within an L2 of 16 MB or more, and beyond it."""
    if variant.timer == "own":
        return int(point["nbytes"]) in ENERGY_BYTES
    return variant.on_gpu or int(point["nbytes"]) <= QUEUE_MAX


def set_bytes(kind: str, nbytes: int) -> int:
    """The working set, cut to whole cache lines in each of the kind's arrays.

    >>> set_bytes("copy", 65536), set_bytes("copy", 70000)
    (65536, 69632)
    """
    arrays = KINDS[kind]
    return arrays * (nbytes // (WORD * arrays) // LINES * LINES) * WORD


def cost(variant: Variant, point: Point) -> Cost:
    """Every array of the set moved once in each pass."""
    kind, nbytes = variant.kind, int(point["nbytes"])
    within = set_bytes(kind, nbytes)
    passes = max(1, -(-SUSTAINED_BYTES // nbytes)) if variant.way == "sustained" else 1
    return Cost(0.0, float(within * passes))


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """One torch operator; None for the sustained passes, since it is such passes that bandwidths are measured with."""
    if variant.way == "sustained":
        return None
    return alone(moving("copy_", set_bytes(variant.kind, int(point["nbytes"])) // 8, 4))


def bandwidth(hardware: Hardware | None, point: Point) -> float | None:
    """The memory's bandwidth by the datasheet, in B/s, for sets of more than twice the L2: a cache is faster."""
    if hardware is None or hardware.l2_bytes is None or int(point["nbytes"]) < 2 * hardware.l2_bytes:
        return None
    return hardware.memory_bytes_per_s


EXPERIMENT = Experiment(
    title="Working sets",
    question="How fast is memory that fits into a cache?",
    axes=(
        Axis("nbytes", NBYTES, label="working set (bytes that a pass moves)", quick=(2**16, 2**20, 2**24)),
    ),
    variants=(
        *(Variant(f"sustained-{kind}", f"{kind}, sustained", "cuda", way="sustained", kind=kind, line=kind)
          for kind in KINDS),
        Variant("energy-copy", "copy, a second of it", "cuda", timer="own", way="sustained", kind="copy",
                prepare_s=ENERGY_S, shown=False),
        Variant("once-copy", "copy, one torch operator", "cuda", way="once", kind="copy", line="torch copy"),
        Variant("queue-once-copy", "copy, one order", "cpu-queue", way="once", kind="copy", stands_in_for="torch copy"),
    ),
    field="busy_s",
    package=__name__,
    anchors=({"nbytes": 2**20}, {"nbytes": 2**30}),
    rate=Rate("bytes", "B/s", "bytes moved a second"),
    guides=(
        Guide("bandwidth", "the memory's bandwidth", "DATASHEET", "rate", bandwidth),
    ),
)  # fmt: skip
