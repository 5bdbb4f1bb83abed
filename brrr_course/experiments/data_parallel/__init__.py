"""A training step on two devices, each with half of the samples: gradients are exchanged, and the mean of both counts.

A step is forward and backward pass and the exchange, without the optimizer. `batch` is a device's; one device alone
has both halves, so that `one` over `buckets` is what the second device gains (strong scaling). The MLP uses each weight
once a sample, a transformer block once a token, and the recurrent layer once a step of a sample's sequence.
"""

from typing import NamedTuple

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr_course.experiments.predicted import unpredicted
from brrr_course.experiments.ranks import RANKS, variants_of
from brrr_course.nouns.experiment import Axis, Experiment, Rate, Variant

MLP, BLOCK, RNN = NETWORKS = ("MLP", "transformer block", "recurrent layer")
BATCHES = (2, 8, 32, 128, 512, 2048, 8192)
BUCKETS, DEFAULT = (1, 25, 100, 400), 25
"""Gradients that DDP gathers before it exchanges them, in MiB; the second is DDP's own choice."""
TRACED: Point = {"network": MLP, "batch": 8192, "bucket": DEFAULT}
"""Where the GPUs set the pace, for under the profiler a host is slow."""


class Shape(NamedTuple):
    """Layers, their width, the steps of a sequence (its tokens), and the largest batch."""

    layers: int
    width: int
    steps: int
    most: int

    def weights(self, network: str) -> int:
        """Weights of matrices; biases and norms left out."""
        return self.layers * self.width**2 * {MLP: 1, BLOCK: 12, RNN: 2}[network]


LARGE = {MLP: Shape(8, 4096, 1, 8192), BLOCK: Shape(1, 2048, 512, 128), RNN: Shape(1, 1760, 128, 512)}
SMALL = {MLP: Shape(4, 512, 1, 2048), BLOCK: Shape(1, 256, 64, 8), RNN: Shape(1, 256, 16, 128)}
"""On a GPU in bfloat16, and on a CPU in float32."""


def shape_at(on_gpu: bool, point: Point) -> Shape:
    """The network's shape at a point."""
    return (LARGE if on_gpu else SMALL)[str(point["network"])]


def supports(variant: Variant, point: Point) -> bool:
    """As many samples as a network takes; the size of the buckets is DDP's alone."""
    other = point["bucket"] != DEFAULT and variant.way != "buckets"
    return int(point["batch"]) <= shape_at(variant.on_gpu, point).most and not other


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP of both devices' matrix multiplications, and the bytes of the gradients; the samples have no gradients.

    >>> at = {"network": MLP, "batch": 2048, "bucket": DEFAULT}
    >>> cost(EXPERIMENT.variant("buckets"), at)
    3.16 TFLOP, 268 MB, 11800 FLOP/B
    """
    network, shape = str(point["network"]), shape_at(variant.on_gpu, point)
    weights, tokens = shape.weights(network), RANKS * int(point["batch"]) * shape.steps
    attention = 4 * shape.steps * shape.width * shape.layers if network == BLOCK else 0
    unneeded = 2 * shape.width**2 if network != BLOCK else 0  # whose first matmul has the gradients of a norm behind it
    flop = tokens * (3.0 * (2 * weights + attention) - unneeded)
    return Cost(flop, weights * (2.0 if variant.on_gpu else 4.0))


LABELS = {
    "after": "exchange after the backward pass, one by one", "flat": "exchange after it, all at once",
    "buckets": "exchange overlapped (DDP)", "alone": "no exchange", "one": "one device, all samples",
}  # fmt: skip

EXPERIMENT = Experiment(
    title="A training step on two devices", question="What does exchanging the gradients cost?",
    axes=(
        Axis("network", NETWORKS, label="network", scale="category"),
        Axis("batch", BATCHES, label="batch (samples per device)", quick=(2, 8)),
        Axis("bucket", BUCKETS, label="bucket (MiB)", quick=(DEFAULT,)),
    ),
    variants=variants_of(LABELS),
    field="period_s", package=__name__, predicts=unpredicted, resident=True,
    devices=RANKS, anchors=({"network": MLP, "batch": 2048, "bucket": DEFAULT},),
    traces=tuple((way, TRACED) for way in ("after", "buckets", "alone")),
    rate=Rate("flop", "FLOP/s", "throughput of both"),
)  # fmt: skip
