"""What an exchange between devices takes: a latency, and bytes over a bandwidth.

t = alpha + bytes / beta is Hockney's model (R. W. Hockney, "The communication challenge for MPP", Parallel Computing
20, 1994). Of a collective operation, bytes are those that cross each device's link, by the factors of nccl-tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from brrr.core.errors import ArgumentError
from brrr.core.measurement import Estimate

BUS: Mapping[str, Callable[[int], float]] = {
    "all-reduce": lambda ranks: 2 * (ranks - 1) / ranks, "all-gather": lambda ranks: (ranks - 1) / ranks,
    "reduce-scatter": lambda ranks: (ranks - 1) / ranks, "send": lambda ranks: 1.0,
}  # fmt: skip
"""By the number of ranks, the share of the whole buffer that crosses a link (nccl-tests, doc/PERFORMANCE.md)."""


STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's t of two-sided 95 %, by degrees of freedom n from 1 on; from 11 on 1.96 + 2.4 / n is within 0.03 of it."""


class Link(NamedTuple):
    """Seconds that an exchange takes at least, and the bytes a second that it tends to."""

    alpha_s: Estimate
    beta_bytes_per_s: Estimate

    def seconds(self, nbytes: float) -> float:
        """What so many bytes across the link take.

        >>> Link(Estimate(2e-5, 2e-5, 2e-5, 9), Estimate(1e11, 1e11, 1e11, 9)).seconds(2e6)
        4e-05
        """
        return self.alpha_s.median + nbytes / self.beta_bytes_per_s.median


def exchange_s(operation: str, nbytes: float, link: Link, ranks: int = 2) -> float:
    """Predicted seconds of an operation of BUS on a buffer of so many bytes.

    >>> link = Link(Estimate(2e-5, 2e-5, 2e-5, 9), Estimate(1e11, 1e11, 1e11, 9))
    >>> exchange_s("all-reduce", 2e6, link), exchange_s("all-gather", 4e6, link)
    (4e-05, 4e-05)
    """
    if operation not in BUS:
        raise ArgumentError("exchange_s", "operation", operation, f"one of {', '.join(BUS)}")
    if ranks < 2:
        raise ArgumentError("exchange_s", "ranks", ranks, "2 or more")
    return link.seconds(BUS[operation](ranks) * nbytes)


def overlapped_s(work_s: float, exchange_s: float, pieces: int = 1) -> float:
    """Predicted seconds of work whose results are exchanged in equal pieces, each as soon as it is there.

    >>> overlapped_s(4.0, 2.0), overlapped_s(4.0, 2.0, pieces=4), overlapped_s(2.0, 4.0, pieces=4)
    (6.0, 4.5, 4.5)

    The longer of the two sets the pace, and of the exchange at least the last piece is exposed: two stages of a
    pipeline. `work_s` is what the device alone takes, as `predict` has it: of a training step in DDP the backward pass,
    the pieces its buckets; of two layers split over the devices all of it, and one piece. `exchange_s` is that of all
    pieces, each with its own latency. That the exchange slows the work beside it is not in it.
    """
    if pieces < 1:
        raise ArgumentError("overlapped_s", "pieces", pieces, "1 or more")
    return (work_s + exchange_s + (pieces - 1) * max(work_s, exchange_s)) / pieces


def fitted(times: Mapping[float, float]) -> Link:
    """The latency and the bandwidth of measured exchanges, from bytes across the link to seconds.

    >>> found = fitted({8: 2.1e-5, 1e5: 2.0e-5, 1e7: 1.2e-4, 1e8: 1.02e-3})
    >>> print(found.alpha_s)
    20 µs (16.9 to 23 µs, n=4)

    Least squares of the relative errors, for times differ by orders of magnitude. The intervals of 95 % are those of
    the coefficients, from the scatter about the line: where times do not lie on a line at all, they are wide. A latency
    below nothing is none.

    Raises
    ------
    ArgumentError
        With fewer than three sizes, and where time does not grow with the bytes.
    """
    if len(times) < 3:
        raise ArgumentError("fitted", "times", dict(times), "at least three sizes")
    rows = [(1 / seconds, nbytes / seconds) for nbytes, seconds in times.items()]  # 1 = alpha / t + slope * bytes / t
    aa, ab, bb = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = (sum(row[i] for row in rows) for i in (0, 1))
    size = aa * bb - ab * ab
    alpha, slope = (a * bb - b * ab) / size, (b * aa - a * ab) / size
    if slope <= 0:
        raise ArgumentError("fitted", "times", dict(times), "times that grow with the bytes")
    free = len(rows) - 2
    spread = sum((1 - alpha * x - slope * y) ** 2 for x, y in rows) / free
    student = STUDENT[free - 1] if free <= len(STUDENT) else 1.96 + 2.4 / free
    off_alpha, off_slope = (student * math.sqrt(spread * each / size) for each in (bb, aa))
    alphas, slopes = (
        Estimate(max(value, 0.0), max(value - off, 0.0), max(value + off, 0.0), len(rows))
        for value, off in ((alpha, off_alpha), (slope, off_slope))
    )
    return Link(alphas, 1 / slopes)
