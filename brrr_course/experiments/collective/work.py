"""What the `collective` experiment runs in each rank: one operation on float32 buffers that are there."""

from collections.abc import Mapping

import torch
import torch.distributed as dist

from brrr.core.measurement import Point
from brrr_course.experiments.checked import relative
from brrr_course.experiments.collective import EXPERIMENT
from brrr_course.experiments.ranked import Way, ranked
from brrr_course.experiments.ranks import Rank
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = 1e-6
ALL_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
REDUCE_SCATTER = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
"""torch 2.13 renamed them, and warns at each call of the old names."""


def workload(variant: Variant, point: Point) -> Workload:
    """One operation, made by all ranks."""
    return ranked(EXPERIMENT, variant, point, prepare, TOLERANCE)


def prepare(rank: Rank, point: Point) -> Mapping[str, Way]:
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

    return {
        "all-reduce": Way(lambda: dist.all_reduce(summed), lambda _: error(summed, total()),
                          lambda: summed.copy_(mine)),
        "all-gather": Way(lambda: ALL_GATHER(gathered, parts[rank.number]), lambda _: error(gathered, every[0])),
        "reduce-scatter": Way(lambda: REDUCE_SCATTER(scattered, mine),
                              lambda _: error(scattered, total().chunk(rank.count)[rank.number])),
        "send": Way(send, lambda _: error(message, every[0])),
    }  # fmt: skip
