"""What the first call costs, part by part: each part in fresh processes of its own, and the same once more.

The parts, and the claims about them, follow the warm-up section of "GPU Performance: Parallel Processing vs Overhead"
(2024), which saw a long first copy and a long first sine in a profile.
"""

from __future__ import annotations

from brrr.core import units
from brrr.core.measurement import Estimate, Point
from brrr.counting.cost import Cost
from brrr.gpu import is_cpu
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_below, ratio_verdict
from brrr_course.nouns.experiment import Axis, Experiment, Variant
from brrr_course.nouns.source import Evidence

IMPORT = "import torch"
CONTEXT, MEMORY, COPY, KERNEL = "CUDA context", "memory", "copy", "first kernel"
OTHER, STREAM, PINNED, MATMUL, CONVOLUTION = (
    "another kernel",
    "stream",
    "pinned memory",
    "matrix product",
    "convolution",
)
ON_STREAM = "a new stream's first kernel"
PARTS = (IMPORT, CONTEXT, MEMORY, PINNED, COPY, KERNEL, OTHER, STREAM, ON_STREAM, MATMUL, CONVOLUTION)

ON_CUDA = PARTS[1:]
ON_CPU = (IMPORT, MEMORY, KERNEL, MATMUL, CONVOLUTION)
"""What the first call costs without a GPU too: the libraries start their threads, and choose their code."""

ONLY = {"cuda-no-compiler": (KERNEL,), "cuda-eager": (CONTEXT, KERNEL)}
"""Processes with another setting of the driver are asked about what it bears on."""

SINE_CALL = (CONTEXT, MEMORY, COPY, KERNEL)
"""What the first call of the source's sine on a GPU goes through, in this order."""


def supports(variant: Variant, point: Point) -> bool:
    """Which part exists where."""
    here = ON_CPU if is_cpu(variant.device) else ONLY.get(variant.way, ON_CUDA)
    return str(point["part"]) in here


def cost(variant: Variant, point: Point) -> Cost:
    """Nothing that is worth counting: the parts are set-up."""
    return Cost(0.0, 0.0)


# ---- the claims ----


def _context_is_most(evidence: Evidence) -> Verdict:
    """The context's share of what the source's first call goes through, the parts added up."""
    parts = [evidence.get("first", part=part) for part in SINE_CALL]
    context = parts[0]
    total = sum(part.median for part in parts)
    others_low, others_high = (sum(getattr(part, end) for part in parts[1:]) for end in ("low", "high"))
    low, high = context.low / (context.low + others_high), context.high / (context.high + others_low)
    share = Estimate(context.median / total, low, high, context.n)
    return band_verdict(share, 0.5, 1.0, f"the context is {units.percent(share.median, 2)} of {units.seconds(total)}")


def _once_per_process(evidence: Evidence) -> Verdict:
    first, again = evidence.get("first", part=CONTEXT), evidence.get("again", part=CONTEXT)
    return ratio_verdict(first, again, 100.0, "the first time over the second, in one process")


def _first_sine_is_long(evidence: Evidence) -> Verdict:
    first, again = evidence.get("first", part=KERNEL), evidence.get("again", part=KERNEL)
    text = f"first {units.seconds(first.median)}, again {units.seconds(again.median)}"
    return Verdict(not_below(first / again, 10.0), text)


def _compiling_plays_a_part(evidence: Evidence) -> Verdict:
    """With the driver's compiler switched off, the first sine fails if it needs it, and is shorter if it was used."""
    first = evidence.get("first", part=KERNEL)
    without = evidence.get("no compiler", part=KERNEL)
    text = "with the driver's compiler switched off the first sine still works and takes "
    text += f"{units.seconds(without.median)}, against {units.seconds(first.median)} with it"
    return band_verdict(1 - without / first, 0.25, 1.0, text)


def _loading_is_lazy(evidence: Evidence) -> Verdict:
    """All modules loaded with the context: the first sine no longer pays, and the context pays for all."""
    lazy, eager = evidence.get("first", part=KERNEL), evidence.get("eager", part=KERNEL)
    whole = evidence.get("eager", part=CONTEXT)
    verdict = ratio_verdict(lazy, eager, 3.0, "the first sine, loaded when needed over loaded before,")
    return Verdict(verdict.status, f"{verdict.measured}; loading everything takes {units.seconds(whole.median)}")


def _new_stream(evidence: Evidence) -> Verdict:
    """The first sine on a stream just made over the second there; the same sine ran on another stream before."""
    first, again = evidence.get("first", part=ON_STREAM), evidence.get("again", part=ON_STREAM)
    return ratio_verdict(first, again, 1.0, "the first sine on a new stream over the second")


JUDGES: dict[str, Judge] = {
    "new-stream": _new_stream,
    "context-is-most": _context_is_most,
    "once-per-process": _once_per_process,
    "first-sine-long": _first_sine_is_long,
    "compiled-at-first-use": _compiling_plays_a_part,
    "loaded-at-first-use": _loading_is_lazy,
}

EXPERIMENT = Experiment(
    name="first_call",
    title="The first call",
    question="What does the first call pay for, and who pays it again?",
    axes=(
        Axis(
            "part",
            PARTS,
            label="what is done for the first time",
            scale="category",
            quick=(IMPORT, MEMORY, KERNEL, MATMUL, CONVOLUTION),
        ),
    ),
    variants=(
        Variant("cuda-first", "the first time", "cuda", timer="first-call", work="cuda", line="first"),
        Variant("cuda-again", "the second time", "cuda", timer="call-again", work="cuda", line="again"),
        Variant(
            "cuda-no-compiler",
            "the first time, no compiler",
            "cuda",
            timer="first-call",
            line="no compiler",
            shown=False,
        ),
        Variant(
            "cuda-eager", "the first time, all loaded before", "cuda", timer="first-call", line="eager", shown=False
        ),
        Variant("cpu-first", "CPU, the first time", "cpu", timer="first-call", work="cpu"),
        Variant("cpu-again", "CPU, the second time", "cpu", timer="call-again", work="cpu"),
    ),
    field="latency_s",
    package=__name__,
    supports=supports,
    cost=cost,
    judges=JUDGES,
    anchors=({"part": KERNEL},),
)
