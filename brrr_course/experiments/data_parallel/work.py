"""What the `data_parallel` experiment runs in each rank: a step of the same network on this rank's samples."""

from collections.abc import Callable, Mapping
from copy import deepcopy

import torch
import torch.distributed as dist
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.nn.parallel import DistributedDataParallel

from brrr.core.measurement import Point
from brrr.gpu import is_gpu
from brrr_course.experiments.checked import relative
from brrr_course.experiments.data_parallel import EXPERIMENT, MLP, RNN, Shape, shape_at
from brrr_course.experiments.ranked import IDLE, Way, ranked
from brrr_course.experiments.ranks import Rank
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = 0.12
"""bfloat16's gradients behind eight layers are 10 % off; of the slips that tests know, the mildest gives 24 %."""
HEAD = 128


def workload(variant: Variant, point: Point) -> Workload:
    """One step, made by all ranks, or by the first alone."""
    return ranked(EXPERIMENT, variant, point, prepare, TOLERANCE)


def network(name: str, shape: Shape) -> nn.Module:
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


def prepare(rank: Rank, point: Point) -> Mapping[str, Way]:
    """The ways of a step on this rank: all ranks draw the same network and all samples, and each takes its share."""
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

    def way(module: nn.Module, part: slice, exchange: Callable[[list[torch.Tensor]], None] | None = None) -> Way:
        """A step on this rank's samples; its gradients must be those of `part`."""
        return Way(lambda: step(module, mine, exchange), lambda made: error(made, part))

    return {
        "after": way(plain, whole, one_by_one), "flat": way(plain, whole, at_once), "buckets": way(ddp, whole),
        "alone": way(plain, mine),
        "one": IDLE if rank.number else Way(lambda: step(plain, whole), lambda made: error(made, whole)),
    }  # fmt: skip


def one_by_one(gradients: list[torch.Tensor]) -> None:
    """The mean of each gradient, in an exchange of its own."""
    for each in gradients:
        dist.all_reduce(each)
    torch._foreach_div_(gradients, dist.get_world_size())


def at_once(gradients: list[torch.Tensor]) -> None:
    """The mean of all gradients in one exchange: copied into one buffer, and back."""
    flat = _flatten_dense_tensors(gradients)
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    torch._foreach_copy_(gradients, list(_unflatten_dense_tensors(flat, gradients)))
