"""Strassen's algorithm, level by level, over every kind of inner product: can a product be faster than the peak?

A square product, time and error of each way beside each other: without tensor cores, with them in short types, and with
them in float32's accuracy; each with up to three levels of Strassen's or Winograd's form outside.
"""

from brrr.core.measurement import Point
from brrr.strassen.ways import Way
from brrr_course.experiments.strassen import ways
from brrr_course.nouns.experiment import Axis, Experiment, Guide, Rate, Variant

SMALL = (128, 256)
"""Sizes for a CPU only."""

SIZES = (512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
OFF_GRID = (1537, 4097, 5000)
"""An odd size, one that just misses a power of two, one that levels do not divide."""

CPU_LARGEST = 1024
BETWEEN = (3072, 6144, 12288)
CLAIMED = (2048, 4096, 8192, 16384)
"""Sizes that sentences are about: every way is measured there."""

SMALLEST = (512, 512, 1024, 2048)
"""From which size on so many levels are measured: they need blocks of 256 at least."""

SHORT_SMALLEST = (512, 512, 1024, 8192)
"""The same for short types, whose products are fast: three levels of them lose on anything smaller."""

WINOGRAD_LARGEST = 8192
"""Winograd's form shows its speed and its error up to here."""

SETTLE_FROM, SETTLE_S = 2048, 0.1
"""From this size on a product of tensor cores may pull the clock down: so long each way runs before it is measured."""

MEMORY_BYTES = 60e9
"""A way that needs more beside its operands is left out: its buffers share the card with the other ways' inputs."""


def supports(variant: Variant, point: Point) -> bool:
    """Which way is measured at which size."""
    n = int(point["size"])
    if not variant.on_gpu:
        return n <= CPU_LARGEST
    if n in SMALL:
        return False
    if accuracy := ways.accuracy(variant):
        return n not in BETWEEN and (n not in OFF_GRID or accuracy != "tf32")
    way = ways.way(variant)
    return n in CLAIMED if way is None else _on_gpu(way, n)


def settle_s(point: Point) -> float:
    """How long a way runs unmeasured before its samples: the way before it left a clock of its own.

    >>> settle_s({"size": 1537}), settle_s({"size": 2048})
    (0.0, 0.1)
    """
    return SETTLE_S if int(point["size"]) >= SETTLE_FROM else 0.0


def _on_gpu(way: Way, n: int) -> bool:
    smallest = SMALLEST if way.kind.exact_sums else SHORT_SMALLEST
    if n < smallest[way.level] or ways.workspace_bytes(way, n) > MEMORY_BYTES:
        return False
    if way.form == "winograd":
        return n <= WINOGRAD_LARGEST and n not in (*OFF_GRID, *BETWEEN)
    if n in OFF_GRID:  # how blocks that overhang are handled
        return way.inner in ("sgemm", "bf16", "fp16x3")
    if n in BETWEEN:  # each level once; of SGEMM in every way
        return way.inner == "sgemm" or way.prepared or not way.level
    return True


EXACT = tuple(ways.line_name(way.name) for way in ways.MEASURED if way.kind.exact_sums)
CLASSICAL = ("sgemm",)
"""What the peak bounds: a way with levels may have an effective rate above it."""

EXPERIMENT = Experiment(
    title="Strassen's algorithm",
    question="Can a product of matrices be faster than the hardware's peak?",
    axes=(
        Axis(
            "size",
            tuple(sorted((*SMALL, *SIZES, *OFF_GRID))),
            label=f"matrix size n (an n × n by n × n product; single markers: {', '.join(map(str, OFF_GRID))})",
            quick=(128, 512, 1024),
            alone=OFF_GRID,
        ),
    ),
    variants=ways.VARIANTS,
    field="span_s",
    package=__name__,
    cost=ways.cost,
    on_cpu={(gpu := ways.line_name(way.name)): f"cpu {gpu}" for way in ways.ON_CPU if way.form != "winograd"},
    predicts=ways.predicted,
    anchors=({"size": 4096},),
    rate=Rate("flop", "FLOP/s", "effective rate, 2n^3 over the time"),
    guides=(
        Guide("fp32 peak", "fp32 peak without tensor cores", "DATASHEET", "rate", ways.fp32_peak, CLASSICAL),
        Guide("three levels", "the peak times (8/7)^3", "PREDICTED", "rate", ways.fp32_bound, EXACT),
    ),
)
