"""torch's caching allocator of a GPU, without a GPU: what it reserves for storages that come and go.

>>> pool = Allocator()
>>> block = pool.allocate(3 * 2**20)
>>> pool.allocated_bytes // 2**20, pool.reserved_bytes // 2**20
(3, 20)
>>> pool.give_back(*block)
>>> pool.allocated_bytes, pool.reserved_bytes // 2**20
(0, 20)
"""

import math
from bisect import bisect_left, insort

ROUND, SMALL, SEGMENT_OF_SMALL, SEGMENT, ALONE = 512, 2**20, 2**21, 20 * 2**20, 10 * 2**20
"""Sizes are multiples of 512 B; up to 1 MiB are cut from segments of 2 MiB, up to 10 MiB from such of 20 MiB; more has
its own, of whole 2 MiB (`c10/cuda/CUDACachingAllocator.cpp`)."""


class Allocator:
    """Takes segments from the device, cuts blocks from them, and keeps what is given back.

    `limit_bytes` is the most that it may reserve: where that is not enough it gives segments without a block in use
    back to the device; MemoryError where that does not help either. Without `caching` each block is as it was asked
    for, and nothing is kept, as on a CPU.
    """

    def __init__(self, limit_bytes: float = math.inf, caching: bool = True) -> None:
        self.limit_bytes, self.caching = limit_bytes, caching
        self.allocated_bytes = self.reserved_bytes = self._end = 0
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}  # sizes and addresses
        self._sizes: dict[int, int] = {}  # of a free block, by its address
        self._begins: dict[int, int] = {}  # its address, by its end
        self._segments: dict[int, tuple[int, bool]] = {}

    def allocate(self, nbytes: int) -> tuple[int, int, bool]:
        """The smallest free block that is large enough, or one of a new segment: its address, its size, its kind."""
        size = math.ceil(nbytes / ROUND) * ROUND if self.caching else nbytes
        small, address = size <= SMALL, self._end
        if self.caching:
            pool = self._free[small]
            place = bisect_left(pool, (size, 0))
            address = pool[place][1] if place < len(pool) else self._segment(size, small)
            whole = self._take(address, small)
            if whole - size >= (ROUND if small else SMALL + 1):
                self._keep(address + size, whole - size, small)
            else:
                size = whole
        self.allocated_bytes += size
        return address, size, small

    def give_back(self, address: int, size: int, small: bool) -> None:
        """A block joins its neighbours where they are free."""
        self.allocated_bytes -= size
        if self.caching:
            if address in self._begins:
                address = self._begins[address]
                size += self._take(address, small)
            if address + size in self._sizes:
                size += self._take(address + size, small)
            self._keep(address, size, small)

    def _segment(self, size: int, small: bool) -> int:
        whole = SEGMENT_OF_SMALL if small else SEGMENT if size < ALONE else math.ceil(size / 2**21) * 2**21
        if self.reserved_bytes + whole > self.limit_bytes:
            for at in [at for at, (nbytes, _) in self._segments.items() if self._sizes.get(at) == nbytes]:
                self.reserved_bytes -= self._take(at, self._segments.pop(at)[1])
        self.reserved_bytes += whole
        if self.reserved_bytes > self.limit_bytes:
            raise MemoryError(f"{size} bytes do not fit beside {self.allocated_bytes}")
        address, self._end = self._end, self._end + whole + 1  # no neighbour of the next
        self._segments[address] = whole, small
        self._keep(address, whole, small)
        return address

    def _keep(self, address: int, size: int, small: bool) -> None:
        self._sizes[address], self._begins[address + size] = size, address
        insort(self._free[small], (size, address))

    def _take(self, address: int, small: bool) -> int:
        size = self._sizes.pop(address)
        del self._begins[address + size], self._free[small][bisect_left(self._free[small], (size, address))]
        return size
