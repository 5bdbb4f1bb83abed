"""One collective operation between two devices: how long it takes for so many bytes, and at what bandwidth.

The bytes are those of the whole buffer: of each rank's in an all-reduce, of what all-gather makes and reduce-scatter
takes, of the message. The bus bandwidth counts what must cross the link in one direction, so that it can be held
against the link's: 2 (n-1)/n of an all-reduce's bytes, (n-1)/n of an all-gather's, all of a message's
(NVIDIA/nccl-tests, doc/PERFORMANCE.md).
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.roofline.communication import BUS
from brrr_course.experiments.predicted import unpredicted
from brrr_course.experiments.ranks import RANKS, variants_of
from brrr_course.nouns.experiment import Axis, Experiment, Rate, Variant

SIZES = tuple(2**power for power in range(3, 31))
MOST_ON_CPU = 2**26
LABELS = {"all-reduce": "all-reduce", "all-gather": "all-gather", "reduce-scatter": "reduce-scatter",
          "send": "send and receive"}  # fmt: skip


def supports(variant: Variant, point: Point) -> bool:
    """A CPU's processes stop at 64 MiB."""
    return variant.on_gpu or int(point["nbytes"]) <= MOST_ON_CPU


def cost(variant: Variant, point: Point) -> Cost:
    """The bytes that cross the link.

    >>> [cost(EXPERIMENT.variant(way), {"nbytes": 1024}).bytes for way in ("all-reduce", "all-gather", "send")]
    [1024.0, 512.0, 1024.0]
    """
    return Cost(0.0, BUS[variant.way](RANKS) * int(point["nbytes"]))


EXPERIMENT = Experiment(
    title="A collective operation between two devices",
    question="What does it cost to exchange data between two GPUs?",
    axes=(Axis("nbytes", SIZES, label="bytes", quick=(2**3, 2**10, 2**20)),),
    variants=variants_of(LABELS),
    field="period_s", package=__name__, predicts=unpredicted, resident=True,
    devices=RANKS, anchors=({"nbytes": 8}, {"nbytes": 2**28}),
    rate=Rate("bytes", "B/s", "bus bandwidth"),
)  # fmt: skip
