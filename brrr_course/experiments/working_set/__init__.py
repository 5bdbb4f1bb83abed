"""The same passes over more and more memory: where do the caches end?

A sustained pass goes over its working set again and again within one kernel, so that what it reaches is the rate of the
level of memory that holds the set. A single pass, one torch operator on a hot cache, shows what a program sees: on
small sets the kernel's start and end weigh more than the memory.
"""

from __future__ import annotations

from math import sqrt

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Point
from brrr.counting.cost import Cost
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.judging import Curve, datasheet
from brrr_course.experiments.predicted import alone, moving
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_below
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Variant
from brrr_course.nouns.source import Evidence

DENSE = (*(3 * 2**k for k in range(20, 27)), *(n * 2**k for k in range(21, 26) for n in (5, 7)))
NBYTES = tuple(sorted((*(2**k for k in range(16, 33)), *DENSE)))
"""64 KiB to 4 GiB, four times as dense from 8 MiB to 256 MiB, where the L2 caches of GPUs end."""

SUSTAINED_BYTES = 2**28
"""A sustained pass moves so much at least, as in `brrr.roofline.calibrate.gpu_bandwidth`."""

QUEUE_MAX = 2**28
KINDS = {"read": 1, "copy": 2, "triad": 3}
WORD, LINES = 16, 64


def supports(variant: Variant, point: Point) -> bool:
    """The CPU queue stops at QUEUE_MAX bytes."""
    return variant.on_gpu or int(point["nbytes"]) <= QUEUE_MAX


def set_bytes(kind: str, nbytes: int) -> int:
    """The working set, cut to whole cache lines in each of the kind's arrays.

    >>> set_bytes("copy", 65536), set_bytes("triad", 65536)
    (65536, 64512)
    """
    arrays = KINDS[kind]
    return arrays * (nbytes // (WORD * arrays) // LINES * LINES) * WORD


def cost(variant: Variant, point: Point) -> Cost:
    """Every array of the set moved once in each pass; a triad also computes."""
    kind, nbytes = variant.kind, int(point["nbytes"])
    within = set_bytes(kind, nbytes)
    passes = max(1, -(-SUSTAINED_BYTES // nbytes)) if variant.way == "sustained" else 1
    flop = 2 * within // (4 * KINDS[kind]) if kind == "triad" else 0
    return Cost(float(flop * passes), float(within * passes))


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


def rates(evidence: Evidence, line: str) -> dict[int, Estimate]:
    """Bytes a second by working set."""
    variant = evidence.experiment.variant(evidence.experiment.line(line).variant)
    times: Curve = {int(size): time for size, time in evidence.curve(line, "nbytes").items()}
    return {size: cost(variant, {"nbytes": size}).bytes / time for size, time in times.items()}


def _levels(evidence: Evidence, line: str = "copy") -> tuple[int, int, dict[int, Estimate]]:
    """The largest set of a quarter of the L2 or less, the largest of 20 times the L2 or more, and all rates."""
    l2, found = datasheet(evidence).l2_bytes, rates(evidence, line)
    if not l2:
        raise NotRecordedError("the datasheet does not tell the size of the L2")
    small = [size for size in found if size <= l2 / 4]
    large = [size for size in found if size >= 20 * l2]
    if not small or not large:
        raise NotRecordedError(f"no set of a quarter of the L2 ({units.nbytes(l2)}) and of 20 times it was measured")
    return max(small), max(large), found


def _l2_is_faster(evidence: Evidence) -> Verdict:
    """A copy within a quarter of the L2 over one of 20 times the L2 or more: at least 1.5x."""
    small, large, found = _levels(evidence)
    a, b = found[small], found[large]
    ratio = a / b
    text = (
        f"a copy within {units.nbytes(small)} runs at {units.rate(a.median, 'B/s')}, within {units.nbytes(large)} at "
    )
    return Verdict(not_below(ratio, 1.5), f"{text}{units.rate(b.median, 'B/s')}: {ratio:x}")


def _cliff_at_the_l2(evidence: Evidence) -> Verdict:
    """Where the rate falls below the geometric mean of both levels, over the L2's size: 0.25 to 1.5."""
    small, large, found = _levels(evidence)
    middle = sqrt(found[small].median * found[large].median)
    below = [size for size in sorted(found) if size > small and found[size].median < middle]
    before = max((size for size in found if size < below[0]), default=small)
    l2 = float(datasheet(evidence).l2_bytes or 0)
    bounds = Estimate(sqrt(before * below[0]) / l2, before / l2, below[0] / l2, 1)
    text = f"the rate falls between {units.nbytes(before)} and {units.nbytes(below[0])}; the L2 has {units.nbytes(l2)}"
    return band_verdict(bounds, 0.25, 1.5, text)


def _memory_near_the_datasheet(evidence: Evidence) -> Verdict:
    """A copy of 20 times the L2 or more over the datasheet's bandwidth: at least 80 %."""
    _, large, found = _levels(evidence)
    reached = found[large] / datasheet(evidence).memory_bytes_per_s
    text = f"a copy within {units.nbytes(large)} reaches {reached:%} of the datasheet's bandwidth"
    return Verdict(not_below(reached, 0.8), text)


def _operators_need_size(evidence: Evidence) -> Verdict:
    """torch's copy of the smallest set over that of the largest, in bytes a second: less than half."""
    found = rates(evidence, "torch copy")
    if len(found) < 3:
        raise NotRecordedError("fewer than three working sets were measured")
    few, many = found[min(found)], found[max(found)]
    text = f"torch's copy moves {units.rate(few.median, 'B/s')} within {units.nbytes(min(found))}, "
    text += f"{units.rate(many.median, 'B/s')} within {units.nbytes(max(found))}"
    return band_verdict(few / many, 0.0, 0.5, text)


JUDGES: dict[str, Judge] = {
    "l2-is-faster": _l2_is_faster,
    "cliff-at-the-l2": _cliff_at_the_l2,
    "memory-near-the-datasheet": _memory_near_the_datasheet,
    "operators-need-size": _operators_need_size,
}

EXPERIMENT = Experiment(
    name="working_set",
    title="Working sets",
    question="How fast is memory that fits into a cache?",
    axes=(
        Axis("nbytes", NBYTES, label="working set (bytes that a pass moves)", quick=(2**16, 2**20, 2**24)),
    ),
    variants=(
        *(Variant(f"sustained-{kind}", f"{kind}, sustained", "cuda", way="sustained", kind=kind, line=kind)
          for kind in KINDS),
        Variant("once-copy", "copy, one torch operator", "cuda", way="once", kind="copy", line="torch copy"),
        Variant("queue-once-copy", "copy, one order", "cpu-queue", way="once", kind="copy", stands_in_for="torch copy"),
    ),
    field="busy_s",
    package=__name__,
    supports=supports,
    cost=cost,
    predicts=predicted,
    judges=JUDGES,
    anchors=({"nbytes": 2**20}, {"nbytes": 2**30}),
    rate=Rate("bytes", "B/s", "bytes moved a second"),
    guides=(
        Guide("bandwidth", "the memory's bandwidth", "DATASHEET", "rate", bandwidth),
    ),
)  # fmt: skip
