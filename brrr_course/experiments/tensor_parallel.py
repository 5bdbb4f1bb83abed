"""A pair of layers, to four times the width and back, with each device holding half of the weights.

The first layer is cut by columns, so that each device makes half of the hidden numbers from all inputs; the second by
rows, so that each makes a part of every result from its half; one all-reduce adds the parts (M. Shoeybi et al.,
"Megatron-LM", 2019, section 3). Only results are exchanged: their number grows with the batch, not with the weights.
"""

from __future__ import annotations

from collections.abc import Mapping

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_gpu
from brrr_course.experiments.checked import relative
from brrr_course.experiments.lazily import dist, f, torch
from brrr_course.experiments.predicted import unpredicted
from brrr_course.experiments.ranks import IDLE, RANKS, Rank, RankCall, ranked, variants_of
from brrr_course.nouns.experiment import Axis, Experiment, Rate, Variant, Workload

WIDTHS, BATCHES, HIDDEN = (1024, 2048, 4096, 8192, 16384), (1, 16, 128, 1024, 4096, 16384), 4
MOST_ON_CPU, MOST_HIDDEN = 2**28, 2**30
"""Multiply-adds that a CPU takes, and hidden numbers that a GPU holds."""


def sizes(point: Point) -> tuple[int, int]:
    """The width, and the batch."""
    return int(point["width"]), int(point["batch"])


def supports(variant: Variant, point: Point) -> bool:
    """A CPU stops early, a GPU at two gigabytes of hidden numbers."""
    width, batch = sizes(point)
    return HIDDEN * width * batch * (1 if variant.on_gpu else width) <= (MOST_HIDDEN if variant.on_gpu else MOST_ON_CPU)


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of the weights, of both devices together.

    >>> cost(EXPERIMENT.variant("split"), {"width": 8192, "batch": 1})
    1.07 GFLOP, 1.07 GB, 1 FLOP/B
    """
    width, batch = sizes(point)
    weights = 2 * HIDDEN * width**2
    return Cost(2.0 * batch * weights, weights * (2.0 if variant.on_gpu else 4.0))


LABELS = {"split": "split over two devices", "alone": "split, without the all-reduce", "one": "one device"}

EXPERIMENT = Experiment(
    title="Two layers split over two devices", question="When does it pay to split a layer?",
    axes=(
        Axis("width", WIDTHS, label="width", quick=(1024,)),
        Axis("batch", BATCHES, label="batch", quick=(1, 16)),
    ),
    variants=variants_of(LABELS),
    package=__name__, predicts=unpredicted, resident=True,
    devices=RANKS, anchors=({"width": 8192, "batch": 1},),
    rate=Rate("flop", "FLOP/s", "throughput of both"),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `tensor_parallel` experiment runs in each rank: its half of two layers, and one all-reduce.

TOLERANCE = 0.02


def workload(variant: Variant, point: Point) -> Workload:
    """The pair of layers, by all ranks, or by the first alone."""
    return ranked(EXPERIMENT, variant, point, prepare, TOLERANCE)


def prepare(rank: Rank, point: Point) -> Mapping[str, RankCall]:
    """The ways on this rank: all ranks draw the same weights and inputs; two copies are kept, of a half and of all."""
    width, batch = sizes(point)
    dtype = torch.bfloat16 if is_gpu(rank.processor) else torch.float32
    torch.manual_seed(1)
    scale = width**-0.5
    first, second = (torch.randn(sides, device=rank.device, dtype=dtype).mul_(scale)
                     for sides in ((HIDDEN * width, width), (width, HIDDEN * width)))  # fmt: skip
    inputs = torch.randn(batch, width, device=rank.device, dtype=dtype)
    upper = first.chunk(rank.count)[rank.number].clone()  # its columns, as torch keeps weights transposed
    lower = second.chunk(rank.count, 1)[rank.number].clone(memory_format=torch.contiguous_format)

    @torch.no_grad()
    def pair(up: torch.Tensor, down: torch.Tensor, *, exchange: bool = False) -> torch.Tensor:
        found = f.linear(f.linear(inputs, up).relu_(), down)
        if exchange:
            dist.all_reduce(found)
        return found

    def error(found: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> float:
        wide = torch.float32 if is_gpu(rank.processor) else torch.float64
        expected = f.linear(f.linear(inputs.to(wide), up.to(wide)).relu_(), down.to(wide))
        return relative(found, expected.double(), dtype)

    return {
        "split": RankCall(lambda: pair(upper, lower, exchange=True), lambda found: error(found, first, second)),
        "alone": RankCall(lambda: pair(upper, lower), lambda found: error(found, upper, lower)),
        "one": IDLE
        if rank.number
        else RankCall(lambda: pair(first, second), lambda found: error(found, first, second)),
    }
