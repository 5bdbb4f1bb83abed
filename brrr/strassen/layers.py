"""A chain of layers: Linear with or without ReLU behind it; and how a list of modules falls into such chains.

>>> model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4), nn.GELU(), nn.Linear(4, 2))
>>> [type(part).__name__ if isinstance(part, nn.Module) else len(part) for part in parts_of(model)]
[3, 'GELU', 1]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from brrr.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Layer:
    """y = x w^T + b, then ReLU where `relu`: weight (n, k), bias (n,) or None."""

    weight: torch.Tensor
    bias: torch.Tensor | None = None
    relu: bool = True

    @property
    def n(self) -> int:
        """How wide its result is."""
        return int(self.weight.shape[0])

    @property
    def k(self) -> int:
        """How wide its input is."""
        return int(self.weight.shape[1])

    def plain(self, x: torch.Tensor) -> torch.Tensor:
        """By torch's own operators.

        >>> Layer(torch.ones(2, 3), relu=False).plain(torch.ones(1, 3))
        tensor([[3., 3.]])
        """
        y = nn.functional.linear(x, self.weight, self.bias)
        return torch.relu(y) if self.relu else y


Chain = tuple[Layer, ...]


def layers_of(modules: Iterable[nn.Module]) -> Chain:
    """Modules, of which each is Linear or ReLU behind one, as layers; ArgumentError for any other."""
    found: list[Layer] = []
    for module in modules:
        if is_linear(module):
            found.append(Layer(module.weight, module.bias, relu=False))  # type: ignore[arg-type]
        elif is_relu(module) and found and not found[-1].relu:
            found[-1] = Layer(found[-1].weight, found[-1].bias, relu=True)
        else:
            raise ArgumentError("layers_of", "modules", type(module).__name__, "Linear, or ReLU behind one")
    return tuple(found)


def parts_of(modules: Iterable[nn.Module]) -> list[tuple[nn.Module, ...] | nn.Module]:
    """The modules in order: runs of Linear and ReLU as tuples, whatever is between them as it is."""
    found: list[list[nn.Module] | nn.Module] = []
    for module in modules:
        if is_linear(module):
            if found and isinstance(found[-1], list):
                found[-1].append(module)
            else:
                found.append([module])
        elif is_relu(module) and found and isinstance(found[-1], list) and is_linear(found[-1][-1]):
            found[-1].append(module)
        else:
            found.append(module)
    return [tuple(each) if isinstance(each, list) else each for each in found]


def is_linear(module: nn.Module) -> bool:
    """Whether it is torch's own Linear with nothing added: no hooks, no parametrisation, no subclass."""
    return type(module) is nn.Linear and not hooked(module)


def is_relu(module: nn.Module) -> bool:
    """Whether it is torch's own ReLU with nothing added."""
    return type(module) is nn.ReLU and not hooked(module)


def hooked(module: nn.Module) -> bool:
    """Whether something wants to be called when the module is."""
    kinds = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
    return any(getattr(module, kind, None) for kind in kinds)


def check_chain(call: str, chain: Chain) -> None:
    """ArgumentError for layers that do not follow one another."""
    for before, after in pairwise(chain):
        if before.n != after.k:
            found = f"a layer of {tuple(after.weight.shape)} behind one of {tuple(before.weight.shape)}"
            raise ArgumentError(call, "weights", found, f"{before.n} columns, as many as the layer before has rows")
    first = chain[0].weight
    for layer in chain:
        if (layer.weight.dtype, layer.weight.device) != (first.dtype, first.device):
            found = f"{layer.weight.dtype} on {layer.weight.device}"
            raise ArgumentError(call, "weights", found, f"{first.dtype} on {first.device}, as the first")
