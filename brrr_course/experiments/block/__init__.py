"""A transformer block: which share of a step is overhead, memory, compute and latency, and which operators take it?

The shares of FLOP and of time by class of operator follow "Making Deep Learning Go Brrrr From First Principles", which
measured them on BERT. A step is taken apart by `brrr.diagnose`. As a CUDA Graph the same kernels run without the host.

Counted as `brrr.cost` does, of T tokens of width w in sequences of L, going forward: the four products 24 T w^2 and
their biases 9 T w, attention 4 T L w, two layer norms 7 T w each, GELU 5 for each of 4 T w, two additions T w. Going
back: the products twice as many, attention 2.5 times, the norms 9 T w each, GELU 11 for each, one addition T w.
"""

from brrr.core.measurement import Point, Value
from brrr.counting.cost import Cost
from brrr_course.experiments.limits import LIMITS, limit_variants
from brrr_course.nouns.experiment import Axis, Experiment, Rate, Variant

LENGTH, HEAD = 512, 64
"""Tokens of a sequence, and the width of a head."""
FORWARD, TRAINING, GRAPH = "forward", "training", "as a graph"
STEPS = (FORWARD, f"{FORWARD}, {GRAPH}", TRAINING, f"{TRAINING}, {GRAPH}")
WIDTHS, BATCHES = (256, 512, 1024, 2048, 4096), (1, 2, 4, 8, 16, 32, 64)
CLASSES = ("products", "attention", "norms", "pointwise", "other")
AS_BERT: dict[str, Value] = {"step": TRAINING, "width": 1024, "batch": 16}
"""The width of the source's model."""


def flop(name: str, point: Point) -> float:
    """FLOP of a class of operators in one step.

    >>> flop("norms", {"step": "training", "width": 1024, "batch": 1}) / 512 / 1024
    32.0
    """
    width, tokens = int(point["width"]), LENGTH * int(point["batch"])
    numbers, training = float(tokens * width), str(point["step"]).startswith(TRAINING)
    forth, back = {
        "products": (24.0 * width + 9.0, 48.0 * width),
        "attention": (4.0 * LENGTH, 10.0 * LENGTH),
        "norms": (14.0, 18.0),
        "pointwise": (22.0, 45.0),
        "other": (0.0, 9.0),
    }[name]
    return numbers * (forth + training * back)


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP of a class, or of all; bytes of the weights and of the tokens, once. Of a part only a diagnosis tells."""
    if variant.way in LIMITS:
        return Cost(0.0, 0.0)
    width, numbers = int(point["width"]), LENGTH * int(point["batch"]) * int(point["width"])
    counted = [variant.way] if variant.way in CLASSES else CLASSES
    return Cost(sum(flop(name, point) for name in counted), 2.0 * (12 * width**2 + 2 * numbers))


def supports(variant: Variant, point: Point) -> bool:
    """Classes of operators are seen in steps that the host issues one by one."""
    return variant.way not in CLASSES or GRAPH not in str(point["step"])


EXPERIMENT = Experiment(
    title="A transformer block's regimes",
    question="Which share of a step is overhead, memory, compute and latency?",
    axes=(
        Axis("step", STEPS, label="step", scale="category", quick=(FORWARD,)),
        Axis("width", WIDTHS, label="width", quick=(256, 1024)),
        Axis("batch", BATCHES, label=f"sequences of {LENGTH} tokens", quick=(1, 8)),
    ),
    variants=(
        *limit_variants(),
        Variant("step", "the whole step", "cuda", timer="own", field="period_s"),
        *(Variant(name, name.replace("products", "matmuls"), "cuda", timer="own", shown=False) for name in CLASSES),
    ),
    field="busy_s",
    package=__name__,
    anchors=(AS_BERT,),
    rate=Rate("flop", "FLOP/s", "throughput"),
)
