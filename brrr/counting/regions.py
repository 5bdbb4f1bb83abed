"""Which bytes of a storage a tensor covers, and how many a set of such regions covers together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Region:
    """The bytes of a storage behind a view: from `start`, along `dims` of (stride, size) in elements.

    Transposes, reshapes and broadcasts of one view have one region: dimensions of stride 0 or size 1 are left out, the
    others sorted, and those that run on into each other joined.
    """

    start: int
    dims: tuple[tuple[int, int], ...]
    itemsize: int

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.start + (1 + sum(stride * (size - 1) for stride, size in self.dims)) * self.itemsize

    @property
    def bytes(self) -> int:
        """Its bytes; windows that overlap (`unfold`) count once."""
        elements = 1
        for _, size in self.dims:
            elements *= size
        return min(elements * self.itemsize, self.end - self.start)

    @property
    def dense(self) -> bool:
        """Whether it has no holes."""
        return self.bytes == self.end - self.start


def region_of(tensor: torch.Tensor) -> Region:
    """The region of a tensor with at least one element.

    >>> x = torch.empty(4, 6)
    >>> region_of(x) == region_of(x.t()) == region_of(x.view(24).expand(5, 24))
    True
    >>> region_of(x[:, :3]).bytes, region_of(x.expand(9, 4, 6)).bytes
    (48, 96)
    """
    steps = sorted((int(s), int(n)) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1 and s)
    joined: list[tuple[int, int]] = []
    for stride, size in steps:
        if joined and stride == joined[-1][0] * joined[-1][1]:
            joined[-1] = joined[-1][0], joined[-1][1] * size
        else:
            joined.append((stride, size))
    itemsize = tensor.element_size()
    return Region(int(tensor.storage_offset()) * itemsize, tuple(joined), itemsize)


def union_bytes(regions: Iterable[Region]) -> int:
    """How many bytes different regions of one storage cover together.

    >>> x = torch.empty(10)
    >>> union_bytes([region_of(x[:6]), region_of(x[4:]), region_of(x[2:3])])
    40

    Exact for regions without holes. Of those with holes, equal ones and ones inside a dense one count once; others
    are summed, at most up to what lies between their ends.
    """
    different = set(regions)
    solid = _merged([(each.start, each.end) for each in different if each.dense])
    holed = [each for each in different if not each.dense and not _inside(each, solid)]
    covered = sum(end - start for start, end in solid)
    if not holed:
        return covered
    everything = _merged([(each.start, each.end) for each in different])
    return min(covered + sum(each.bytes for each in holed), sum(end - start for start, end in everything))


def covered_by(region: Region, others: Iterable[Region]) -> bool:
    """Whether a region lies within others: the same one, or inside dense ones."""
    known = set(others)
    return region in known or _inside(region, _merged([(each.start, each.end) for each in known if each.dense]))


def _inside(region: Region, intervals: list[tuple[int, int]]) -> bool:
    return any(start <= region.start and region.end <= end for start, end in intervals)


def _merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same points as intervals that do not touch."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged
