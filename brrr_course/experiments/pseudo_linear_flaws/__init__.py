"""The benchmark of the pseudo-linear layer as it was first posted, and without each of its three flaws.

A forum thread, "Surprisingly low performance in pseudo-Linear layer", asks why a layer without a matrix product gains
so little. A reader found three things in the benchmark itself: its random data is made inside the function that is
timed; the stand-in adds its input once more; and a ReLU is timed with both layers.
"""

from __future__ import annotations

from collections.abc import Iterator

from brrr.core import units
from brrr.core.measurement import DeviceKind, Estimate, Point
from brrr.counting.cost import Cost
from brrr.gpu import is_queue
from brrr_course.experiments.judging import at, maximum
from brrr_course.experiments.pseudo_linear.theory import ITEMSIZE, linear_cost, pseudo_cost
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_below, opposite
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant, stand_in
from brrr_course.nouns.source import Evidence

POSTED_WIDTH, BATCHES, BATCH = 160, (128, 2048, 32768), 2048
QUEUE_FLOP = 5e9

DATA, STRAY, RELU = "data", "x", "relu"
FLAWS: dict[str, tuple[str, frozenset[str]]] = {
    "posted": ("as posted", frozenset({DATA, STRAY, RELU})),
    "data out": ("data made outside", frozenset({STRAY, RELU})),
    "data and x out": ("and no stray + x", frozenset({RELU})),
    "clean": ("and no ReLU", frozenset()),
    "x out": ("only the stray + x removed", frozenset({DATA, RELU})),
    "relu out": ("only the ReLU removed", frozenset({DATA, STRAY})),
}
"""Each stage of the benchmark, how it reads, and the flaws that it still has: first one after the other, then alone."""

CUMULATIVE = ("posted", "data out", "data and x out", "clean")
ALONE = {"data out": "making the data outside", "x out": "dropping the + x", "relu out": "dropping the ReLU"}


def flaws_of(variant: Variant) -> frozenset[str]:
    """The flaws that a variant's function has; the linear layer never had the stray `+ x`.

    >>> sorted(flaws_of(EXPERIMENT.variant("linear-data-out")))
    ['relu']
    """
    flaws = FLAWS[variant.way][1]
    return flaws - {STRAY} if variant.kind == "linear" else flaws


def supports(variant: Variant, point: Point) -> bool:
    """The CPU queue ends where a laptop's CPU would need a second and more a call."""
    work = linear_cost(int(point["width"]), int(point["batch"]))
    return not is_queue(variant.device) or work.flop <= QUEUE_FLOP


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of all that is timed, each operator on its own: that is how eager code runs."""
    width, batch = int(point["width"]), int(point["batch"])
    flaws, rows = flaws_of(variant), float(batch) * width
    layer = (linear_cost if variant.kind == "linear" else pseudo_cost)(width, batch)
    passes = 2 * (variant.kind == "pseudo") + (DATA in flaws) + 3 * (STRAY in flaws) + 2 * (RELU in flaws)
    return Cost(layer.flop + rows * ((STRAY in flaws) + (RELU in flaws)), layer.bytes + ITEMSIZE * passes * rows)


def _speedup(evidence: Evidence, stage: str, width: int) -> Estimate:
    point = {"width": width, "batch": BATCH}
    return at(evidence, f"linear {stage}", **point) / at(evidence, f"pseudo {stage}", **point)


def _posted_is_negligible(evidence: Evidence) -> Verdict:
    """The speed-up of the 160-wide layer as posted, with its whole interval: from 1/1.2x to 1.2x."""
    ratio = _speedup(evidence, "posted", POSTED_WIDTH)
    return band_verdict(ratio, 1 / 1.2, 1.2, f"as posted, width {POSTED_WIDTH}, batch {BATCH}: {ratio:x}")


def _posted_wide(evidence: Evidence) -> Verdict:
    """The speed-up of the 1024-wide layer as posted: 65.2 s over 21.5 s, within 20 %."""
    ratio = _speedup(evidence, "posted", 1024)
    return band_verdict(ratio, 0.8 * 65.2 / 21.5, 1.2 * 65.2 / 21.5, f"as posted, width 1024, batch {BATCH}: {ratio:x}")


def _each_flaw_hides(evidence: Evidence, stage: str) -> Verdict:
    """The speed-up without one flaw over that as posted, width 1024; the pseudo layer's own gain beside it."""
    point = {"width": 1024, "batch": BATCH}
    times = {name: at(evidence, name, **point) for name in _lines(stage)}
    before = times["linear posted"] / times["pseudo posted"]
    after = times[f"linear {stage}"] / times[f"pseudo {stage}"]
    gain = times["pseudo posted"] / times[f"pseudo {stage}"]
    text = f"{ALONE[stage]}: speed-up from {units.ratio(before.median)} to {units.ratio(after.median)} at width 1024"
    text += f"; the stand-in alone gets {gain:x} as fast"
    return Verdict(not_below(after / before, 1.05), text)


def _lines(stage: str) -> list[str]:
    return [f"{layer} {each}" for layer in ("linear", "pseudo") for each in ("posted", stage)]


def _all_three(evidence: Evidence) -> Verdict:
    """Without all three flaws the speed-up at width 1024 is at least 1.5x the posted one; the stages are listed."""
    ratios = {stage: _speedup(evidence, stage, 1024) for stage in CUMULATIVE}
    steps = ", ".join(f"{FLAWS[stage][0]} {units.ratio(ratio.median)}" for stage, ratio in ratios.items())
    return Verdict(not_below(ratios["clean"] / ratios["posted"], 1.5), f"width 1024: {steps}")


def _still_not_the_width(evidence: Evidence) -> Verdict:
    """Clean, the speed-up is still below a tenth of the width, at the posted width and at 1024."""
    ratios = {width: _speedup(evidence, "clean", width) for width in (POSTED_WIDTH, 1024)}
    text = ", ".join(f"{ratio:x} at width {width}" for width, ratio in ratios.items())
    share = maximum(ratio / width for width, ratio in ratios.items())
    return Verdict(opposite(not_below(share, 0.1)), f"without the flaws: {text}")


JUDGES: dict[str, Judge] = {
    "posted-negligible": _posted_is_negligible,
    "posted-wide": _posted_wide,
    "data-inside": lambda evidence: _each_flaw_hides(evidence, "data out"),
    "stray-x": lambda evidence: _each_flaw_hides(evidence, "x out"),
    "relu-in-both": lambda evidence: _each_flaw_hides(evidence, "relu out"),
    "all-three": _all_three,
    "still-not-the-width": _still_not_the_width,
}


def _variants() -> Iterator[Variant]:
    """Both layers at each stage, on the GPU and on the CPU queue; where Linear has no `+ x`, one does for two."""
    places: tuple[tuple[str, DeviceKind], ...] = ("", "cuda"), ("queue-", "cpu-queue")
    for queue, device in places:
        for layer, title in (("pseudo", "pseudo"), ("linear", "Linear")):
            for stage, (label, _) in FLAWS.items():
                if _own(layer, stage) == stage:
                    name, line = f"{layer}-{stage}".replace(" ", "-"), f"{layer} {stage}"
                    yield Variant(
                        f"{queue}{name}", f"{title}, {label}", device, way=stage, kind=layer,
                        shown=stage in CUMULATIVE and layer == "pseudo", stands_in_for=line if queue else "",
                    )  # fmt: skip


def _own(layer: str, stage: str) -> str:
    """The stage whose function a layer runs: without `+ x` in it, Linear is the same before and after it goes."""
    same = {"data and x out": "data out", "x out": "posted"}
    return same.get(stage, stage) if layer == "linear" else stage


def _shared_lines() -> Iterator[Line]:
    """The lines of Linear's stages that another stage's variant stands for."""
    for make, queue in ((Line, ""), (stand_in, "queue-")):
        for stage, (label, _) in FLAWS.items():
            if (own := _own("linear", stage)) != stage:
                variant = f"{queue}linear-{own.replace(' ', '-')}"
                yield make(f"linear {stage}", variant, "period_s", f"Linear, {label}", shown=False)


EXPERIMENT = Experiment(
    name="pseudo_linear_flaws",
    title="Pseudo-Linear, the benchmark's flaws",
    question="How much of a speed-up can a benchmark hide?",
    axes=(
        Axis("width", (POSTED_WIDTH, 256, 1024, 4096), label="width of the layer", quick=(POSTED_WIDTH, 256, 1024)),
        Axis("batch", BATCHES, label="batch (rows)", quick=(BATCHES[0],)),
    ),
    variants=tuple(_variants()),
    lines=tuple(_shared_lines()),
    field="period_s",
    package=__name__,
    supports=supports,
    cost=cost,
    judges=JUDGES,
    anchors=({"width": 1024, "batch": 2048},),
)
