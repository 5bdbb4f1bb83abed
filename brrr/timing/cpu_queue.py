"""The CPU queue: one worker thread runs what is submitted, so that a machine without a GPU can be asynchronous too."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from brrr.core.measurement import Processor
from brrr.gpu import is_gpu, waiting

DEPTH = 1024
"""Calls that may wait; one more makes `submit` wait for room, as a GPU's launch queue does."""


@dataclass
class Ticket:
    """When a call was put into the queue and run, in nanoseconds of `time.perf_counter_ns`: what a profiler notes.

    `lane` and `kind` say which of several workers ran it, and whether it was work or a copy.
    """

    name: str
    submitted_ns: int = 0
    returned_ns: int = 0
    started_ns: int = 0
    ended_ns: int = 0
    lane: str = "worker"
    kind: str = "kernel"


class QueueEvent:
    """What `torch.Event` is for a GPU: a moment in a queue's order, at which its worker notes the time.

    >>> with CpuQueue() as queue:
    ...     start, _, end = queue.record(), queue.submit(time.sleep, 0.001), queue.record()
    ...     queue.synchronize()
    ...     start.query(), start.elapsed_time(end) >= 1.0
    (True, True)
    """

    def __init__(self) -> None:
        self.reached, self._at_s = threading.Event(), 0.0

    def note(self) -> None:
        """The worker has come to it."""
        self._at_s = time.perf_counter()
        self.reached.set()

    def query(self) -> bool:
        """Whether the worker has come to it."""
        return self.reached.is_set()

    def elapsed_time(self, end: QueueEvent) -> float:
        """Milliseconds to a later one."""
        return 1e3 * (end._at_s - self._at_s)


Job = tuple[Callable[..., Any], tuple[Any, ...], Ticket | None]
"""A call, and what notes when it ran; None for waiting, which is no work."""


class CpuQueue:
    """A queue whose worker thread runs the submitted calls in order, as a GPU's stream does.

    >>> with CpuQueue() as queue:
    ...     queue.submit(print, "done by the worker")
    ...     queue.synchronize()
    done by the worker

    It shows asynchronous launches on a machine without a GPU.

    Parameters
    ----------
    depth : int
        How many calls may wait. When the queue is full, `submit` blocks.
    beside : CpuQueue, optional
        Another queue of the same device, as a GPU has several streams: each has a worker of its own, and what waits for
        one of them, notes its calls or ends it does so with all.

    Notes
    -----
    Only work that releases the GIL truly overlaps: a NumPy product does, a Python loop does not. If a submitted call
    raises, the next `synchronize` raises it. `worked_s` holds the device's seconds for each of the last
    calls, as a profiler has a GPU's kernel times.
    """

    def __init__(self, depth: int = DEPTH, *, beside: CpuQueue | None = None) -> None:
        self._waiting: queue.Queue[Job | None] = queue.Queue(depth)
        self.worked_s: deque[float] = beside.worked_s if beside else deque(maxlen=depth)
        self._errors: list[BaseException] = beside._errors if beside else []
        self._noting: list[list[Ticket]] = beside._noting if beside else []
        self._queues: list[CpuQueue] = beside._queues if beside else []
        self._queues.append(self)
        self._worker = threading.Thread(target=self._work, name="brrr-cpu-queue", daemon=True)
        self._worker.start()

    def submit(self, call: Callable[..., Any], *args: Any) -> None:
        """Put ``call(*args)`` into the queue and return at once, before it has run."""
        named = getattr(getattr(call, "func", call), "__name__", "work")  # of a partial that of its function
        self._put(Ticket(named.replace("<lambda>", "work")), call, *args)

    def synchronize(self) -> None:
        """Wait until everything submitted has run; raise the first exception that one of the calls raised."""
        for each in self._queues:
            each._waiting.join()
        if self._errors:
            raise self._errors.pop()

    def record(self) -> QueueEvent:
        """An event that stands for all that was submitted so far."""
        event = QueueEvent()
        self._waiting.put((event.note, (), None))
        return event

    def wait(self, event: QueueEvent | None) -> None:
        """Let what is submitted from here on run after the event; None holds nothing, and waiting is no work."""
        if event is not None and not event.query():
            self._waiting.put((event.reached.wait, (), None))

    @contextmanager
    def noting(self) -> Iterator[list[Ticket]]:
        """Collect the times of each call submitted in the ``with`` block; `synchronize` fills them in."""
        self._noting.append([])
        try:
            yield self._noting[-1]
        finally:
            self._noting.pop()

    def close(self) -> None:
        """End the worker, after it has run all waiting calls."""
        for each in self._queues:
            if each._worker.is_alive():
                each._waiting.put(None)
                each._worker.join()

    def __enter__(self) -> CpuQueue:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _put(self, ticket: Ticket, call: Callable[..., Any], *args: Any) -> None:
        ticket.submitted_ns = time.perf_counter_ns()
        self._waiting.put((call, args, ticket))
        ticket.returned_ns = time.perf_counter_ns()
        for tickets in self._noting:
            tickets.append(ticket)

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            call, args, ticket = job
            started_ns = time.perf_counter_ns()
            try:
                call(*args)
            except BaseException as error:
                self._errors[:] = [*self._errors, error][:1]
            finally:
                if ticket is not None:
                    ticket.started_ns, ticket.ended_ns = started_ns, time.perf_counter_ns()
                    self.worked_s.append((ticket.ended_ns - started_ns) * 1e-9)
                self._waiting.task_done()
        self._waiting.task_done()


# ---------------------------------------------------------------------------------------------------------------------
# A place is where a function is measured: the GPU, the CPU, or a CPU queue.

Place = Processor | CpuQueue


def name_of(place: Place) -> str:
    """The device's name, as a measurement has it."""
    if not isinstance(place, CpuQueue) and is_gpu(place):
        from brrr.gpu.device import this_device

        return this_device(place).name
    from brrr.gpu.probe import cpu_name

    return f"CPU queue on {cpu_name()}" if isinstance(place, CpuQueue) else cpu_name()


def wait_for(place: Place) -> Callable[[], None] | None:
    """What waits for the work of a place; None for a CPU."""
    return place.synchronize if isinstance(place, CpuQueue) else waiting(place)
