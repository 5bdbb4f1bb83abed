"""A chain of layers: Linear with or without ReLU behind it; and how a list of modules falls into such chains.

>>> model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4), nn.GELU(), nn.Linear(4, 2))
>>> [type(part).__name__ if isinstance(part, nn.Module) else len(part) for part in parts_of(model)]
[2, 'GELU', 1]
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from brrr.gpu.precision import float32_products
from brrr.roofline.device_model import Where
from brrr.strassen.execution import prepare_right
from brrr.strassen.implementations import Implementation
from brrr.strassen.operands import Right
from brrr.strassen.planner import ProductPlan, plan_of
from brrr.strassen.request import Limits, Request


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

    def into(self, x: torch.Tensor, out: torch.Tensor, *, tf32: bool = False) -> None:
        """The same into `out`, in TF32 or not, whatever torch's switch says."""
        with float32_products(tf32):
            if self.bias is None:
                torch.mm(x, self.weight.t(), out=out)
            else:
                torch.addmm(self.bias, x, self.weight.t(), out=out)
        activate(out, None, self.relu)


Chain = tuple[Layer, ...]


def activate(out: torch.Tensor, bias: torch.Tensor | None, relu: bool) -> None:
    """Bias and ReLU in place.

    >>> y = torch.tensor([[-1.0, 1.0]])
    >>> activate(y, torch.tensor([0.5, 0.5]), relu=True)
    >>> y
    tensor([[0.0000, 1.5000]])
    """
    if bias is not None:
        out.add_(bias)
    if relu:
        out.relu_()


def flat(chain: Chain) -> tuple[list[torch.Tensor], str]:
    """A chain as what an operator takes: weights and biases in order, and a word a layer of "b" (bias) and "r" (ReLU).

    >>> flat((Layer(torch.ones(2, 3), torch.ones(2)), Layer(torch.ones(1, 2), relu=False)))[1]
    'br '
    """
    tensors = [each for layer in chain for each in (layer.weight, layer.bias) if each is not None]
    return tensors, " ".join("b" * (layer.bias is not None) + "r" * layer.relu for layer in chain)


def chain_of(tensors: Iterable[torch.Tensor], layout: str) -> Chain:
    """The chain again."""
    given, words = iter(tensors), layout.split(" ")
    return tuple(Layer(next(given), next(given) if "b" in word else None, "r" in word) for word in words)


def parts_of(modules: Iterable[nn.Module]) -> list[Chain | nn.Module]:
    """The modules in order: runs of Linear, with ReLU behind some, as chains; whatever is between them as it is."""
    found: list[list[Layer] | nn.Module] = []
    for module in modules:
        chain = found[-1] if found and isinstance(found[-1], list) else []
        if is_own(module, nn.Linear):
            if not chain:
                found.append(chain)
            chain.append(Layer(module.weight, module.bias, relu=False))  # type: ignore[arg-type]
        elif is_own(module, nn.ReLU) and chain and not chain[-1].relu:
            chain[-1] = Layer(chain[-1].weight, chain[-1].bias, relu=True)
        else:
            found.append(module)
    return [tuple(each) if isinstance(each, list) else each for each in found]


def is_own(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether it is torch's own module of that kind with nothing added: no hooks, no parametrisation, no subclass."""
    hooks = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
    return type(module) is kind and not any(getattr(module, each, None) for each in hooks)


# ---------------------------------------------------------------------------------------------------------------------
# Weights made ready for their products once, and made anew when they have changed.

MOST = 2
"""Ways for which a layer's weights are kept ready: other numbers of rows may want another."""


class Formatted:
    """By layer and way; the oldest of a layer goes when there are too many."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, dict[Implementation, tuple[tuple[Any, ...], Right]]] = {}

    def __call__(self, place: Hashable, layer: Layer, how: Implementation) -> Right:
        """The layer's weights for a way; as they lie, where nothing can be made of them beforehand."""
        mine, state = self._kept.setdefault(place, {}), state_of(layer.weight)
        found = mine.pop(how, None)
        if found is None or found[0] != state:
            with torch.no_grad():
                right = Right(layer.weight.detach(), True)
                found = state, prepare_right(right, how) if how.prepared else right
        mine[how] = found
        while len(mine) > MOST:
            del mine[next(iter(mine))]
        return found[1]


def state_of(weight: torch.Tensor) -> tuple[Any, ...]:
    """What tells that a tensor has changed: where it lies, and how often it was written to.

    A tensor of inference mode does not count its writes; it is taken as never written to again.
    """
    version = None if weight.is_inference() else weight._version
    return weight.data_ptr(), weight.dtype, weight.device, tuple(weight.shape), version


# ---------------------------------------------------------------------------------------------------------------------
# Which way each layer of a network is made in.


@lru_cache(maxsize=4096)
def planned(
    shapes: tuple[tuple[int, int], ...], rows: int, dtype: str, device: Where, limits: Limits, *, prepared: bool = True,
    eager: bool = False,
) -> tuple[ProductPlan, ...]:  # fmt: skip
    """The plan of each layer, by its weight's shape (n, k); device: a kind of device, or as `brrr.predict` takes it.

    eager: the host issues each launch, rather than a CUDA Graph.
    """
    asked = (Request(rows, n, k, dtype, limits, prepared, eager=eager, whole=True) for n, k in shapes)
    return tuple(plan_of(request, device) for request in asked)
