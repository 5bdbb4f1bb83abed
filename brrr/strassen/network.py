"""`StrassenMLP` and `StrassenLinear`: torch's modules, their products made in the fastest way for the accuracy asked.

>>> model = StrassenMLP(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8), level=1, inner="sgemm")
>>> model(torch.randn(5, 32)).shape, list(model.state_dict())[:2]
(torch.Size([5, 8]), ['0.weight', '0.bias'])

The weights' part of each product is made once, and again after they have changed. Layers that no level helps are
torch's own modules, as they are; so are all under autocast and inside torch's transforms (`torch.func`). What
`torch.compile` and `torch.export` see is one operator for each run of layers (`operators.py`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import nn

from brrr.core.errors import ArgumentError
from brrr.strassen.layers import Layer, is_own, parts_of
from brrr.strassen.operators import Runners
from brrr.strassen.planner import ProductPlan
from brrr.strassen.request import Inners, Limits


class StrassenMLP(nn.Sequential):
    """A drop-in for ``nn.Sequential`` whose Linear and ReLU layers use Strassen and split products where they pay.

    >>> mlp = StrassenMLP.of([torch.ones(4, 8), torch.ones(2, 4)], [None, None])
    >>> mlp(torch.ones(1, 8))
    tensor([[32., 32.]])

    Parameters
    ----------
    *modules : torch.nn.Module
        The layers in order. Linear and ReLU are computed as `matmul` chooses; others run as they are.
    accuracy, level, form, inner
        For each matmul, as for `matmul`.
    graphs : bool
        Whether calls will be captured in a CUDA graph. If so, launch overhead is ignored; if not, layers too short to
        hide their launches are left to torch.

    Raises
    ------
    ArgumentError
        For invalid types, forms or limits.

    Notes
    -----
    Names and parameters are those of a Sequential of the same modules, so ``state_dict``, ``.to()``, optimizers and
    copies work. The number of rows may differ from call to call, and sizes may be odd. Before a capture, call it on the
    stream that will be captured, as `capture` does.
    """

    def __init__(
        self, *modules: Any, accuracy: float | str | None = None, level: int | None = None, form: str | None = None,
        inner: Inners = None, graphs: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(*modules)
        self.limits, self.graphs = Limits(accuracy, level, form, inner).checked(), graphs
        self._runners = Runners(self.limits, graphs)

    @classmethod
    def of(
        cls, weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor | None], *, relu_last: bool = True,
        **options: Any,
    ) -> StrassenMLP:  # fmt: skip
        """Make a network of these weights (n, k) and biases (n,), with a ReLU after each layer; nothing is copied."""
        if len(weights) != len(biases) or not weights:
            raise ArgumentError("StrassenMLP.of", "biases", f"{len(biases)} of them", f"{len(weights)}, one a layer")
        modules: list[nn.Module] = []
        for weight, bias in zip(weights, biases, strict=True):
            modules += [_linear(weight, bias), nn.ReLU()]
        return cls(*(modules if relu_last else modules[:-1]), **options)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The result for input (..., k)."""
        return self._runners.through(input, super().forward, lambda: parts_of(self))

    def explain(self, rows: int) -> list[ProductPlan]:
        """How each Linear is computed for `rows` (rounded down to a power of two), and why.

        >>> model = StrassenMLP(nn.Linear(16, 16), level=1, form="strassen", inner="sgemm")
        >>> [plan.implementation.name for plan in model.explain(64)]
        ['sgemm-strassen-1-prepared']
        """
        chains = (part for part in parts_of(self) if not isinstance(part, nn.Module))
        return [plan for chain in chains for plan in self._runners.plans(chain, rows)]


class StrassenLinear(nn.Linear):
    """A Linear whose product is a Strassen product where that pays; `fuse` makes them of single ones.

    >>> StrassenLinear.like(nn.Linear(8, 4), Limits(level=1))(torch.randn(3, 8)).shape
    torch.Size([3, 4])
    """

    limits: Limits
    _runners: Runners

    @classmethod
    def like(cls, linear: nn.Linear, limits: Limits, graphs: bool = False) -> StrassenLinear:
        """With the same parameters, which are shared."""
        made = cls(linear.in_features, linear.out_features, bias=False, device="meta")
        made.weight, made.bias, made.training = linear.weight, linear.bias, linear.training
        made.limits, made._runners = limits, Runners(limits, graphs)
        return made

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The result for input (..., k)."""
        return self._runners.through(input, super().forward, lambda: [(Layer(self.weight, self.bias, relu=False),)])


def _linear(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    for name, x in (("weight", weight), ("bias", bias)):
        if x is not None:
            setattr(linear, name, x if isinstance(x, nn.Parameter) else nn.Parameter(x, requires_grad=x.requires_grad))
    return linear


# ---------------------------------------------------------------------------------------------------------------------
# `fuse`: a model's Linear layers, and the ReLU behind them, made by Strassen products where they pay.


def fuse(
    model: nn.Module, *, accuracy: float | str | None = None, level: int | None = None, form: str | None = None,
    inner: Inners = None, graphs: bool = False,
) -> nn.Module:  # fmt: skip
    """Replace the linear layers of a model by those that multiply as `matmul` does.

    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.first, self.rest = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.GELU())
    >>> fused = fuse(Net())
    >>> type(fused.first).__name__, type(fused.rest).__name__
    ('StrassenLinear', 'StrassenMLP')

    Each Sequential becomes a `StrassenMLP`, each other Linear a StrassenLinear. Parameters are shared and keep their
    names.

    Parameters
    ----------
    model : torch.nn.Module
        The model. A Sequential or a Linear comes back as a new module; any other model is changed in place.
    accuracy, level, form, inner
        For each matmul, as for `matmul`.
    graphs : bool
        As for `StrassenMLP`.

    Returns
    -------
    torch.nn.Module
        The fused model.

    Raises
    ------
    ArgumentError
        If `model` is no module.

    Notes
    -----
    Subclasses, and modules with hooks or parametrisations, stay as they are. Only neighbours in a Sequential are fused
    with each other: what a model's own forward does between two layers is not known.
    """
    if not isinstance(model, nn.Module):
        raise ArgumentError("fuse", "model", type(model).__name__, "a torch.nn.Module")
    Limits(accuracy, level, form, inner).checked()
    options = {"accuracy": accuracy, "level": level, "form": form, "inner": inner, "graphs": graphs}
    return _fused(model, options, {})


def _fused(module: nn.Module, options: dict[str, Any], seen: dict[int, nn.Module]) -> nn.Module:
    """A module that is used twice becomes one module that is used twice."""
    if id(module) not in seen:
        seen[id(module)] = _made(module, options, seen)
    return seen[id(module)]


def _made(module: nn.Module, options: dict[str, Any], seen: dict[int, nn.Module]) -> nn.Module:
    """In a Sequential a Linear stays one: its neighbours are looked for there."""
    if is_own(module, nn.Linear):
        *limits, graphs = options.values()
        return StrassenLinear.like(cast("nn.Linear", module), Limits(*limits), graphs)
    chain, inside = is_own(module, nn.Sequential), OrderedDict[str, nn.Module]()
    for name, child in module._modules.items():  # `named_children` leaves out a second name
        if child is not None:
            inside[name] = child if chain and is_own(child, nn.Linear) else _fused(child, options, seen)
    if chain:
        return StrassenMLP(inside, **options).train(module.training)
    for name, child in inside.items():
        if child is not module._modules[name]:
            setattr(module, name, child)
    return module
