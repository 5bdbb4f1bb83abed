"""The textbook network, `layers` times Linear and ReLU, and every way of running it.

>>> network = Network(layers=2, batch=4, hidden=64)
>>> print(network)
2 layers of 64, batch 4, float32
>>> list(WAYS)[:3]
['module', 'functional', 'inference']

`best(layers, batch, hidden)` is the fastest of them, ready to be called. Importing this loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brrr.networks.network import Network
from brrr.networks.way import Prepared, Way
from brrr.networks.ways import WAYS

if TYPE_CHECKING:
    from brrr.networks.choosing import Best as Best
    from brrr.networks.choosing import best as best
    from brrr.networks.weights import Weights as Weights

__all__ = ["WAYS", "Best", "Network", "Prepared", "Way", "Weights", "best"]

_LATER = {"Best": "choosing", "best": "choosing", "Weights": "weights"}
"""What needs torch is loaded when it is first used."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
