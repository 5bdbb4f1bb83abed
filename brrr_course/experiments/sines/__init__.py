"""k sines of each element, one operator after the other or as one kernel: how long does fusion gain what the bytes say?

The chain of "GPU Performance: Parallel Processing vs Overhead" (2024), there of four sines, in other lengths.
"""

from __future__ import annotations

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Point, Value
from brrr.counting.cost import Cost
from brrr_course.experiments.judging import counted, minimum
from brrr_course.experiments.predicted import BANDWIDTH, alone, how_of, kernel, pointwise, run
from brrr_course.nouns.claim import Judge, Verdict, not_above, not_below, weakest
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Variant
from brrr_course.nouns.source import Evidence

ITEMSIZE = 4
LENGTHS = (1, 2, 4, 8, 16, 32)
ELEMENTS = (2**10, 2**20, 2**26)
LARGE, CPU_MAX = 2**26, 2**20
FUSED = ("script", "compile", "cuda")


def supports(variant: Variant, point: Point) -> bool:
    """The CPU stops at CPU_MAX elements."""
    return variant.on_gpu or int(point["elements"]) <= CPU_MAX


def cost(variant: Variant, point: Point) -> Cost:
    """A sine counts one FLOP; each element is read and written once, by k operators k times (`eager_bytes`).

    >>> cost(EXPERIMENT.variant("eager"), {"sines": 4, "elements": 1000}).eager_bytes
    32000.0
    """
    sines, once = int(point["sines"]), 2.0 * ITEMSIZE * int(point["elements"])
    return Cost(sines * once / (2 * ITEMSIZE), once, eager_bytes=sines * once if variant.way == "eager" else once)


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """k operators, or one kernel made of them."""
    sines, n = int(point["sines"]), int(point["elements"])
    nbytes = float(ITEMSIZE * n)
    if variant.way == "eager":
        return run((pointwise("sin", n, ITEMSIZE),) * sines, 2 * nbytes, (3 if sines > 1 else 2) * nbytes)
    return alone(kernel(["sin"] * sines, sines * n, nbytes, nbytes), how_of(variant.way))


def _gain(evidence: Evidence, fused: str, sines: int) -> Estimate:
    """Eager over a fused way at the largest size."""
    point: dict[str, Value] = {"sines": sines, "elements": LARGE}
    return evidence.get("eager", **point) / evidence.get(fused, **point)


def _half(evidence: Evidence) -> Verdict:
    """torch.jit.script saves 40 % to 50 % of the time of four sines."""
    gain = _gain(evidence, "script", 4)
    saved = 1 - 1 / gain
    text = f"torch.jit.script saves {units.percent(saved.median, 2)} at {counted(LARGE)}: {gain:x}"
    return Verdict(weakest((not_below(saved, 0.4), not_above(saved, 0.5))), text)


def _grows(evidence: Evidence) -> Verdict:
    """Each doubling of the length, up to eight, raises the best gain by a tenth or more."""
    gains = {}
    for sines in (1, 2, 4, 8):
        found = []
        for fused in FUSED:
            try:
                found.append(_gain(evidence, fused, sines))
            except NotRecordedError:
                continue
        if not found:
            raise NotRecordedError(f"{sines} sines were not measured fused and as operators at {counted(LARGE)}")
        gains[sines] = max(found)
    text = ", ".join(f"{units.ratio(gain.median)} at {sines} (predicted {sines}x)" for sines, gain in gains.items())
    pairs = list(zip(list(gains.values())[:-1], list(gains.values())[1:], strict=True))
    return Verdict(not_below(minimum(after / before for before, after in pairs), 1.1), text)


def _saturates(evidence: Evidence) -> Verdict:
    """32 sines as one kernel gain less than half of 32."""
    gain = max(_gain(evidence, fused, LENGTHS[-1]) for fused in ("compile", "cuda"))
    text = f"{gain:x} at {LENGTHS[-1]} sines of {counted(LARGE)}; the bytes alone say {LENGTHS[-1]}x"
    return Verdict(not_above(gain, LENGTHS[-1] / 2), text)


JUDGES: dict[str, Judge] = {
    "half-by-script": _half,
    "longer-gains-more": _grows,
    "until-arithmetic": _saturates,
}


EXPERIMENT = Experiment(
    name="sines",
    title="A chain of sines",
    question="How long does fusion gain what the bytes say?",
    axes=(
        Axis("sines", LENGTHS, label="sines, one after the other", quick=(1, 4, 32)),
        Axis("elements", ELEMENTS, label="elements", quick=(2**10, 2**20)),
    ),
    variants=(
        Variant("eager", "one operator each", "cuda"),
        Variant("script", "fused, torch.jit.script", "cuda"),
        Variant("compile", "fused, torch.compile", "cuda"),
        Variant("cuda", "fused, a line of CUDA C++", "cuda"),
        Variant("cpu-eager", "CPU, one operator each", "cpu", way="eager"),
        Variant("cpu-blocks", "CPU, a block at a time", "cpu", way="blocks"),
    ),
    field="busy_s",
    package=__name__,
    supports=supports,
    cost=cost,
    predicts=predicted,
    judges=JUDGES,
    anchors=({"sines": 4, "elements": LARGE},),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(BANDWIDTH,),
)  # fmt: skip
