"""Two clocks: the host issues one operator after the other, and the device does each when both are ready for it.

issued[i] = issued[i-1] + host[i]; start[i] = max(issued[i], end[i-1] + gap); end[i] = start[i] + device[i].
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import NamedTuple


class Step(NamedTuple):
    """One operator: what it costs the host to issue, and the device to do (None: nothing runs there)."""

    host_s: float
    device_s: float | None


class Moment(NamedTuple):
    """When one operator was issued, and from when to when the device did it; both as issued if nothing ran there."""

    issued_s: float
    start_s: float
    end_s: float


def schedule(steps: Iterable[Step], gap_s: float = 0.0) -> Iterator[Moment]:
    """The moments of a chain, from an idle device on; `gap_s` lies between two kernels that do not wait for the host.

    >>> [tuple(moment) for moment in schedule([Step(2.0, 1.0), Step(2.0, 5.0), Step(2.0, 1.0)], gap_s=0.5)]
    [(2.0, 2.0, 3.0), (4.0, 4.0, 9.0), (6.0, 9.5, 10.5)]
    """
    issued, free = 0.0, float("-inf")
    for host_s, device_s in steps:
        issued += host_s
        if device_s is None:
            yield Moment(issued, issued, issued)
            continue
        start = max(issued, free + gap_s)
        free = start + device_s
        yield Moment(issued, start, free)


def period_s(steps: list[Step], calls: int, gap_s: float = 0.0) -> float:
    """Seconds a call of `calls` calls without synchronising, until host and device are through.

    >>> period_s([Step(2.0, 1.0), Step(2.0, 5.0)], calls=1), period_s([Step(2.0, 1.0), Step(2.0, 5.0)], calls=100)
    (9.0, 6.03)
    """
    last = 0.0
    for moment in schedule(chain.from_iterable(repeat(steps, calls)), gap_s):
        last = max(last, moment.issued_s, moment.end_s)
    return last / calls


def span_s(steps: Iterable[Step], gap_s: float = 0.0) -> float:
    """Seconds from the first start to the last end on the device when everything is issued already.

    >>> span_s([Step(2.0, 1.0), Step(1.0, None), Step(2.0, 5.0)], gap_s=0.5)
    6.5
    """
    times = [device_s for _, device_s in steps if device_s is not None]
    return sum(times) + gap_s * max(0, len(times) - 1)
