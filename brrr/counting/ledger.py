"""What no implementation of a function could save: its inputs read once, its results written once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from brrr.counting.regions import covered_by, region_of
from brrr.counting.traffic import Access, Traffic, amount, storage_key


class Ledger:
    """Keeps apart the storages that a function was given and those that it made itself.

    `read` and `write` hold the accesses to given storages, a read only where the function has not written there before.
    A weak reference to each storage is kept: while it is, no other storage gets the same key.
    """

    def __init__(self) -> None:
        self.read: list[Access] = []
        self.write: list[Access] = []
        self._written: dict[int, list[Access]] = defaultdict(list)
        self._seen: dict[int, StorageWeakRef] = {}
        self._made: dict[int, int] = {}
        self._alive_bytes = self._peak_bytes = 0
        self._alive: set[int] = set()

    def given(self, tensors: Iterable[torch.Tensor]) -> None:
        """Note the tensors that an operator takes: what was not made here was given."""
        for tensor in tensors:
            self._seen.setdefault(storage_key(tensor), StorageWeakRef(tensor.untyped_storage()))

    def made(self, tensors: Iterable[torch.Tensor]) -> None:
        """Note the tensors that an operator returns: a storage not seen before was made by it."""
        for tensor in tensors:
            key, storage = storage_key(tensor), tensor.untyped_storage()
            if key not in self._seen:
                self._seen[key] = StorageWeakRef(storage)
                self._made[key] = storage.nbytes()
                self._alive.add(key)
        self._alive = {key for key in self._alive if not self._seen[key].expired()}
        self._peak_bytes = max(self._peak_bytes, sum(self._made[key] for key in self._alive))

    def constant(self, tensor: torch.Tensor) -> None:
        """Note a tensor that the function made from Python numbers: neither an input nor an operator's result."""
        self.made([tensor])

    def enter(self, traffic: Traffic) -> None:
        """Add one operator's accesses."""
        outside = [access for access in traffic.reads if access.storage not in self._made]
        self.read += [access for access in outside if not self._known(access)]
        for access in traffic.writes:
            if access.storage not in self._made:
                self.write.append(access)
                self._written[access.storage].append(access)

    def _known(self, access: Access) -> bool:
        whole = [each.region for each in self._written[access.storage] if each.picked is None]
        return covered_by(access.region, whole)

    def results(self) -> list[int]:
        """The storages made here that are still alive."""
        return [key for key in self._made if key in self._seen and not self._seen[key].expired()]

    def returned_bytes(self, tensors: Iterable[torch.Tensor]) -> int:
        """The bytes of results that lie in storages made here; views of what was given cost nothing."""
        mine = [t for t in tensors if t.numel() and storage_key(t) in self._made]
        return amount(Access(storage_key(t), region_of(t), region_of(t).bytes) for t in mine)

    def alive_bytes(self) -> int:
        """The bytes of all storages made here that are still alive."""
        return sum(self._made[key] for key in self.results())

    @property
    def working_set_bytes(self) -> int:
        """What was touched of the storages given, and the most that was alive at once of those made."""
        return amount([*self.read, *self.write]) + self._peak_bytes
