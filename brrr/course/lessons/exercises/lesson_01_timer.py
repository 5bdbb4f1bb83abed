"""Exercise 01-timer: mend a timer. It is run on an asynchronous device, with work whose duration is known.

The student's timer is called as `timer(call, synchronize, clock)`. The clock is the real one, and it also notes what
was in the queue whenever it was read; so the mark does not depend on how busy the machine is.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Any, Protocol

from brrr.core.units import seconds
from brrr.course.lessons.checking import Exercise, Mark, ask
from brrr.gpu import is_gpu
from brrr.timing.cpu_queue import CpuQueue

FEWEST = 5
"""Fewer samples than this have no median worth the name."""


@dataclass(frozen=True)
class Sample:
    """What lies between two readings of the clock with at least one call between them."""

    seconds: float
    first_call: int
    calls: int
    waited_before: bool
    waited_after: bool


def grade(timer: Any) -> Mark:
    """Run the timer on the queue (on the GPU where there is one) and say which mistake it makes, if any."""
    if not callable(timer):
        return Mark(
            "wrong", f"{timer!r} is not a function.", 'Pass the function itself: check("01-timer", timer=timer).'
        )
    with device() as work:
        work.submit_earlier_work()
        said = ask(timer, work.call, work.synchronize, work.clock)
        work.synchronize()
    if isinstance(said, bool) or not isinstance(said, int | float) or not math.isfinite(said):
        return Mark("wrong", f"your timer returned {said!r}.", "It should return one number of seconds.")
    mistake = _mistake(work, float(said))
    truth = f"Your timer says {seconds(float(said))}; the work takes {seconds(work.true_s)} by construction"
    if mistake is None:
        return Mark("right", f"{truth} ({work.name}). It waits, warms up, repeats, and takes the median.")
    return Mark("wrong", f"{mistake[0]} {truth} ({work.name}).", mistake[1])


EXERCISE = Exercise("01-timer", grade)


def _mistake(work: Clocked, said: float) -> tuple[str, str] | None:
    """The first mistake in the order in which they spoil a time, as (what, hint)."""
    if not work.calls:
        return "your timer never calls `call()`.", "It should run the work that it times."
    samples = samples_of(work.readings)
    if not samples:
        return "your timer does not read the clock around the call.", "Use the `clock()` that it is given."
    kept = [s for s in samples if s.first_call > 0]
    return _no_waiting(samples, kept) or _no_warm_up(samples, kept, said) or _too_few(kept) or _not_median(kept, said)


def samples_of(readings: list[Reading]) -> list[Sample]:
    """The intervals between readings of the clock that hold at least one call.

    >>> samples_of([Reading(0.0, 0, True), Reading(2.0, 1, False)])
    [Sample(seconds=2.0, first_call=0, calls=1, waited_before=True, waited_after=False)]
    """
    return [
        Sample(end.seconds - start.seconds, start.calls, end.calls - start.calls, start.idle, end.idle)
        for start, end in pairwise(readings)
        if end.calls > start.calls
    ]


def _no_waiting(samples: list[Sample], kept: list[Sample]) -> tuple[str, str] | None:
    if not all(s.waited_after for s in samples):
        return (
            "your timer stops the clock while the work is still running.",
            "The call only puts the work into the queue. Wait for its end before you read the clock again.",
        )
    if not all(s.waited_before for s in kept or samples):
        return (
            "your timer starts the clock while earlier work is still in the queue.",
            "Wait until the queue is empty, then read the clock. The warm-up call is earlier work too.",
        )
    return None


def _no_warm_up(samples: list[Sample], kept: list[Sample], said: float) -> tuple[str, str] | None:
    dropped = _near_middle(kept, said) and not _near_middle(samples, said)
    if len(kept) < len(samples) and not dropped:
        return (
            "the first call, which sets everything up, is among the times.",
            "Make one call that is not timed before the others. What sets up once is not part of the work.",
        )
    return None


def _too_few(kept: list[Sample]) -> tuple[str, str] | None:
    if any(s.calls > 1 for s in kept):
        return "your timer times several calls together.", "Read the clock before and after each single call."
    if len(kept) < FEWEST:
        return (
            f"your timer takes {len(kept)} time{'s' * (len(kept) != 1)}, and any of them may be disturbed.",
            f"Repeat the measurement: {FEWEST} times or more.",
        )
    return None


def _not_median(kept: list[Sample], said: float) -> tuple[str, str] | None:
    if _near_middle(kept, said):
        return None
    times = [s.seconds for s in kept]
    names = {fmean(times): "the mean", min(times): "the smallest", max(times): "the largest"}
    for value, name in names.items():
        if math.isclose(said, value, rel_tol=1e-9):
            return f"your timer returns {name} of its times.", "One disturbed call moves it. Return the median."
    if math.isclose(said, sum(times), rel_tol=1e-9):
        return "your timer returns the sum of its times.", "Return their median."
    return "your timer returns a number that is none of its times.", "Return the median of the times, in seconds."


def _near_middle(samples: list[Sample], said: float) -> bool:
    """Whether `said` is the median; either of the two middle times will do as well."""
    times = sorted(s.seconds for s in samples)
    if not times:
        return False
    middle = (times[(len(times) - 1) // 2], median(times), times[len(times) // 2])
    return any(math.isclose(said, m, rel_tol=1e-9) for m in middle)


# ---------------------------------------------------------------------------------------------------------------------
# An asynchronous device whose work has a known duration: the CPU queue, or the GPU.

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
    from brrr.course.sources import source

    if is_gpu(source().name):
        from brrr.gpu.device import this_device

        yield Clocked(CudaBusy(), f"LIVE · {this_device('cuda').name}")
        return
    with CpuQueue() as queue:
        yield Clocked(QueueBusy(queue), "LIVE, CPU QUEUE")
