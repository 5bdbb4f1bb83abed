"""Exercise 01-timer: build the amortised event timer. It is run on an asynchronous device, with work of known duration.

The student's timer is called as `timer(call, synchronize, event)`. Events note the device's own time when the queue
reaches them, and how many calls were made before; so the mark does not depend on how busy the machine is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from brrr.core.units import percent, seconds
from brrr.gpu import is_gpu
from brrr.timing.cpu_queue import CpuQueue
from brrr_course.lessons.checking import Exercise, Mark, ask

FEWEST = 20
"""Calls between two events, so that what surrounds them hardly counts."""

WORK_S, FIRST_S, EARLIER_S = 0.5e-3, 30e-3, 30e-3
"""One call, the first call (which sets up), and what is in the queue before the timer starts."""

MOST_CALLS = 1000


def grade(timer: Any) -> Mark:
    """Run the timer on the queue (on the GPU where there is one) and say which mistake it makes, if any."""
    if not callable(timer):
        hint = 'Pass the function itself: check("01-timer", timer=timer).'
        return Mark("wrong", f"{timer!r} is not a function.", hint)
    with device() as work:
        work.busy.submit(EARLIER_S)  # somebody else's work, which must not leak into the time
        said = ask(timer, work.call, work.busy.synchronize, work.event)
        work.busy.synchronize()
    if isinstance(said, bool) or not isinstance(said, int | float) or not math.isfinite(said):
        return Mark("wrong", f"your timer returned {said!r}.", "It should return one number of seconds.")
    mistake = _mistake(work, float(said))
    truth = f"Your timer says {seconds(float(said))}; a call takes {seconds(WORK_S)} by construction"
    if mistake is None:
        off = percent(abs(said / WORK_S - 1), 2)
        return Mark("right", f"{truth} ({work.name}), {off} off: what lies between two calls is still in it.")
    return Mark("wrong", f"{mistake[0]} {truth} ({work.name}).", mistake[1])


EXERCISE = Exercise("01-timer", grade)


def _mistake(work: Watched, said: float) -> tuple[str, str] | None:
    """The first mistake in the order in which they spoil a time, as (what, hint)."""
    if not work.calls:
        return "your timer never calls `call()`.", "It should run the work that it times."
    spans = [span for span in work.spans if span.calls]
    if not spans:
        return "your timer reads no two events with a call between them.", "start = event(); ...; start.elapsed(end)"
    span = next((each for each in spans if _is(said, each.seconds / each.calls)), spans[-1])
    if span.first:
        return "the first call, which sets everything up, lies between the events.", "Make one call before the first."
    if span.calls < FEWEST:
        many = "one call lies" if span.calls == 1 else f"{span.calls} calls lie"
        return f"{many} between the events.", f"An event costs time itself: {FEWEST} calls or more share it."
    if _is(said, span.seconds / span.calls):
        return None
    if _is(said, span.seconds):
        return f"your timer returns the time of {span.calls} calls.", "Divide by their number."
    return "your timer returns another number.", "The seconds between both events, over the calls between them."


def _is(said: float, value: float) -> bool:
    return math.isclose(said, value, rel_tol=1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# An asynchronous device whose work has a known duration: the CPU queue, or the GPU.


@dataclass(frozen=True)
class Span:
    """What lies between two events: the device's seconds, how many calls, and whether the first is one of them."""

    seconds: float
    calls: int
    first: bool


class Stamp(Protocol):
    """The device's time when the queue reached a place."""

    def reached(self) -> bool:
        """Whether it has."""

    def until(self, end: Any) -> float:
        """Seconds from here to a later one, both reached."""


class Busy(Protocol):
    """A device that can be kept busy for a given time."""

    def submit(self, duration_s: float) -> None:
        """Put work of that duration into the queue and return at once."""

    def stamp(self) -> Stamp:
        """Put a note of the time into the queue and return at once."""

    def synchronize(self) -> None:
        """Wait for all of it."""


@dataclass(frozen=True)
class Event:
    """What the student's timer gets from `event()`: a place in the queue."""

    work: Watched
    stamp: Stamp
    calls: int

    def elapsed(self, end: Event) -> float:
        """Seconds on the device from this event to `end`; RuntimeError where the queue has not reached both."""
        if not (self.stamp.reached() and end.stamp.reached()):
            raise RuntimeError("the queue has not reached these events yet: synchronize() first")
        span = Span(self.stamp.until(end.stamp), end.calls - self.calls, self.calls == 0)
        self.work.spans.append(span)
        return span.seconds


class Watched:
    """What the student's timer gets: `call`, `busy.synchronize` and `event`; and the notes taken meanwhile."""

    def __init__(self, busy: Busy, name: str) -> None:
        self.busy, self.name = busy, name
        self.calls = 0
        self.spans: list[Span] = []

    def call(self) -> None:
        """Put one piece of work into the queue; the first takes longer."""
        if self.calls >= MOST_CALLS:
            raise RuntimeError(f"call() was called {MOST_CALLS} times; {FEWEST} to 100 are enough")
        self.busy.submit(WORK_S if self.calls else FIRST_S)
        self.calls += 1

    def event(self) -> Event:
        """Put an event into the queue."""
        return Event(self, self.busy.stamp(), self.calls)


class QueueStamp:
    """A note of the time by the CPU queue's worker."""

    def __init__(self) -> None:
        self._seconds: float | None = None

    def note(self) -> None:
        """It is reached now."""
        self._seconds = time.perf_counter()

    def reached(self) -> bool:
        """Whether the worker has come to it."""
        return self._seconds is not None

    def until(self, end: QueueStamp) -> float:
        """Seconds to a later one."""
        assert self._seconds is not None
        assert end._seconds is not None
        return end._seconds - self._seconds


class QueueBusy:
    """The CPU queue, kept busy by sleeping in its worker.

    >>> with CpuQueue() as queue:
    ...     busy = QueueBusy(queue)
    ...     start, _, end = busy.stamp(), busy.submit(0.001), busy.stamp()
    ...     busy.synchronize()
    ...     start.until(end) >= 0.001
    True
    """

    def __init__(self, queue: CpuQueue) -> None:
        self._queue = queue
        self.synchronize: Callable[[], None] = queue.synchronize

    def submit(self, duration_s: float) -> None:
        """Sleep so long in the worker."""
        self._queue.submit(time.sleep, duration_s)

    def stamp(self) -> QueueStamp:
        """Note the time in the worker."""
        made = QueueStamp()
        self._queue.submit(made.note)
        return made


class CudaStamp:
    """An event of CUDA."""

    def __init__(self) -> None:
        import torch

        self._event: Any = torch.cuda.Event(enable_timing=True)
        self._event.record()

    def reached(self) -> bool:
        """Whether the GPU has come to it."""
        return bool(self._event.query())

    def until(self, end: CudaStamp) -> float:
        """Seconds to a later one."""
        return float(self._event.elapsed_time(end._event)) * 1e-3


class CudaBusy:
    """The GPU, kept busy by a kernel that watches the GPU's own clock."""

    def __init__(self) -> None:
        import torch

        self._stamps = torch.zeros(3, dtype=torch.int64, device="cuda")
        self.synchronize: Callable[[], None] = torch.cuda.synchronize
        self.submit(0.0)  # loads the kernel, which is not the student's first call
        self.synchronize()

    def submit(self, duration_s: float) -> None:
        """Watch the clock for so long."""
        from brrr.timing.gate import spin

        spin(duration_s, self._stamps)

    def stamp(self) -> CudaStamp:
        """Record an event."""
        return CudaStamp()


@contextmanager
def device() -> Iterator[Watched]:
    """The GPU if the lesson's source is one, else the CPU queue."""
    from brrr_course.sources import source

    if is_gpu(source().name):
        from brrr.gpu.device import this_device

        yield Watched(CudaBusy(), f"LIVE · {this_device('cuda').name}")
        return
    with CpuQueue() as queue:
        yield Watched(QueueBusy(queue), "LIVE, CPU QUEUE")
