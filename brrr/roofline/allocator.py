"""torch's caching allocator on a GPU, without a GPU: how much it reserves for storages that come and go.

>>> pool = Allocator()
>>> block = pool.allocate(3 * 2**20)
>>> pool.allocated_bytes // 2**20, pool.reserved_bytes // 2**20
(3, 20)
>>> pool.give_back(block)
>>> pool.allocated_bytes, pool.reserved_bytes // 2**20
(0, 20)
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass

ROUND, SMALL, SMALL_SEGMENT, SEGMENT, ALONE = 512, 2**20, 2**21, 20 * 2**20, 10 * 2**20
"""Sizes are multiples of 512 B; up to 1 MiB come out of segments of 2 MiB, up to 10 MiB of 20 MiB; more has its own,
of whole 2 MiB (`c10/cuda/CUDACachingAllocator.cpp`)."""


@dataclass(eq=False, slots=True)
class Block:
    """A part of a segment, with its neighbours there."""

    size: int
    small: bool
    before: Block | None = None
    behind: Block | None = None
    free: bool = False


class Allocator:
    """Takes segments from the device, cuts blocks from them, and keeps what is given back.

    `limit_bytes` is the most that it may reserve: where that is not enough it gives segments without a block in use
    back to the device, and MemoryError where that does not help either.
    """

    def __init__(self, limit_bytes: float = math.inf) -> None:
        self.limit_bytes = limit_bytes
        self.allocated_bytes = self.reserved_bytes = 0
        self._free: dict[bool, list[tuple[int, int, Block]]] = {True: [], False: []}

    def allocate(self, nbytes: int) -> Block:
        """The smallest free block that is large enough, or one of a new segment; what is left over stays free."""
        size = ROUND * max(1, math.ceil(nbytes / ROUND))
        small = size <= SMALL
        pool = self._free[small]
        place = bisect_left(pool, (size, 0))
        block = pool.pop(place)[2] if place < len(pool) else self._segment(size, small)
        rest = block.size - size
        if rest >= ROUND if small else rest > SMALL:
            left = Block(rest, small, block, block.behind)
            if block.behind:
                block.behind.before = left
            block.size, block.behind = size, left
            self._keep(left)
        block.free = False
        self.allocated_bytes += block.size
        return block

    def give_back(self, block: Block) -> None:
        """It joins its neighbours where they are free."""
        self.allocated_bytes -= block.size
        for other in (block.before, block.behind):
            if other and other.free:
                self._take(other)
                first, second = (other, block) if other is block.before else (block, other)
                first.size, first.behind = first.size + second.size, second.behind
                if second.behind:
                    second.behind.before = first
                block = first
        self._keep(block)

    def _segment(self, size: int, small: bool) -> Block:
        needed = (
            SMALL_SEGMENT if small else SEGMENT if size < ALONE else math.ceil(size / SMALL_SEGMENT) * SMALL_SEGMENT
        )
        if self.reserved_bytes + needed > self.limit_bytes:
            for _, _, each in [*self._free[True], *self._free[False]]:
                if not each.before and not each.behind:
                    self._take(each)
                    self.reserved_bytes -= each.size
        if self.reserved_bytes + needed > self.limit_bytes:
            raise MemoryError(f"{size} bytes do not fit beside {self.reserved_bytes}")
        self.reserved_bytes += needed
        return Block(needed, small)

    def _keep(self, block: Block) -> None:
        block.free = True
        insort(self._free[block.small], (block.size, id(block), block))

    def _take(self, block: Block) -> None:
        pool = self._free[block.small]
        del pool[bisect_left(pool, (block.size, id(block)))]
