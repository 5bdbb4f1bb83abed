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

    Notes
    -----
    Only work that releases the GIL truly overlaps: a NumPy product does, a Python loop does not. If a submitted call
    raises, the next `synchronize` raises it. `worked_s` holds the worker's seconds for each of the last
    calls, as a profiler has a GPU's kernel times.
    """

    def __init__(self, depth: int = DEPTH) -> None:
        self._waiting: queue.Queue[Job | None] = queue.Queue(depth)
        self._tickets: list[Ticket] | None = None
        self._error: BaseException | None = None
        self.worked_s: deque[float] = deque(maxlen=depth)
        self._worker = threading.Thread(target=self._work, name="brrr-cpu-queue", daemon=True)
        self._worker.start()

    def submit(self, call: Callable[..., Any], *args: Any) -> None:
        """Put ``call(*args)`` into the queue and return at once, before it has run."""
        named = getattr(getattr(call, "func", call), "__name__", "work")  # of a partial that of its function
        self._put(Ticket(named.replace("<lambda>", "work")), call, *args)

    def synchronize(self) -> None:
        """Wait until everything submitted has run; raise the first exception that one of the calls raised."""
        self._waiting.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    @contextmanager
    def noting(self) -> Iterator[list[Ticket]]:
        """Collect the times of each call submitted in the ``with`` block; `synchronize` fills them in."""
        tickets: list[Ticket] = []
        self._tickets = tickets
        try:
            yield tickets
        finally:
            self._tickets = None

    def close(self) -> None:
        """End the worker, after it has run all waiting calls."""
        if self._worker.is_alive():
            self._waiting.put(None)
            self._worker.join()

    def __enter__(self) -> CpuQueue:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _put(self, ticket: Ticket, call: Callable[..., Any], *args: Any) -> None:
        ticket.submitted_ns = time.perf_counter_ns()
        self._waiting.put((call, args, ticket))
        ticket.returned_ns = time.perf_counter_ns()
        if self._tickets is not None:
            self._tickets.append(ticket)

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            call, args, ticket = job
            started_ns = time.perf_counter_ns()
            try:
                call(*args)
            except BaseException as error:
                self._error = self._error or error
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
