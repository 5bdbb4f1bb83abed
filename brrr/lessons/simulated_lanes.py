"""A machine on paper: lanes that run side by side, events between them, and a host that can wait. No clock is needed.

Every time follows from the order of the calls alone, so the same schedule takes the same time on every computer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LANES = ("upload", "compute", "download")
ISSUE = 0.01
"""What the host needs to issue one piece of work, where a piece takes about 1."""


@dataclass(frozen=True)
class Ran:
    """One piece of work: which chunk, in which buffer, on which lane, from when to when."""

    lane: str
    chunk: int
    buffer: int
    start: float
    end: float


@dataclass(frozen=True)
class Event:
    """The moment at which a lane has done what it was given before."""

    at: float


@dataclass
class Machine:
    """The host's clock, how long a piece takes on each lane, and what ran.

    >>> machine = Machine({"upload": 1.0, "compute": 1.0, "download": 1.0})
    >>> up, work, down = machine.lanes()
    >>> up.submit(0, 0); work.wait(up.record()); work.submit(0, 0); work.synchronize()
    >>> [(ran.lane, round(ran.end)) for ran in machine.ran], machine.host_waits
    ([('upload', 1), ('compute', 2)], 1)
    """

    durations: Mapping[str, float]
    now: float = 0.0
    ran: list[Ran] = field(default_factory=list)
    host_waits: int = 0

    def lanes(self) -> tuple[SimulatedLane, SimulatedLane, SimulatedLane]:
        """The three lanes, all of them idle."""
        up, work, down = (SimulatedLane(self, name) for name in LANES)
        return up, work, down

    @property
    def end(self) -> float:
        """When the last piece of work ends."""
        return max((ran.end for ran in self.ran), default=0.0)


class SimulatedLane:
    """One lane: what a student's schedule gets in the place of a stream."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine, self.name = machine, name
        self._free_at = 0.0

    def submit(self, chunk: int, buffer: int) -> None:
        """Issue this lane's work on a chunk in a buffer; it starts when the lane is free, and nobody waits for it."""
        self.machine.now += ISSUE
        start = max(self._free_at, self.machine.now)
        self._free_at = start + self.machine.durations[self.name]
        self.machine.ran.append(Ran(self.name, chunk, buffer, start, self._free_at))

    def record(self) -> Event:
        """An event that stands for all that was issued to this lane so far."""
        return Event(self._free_at)

    def wait(self, event: Event | None) -> None:
        """What is issued to this lane from here on starts after the event; `None` is no event, and holds nothing."""
        if event is not None:
            self._free_at = max(self._free_at, event.at)

    def synchronize(self) -> None:
        """The host waits until this lane has done all that was issued to it."""
        self.machine.host_waits += 1
        self.machine.now = max(self.machine.now, self._free_at)
