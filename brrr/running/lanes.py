"""Lanes: queues that run side by side, each in its own order, tied together by events: CUDA streams, or CPU threads.

A GPU's stream, a worker thread and a plain call have one interface here, so that a schedule (`pipeline.py`) is
written once, runs everywhere, and can be tested on a machine without a GPU.
"""

import time
from collections.abc import Callable
from math import inf
from typing import Any

from brrr.core.errors import UnavailableError
from brrr.core.heavy import torch
from brrr.core.measurement import Processor
from brrr.gpu import tensors_on
from brrr.timing.cpu_queue import CpuQueue, Ticket


class Lane:
    """Work that is issued to a lane runs in order; an event of another lane can hold it back, never the host.

    This one has no queue at all: everything runs when it is issued, and nothing is ever pending. It is what a machine
    without a GPU falls back to.
    """

    def run(self, call: Callable[..., Any], *args: Any) -> None:
        """Issue `call(*args)`."""
        call(*args)

    def copy(self, target: Any, source: Any) -> None:
        """Issue a copy between two tensors of one shape."""
        host_copy(target, source)

    def record(self) -> Any:
        """An event that stands for all that was issued to this lane so far."""

    def wait(self, event: Any) -> None:
        """Let what is issued from here on run after the event; None holds nothing."""

    def synchronize(self) -> None:
        """Make the host wait until all that was issued has run."""

    def close(self) -> None:
        """Give back what the lane holds; what is issued still runs."""


class StreamLane(Lane):
    """A stream of an accelerator's, beside the current one; it comes from a pool and goes back by itself.

    UnavailableError on a device that torch gives no streams, as Apple's.
    """

    def __init__(self, kind: Processor) -> None:
        self._of: Any = torch.get_device_module(tensors_on(kind))
        if not hasattr(self._of, "Stream"):
            raise UnavailableError(f"Pipeline: torch has no streams on {kind!r}, so nothing can overlap there")
        self.stream = self._of.Stream()

    def run(self, call: Callable[..., Any], *args: Any) -> None:
        """Issue the call's kernels to this stream: torch launches to the stream that is current."""
        with self._of.stream(self.stream):
            call(*args)

    def copy(self, target: Any, source: Any) -> None:
        """Issue a copy; one from or to pinned memory does not make the host wait, one of pageable memory does."""
        with self._of.stream(self.stream):
            target.copy_(source, non_blocking=True)

    def record(self) -> Any:
        """An event behind what is in the stream, without a time stamp, which is the cheaper kind."""
        return self.stream.record_event(self._of.Event(enable_timing=False))

    def wait(self, event: Any) -> None:
        """The stream waits; the host does not."""
        if event is not None:
            self.stream.wait_event(event)

    def synchronize(self) -> None:
        """Wait for the stream."""
        self.stream.synchronize()


class ThreadLane(CpuQueue, Lane):
    """A worker thread with a queue, the CPU queue's stream.

    >>> lane, other = ThreadLane(), ThreadLane()
    >>> done = []
    >>> lane.run(done.append, "first")
    >>> other.wait(lane.record())
    >>> other.run(done.append, "second")
    >>> other.synchronize()
    >>> done
    ['first', 'second']

    `link_bytes_per_s` makes copies as slow as a road to an accelerator: the worker sleeps for the rest of the time, as
    a copy engine leaves the processor free; `name` and `copies` say on a timeline who it was.
    """

    def __init__(
        self, link_bytes_per_s: float = inf, *, name: str = "worker", copies: str = "copy",
        beside: CpuQueue | None = None,
    ) -> None:  # fmt: skip
        super().__init__(beside=beside)
        self.link_bytes_per_s, self.name, self.copies = link_bytes_per_s, name, copies

    def run(self, call: Callable[..., Any], *args: Any) -> None:
        """Put the call into the queue."""
        self._put(Ticket("compute", lane=self.name), call, *args)

    def copy(self, target: Any, source: Any, kind: str = "") -> None:
        """Put a copy into the queue, no faster than the link."""
        kind = kind or self.copies
        self._put(Ticket(kind, lane=self.name, kind=kind), self._send, target, source)

    def _send(self, target: Any, source: Any) -> None:
        until = time.perf_counter() + source.nbytes / self.link_bytes_per_s
        host_copy(target, source)
        time.sleep(max(0.0, until - time.perf_counter()))


def host_copy(target: Any, source: Any) -> None:
    """Copy a tensor in main memory on one thread; torch would take all, and the lanes would disturb each other.

    >>> import torch
    >>> copied = torch.zeros(2)
    >>> host_copy(copied, torch.ones(2))
    >>> copied
    tensor([1., 1.])
    """
    import numpy as np

    np.copyto(target.numpy(), source.numpy())
