"""torch and its kin, each loaded when something of it is first used: describing an experiment needs none of them."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

PACKAGE = __name__.rpartition(".")[0]


class _Module(ModuleType):
    """Stands for a module until it is first used; then the module takes its place wherever an experiment has it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # as a debugger or a doctest asks of all that it finds
            raise AttributeError(name)
        found = import_module(self.__name__)
        for module in [sys.modules[each] for each in [*sys.modules] if each.startswith(PACKAGE)]:
            for known in [known for known, value in vars(module).items() if value is self]:
                setattr(module, known, found)
        return getattr(found, name)


if TYPE_CHECKING:
    import numpy as np
    import torch
    import torch.distributed as dist
    import torch.nn.functional as f
    from torch import nn
else:
    np, torch, nn = map(_Module, ("numpy", "torch", "torch.nn"))
    f, dist = map(_Module, ("torch.nn.functional", "torch.distributed"))


def name_of(dtype: object) -> str:
    """A type's name, torch's or its own: "float32".

    >>> name_of("float32"), name_of("torch.bfloat16")
    ('float32', 'bfloat16')
    """
    return str(dtype).removeprefix("torch.")


__all__ = ["dist", "f", "name_of", "nn", "np", "torch"]
