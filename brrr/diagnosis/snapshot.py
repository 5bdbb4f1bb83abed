"""What a program holds, put back as it was: weights, buffers, gradients, modes, optimisers, random numbers."""

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from brrr.core.errors import ArgumentError
from brrr.counting.state import Undo, put_back, reached, undoing
from brrr.gpu import CUDA, free_bytes, gpu_here, is_gpu, tensors_on


@dataclass(frozen=True)
class Held:
    """What a program holds: modules, optimisers, tensors, generators; and what puts back all else."""

    roots: list[nn.Module] = field(default_factory=list)
    optimisers: list[torch.optim.Optimizer] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)
    generators: list[torch.Generator] = field(default_factory=list)
    undo: list[Undo] = field(default_factory=list)


@contextmanager
def kept_as_it_was(around: tuple[Any, ...]) -> Iterator[dict[str, nn.Module]]:
    """The modules found in or behind some objects, by name; when it is over, what was found is as before.

    Parameters, buffers, gradients, modes, what optimisers, schedulers and scalers hold, generators, the random numbers
    of torch, numpy and Python, whether gradients are on, and the number of threads; what lists, dictionaries,
    attributes and variables hold, as a cache does. ArgumentError for a lazy module.
    """
    modules, back = snapshot(around)
    try:
        yield modules
    finally:
        back()


def snapshot(around: tuple[Any, ...]) -> tuple[dict[str, nn.Module], Callable[[], None]]:
    """The modules found in or behind some objects, by name, and what puts all as it was, as often as it is called."""
    held = found_in(around)
    modules = {
        f"{type(root).__name__}{'.' * bool(name)}{name}": each
        for root in held.roots for name, each in root.named_modules()
    }  # fmt: skip
    tensors = {id(each): each for each in held.tensors}
    for root in held.roots:
        tensors |= {id(each): each for each in (*root.parameters(), *root.buffers())}
    if any(nn.parameter.is_lazy(each) for each in tensors.values()):
        raise ArgumentError("diagnose", "fn", "a lazy module", "a module with its parameters: call it once first")
    place = _place(tensors.values())
    every: list[Callable[[], Any]] = [_tensor_back(each, place) for each in tensors.values()]
    every += held.undo  # modes, parameters and buffers too, and what optimisers and schedulers hold
    every += [partial(each.set_state, each.get_state()) for each in held.generators]
    every += [partial(random.setstate, random.getstate()), partial(np.random.set_state, np.random.get_state())]
    every += [partial(torch.set_grad_enabled, torch.is_grad_enabled())]
    every += [partial(torch.set_num_threads, torch.get_num_threads())]
    every += [partial(torch.set_rng_state, torch.get_rng_state())]
    if (kind := gpu_here()) and (kind != CUDA or torch.cuda.is_initialized()):
        with suppress(AttributeError, NotImplementedError):  # not every back end has a generator of its own
            random_of = torch.get_device_module(tensors_on(kind))
            every += [partial(random_of.set_rng_state, random_of.get_rng_state())]

    return modules, lambda: put_back(reversed(every), "diagnose")


def _tensor_back(each: torch.Tensor, place: str | None) -> Callable[[], None]:
    """Puts a tensor's numbers and gradient back, and touches neither where nothing has changed."""
    value, wanted = each.detach().to(place, copy=True), each.requires_grad
    gradient = each.grad if each.is_leaf else None
    was = None if gradient is None else gradient.detach().to(place, copy=True)

    def back() -> None:
        with torch.no_grad():
            if each.shape != value.shape or not torch.equal(each.detach().to(value.device), value):
                each.resize_(value.shape).copy_(value) if each.shape != value.shape else each.copy_(value)
            if each.is_leaf:
                each.grad = gradient
                each.requires_grad_(wanted)
            if gradient is not None and was is not None:
                gradient.copy_(was)

    return back


def _place(tensors: Iterable[torch.Tensor]) -> str | None:
    """Where copies go: beside the tensors, or into the host's memory where a quarter of the GPU's is not enough."""
    on_gpu = [each for each in tensors if is_gpu(each.device)]
    nbytes = sum(each.nbytes for each in on_gpu)
    return "cpu" if on_gpu and 2 * nbytes > free_bytes(on_gpu[0].device) / 4 else None


def found_in(around: tuple[Any, ...]) -> Held:
    """What is found among objects, and behind functions, modules and objects."""
    found, inner = Held(), set[int]()
    for each in reached(around):
        if isinstance(each, nn.Module):
            if id(each) not in inner:
                found.roots.append(each)
                inner |= {id(part) for part in (*each.modules(), *each.parameters(), *each.buffers())}
        elif isinstance(each, torch.Tensor):
            found.tensors.append(each)
        elif isinstance(each, torch.Generator):
            found.generators.append(each)
        elif isinstance(each, torch.optim.Optimizer):
            found.optimisers.append(each)
        if not isinstance(each, torch.Tensor):
            found.undo.extend(undoing(each))
    found.tensors[:] = [each for each in found.tensors if id(each) not in inner]
    return found
