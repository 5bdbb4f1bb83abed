"""The median and its 95 % interval, without assuming any distribution of the times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

CONFIDENCE = 0.95


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones.

    >>> median([3.0, 1.0, 2.0])
    2.0
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("median: values is empty; expected at least one")
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def median_interval(values: Sequence[float], tick: float = 0.0) -> tuple[float, float, float]:
    """Median, low and high end of its 95 % interval: `(median, low, high)`.

    The interval's ends are two of the sorted values, chosen by the binomial distribution (the sign test turned round:
    Conover, Practical Nonparametric Statistics, 3.2), so outliers and two-humped times do not spoil it. With fewer
    than six values no pair reaches 95 %, and the ends are the extremes. The interval is never narrower than `tick`,
    the step of the clock, for a clock cannot vouch for less.

    >>> median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    (4.0, 1.0, 7.0)
    >>> median_interval([5.0], tick=1.0)
    (5.0, 4.5, 5.5)
    """
    ordered = sorted(values)
    middle = median(ordered)
    rank = _low_rank(len(ordered))
    low, high = ordered[rank], ordered[len(ordered) - 1 - rank]
    return middle, min(low, middle - tick / 2), max(high, middle + tick / 2)


@lru_cache(maxsize=4096)
def _low_rank(n: int) -> int:
    """The index of the interval's low end among n sorted values; the high end lies as far from the other side."""
    if n > 1000:  # the normal approximation errs to the wide side, by one rank at most; the sum is slow
        return max(0, math.floor((n - 1 - 1.96 * math.sqrt(n)) / 2))
    tail, rank = 0.0, 0
    for k in range(n):
        tail += math.comb(n, k) / 2**n
        if tail > (1 - CONFIDENCE) / 2:
            break
        rank = k + 1
    # The interval from the k-th to the (n+1-k)-th sorted value misses with probability 2 * P(Binomial(n, 1/2) < k).
    return max(0, rank - 1)
