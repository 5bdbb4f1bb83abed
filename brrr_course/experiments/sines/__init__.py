"""k sines of each element, one operator after the other or as one kernel: how long does fusion gain what the bytes say?

The chain of "GPU Performance: Parallel Processing vs Overhead" (2024), there of four sines, in other lengths.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr_course.experiments.predicted import BANDWIDTH, alone, how_of, kernel, pointwise, run
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Variant

ITEMSIZE = 4
LENGTHS = (1, 2, 4, 8, 16, 32)
ELEMENTS = (2**10, 2**20, 2**26)
LARGE, CPU_MAX = 2**26, 2**20


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


EXPERIMENT = Experiment(
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
    on_cpu={"eager": "cpu eager", **dict.fromkeys(("script", "compile", "cuda"), "cpu blocks")},
    anchors=({"sines": 4, "elements": LARGE},),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(BANDWIDTH,),
)  # fmt: skip
