"""Which of a step's equal calls could be one: those on slices of one memory of which none needs the result of another.

>>> x = torch.ones(4, 2, 2)
>>> [*at_once(lambda: [one @ one for one in torch.stack([each @ each for each in x])]).values()]  # two loops of four
[0.75, 0.0]
>>> at_once(lambda: x[0] @ x[1] @ x[2])
{'aten::mm ((2, 2), (2, 2))': 0.0}
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

SUMS = ("aten::add", "aten::add_")
"""A sum waits for all that it adds, in whatever order."""
LARGEST = 1 << 24
"""Bytes of a memory whose parts are told from each other; what is written to a part of others counts for all of it."""


def at_once(step: Callable[[], Any]) -> dict[str, float]:
    """A step's calls by `alike`, each with the share of them that others could do with them.

    Of those on slices of one memory that are equally deep one could do all; and so could one of equally deep products.
    """
    with _Lineage() as found:
        step()
    spared: Counter[str] = Counter()
    for (name, _, _), places in found.sliced.items():
        spared[name] += len(places) - 1
    for (name, _), count in found.products.items():
        spared[name] = max(spared[name], count - 1)
    return {name: count / found.calls[name] for name, count in spared.items()}


class _Lineage(TorchDispatchMode):
    """Follows the depth of what memories hold: through how many calls, one behind the other, it went.

    roots: of which memory's slices they were made.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.depths: dict[StorageWeakRef, int | torch.Tensor] = {}
        self.roots: dict[StorageWeakRef, StorageWeakRef | None] = {}
        self.calls: Counter[str] = Counter()
        self.sliced: dict[tuple[str, int, StorageWeakRef], set[tuple[StorageWeakRef, int]]] = {}
        self.products: Counter[tuple[str, int]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **kwargs or {})
        if func.is_view:
            return made
        taken, name = list(_tensors((args, kwargs))), func.name().partition(".")[0]
        depth = max(map(self._depth, taken), default=0) + (name not in SUMS)
        place = next(filter(self._root, taken), None)
        root = None if place is None else self._root(place)
        self.calls[key := alike(name, [each.shape for each in taken])] += 1
        if place is not None and root is not None:
            self.sliced.setdefault((key, depth, root), set()).add((_memory(place), int(place.storage_offset())))
        if func.overloadpacket in flop_registry:
            self.products[key, depth] += 1
        for each in _tensors(made):
            self._write(each, depth)
            self.roots[_memory(each)] = root
        return made

    def _root(self, tensor: torch.Tensor) -> StorageWeakRef | None:
        memory = _memory(tensor)
        return self.roots.get(memory) or (memory if _is_part(tensor) else None)

    def _depth(self, tensor: torch.Tensor) -> int:
        known = self.depths.get(_memory(tensor), 0)
        return known if isinstance(known, int) else int(_bytes(known, tensor).max())

    def _write(self, tensor: torch.Tensor, depth: int) -> None:
        memory, size = _memory(tensor), tensor.untyped_storage().nbytes()
        known = self.depths.get(memory, 0)
        if _is_part(tensor) and size <= LARGEST:
            known = torch.full((size,), known, dtype=torch.int32) if isinstance(known, int) else known
            _bytes(known, tensor).fill_(depth)
        else:
            known = max(depth, int(torch.as_tensor(known).max())) if _is_part(tensor) else depth
        self.depths[memory] = known


def _is_part(tensor: torch.Tensor) -> bool:
    """Whether its memory holds more than it."""
    return tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()


def _bytes(known: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """What is known of the first byte of each of its numbers."""
    size = tensor.element_size()
    return known.as_strided(tensor.shape, [size * each for each in tensor.stride()], size * tensor.storage_offset())


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    return (each for each in tree_leaves(values) if isinstance(each, torch.Tensor))


def _memory(tensor: torch.Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())
