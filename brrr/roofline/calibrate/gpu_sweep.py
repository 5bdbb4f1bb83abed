"""Sweeps on a GPU: each call checked, then timed by CUPTI, many in one recording, until the part's time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from brrr.core.values import Value
from brrr.roofline.calibrate.gpu_times import own_times
from brrr.roofline.calibrate.part import Findings, said
from brrr.roofline.peaks.peak import Sweep, whole_nanoseconds

TOGETHER = 96
"""Calls in one recording."""
WARM, TIMED = 2, 5
MISSED = 2
"""So many recordings may fail before a sweep ends."""

TOLD = 8
"""So many notes tell what was left out; one more tells that there was more."""

Row = tuple[int | str, ...]
Prepare = Callable[[], tuple[Row, Callable[[], Any]] | None]
"""Allocates and checks one call, and gives it with its row; None for a call that no row can tell of."""


def measure_sweep(
    name: str, columns: tuple[str, ...], calls: Sequence[Prepare], share_s: float, found: Findings, by: str
) -> None:
    """Time the calls in turn, and keep them in the sweep `name`; what is left when `share_s` is over becomes a note."""
    until_s = time.perf_counter() + min(share_s, found.left_s)
    rows: list[Row] = []
    seconds: list[float] = []
    missed = 0
    for together in _parts(calls, TOGETHER):
        if time.perf_counter() >= until_s:
            found.note(f"sweep of {name}: {len(rows)} of {len(calls)} measured, for lack of time")
            break
        made = list(_prepared(name, together, found))
        timed = [call for _, call in made]
        if not timed:
            continue
        times = own_times(timed, WARM, TIMED) or own_times(timed, WARM, TIMED)
        if times is None:
            missed += 1
            if missed > MISSED:
                found.note(
                    f"sweep of {name}: {len(rows)} of {len(calls)} measured, since only CUPTI can time short kernels"
                )
                break
            continue
        rows += [row for row, _ in made]
        seconds += [each.median for each in times]
    if rows:
        conditions: dict[str, Value] = {"by": by, "times_from": "cupti", "cache": "hot", "timed": TIMED}
        found.sweeps[name] = Sweep(columns, tuple(rows), whole_nanoseconds(seconds), conditions)


def _prepared(name: str, calls: Sequence[Prepare], found: Findings) -> Iterator[tuple[Row, Callable[[], Any]]]:
    """The calls that can be timed; of what is wrong, or cannot be had, no time is kept, and a note says so."""
    for prepare in calls:
        try:
            made = prepare()
        except Exception as error:  # a wrong result, too little memory, an operator that this torch lacks
            told = sum("left out" in note for note in found.notes)
            found.note(
                f"sweep of {name}: left out: {said(error)}" if told < TOLD else f"sweep of {name}: more left out"
            )
            continue
        if made is not None:
            yield made


def _parts(calls: Sequence[Prepare], size: int) -> Iterator[Sequence[Prepare]]:
    return (calls[first : first + size] for first in range(0, len(calls), size))


def pool(nbytes: int, dtype: torch.dtype) -> torch.Tensor:
    """Random values of a data type, so many bytes of them, for calls to take their operands from.

    They are of both signs, and their mean is not zero, so that no sum of them is small by accident.
    """
    itemsize = torch.empty((), dtype=dtype).element_size()
    return torch.randn(nbytes // itemsize, device="cuda", dtype=dtype).add_(0.25)


def taken(from_pool: torch.Tensor, shape: Sequence[int], *, end: bool = False) -> torch.Tensor:
    """A tensor at the beginning of the pool, or at its end, on a line of the cache."""
    count = 1
    for size in shape:
        count *= size
    first = (len(from_pool) - count) // 256 * 256 if end else 0
    return from_pool[first : first + count].view(*shape)
