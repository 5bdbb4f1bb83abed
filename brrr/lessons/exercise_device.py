"""An asynchronous device whose work has a known duration: the CPU queue, or the GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from brrr.timing.cpu_queue import CpuQueue

WORK_S, FIRST_S, EARLIER_S = 2e-3, 60e-3, 60e-3
"""One call, the first call (which sets up), and what is in the queue before the timer starts."""

DISTURBED, DISTURBED_S = 4, 20e-3
"""The fifth call takes longer, as when the operating system interrupts: a median does not care."""

MOST_CALLS = 1000


@dataclass(frozen=True)
class Reading:
    """One reading of the clock: the time, how many calls were made before it, and whether the queue was empty."""

    seconds: float
    calls: int
    idle: bool


class Busy(Protocol):
    """A device that can be kept busy for a given time."""

    def submit(self, duration_s: float) -> None:
        """Put work of that duration into the queue and return at once."""

    def synchronize(self) -> None:
        """Wait for all of it."""

    def idle(self) -> bool:
        """Whether nothing is left."""


class Clocked:
    """What the student's timer gets: `call`, `synchronize` and `clock`; and the notes taken meanwhile."""

    def __init__(self, busy: Busy, name: str) -> None:
        self.busy, self.name, self.true_s = busy, name, WORK_S
        self.calls = 0
        self.readings: list[Reading] = []
        self.synchronize: Callable[[], None] = busy.synchronize

    def submit_earlier_work(self) -> None:
        """Somebody else's work, which must not leak into the time."""
        self.busy.submit(EARLIER_S)

    def call(self) -> None:
        """Put one piece of work into the queue; the first takes longer, and one of the later ones too."""
        if self.calls >= MOST_CALLS:
            raise RuntimeError(f"call() was called {MOST_CALLS} times; 5 to 50 are enough")
        duration = {0: FIRST_S, DISTURBED: DISTURBED_S}.get(self.calls, WORK_S)
        self.calls += 1
        self.busy.submit(duration)

    def clock(self) -> float:
        """The time in seconds, as `time.perf_counter()` gives it."""
        idle = self.busy.idle()
        now = time.perf_counter()
        self.readings.append(Reading(now, self.calls, idle))
        return now


class QueueBusy:
    """The CPU queue, kept busy by sleeping in its worker: it never ends early, however busy the machine is.

    >>> with CpuQueue() as queue:
    ...     busy = QueueBusy(queue)
    ...     busy.submit(0.001)
    ...     busy.synchronize()
    ...     busy.idle()
    True
    """

    def __init__(self, queue: CpuQueue) -> None:
        self._queue = queue
        self._lock = threading.Lock()
        self._left = 0

    def submit(self, duration_s: float) -> None:
        """Sleep so long in the worker."""
        with self._lock:
            self._left += 1
        self._queue.submit(self._sleep, duration_s)

    def synchronize(self) -> None:
        """Wait for the worker."""
        self._queue.synchronize()

    def idle(self) -> bool:
        """Whether every sleep has ended."""
        return self._left == 0

    def _sleep(self, duration_s: float) -> None:
        time.sleep(duration_s)
        with self._lock:
            self._left -= 1


class CudaBusy:
    """The GPU, kept busy by a kernel that watches the GPU's own clock."""

    def __init__(self) -> None:
        import torch

        self._torch: Any = torch
        self._stamps = torch.zeros(3, dtype=torch.int64, device="cuda")
        self.submit(0.0)  # loads the kernel, which is not the student's first call
        self.synchronize()

    def submit(self, duration_s: float) -> None:
        """Watch the clock for so long."""
        from brrr.timing.gate import spin

        spin(duration_s, self._stamps)

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self._torch.cuda.synchronize()

    def idle(self) -> bool:
        """Whether the stream is empty."""
        return bool(self._torch.cuda.current_stream().query())


@contextmanager
def device() -> Iterator[Clocked]:
    """The GPU if the lesson's source is one, else the CPU queue."""
    from brrr.source import source

    if source().name == "cuda":
        from brrr.device import this_device

        yield Clocked(CudaBusy(), f"LIVE · {this_device('cuda').name}")
        return
    with CpuQueue() as queue:
        yield Clocked(QueueBusy(queue), "LIVE, CPU QUEUE")
