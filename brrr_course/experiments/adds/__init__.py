"""Additions a second: Python, NumPy and torch, from one pair of numbers to millions; beside them what a GPU could do.

The question and the claims follow the section "Overhead" of "Making Deep Learning Go Brrrr From First Principles",
which counted the additions a second of Python and of torch and held an A100's peak against them. Here each call makes
100 additions in a Python loop (fewer of large tensors), and the loop's own cost is part of each addition, as it was
there.
"""

from __future__ import annotations

from brrr.core import units
from brrr.core.measurement import Estimate, Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import is_queue
from brrr_course.experiments.predicted import alone, pointwise, product, run
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_below, ratio_verdict
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Variant
from brrr_course.nouns.source import Evidence

ELEMENTS = (1, 16, 256, 4096, 65536, 2**20, 2**23, 2**26)
MOST_ADDITIONS = 100
MOST_ELEMENTS = 2**20
"""A call makes so many additions in a loop, fewer where that would be more than so many elements."""

PEAK_SIZE = 8192
ITEMSIZE = 4


def additions(elements: int) -> int:
    """How many additions, one after the other, a call makes: the same for all variants of a point.

    >>> additions(1), additions(65536), additions(2**26)
    (100, 16, 1)
    """
    return max(1, min(MOST_ADDITIONS, MOST_ELEMENTS // elements))


def is_peak(variant: Variant) -> bool:
    """Whether the variant is no addition, but a product that shows what the device can do."""
    return variant.kind == "peak"


def supports(variant: Variant, point: Point) -> bool:
    """Single numbers and the device's peak stand at one element only; the CPU queue stops early."""
    elements = int(point["elements"])
    if variant.way == "python" or is_peak(variant):
        return elements == 1
    return not is_queue(variant.device) or elements <= MOST_ELEMENTS


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a call: its additions together, or the product."""
    if is_peak(variant):
        return matmul_cost(PEAK_SIZE, PEAK_SIZE, PEAK_SIZE, 2 if variant.way == "bf16" else ITEMSIZE)
    elements = int(point["elements"])
    flop = float(additions(elements) * elements)
    return Cost(flop, 3 * ITEMSIZE * flop)


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """torch's additions of a call one after the other, and the products that show the device's peak."""
    if is_peak(variant):
        size, dtype = (2, "bfloat16") if variant.way == "bf16" else (4, "float32")
        return alone(product("mm", PEAK_SIZE, PEAK_SIZE, PEAK_SIZE, size, dtype))
    if variant.way != "torch":
        return None
    elements = int(point["elements"])
    add = pointwise("add", elements, ITEMSIZE, reads=2 * elements)
    return run((add,) * additions(elements), add.bytes, add.bytes)


def _rate(evidence: Evidence, line: str, elements: int = 1) -> Estimate:
    """Additions (of a product: FLOP) a second of a line."""
    time = evidence.get(line, elements=elements)
    found = evidence.experiment.cost_at(evidence.experiment.line(line).variant, {"elements": elements})
    assert found is not None
    return found.flop / time


def _a_second(rate: Estimate) -> str:
    return units.quantity(rate.median, "/s")


def _torch_is_slower(evidence: Evidence) -> Verdict:
    """One addition by torch on the CPU against one by Python: both have the same processor."""
    return ratio_verdict(
        evidence.get("torch cpu", elements=1), evidence.get("python", elements=1), 10.0, "torch over Python"
    )


def _all_but_the_addition(evidence: Evidence) -> Verdict:
    """Of torch's time for one addition on the CPU, all but what an element takes in a large array: at least half."""
    one, many = evidence.get("torch cpu", elements=1), evidence.get("torch cpu", elements=65536)
    share = 1 - many / 65536 / one
    return Verdict(not_below(share, 0.5), f"{share:%} of {units.seconds(one.median)}")


def _hundredfold(evidence: Evidence) -> Verdict:
    """The source's two figures, 32 million and 280 thousand, are 114 apart: within 20 %."""
    python, torch = _rate(evidence, "python"), _rate(evidence, "torch cpu")
    text = f"Python makes {_a_second(python)}, torch {_a_second(torch)}: {units.ratio(python.median / torch.median)}"
    return band_verdict(python / torch, 0.8 * 114, 1.2 * 114, text)


def _millions(evidence: Evidence) -> Verdict:
    """FLOP of the GPU's matrix units, as measured, in the time of one Python addition of the run: 9.75 million."""
    addition_s = evidence.get("python", elements=1) / additions(1)
    text = f"one Python addition takes {units.seconds(addition_s.median)}; in that time "
    matrix, single = (_rate(evidence, line) for line in ("peak bf16", "peak fp32"))
    text += f"the GPU does {_flop(matrix, addition_s)} in a bf16 product, {_flop(single, addition_s)} in an fp32 one"
    adding = _rate(evidence, "torch cuda", elements=ELEMENTS[-1])
    text += f" and {_flop(adding, addition_s)} in an addition of {ELEMENTS[-1]} elements"
    return band_verdict(matrix * addition_s, 0.8 * 9.75e6, 1.2 * 9.75e6, text)


def _flop(rate: Estimate, seconds: Estimate) -> str:
    return units.flop(rate.median * seconds.median, 2)


def _large_pays(evidence: Evidence) -> Verdict:
    """Additions a second of torch at the largest size over those at one element, on the GPU where there is one."""
    device = _first(evidence, "torch cuda", "torch cpu")
    sizes = [int(size) for size in evidence.curve(device, "elements")]
    small, large = _rate(evidence, device, 1), _rate(evidence, device, max(sizes))
    found = large / small
    text = f"{device}: {_a_second(small)} at one element, {_a_second(large)} at {max(sizes)}: "
    return Verdict(not_below(found, 100.0), f"{text}{units.ratio(found.median)}")


def _first(evidence: Evidence, *lines: str) -> str:
    """The first line that the source has a variant of."""
    here = evidence.source.variants(evidence.experiment)
    return next((line for line in lines if evidence.experiment.line(line).variant in here), lines[-1])


JUDGES: dict[str, Judge] = {
    "all-but-the-addition": _all_but_the_addition,
    "torch-slower": _torch_is_slower,
    "hundredfold": _hundredfold,
    "gpu-millions": _millions,
    "large-pays": _large_pays,
}

EXPERIMENT = Experiment(
    name="adds",
    title="Additions a second",
    question="How many additions does each make in a second?",
    axes=(Axis("elements", ELEMENTS, label="elements in one addition (float32)", quick=(1, 4096, 2**20)),),
    variants=(
        Variant("python", "Python", "cpu"),
        Variant("peak-bf16", "GPU, bf16 product 8192", "cuda", way="bf16", kind="peak", shown=False),
        Variant("numpy", "NumPy, two arrays", "cpu", line="numpy array"),
        Variant("torch-cpu", "torch, on the CPU", "cpu", way="torch"),
        Variant("torch-cuda", "torch, on the GPU", "cuda", way="torch"),
        Variant("queue", "torch, on the CPU queue", "cpu-queue", way="torch", stands_in_for="torch cuda"),
        Variant("peak-fp32", "GPU, fp32 product 8192", "cuda", way="fp32", kind="peak", shown=False),
    ),
    field="period_s",
    package=__name__,
    supports=supports,
    cost=cost,
    predicts=predicted,
    predict_by_default=False,
    judges=JUDGES,
    anchors=({"elements": 1},),
    rate=Rate("flop", "/s", "additions a second"),
)
