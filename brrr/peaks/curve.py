"""Between measured points: straight lines in log-log, since sizes and rates span decades."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

from brrr.errors import ArgumentError


def through(points: Sequence[tuple[float, float]], x: float) -> float:
    """The value at x of the line through the points in log-log; beyond the ends it stays what it is there.

    >>> through([(1.0, 10.0), (100.0, 1000.0)], 10.0)
    100.0
    >>> through([(1.0, 10.0), (100.0, 1000.0)], 1e6)
    1000.0

    `points` are (x, y) with rising x, all above zero. Raises ArgumentError for an x that is not above zero.
    """
    if not 0 < x < math.inf:
        raise ArgumentError("through", "x", x, "a number above 0")
    places = [place for place, _ in points]
    right = bisect.bisect_left(places, x)
    if right == 0 or right == len(points):
        return points[min(right, len(points) - 1)][1]
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    if x == x1:
        return y1
    share = math.log(x / x0) / math.log(x1 / x0)
    return round_off(y0 * (y1 / y0) ** share)


def round_off(value: float) -> float:
    """Without the last digits, which are only those of the logarithms."""
    return float(f"{value:.12g}")


def steps(first: float, last: float, factor: float, *, fine: tuple[float, float] | None = None) -> list[int]:
    """Sizes from the first to the last, each `factor` times the one before; twice as dense inside `fine`.

    >>> steps(64, 1024, 4)
    [64, 256, 1024]
    >>> steps(64, 1024, 4, fine=(200, 600))
    [64, 256, 512, 1024]
    """
    sizes, size = [], float(first)
    while size <= last * 1.001:
        sizes.append(round(size))
        half = size * math.sqrt(factor)
        if fine is not None and fine[0] <= half <= fine[1] and half <= last:
            sizes.append(round(half))
        size *= factor
    return sizes
