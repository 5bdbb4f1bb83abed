"""Several values against one band: the verdict of "all of these are about that"."""

from __future__ import annotations

from collections.abc import Iterable

from brrr.claim import Status, Verdict, band_verdict

ORDER: tuple[Status, ...] = ("fails", "undecided", "holds")


def all_within(values: Iterable[tuple[float, float, float]], low: float, high: float, text: str) -> Verdict:
    """*fails* if one value (middle, low, high) lies outside with its whole interval, *holds* if all lie inside.

    >>> all_within([(1.0, 0.9, 1.1), (1.6, 1.5, 1.7)], 0.8, 1.2, "two ratios").status
    'fails'
    >>> all_within([(1.0, 0.9, 1.1), (1.1, 1.0, 1.3)], 0.8, 1.2, "two ratios").status
    'undecided'
    """
    found = [band_verdict(value, low, high, text).status for value in values]
    return Verdict(min(found, key=ORDER.index), text)
