"""What the claims and the table on the textbook network share: speed-ups point by point, their means, the divide."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple
from math import exp, log
from statistics import mean

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr.course.experiments.judging import from_on
from brrr.course.nouns.claim import Verdict, band_verdict
from brrr.course.nouns.evidence import Evidence

Key = tuple[int, int, int]
"""Layers, batch, hidden."""

MOST_LAYERS, BELOW, ABOVE = 8, (128, 256, 512), (2048, 4096)
"""The source's two sides of its divide at 1024."""

FEWEST = 6
"""So many points a sentence on a part of the grid needs."""


def times(evidence: Evidence, line: str) -> dict[Key, Estimate]:
    """A line at every point of the grid that was measured."""
    return {(int(n), int(b), int(h)): found for (n, b, h), found in evidence.everywhere(line).items()}


def speedups(
    evidence: Evidence, line: str, base: str, *, layers: Collection[int] = (), hidden: Collection[int] = (),
    batch: Collection[int] = (), fewest: int = FEWEST,
) -> dict[Key, Estimate]:  # fmt: skip
    """The time of `base` over that of `line` wherever both were measured, on a part of the grid.

    NotRecordedError for fewer points than `fewest`.
    """
    slow, fast = times(evidence, base), times(evidence, line)
    parts = (layers, batch, hidden)
    here = [key for key in slow if key in fast and all(not p or k in p for k, p in zip(key, parts, strict=True))]
    if len(here) < fewest:
        raise NotRecordedError(f"{line} and {base} were measured together at {len(here)} points; {fewest} are needed")
    return {key: slow[key] / fast[key] for key in sorted(here)}


def average(found: Iterable[Estimate]) -> Estimate:
    """The arithmetic mean, as the source has it, with the means of the intervals' ends.

    >>> average([Estimate(1.0, 0.5, 1.5, 9), Estimate(3.0, 2.5, 3.5, 9)])
    Estimate(median=2.0, low=1.5, high=2.5, n=9)
    """
    middle, low, high, n = zip(*map(astuple, found), strict=True)
    return Estimate(mean(middle), mean(low), mean(high), min(n))


def geometric(found: Iterable[Estimate]) -> Estimate:
    """The geometric mean, of the ratios and of both ends of their intervals.

    >>> geometric([Estimate(1.0, 1.0, 1.0, 9), Estimate(4.0, 4.0, 4.0, 9)])
    Estimate(median=2.0, low=2.0, high=2.0, n=9)
    """
    middle, low, high, n = zip(*map(astuple, found), strict=True)
    ends = [exp(mean(map(log, each))) for each in (middle, low, high)]
    return Estimate(ends[0], ends[1], ends[2], min(n))


def largest(found: Mapping[Key, Estimate]) -> tuple[Key, Estimate]:
    """The point that gains most."""
    return max(found.items(), key=lambda each: each[1].median)


def smallest(found: Mapping[Key, Estimate]) -> tuple[Key, Estimate]:
    """The point that gains least."""
    return min(found.items(), key=lambda each: each[1].median)


def place(key: Key) -> str:
    """A point as a reader takes it in.

    >>> place((8, 2, 128)), place((1, 64, 256))
    ('8 layers, batch 2, hidden 128', '1 layer, batch 64, hidden 256')
    """
    layers, batch, hidden = key
    return f"{layers} layer{'s' if layers > 1 else ''}, batch {batch}, hidden {hidden}"


def as_told(ratio: Estimate, told: float, text: str) -> Verdict:
    """Whether a speed-up is the source's: what it gains beyond 1 within a third of the source's gain, or within 0.05.

    >>> as_told(Estimate(1.7, 1.69, 1.71, 9), 1.73, "").status, as_told(Estimate(1.4, 1.39, 1.41, 9), 1.73, "").status
    ('holds', 'fails')
    """
    room = max(0.05, (told - 1) / 3)
    return band_verdict(ratio, told - room, told + room, text)


def divide(gains: Mapping[int, float]) -> int | None:
    """The smallest hidden size from which on every speed-up gains less than half of what the best one gains beyond 1.

    >>> divide({128: 1.8, 256: 1.8, 512: 1.7, 1024: 1.3, 2048: 1.1})
    1024
    >>> divide({128: 1.8, 256: 1.8}) is None, divide({128: 1.01, 256: 1.0}) is None
    (True, True)

    None where no size is beyond it, and where nothing gains 5 %.
    """
    most = max(gains.values()) - 1
    return from_on(gains, lambda hidden: gains[hidden] - 1 < most / 2) if most >= 0.05 else None


def by_hidden(found: Mapping[Key, Estimate]) -> dict[int, float]:
    """The mean speed-up at each hidden size, over the batches."""
    return {h: mean(ratio.median for key, ratio in found.items() if key[2] == h) for h in sorted({k[2] for k in found})}
