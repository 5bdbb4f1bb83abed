"""torch's caching allocator of a GPU, without a GPU: what it reserves for storages that come and go.

>>> pool = Allocator()
>>> block = pool.allocate(3 * 2**20)
>>> pool.give_back(*block)
>>> block[1] // 2**20, pool.reserved_bytes // 2**20
(3, 20)
"""

import math
from bisect import bisect_left, insort

ROUND, SMALL, SEGMENT_OF_SMALL, SEGMENT, ALONE = 512, 2**20, 2**21, 20 * 2**20, 10 * 2**20
"""Sizes are multiples of 512 B; up to 1 MiB are cut from segments of 2 MiB, up to 10 MiB from such of 20 MiB; more has
its own, of whole 2 MiB (`c10/cuda/CUDACachingAllocator.cpp`)."""


class Allocator:
    """Takes segments from the device, cuts blocks from them, and keeps what is given back.

    Beyond `limit_bytes` it first gives segments without a block in use back to the device; `most_bytes` is the most
    that was reserved at once, and more than the limit where that did not help.
    """

    def __init__(self, limit_bytes: float = math.inf) -> None:
        self.limit_bytes, self.reserved_bytes, self.most_bytes, self._end = limit_bytes, 0, 0, 0
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}  # sizes and addresses, of small blocks
        self._segments: list[tuple[int, int]] = []

    def allocate(self, nbytes: int) -> tuple[int, int, bool]:
        """The smallest free block that is large enough, or one of a new segment: its address, its size, its kind."""
        size = math.ceil(nbytes / ROUND) * ROUND
        small = size <= SMALL
        free = self._free[small]
        if not free or free[-1][0] < size:
            self._reserve(size, free)
        whole, address = free.pop(bisect_left(free, (size, 0)))
        if whole - size < (ROUND if small else SMALL + 1):
            return address, whole, small
        insort(free, (whole - size, address + size))
        return address, size, small

    def give_back(self, address: int, size: int, small: bool) -> None:
        """A block joins its neighbours where they are free."""
        free = self._free[small]
        for each in [(nbytes, at) for nbytes, at in free if at + nbytes == address or at == address + size]:
            free.remove(each)
            address, size = min(address, each[1]), size + each[0]
        insort(free, (size, address))

    def _reserve(self, size: int, free: list[tuple[int, int]]) -> None:
        whole = SEGMENT_OF_SMALL if size <= SMALL else SEGMENT if size < ALONE else math.ceil(size / 2**21) * 2**21
        if self.reserved_bytes + whole > self.limit_bytes:
            for among in self._free.values():
                for each in {*self._segments}.intersection(among):  # without a block in use
                    among.remove(each)
                    self._segments.remove(each)
                    self.reserved_bytes -= each[0]
        self.reserved_bytes += whole
        self.most_bytes = max(self.most_bytes, self.reserved_bytes)
        self._segments.append((whole, self._end))
        insort(free, (whole, self._end))
        self._end += whole + 1  # no neighbour of the next
