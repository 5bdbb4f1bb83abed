"""A training step on two devices, each with half of the samples: gradients are exchanged, and the mean of both counts.

A step is forward and backward pass and the exchange, without the optimizer. `batch` is a device's; one device alone
has both halves, so that `one` over `buckets` is what the second device gains (strong scaling). The MLP uses each weight
once a sample, a transformer block once a token, and the recurrent layer once a step of a sample's sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import NamedTuple

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_gpu
from brrr_course.experiments.checked import relative
from brrr_course.experiments.lazily import dist, nn, torch
from brrr_course.experiments.predicted import unpredicted
from brrr_course.experiments.ranks import IDLE, RANKS, Rank, RankCall, ranked, variants_of
from brrr_course.nouns.experiment import Axis, Experiment, Rate, Variant, Workload

MLP, BLOCK, RNN = NETWORKS = ("MLP", "transformer block", "recurrent layer")
BATCHES = (2, 8, 32, 128, 512, 2048, 8192)
BUCKETS, DEFAULT = (1, 25, 100, 400), 25
"""Gradients that DDP gathers before it exchanges them, in MiB; the second is DDP's own choice."""
TRACED: Point = {"network": MLP, "batch": 8192, "bucket": DEFAULT}
"""Where the GPUs set the pace, for under the profiler a host is slow."""


class ModelShape(NamedTuple):
    """Layers, their width, the steps of a sequence (its tokens), and the largest batch."""

    layers: int
    width: int
    steps: int
    most: int

    def weights(self, network: str) -> int:
        """Weights of matrices; biases and norms left out."""
        return self.layers * self.width**2 * {MLP: 1, BLOCK: 12, RNN: 2}[network]


LARGE = {MLP: ModelShape(8, 4096, 1, 8192), BLOCK: ModelShape(1, 2048, 512, 128), RNN: ModelShape(1, 1760, 128, 512)}
SMALL = {MLP: ModelShape(4, 512, 1, 2048), BLOCK: ModelShape(1, 256, 64, 8), RNN: ModelShape(1, 256, 16, 128)}
"""On a GPU in bfloat16, and on a CPU in float32."""


def shape_at(on_gpu: bool, point: Point) -> ModelShape:
    """The network's shape at a point."""
    return (LARGE if on_gpu else SMALL)[str(point["network"])]


def supports(variant: Variant, point: Point) -> bool:
    """As many samples as a network takes; the size of the buckets is DDP's alone."""
    other = point["bucket"] != DEFAULT and variant.implementation != "buckets"
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
        Axis("bucket", BUCKETS, label="bucket (MiB)", quick=(DEFAULT,), noun="MiB buckets"),
    ),
    variants=variants_of(LABELS),
    package=__name__, predicts=unpredicted, resident=True,
    devices=RANKS, anchors=({"network": MLP, "batch": 2048, "bucket": DEFAULT},),
    traces=tuple((way, TRACED) for way in ("after", "buckets", "alone")),
    rate=Rate("flop", "FLOP/s", "throughput of both"),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `data_parallel` experiment runs in each rank: a step of the same network on this rank's samples.

TOLERANCE = 0.12
"""bfloat16's gradients behind eight layers are 10 % off; of the slips that tests know, the mildest gives 24 %."""
HEAD = 128


def workload(variant: Variant, point: Point) -> Workload:
    """One step, made by all ranks, or by the first alone."""
    return ranked(EXPERIMENT, variant, point, prepare, TOLERANCE)


def network(name: str, shape: ModelShape) -> nn.Module:
    """The network, with its weights drawn anew."""
    layers, width = shape.layers, shape.width
    if name == RNN:
        return nn.RNN(width, width, layers, batch_first=True)
    if name == MLP:
        linear = [nn.Linear(width, width) for _ in range(layers)]
        for each in linear:
            nn.init.kaiming_normal_(each.weight)  # all layers' gradients are alike, so that each counts in the check
        return nn.Sequential(*(part for each in linear for part in (each, nn.ReLU())))
    return nn.TransformerEncoderLayer(width, width // HEAD, 4 * width, 0.0, batch_first=True, norm_first=True)


def prepare(rank: Rank, point: Point) -> Mapping[str, RankCall]:
    """The ways of a step on this rank: all ranks draw the same network and all samples, and each takes its share."""
    from torch.nn.parallel import DistributedDataParallel

    gpu, batch = is_gpu(rank.processor), int(point["batch"])
    shape, dtype = shape_at(gpu, point), torch.bfloat16 if gpu else torch.float32
    torch.manual_seed(1)
    plain = network(str(point["network"]), shape).to(rank.device, dtype)
    sizes = (rank.count * batch, shape.width) if shape.steps == 1 else (rank.count * batch, shape.steps, shape.width)
    inputs, slopes = (torch.randn(sizes, device=rank.device, dtype=dtype) for _ in range(2))
    mine, whole = slice(rank.number * batch, (rank.number + 1) * batch), slice(None)
    copied = deepcopy(plain).to(rank.device)  # `to` lays a recurrent layer's weights side by side again, for cuDNN
    ddp = DistributedDataParallel(copied, [rank.number] if gpu else None, bucket_cap_mb=int(point["bucket"]))

    def step(module: nn.Module, part: slice, exchange: Callable[[list[torch.Tensor]], None] | None = None) -> nn.Module:
        """Forward and backward pass: the gradient of the outputs' sum, each weighted by its slope, over the batch."""
        module.zero_grad()
        wide = next(module.parameters()).dtype
        found = module(inputs[part].to(wide))
        found = found[0] if isinstance(found, tuple) else found
        found.backward(slopes[part].to(wide) / len(found))
        if exchange:
            exchange([each.grad for each in module.parameters() if each.grad is not None])
        return module

    def error(module: nn.Module, part: slice) -> float:
        """Of all gradients, against the same samples in twice the bits."""
        wide = step(deepcopy(plain).to(dtype=torch.float32 if gpu else torch.float64), part)
        ours, theirs = (
            torch.cat([each.grad.flatten() for each in made.parameters() if each.grad is not None])
            for made in (module, wide)
        )
        return relative(ours, theirs.double(), dtype)

    def way(module: nn.Module, part: slice, exchange: Callable[[list[torch.Tensor]], None] | None = None) -> RankCall:
        """A step on this rank's samples; its gradients must be those of `part`."""
        return RankCall(lambda: step(module, mine, exchange), lambda made: error(made, part))

    return {
        "after": way(plain, whole, one_by_one), "flat": way(plain, whole, at_once), "buckets": way(ddp, whole),
        "alone": way(plain, mine),
        "one": IDLE if rank.number else RankCall(lambda: step(plain, whole), lambda made: error(made, whole)),
    }  # fmt: skip


def one_by_one(gradients: list[torch.Tensor]) -> None:
    """The mean of each gradient, in an exchange of its own."""
    for each in gradients:
        dist.all_reduce(each)
    torch._foreach_div_(gradients, dist.get_world_size())


def at_once(gradients: list[torch.Tensor]) -> None:
    """The mean of all gradients in one exchange: copied into one buffer, and back."""

    flat = torch._utils._flatten_dense_tensors(gradients)
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    torch._foreach_copy_(gradients, list(torch._utils._unflatten_dense_tensors(flat, gradients)))
