"""Intervals of whole numbers, of time or of memory: their union, the gaps, what several have in common."""

from collections.abc import Iterable, Sequence

Interval = tuple[int, int]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The intervals merged where they touch or overlap, in order.

    >>> union([(5, 12), (0, 10), (20, 21)])
    [(0, 12), (20, 21)]
    """
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> int:
    """The length of the intervals' union.

    >>> length([(0, 10), (5, 12)])
    12
    """
    return sum(end - start for start, end in union(intervals))


def gaps(intervals: Iterable[Interval], start: int, end: int) -> list[Interval]:
    """What no interval covers between `start` and `end`.

    >>> gaps([(2, 4), (6, 7)], 0, 10)
    [(0, 2), (4, 6), (7, 10)]
    """
    free: list[Interval] = []
    at = start
    for begin, finish in union(intervals):
        if begin > at and at < end:
            free.append((at, min(begin, end)))
        at = max(at, finish)
    return [*free, (at, end)] if at < end else free


def together(groups: Sequence[Iterable[Interval]]) -> int:
    """How long at least two of the groups are active at once.

    >>> together([[(0, 10)], [(5, 8), (7, 12)], [(9, 11)]])
    6
    """
    edges = [edge for group in groups for start, end in union(group) for edge in ((start, 1), (end, -1))]
    active = total = at = 0
    for place, step in sorted(edges):
        if active >= 2:
            total += place - at
        active, at = active + step, place
    return total


def common(ones: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Where both are; each a union, in order.

    >>> common([(0, 10), (20, 30)], [(5, 25)])
    [(5, 10), (20, 25)]
    """
    found: list[Interval] = []
    one = other = 0
    while one < len(ones) and other < len(others):
        start, end = max(ones[one][0], others[other][0]), min(ones[one][1], others[other][1])
        if start < end:
            found.append((start, end))
        if ones[one][1] <= others[other][1]:
            one += 1
        else:
            other += 1
    return found


def without(ones: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """What is left of the first; each a union, in order.

    >>> without([(0, 10), (20, 30)], [(5, 25)])
    [(0, 5), (25, 30)]
    """
    if not ones:
        return []
    return common(ones, gaps(others, ones[0][0], ones[-1][1]))
