"""The benchmark of the pseudo-linear layer as it was first posted, and without each of its three flaws.

A forum thread, "Surprisingly low performance in pseudo-Linear layer", asks why a layer without a matrix product gains
so little. A reader found three things in the benchmark itself: its random data is made inside the function that is
timed; the stand-in adds its input once more; and a ReLU is timed with both layers.
"""

from collections.abc import Iterator

from brrr.core.measurement import DeviceKind, Point
from brrr.counting.cost import Cost
from brrr.gpu import is_queue
from brrr_course.experiments.pseudo_linear.theory import ITEMSIZE, linear_cost, pseudo_cost
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant, stand_in

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
    anchors=({"width": 1024, "batch": 2048},),
)
