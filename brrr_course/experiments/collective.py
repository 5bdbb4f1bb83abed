"""One collective operation between two devices: how long it takes for so many bytes, and at what bandwidth.

The bytes are those of the whole buffer: of each rank's in an all-reduce, of what all-gather makes and reduce-scatter
takes, of the message. The bus bandwidth counts what must cross the link in one direction, so that it can be held
against the link's: 2 (n-1)/n of an all-reduce's bytes, (n-1)/n of an all-gather's, all of a message's
(NVIDIA/nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.roofline.communication import BUS
from brrr_course.experiments.checked import relative
from brrr_course.experiments.lazily import dist, torch
from brrr_course.experiments.predicted import unpredicted
from brrr_course.experiments.ranks import RANKS, Rank, RankCall, ranked, variants_of
from brrr_course.nouns.experiment import Axis, Experiment, Rate, Variant, Workload

SIZES = tuple(2**power for power in range(3, 31))
LABELS = {"all-reduce": "all-reduce", "all-gather": "all-gather", "reduce-scatter": "reduce-scatter",
          "send": "send and receive"}  # fmt: skip


def cost(variant: Variant, point: Point) -> Cost:
    """The bytes that cross the link.

    >>> [cost(EXPERIMENT.variant(way), {"nbytes": 1024}).bytes for way in ("all-reduce", "all-gather", "send")]
    [1024.0, 512.0, 1024.0]
    """
    return Cost(0.0, BUS[variant.implementation](RANKS) * int(point["nbytes"]))


EXPERIMENT = Experiment(
    title="A collective operation between two devices",
    question="What does it cost to exchange data between two GPUs?",
    axes=(Axis("nbytes", SIZES, label="bytes", quick=(2**3, 2**10, 2**20), most={"cpu": 2**26}, noun="bytes"),),
    variants=variants_of(LABELS),
    package=__name__, predicts=unpredicted, resident=True,
    devices=RANKS, anchors=({"nbytes": 8}, {"nbytes": 2**28}),
    rate=Rate("bytes", "B/s", "bus bandwidth"),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `collective` experiment runs in each rank: one operation on float32 buffers that are there.

TOLERANCE = 1e-6


def workload(variant: Variant, point: Point) -> Workload:
    """One operation, made by all ranks."""
    return ranked(EXPERIMENT, variant, point, prepare, TOLERANCE)


def prepare(rank: Rank, point: Point) -> Mapping[str, RankCall]:
    """The four operations on this rank's buffers; each rank knows what the others hold, to check what it gets."""
    numbers = int(point["nbytes"]) // 4
    torch.manual_seed(1)
    every = torch.randn(rank.count, numbers, device=rank.device)
    mine, parts = every[rank.number], list(every[0].chunk(rank.count))
    summed, gathered, scattered = torch.empty_like(mine), torch.empty_like(mine), torch.empty_like(parts[0])
    message = every[0] if rank.number == 0 else torch.empty_like(mine)

    def send() -> None:
        if rank.number == 0:
            dist.send(message, 1)
        else:
            dist.recv(message, 0)

    def total() -> torch.Tensor:
        return every.double().sum(0)

    def error(found: torch.Tensor, expected: torch.Tensor) -> float:
        return relative(found, expected.double(), torch.float32)

    # torch 2.13 renamed them, and warns at each call of the old names
    all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    return {
        "all-reduce": RankCall(lambda: dist.all_reduce(summed), lambda _: error(summed, total()),
                          lambda: summed.copy_(mine)),
        "all-gather": RankCall(lambda: all_gather(gathered, parts[rank.number]), lambda _: error(gathered, every[0])),
        "reduce-scatter": RankCall(lambda: reduce_scatter(scattered, mine),
                              lambda _: error(scattered, total().chunk(rank.count)[rank.number])),
        "send": RankCall(send, lambda _: error(message, every[0])),
    }  # fmt: skip
