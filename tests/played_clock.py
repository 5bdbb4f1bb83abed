"""A clock that is played: it stands still but for what is told to take time, so timers can be tested exactly."""

import time
from collections import deque
from functools import lru_cache
from typing import Any

import pytest

from brrr.core.measurement import Measurement
from brrr.timing import host_times
from brrr.timing.cpu_queue import CpuQueue


class Clock:
    """What stands in for the module `time` in `brrr.timing`; `reading_s` is what each look at it takes."""

    def __init__(self, reading_s: float = 0.0) -> None:
        self.now_ns = 0
        self.reading_s = reading_s
        self.idle, self.others = 1.0, 0.0  # the share of the time in which the cores are idle, or run other programs
        self.get_clock_info = time.get_clock_info

    def go_on(self, seconds: float) -> None:
        """So much time passes."""
        self.now_ns += round(seconds * 1e9)

    sleep = go_on

    def perf_counter_ns(self) -> int:
        self.go_on(self.reading_s)
        return self.now_ns

    def perf_counter(self) -> float:
        return self.perf_counter_ns() * 1e-9

    def cpu_seconds(self) -> tuple[float, float, float]:
        """As `brrr.timing.sampler.cpu_seconds` has it."""
        now_s = self.now_ns * 1e-9
        return now_s, self.idle * now_s, self.others * now_s


def play(clock: Clock, patch: pytest.MonkeyPatch) -> Clock:
    """The timers look at this clock from now on; what reading it costs is measured anew."""
    for module in ("sampler", "host_times", "activity", "naive"):
        patch.setattr(f"brrr.timing.{module}.time", clock)
    patch.setattr("brrr.timing.sampler.cpu_seconds", clock.cpu_seconds)
    patch.setattr(host_times, "clock_cost_s", lru_cache(host_times.clock_cost_s.__wrapped__))
    return clock


def middle(m: Measurement, name: str) -> float:
    """The median of a time that must be there."""
    found = m.get(name)
    assert found is not None, name
    return found.median


class PlayedQueue(CpuQueue):
    """A CPU queue whose worker is played: `submit(seconds)` costs the host `issue_s`, and the worker so long."""

    def __init__(self, clock: Clock, issue_s: float = 0.0) -> None:
        self.clock, self.issue_s, self.free_ns = clock, issue_s, 0
        self.worked_s: deque[float] = deque(maxlen=1024)

    def submit(self, seconds: Any, *_: Any) -> None:
        self.clock.go_on(self.issue_s)
        self.free_ns = max(self.free_ns, self.clock.now_ns) + round(seconds * 1e9)
        self.worked_s.append(seconds)

    def synchronize(self) -> None:
        self.clock.now_ns = max(self.clock.now_ns, self.free_ns)
