"""`fuse`: a model's Linear layers, and the ReLU behind them, made by Strassen products where they pay.

>>> model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
>>> keys = list(model.state_dict())
>>> fused = fuse(model, level=1, inner="sgemm")
>>> type(fused).__name__, list(fused.state_dict()) == keys
('StrassenMLP', True)
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from torch import nn

from brrr.errors import ArgumentError
from brrr.strassen.layers import hooked, is_linear
from brrr.strassen.network import StrassenLinear, StrassenMLP
from brrr.strassen.planning import Wish
from brrr.strassen.requests import Inners


def fuse(
    model: nn.Module, *, accuracy: float | str | None = None, level: int | None = None, form: str | None = None,
    inner: Inners = None, graphs: bool = False,
) -> nn.Module:  # fmt: skip
    """The model with each Sequential a StrassenMLP and each other Linear a StrassenLinear.

    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.first, self.rest = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.GELU())
    >>> fused = fuse(Net())
    >>> type(fused.first).__name__, type(fused.rest).__name__
    ('StrassenLinear', 'StrassenMLP')

    Parameters are shared and keep their names. A Sequential or Linear comes back as a new module; any other model is
    changed in place and returned. Subclasses, and modules with hooks or parametrisations, stay as they are. Only direct
    neighbours in a Sequential are fused with each other: what a model's own forward does between is not known.
    accuracy, level, form, inner: of each product, as for `matmul`; graphs: as for `StrassenMLP`. ArgumentError for
    what is no module.
    """
    if not isinstance(model, nn.Module):
        raise ArgumentError("fuse", "model", type(model).__name__, "a torch.nn.Module")
    options = {**Wish(accuracy, level, form, inner).options, "graphs": graphs}
    return _fused(model, options, {})


def _fused(module: nn.Module, options: dict[str, Any], seen: dict[int, nn.Module]) -> nn.Module:
    """A module that is used twice becomes one module that is used twice."""
    if id(module) not in seen:
        seen[id(module)] = _made(module, options, seen)
    return seen[id(module)]


def _made(module: nn.Module, options: dict[str, Any], seen: dict[int, nn.Module]) -> nn.Module:
    if is_linear(module):
        assert isinstance(module, nn.Linear)
        return StrassenLinear.like(
            module, Wish(*(options[name] for name in ("accuracy", "level", "form", "inner"))), options["graphs"]
        )
    if type(module) is nn.Sequential and not hooked(module):
        inside = OrderedDict((name, _inside(child, options, seen)) for name, child in children(module))
        return StrassenMLP(inside, **options).train(module.training)
    for name, child in children(module):
        replaced = _fused(child, options, seen)
        if replaced is not child:
            setattr(module, name, replaced)
    return module


def children(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """A module's children by name; `named_children` leaves out the second name of one that is there twice."""
    return [(name, child) for name, child in module._modules.items() if child is not None]


def _inside(child: nn.Module, options: dict[str, Any], seen: dict[int, nn.Module]) -> nn.Module:
    """In a Sequential, a Linear stays one: its neighbours are looked for there."""
    return child if is_linear(child) else _fused(child, options, seen)
