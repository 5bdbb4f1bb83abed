"""What takes long to load, loaded when something of it is first used: torch, numpy, the bindings of CUDA's driver.

>>> from brrr.core.heavy import torch
>>> torch.ones(2).sum()
tensor(2.)

A module that uses one says so at its head, like any other import, and can be imported without it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Module(ModuleType):
    """Stands for a module until it is first used; then the module takes its place wherever the packages have it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # as a debugger or a doctest asks of all that it finds
            raise AttributeError(name)
        found = import_module(self.__name__)
        for module in [sys.modules[each] for each in [*sys.modules] if each.startswith("brrr")]:
            for known in [known for known, value in [*vars(module).items()] if value is self]:
                setattr(module, known, found)
        return getattr(found, name)


if TYPE_CHECKING:
    import numpy as np
    import torch
    import torch.distributed as dist
    import torch.nn.functional as f
    from cuda.bindings import driver
    from torch import nn
else:
    np, torch, nn = map(_Module, ("numpy", "torch", "torch.nn"))
    f, dist = map(_Module, ("torch.nn.functional", "torch.distributed"))
    driver = _Module("cuda.bindings.driver")

__all__ = ["dist", "driver", "f", "nn", "np", "torch"]
