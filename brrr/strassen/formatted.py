"""Weights made ready for their products once, and made anew when they have changed.

>>> formatted, layer = Formatted(), Layer(torch.ones(8, 8))
>>> way = Way("sgemm", 1, "strassen", prepared=True)
>>> first = formatted(0, layer, way)
>>> formatted(0, layer, way) is first
True
>>> _ = layer.weight.mul_(2.0)
>>> formatted(0, layer, way) is first
False
"""

from __future__ import annotations

from typing import Any

import torch

from brrr.strassen.execution import prepare_right
from brrr.strassen.layers import Layer
from brrr.strassen.operands import Right
from brrr.strassen.ways import Way

MOST = 2
"""Ways for which a layer's weights are kept ready: other numbers of rows may want another."""


class Formatted:
    """By layer and way; the oldest of a layer goes when there are too many."""

    def __init__(self) -> None:
        self._kept: dict[int, dict[Way, tuple[tuple[Any, ...], Right]]] = {}

    def __call__(self, place: int, layer: Layer, way: Way) -> Right:
        """The layer's weights for a way; as they lie, where nothing can be made of them beforehand."""
        mine, state = self._kept.setdefault(place, {}), state_of(layer.weight)
        found = mine.pop(way, None)
        if found is None or found[0] != state:
            with torch.no_grad():
                right = Right(layer.weight.detach(), True)
                found = state, prepare_right(right, way) if way.prepared else right
        mine[way] = found
        while len(mine) > MOST:
            del mine[next(iter(mine))]
        return found[1]


def state_of(weight: torch.Tensor) -> tuple[Any, ...]:
    """What tells that a tensor has changed: where it lies, and how often it was written to.

    A tensor of inference mode does not count its writes; it is taken as never written to again.
    """
    version = None if weight.is_inference() else weight._version
    return weight.data_ptr(), weight.dtype, weight.device, tuple(weight.shape), version
