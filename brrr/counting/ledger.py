"""What a callable was given and what it made: the bytes that none could save, and how long each storage lived."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from brrr.counting.cost import Life
from brrr.counting.traffic import Access, CallTraffic, amount, covered_by, region_of, storage_key
from brrr.gpu import is_cpu

OF_A_CACHE = 3
"""Dimensions, at least, of keys and values that are kept; statistics and counters have fewer."""


class Ledger:
    """Keeps apart the storages that a function was given and those that it made itself, and how long each lived.

    `read` and `write` hold the accesses to given storages, a read only where the function has not written there before.
    A weak reference to each storage is kept: while it is, no other storage gets the same key.
    """

    def __init__(self) -> None:
        self.read: list[Access] = []
        self.write: list[Access] = []
        self._written: dict[int, list[Access]] = defaultdict(list)
        self._seen: dict[int, StorageWeakRef] = {}
        self._given: dict[int, int] = {}
        self._made: dict[int, int] = {}
        self._alive: set[int] = set()
        self._alive_bytes = self._peak_bytes = 0
        self._touched = defaultdict[int, dict[Any, float]](dict)  # by region, None for all of a storage
        self._freed = defaultdict[int, list[float]](list)
        self._moved = 0.0
        self._parts: dict[int, str] = {}
        self._about: dict[int, tuple[int, bool]] = {}  # a tensor's dimensions, and whether it lies on a CPU
        self._born: dict[int, int] = {}
        self._died: dict[int, int] = {}
        self._backward: list[bool] = []  # for each operator that ran, whether a backward pass did

    def given(self, tensors: Iterable[torch.Tensor], part: str = "") -> None:
        """Note tensors that an operator takes, or that are there for something: what was not made here was given."""
        for tensor in tensors:
            key = self._enter(tensor, self._given)
            if part:
                self._parts.setdefault(key, part)
            if part == "parameters":  # which outlive every call
                self._alive.discard(key)

    def _enter(self, tensor: torch.Tensor, among: dict[int, int]) -> int:
        key, storage = storage_key(tensor), tensor.untyped_storage()
        if key not in self._seen:
            self._seen[key] = StorageWeakRef(storage)
            self._alive.add(key)
            among[key], self._about[key] = storage.nbytes(), (tensor.dim(), is_cpu(tensor.device))
        return key

    def made(self, tensors: Iterable[torch.Tensor], backward: bool = False) -> None:
        """Note the tensors that an operator returns: a storage not seen before was made by it."""
        self._bury()
        for tensor in tensors:
            if storage_key(tensor) not in self._seen:
                key = self._enter(tensor, self._made)
                self._born[key] = len(self._backward)
                self._alive_bytes += self._made[key]
                if again := self._freed[self._made[key]]:  # where one of its size was given back last, as in torch
                    self._touched[key] = {None: again.pop()}
        self._peak_bytes = max(self._peak_bytes, self._alive_bytes)
        self._backward.append(backward)

    def _bury(self) -> None:
        """Note which storages are gone since the last operator."""
        gone = {key for key in self._alive if self._seen[key].expired()}
        self._alive -= gone
        self._died |= dict.fromkeys(gone, len(self._backward))
        for key in sorted(gone & self._made.keys(), key=self._born.__getitem__):
            self._alive_bytes -= self._made[key]
            self._freed[self._made[key]].append(max(self._touched[key].values(), default=0.0))

    def lives(self, returned: Iterable[torch.Tensor] = ()) -> tuple[Life, ...]:
        """Each storage on the GPU, or without one on the CPU: its bytes, how long it lived, and what it was for."""
        self._bury()
        results, on_gpu = {storage_key(each) for each in returned}, not all(cpu for _, cpu in self._about.values())
        return tuple(
            Life(nbytes, self._born.get(key, -1), self._died.get(key, len(self._backward)), self._part(key, results))
            for key, nbytes in (self._given | self._made).items() if nbytes and self._about[key][1] is not on_gpu
        )  # fmt: skip

    def _part(self, key: int, results: set[int]) -> str:
        """What a storage is for: as it was told; a cache what is changed in part, or kept for the next call."""
        known = self._parts.get(key, "")
        if known in ("parameters", "gradients", "optimiser"):
            return known
        if key in self._given:
            in_part = any(each.bytes < self._given[key] for each in self._written.get(key, ()))
            return "cache" if in_part else known or "inputs"
        if key not in self._died and key not in results:
            return "cache" if self._about[key][0] >= OF_A_CACHE else "other"
        in_backward, *later = self._backward[self._born[key] : self._died.get(key, len(self._backward)) + 1]
        passed_back = True in later and not in_backward
        return "activations" if passed_back or True not in self._backward else "temporaries"

    def recent(self, traffic: CallTraffic) -> tuple[tuple[float, float], ...]:
        """Of how many of a call's bytes, which were touched before, how many bytes were touched since, its own too."""
        accesses = dict.fromkeys((*traffic.reads, *traffic.writes))
        found: list[tuple[float, float]] = []
        for each in accesses:
            before = self._touched[each.storage]
            if known := [when for part, when in before.items() if part is None or covered_by(each.region, [part])]:
                found.append((float(each.bytes), self._moved - max(known) + 2 * each.bytes))
        self._moved += sum(each.bytes for each in accesses)
        for each in accesses:
            self._touched[each.storage][each.region] = self._moved
        return tuple(found)

    def enter(self, traffic: CallTraffic) -> None:
        """Add one operator's accesses."""
        for access in traffic.reads:
            known = [each.region for each in self._written.get(access.storage, ()) if each.picked is None]
            if access.storage not in self._made and not covered_by(access.region, known):
                self.read.append(access)
        for access in traffic.writes:
            if access.storage not in self._made:
                self.write.append(access)
                self._written[access.storage].append(access)

    def results(self) -> list[int]:
        """The storages made here that are still alive."""
        return [key for key in self._made if not self._seen[key].expired()]

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
