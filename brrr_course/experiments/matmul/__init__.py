"""Matrix multiplication on the CPU and the GPU, with transfers and without, and the clock stopped right and wrong.

The question, the sizes and the claims follow the `matmul` part of "GPU Performance: Parallel Processing vs Overhead"
(2024), which timed 2^0 to 2^15 on an A100.
"""

from __future__ import annotations

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import is_queue
from brrr_course.experiments.judging import Curve, minimum, wins_from
from brrr_course.experiments.predicted import alone, product
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_below
from brrr_course.nouns.experiment import Axis, Experiment, Line, PredictedRun, Variant, stand_in
from brrr_course.nouns.source import Evidence

SIZES = tuple(2**k for k in range(16))
ODD_SIZES = (100, 1000, 3000, 6000, 10000)
QUEUE_MAX = 4096
"""The CPU queue stops here: a laptop's CPU would need a second and more a product above."""

FIRST_CALL_SIZES = (1, 1024)


def supports(variant: Variant, point: Point) -> bool:
    """The CPU queue ends at QUEUE_MAX, and the first call is timed at two sizes only; all else exists everywhere."""
    size = int(point["size"])
    if variant.timer == "first-call":
        return size in FIRST_CALL_SIZES
    return not is_queue(variant.device) or size <= QUEUE_MAX


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of the product, the same for every variant."""
    size = int(point["size"])
    return matmul_cost(size, size, size, itemsize=4)


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The product alone."""
    size = int(point["size"])
    return alone(product("mm", size, size, size, 4)) if variant.way in ("cpu", "gpu", "queue") else None


def _curves(evidence: Evidence, *lines: str) -> list[Curve]:
    return [{int(size): e for size, e in evidence.curve(line, "size").items()} for line in lines]


def _wins_only_at_scale(evidence: Evidence) -> Verdict:
    """The GPU with transfers loses at the smallest size and wins from some size on."""
    gpu, cpu = _curves(evidence, "transfers", "cpu")
    size = wins_from(gpu, cpu)
    if size is None:
        return Verdict("fails", "the GPU with transfers beats the CPU at no size and all larger ones")
    if size == min(gpu):
        return Verdict("fails", f"the GPU with transfers wins already at size {size}")
    return Verdict("holds", f"the GPU with transfers wins from size {size} on")


def _cpu_grows(evidence: Evidence) -> Verdict:
    """On the CPU each doubling of the size from 128 on takes at least 4 times as long."""
    (cpu,) = _curves(evidence, "cpu")
    steps = {size: cpu[2 * size] / cpu[size] for size in cpu if size >= 128 and 2 * size in cpu}
    if not steps:
        raise NotRecordedError("no doubling of the size from 128 on was measured")
    text = ", ".join(f"{ratio:x} from {size}" for size, ratio in steps.items())
    return Verdict(not_below(minimum(steps.values()), 4.0), f"a doubling takes {text}")


def _first_call_is_slow(evidence: Evidence) -> Verdict:
    """The very first call, which makes the context, against a later one of the same size."""
    first = evidence.get("first call", size=1)
    later = evidence.get("transfers", size=1)
    text = f"first call {units.seconds(first.median)}, later ones {units.seconds(later.median)}"
    return Verdict(not_below(first / later, 10.0), text)


def _unsynchronized_is_flat(evidence: Evidence) -> Verdict:
    """The largest unsynchronised time over the smallest stays under 3 while the true time grows.

    A size with a single call is left out: the call was issued after a long wait, which is slower than issuing is.
    """
    lie, truth = _curves(evidence, "unsynchronized", "synchronized")
    known = evidence.source.known(evidence.experiment, evidence.experiment.line("unsynchronized").variant)
    single = sorted(int(point[0]) for point, measured in known.items() if "single-call" in measured.flags)
    common = [size for size in lie if size in truth and size not in single]
    if len(common) < 3:
        raise NotRecordedError("fewer than three sizes were measured")
    spread = max(lie[s].median for s in common) / min(lie[s].median for s in common)
    growth = max(truth[s].median for s in common) / min(truth[s].median for s in common)
    text = f"up to size {max(common)} the unsynchronised time spreads {units.ratio(spread)}, the true one "
    text += units.ratio(growth) + "".join(f"; size {size}, called once, is left out" for size in single)
    return Verdict("holds" if spread <= 3 and growth >= 10 else "fails", text)


def _transfers_are_half(evidence: Evidence) -> Verdict:
    """Share of transfers in the total at the source's largest size, 2^15: half, give or take ten points."""
    total = evidence.get("transfers", size=32768)
    compute = evidence.get("synchronized", size=32768)
    share = 1 - compute / total
    return band_verdict(share, 0.45, 0.55, f"transfers take {share.median:.0%} of the total at size 32768")


JUDGES: dict[str, Judge] = {
    "cpu-grows": _cpu_grows,
    "gpu-wins-at-scale": _wins_only_at_scale,
    "first-call-bump": _first_call_is_slow,
    "unsynchronized-flat": _unsynchronized_is_flat,
    "transfers-half": _transfers_are_half,
}

EXPERIMENT = Experiment(
    name="matmul",
    title="Matrix multiplication",
    question="Why does the GPU's time look constant?",
    axes=(
        Axis(
            "size",
            tuple(sorted(SIZES + ODD_SIZES)),
            label="matrix size n (an n x n by n x n product, float32)",
            quick=(64, 256, 512),
        ),
    ),
    variants=(
        Variant("cpu", "CPU", "cpu"),
        Variant("gpu-transfers", "GPU, data sent there and back", "cuda"),
        Variant("gpu-first", "GPU, first call in a fresh process", "cuda", timer="first-call"),
        Variant("gpu", "GPU, data already there", "cuda"),
        Variant("queue", "CPU queue (a CPU queue)", "cpu-queue"),
    ),
    lines=(
        Line("cpu", "cpu", "latency_s", "CPU"),
        Line("transfers", "gpu-transfers", "latency_s", "GPU with transfers"),
        Line("unsynchronized", "gpu", "host_s", "GPU, clock stopped without waiting"),
        Line("synchronized", "gpu", "latency_s", "GPU, clock stopped after synchronize()"),
        Line("first call", "gpu-first", "latency_s", "GPU with transfers, first call", shown=False),
        stand_in("unsynchronized", "queue", "host_s", "CPU queue, clock stopped without waiting"),
        stand_in("synchronized", "queue", "latency_s", "CPU queue, clock stopped after synchronize()"),
    ),
    package=__name__,
    supports=supports,
    judges=JUDGES,
    anchors=({"size": 1024}, {"size": 8192}),
    cost=cost,
    predicts=predicted,
    predict_by_default=False,
)
