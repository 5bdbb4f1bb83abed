"""On which kinds of device a call's operators work."""

from itertools import islice
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

MOST = 4096
"""So many things of a result are looked at: it may be a list of millions."""


class Looking(TorchDispatchMode):
    """Notes on which kinds of device torch's operators work.

    What is compiled already runs as it is written, for this once.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kinds: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.look((args, kwargs, result))
        return result

    def look(self, held: Any) -> None:
        """Note where the tensors in it lie; a description of a tensor lies nowhere."""
        tensors = (each for each in islice(tree_iter(held), MOST) if isinstance(each, torch.Tensor))
        self.kinds |= {each.device.type for each in tensors if not isinstance(each, FakeTensor)}
