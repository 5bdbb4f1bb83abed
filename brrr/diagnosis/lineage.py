"""How many equal products a step could do at once: those of which none needs the result of another.

>>> a, b = torch.ones(2, 2), torch.ones(2, 2)
>>> at_once(lambda: (a @ b, a @ b)), at_once(lambda: a @ b @ b)
({'aten::mm ((2, 2), (2, 2))': 2.0}, {'aten::mm ((2, 2), (2, 2))': 1.0})
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from brrr.diagnosis.batching import alike


def at_once(step: Callable[[], Any]) -> dict[str, float]:
    """A step's products by `alike`, each with how many of them, at most, do not wait for each other."""
    with _Lineage() as found:
        step()
    made: dict[str, float] = {}
    for (name, _), count in found.products.items():
        made[name] = max(made.get(name, 0.0), float(count))
    return made


class _Lineage(TorchDispatchMode):
    """Follows each memory's depth: through how many products, one behind the other, its numbers went."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.depths: dict[StorageWeakRef, int] = {}
        self.products: Counter[tuple[str, int]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        taken = list(_tensors((args, kwargs)))
        depth = max((self.depths.get(_memory(each), 0) for each in taken), default=0)
        if func.overloadpacket in flop_registry:
            depth += 1
            name = func.name().partition(".")[0]
            self.products[alike(name, [each.shape for each in taken]), depth] += 1
        made = func(*args, **kwargs or {})
        for each in _tensors(made):
            self.depths[_memory(each)] = max(depth, self.depths.get(_memory(each), 0))
        return made


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    return (each for each in tree_leaves(values) if isinstance(each, torch.Tensor))


def _memory(tensor: torch.Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())
