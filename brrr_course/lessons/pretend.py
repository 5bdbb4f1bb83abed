"""The devices that exercises run a student's code on: on paper, where they keep account, or live for a known time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from brrr.gpu import CUDA, is_cuda
from brrr.timing.cpu_queue import CpuQueue

# ---------------------------------------------------------------------------------------------------------------------
# On paper: the host's clock, queues that run beside it, events between them. No clock of the machine is needed.


@dataclass
class Host:
    """The host's clock, what issuing a piece of work takes of it, how often it waited, and what ran on its lanes."""

    issue: float
    now: float = 0.0
    waits: int = 0
    ran: list[Ran] = field(default_factory=list)

    @property
    def end(self) -> float:
        """When the last piece of work ends."""
        return max((ran.end for ran in self.ran), default=0.0)


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
    """The moment at which a queue has done what it was given before."""

    at: float


class Queue:
    """A queue of a device: work starts when it is issued and the one before is done, and only `synchronize` waits.

    >>> host = Host(issue=0.5)
    >>> copies, work = Queue(host), Queue(host)
    >>> copies.run(4.0); work.wait(copies.record()); work.run(1.0); host.now
    (0.5, 4.5)
    (4.5, 5.5)
    1.0
    >>> work.synchronize(); host.now, host.waits
    (5.5, 1)

    A lane has a name, and a piece on it takes so long: it is what a student's schedule gets in the place of a stream.

    >>> lane = Queue(host, "upload", 2.0)
    >>> lane.submit(0, 0)
    >>> host.ran[0].lane, host.end
    ('upload', 8.0)
    """

    def __init__(self, host: Host, name: str = "", takes: float = 0.0) -> None:
        self.host, self.name, self.takes, self.free_at = host, name, takes, 0.0

    def run(self, takes: float) -> tuple[float, float]:
        """Issue a piece of work: when it starts, and when it ends."""
        self.host.now += self.host.issue
        start = max(self.free_at, self.host.now)
        self.free_at = start + takes
        return start, self.free_at

    def submit(self, chunk: int, buffer: int) -> None:
        """Issue a lane's work on a chunk in a buffer; it starts when the lane is free, and nobody waits for it."""
        self.host.ran.append(Ran(self.name, chunk, buffer, *self.run(self.takes)))

    def record(self) -> Event:
        """An event that stands for all that was issued to this queue so far."""
        return Event(self.free_at)

    def wait(self, event: Event | None) -> None:
        """What is issued here from now on starts after the event; `None` is no event, and holds nothing."""
        if event is not None:
            self.free_at = max(self.free_at, event.at)

    def synchronize(self) -> None:
        """The host waits until this queue has done all that was issued to it."""
        self.host.waits += 1
        self.host.now = max(self.host.now, self.free_at)


LANES = ("upload", "compute", "download")


Formula = Any
OPERATION_S, DATA_S = 10e-6, 500e-6


class PretendRecorder(Queue):
    """A device that notes the formula of what it is ordered to compute, and how much it was when the clock was read."""

    def __init__(self) -> None:
        super().__init__(Host(issue=0.5e-6))
        self.done: list[Formula] = []
        self.readings: list[tuple[bool, int]] = []

    def order(self, formula: Formula, takes_s: float = OPERATION_S) -> Tensor:
        """Issue one operation; its result is known by its formula."""
        self.run(takes_s)
        self.done.append(formula)
        return Tensor(self, formula)

    def randn(self, *_: int) -> Tensor:
        """Fresh random data."""
        return self.order("x", DATA_S)

    def relu(self, of: Tensor) -> Tensor:
        """ReLU."""
        return self.order(("relu", of.formula))

    def clock(self) -> float:
        """The host's clock; it is noted whether the queue was empty, and how much had been ordered."""
        self.readings.append((self.free_at <= self.host.now, len(self.done)))
        return self.host.now

    @property
    def timed(self) -> list[Formula]:
        """What was ordered between the first and the last reading of the clock."""
        return self.done[self.readings[0][1] : self.readings[-1][1]] if self.readings else []


@dataclass(frozen=True)
class Tensor:
    """A tensor of a recorder: the formula that made it."""

    device: PretendRecorder
    formula: Formula

    def __mul__(self, other: Tensor) -> Tensor:
        return self._with("*", other)

    def __add__(self, other: Tensor) -> Tensor:
        return self._with("+", other)

    def _with(self, operation: str, other: Tensor) -> Tensor:
        if not isinstance(other, Tensor):
            return NotImplemented
        return self.device.order((operation, frozenset({self.formula, other.formula})))


# ---------------------------------------------------------------------------------------------------------------------
# On paper: memory.


class OnGpu:
    """What lies in the GPU's memory: it can be computed with and fetched, not read."""

    __slots__ = ("_values",)

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __repr__(self) -> str:
        return f"{self._values.size} elements in the GPU's memory: fetch them to read them"


@dataclass
class Gpu:
    """A GPU with a memory of its own; it notes the bytes of each transfer and how many elements it computed.

    >>> import numpy as np
    >>> gpu = Gpu()
    >>> gpu.fetch(gpu.sin(gpu.send(np.zeros(3, "float32")))).tolist()
    [0.0, 0.0, 0.0]
    >>> gpu.trips, gpu.worked
    ([12, 12], 3)
    """

    trips: list[int] = field(default_factory=list)
    worked: int = 0

    def send(self, array: Any) -> OnGpu:
        """Copy an array to the GPU's memory."""
        if isinstance(array, OnGpu):
            raise TypeError("send() takes an array; this lies in the GPU's memory already")
        values = np.array(array)
        if values.dtype == object:
            raise TypeError("send() takes one array of numbers; np.concatenate makes one of several")
        self.trips.append(values.nbytes)
        return OnGpu(values)

    def sin(self, values_there: OnGpu) -> OnGpu:
        """The sine of every element, on the GPU."""
        values = self._of(values_there, "sin")
        self.worked += values.size
        return OnGpu(np.sin(values))

    def fetch(self, values_there: OnGpu) -> np.ndarray:
        """Copy back: an array."""
        values = self._of(values_there, "fetch")
        self.trips.append(values.nbytes)
        return values.copy()

    def _of(self, values_there: OnGpu, call: str) -> np.ndarray:
        if not isinstance(values_there, OnGpu):
            raise TypeError(f"{call}() takes what send() or sin() returned, not {type(values_there).__name__}")
        return values_there._values


# ---------------------------------------------------------------------------------------------------------------------
# Live: an asynchronous device whose work has a known duration. The CPU queue, or the GPU.


@dataclass(frozen=True)
class Busy:
    """A live device: its badge, and calls that keep it busy for some seconds, record an event, and wait for all."""

    name: str
    submit: Callable[[float], None]
    event: Callable[[], Any]
    synchronize: Callable[[], None]


@contextmanager
def busy() -> Iterator[Busy]:
    """The GPU if the lesson's source is one of CUDA's, else the CPU queue, whose worker sleeps."""
    from brrr_course.sources import source

    if is_cuda(source().name):
        yield busy_gpu()
        return
    with CpuQueue() as queue:
        plan = Queue(Host(issue=0.0))

        def submit(duration_s: float) -> None:
            """Sleep until when it would be done on paper: a sleep that ends late makes the next one shorter."""
            plan.host.now = time.perf_counter()
            queue.submit(sleep_until, plan.run(duration_s)[1])

        yield Busy("LIVE, CPU QUEUE", submit, queue.record, queue.synchronize)


def sleep_until(moment: float) -> None:
    """Sleep until `time.perf_counter()` is there; for the last tenth of a millisecond awake, as sleeps end late."""
    time.sleep(max(0.0, moment - time.perf_counter() - 1e-4))
    while time.perf_counter() < moment:
        pass


def busy_gpu() -> Busy:
    """The GPU, kept busy by a kernel that watches the GPU's own clock."""
    import torch

    from brrr.timing.gate import spin

    stamps = torch.zeros(3, dtype=torch.int64, device=CUDA)

    def event() -> Any:
        made: Any = torch.cuda.Event(enable_timing=True)
        made.record()
        return made

    spin(0.0, stamps)  # loads the kernel, which is not the student's first call
    torch.cuda.synchronize()
    return Busy(live(CUDA), lambda duration_s: spin(duration_s, stamps), event, torch.cuda.synchronize)


def live(device: str) -> str:
    """A live device as marks tell it."""
    from brrr.gpu.device import this_device

    return f"LIVE · {this_device(device).name}"
