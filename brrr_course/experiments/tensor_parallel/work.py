"""What the `tensor_parallel` experiment runs in each rank: its half of two layers, and one all-reduce."""

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch.nn.functional import linear

from brrr.core.measurement import Point
from brrr.gpu import is_gpu
from brrr_course.experiments.checked import relative
from brrr_course.experiments.ranked import IDLE, Way, ranked
from brrr_course.experiments.ranks import Rank
from brrr_course.experiments.tensor_parallel import EXPERIMENT, HIDDEN, sizes
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = 0.02


def workload(variant: Variant, point: Point) -> Workload:
    """The pair of layers, by all ranks, or by the first alone."""
    return ranked(EXPERIMENT, variant, point, prepare, TOLERANCE)


def prepare(rank: Rank, point: Point) -> Mapping[str, Way]:
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
        found = linear(linear(inputs, up).relu_(), down)
        if exchange:
            dist.all_reduce(found)
        return found

    def error(found: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> float:
        wide = torch.float32 if is_gpu(rank.processor) else torch.float64
        expected = linear(linear(inputs.to(wide), up.to(wide)).relu_(), down.to(wide))
        return relative(found, expected.double(), dtype)

    return {
        "split": Way(lambda: pair(upper, lower, exchange=True), lambda found: error(found, first, second)),
        "alone": Way(lambda: pair(upper, lower), lambda found: error(found, upper, lower)),
        "one": IDLE if rank.number else Way(lambda: pair(first, second), lambda found: error(found, first, second)),
    }
