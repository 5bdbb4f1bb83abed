"""`trace`: a few calls of a loop under the profiler, and the same loop without it."""

import time
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

from brrr.core.callables import refuse_shared
from brrr.core.errors import extras, whole
from brrr.core.measurement import median
from brrr.gpu.device import torch_version
from brrr.timing import checked, no_collection
from brrr.timing.cpu_queue import CpuQueue, Place, name_of, wait_for
from brrr.timing.elsewhere import refuse_elsewhere
from brrr.timing.host_times import HostTimes
from brrr.tracing.recording import profiled_loop, traced_loop
from brrr.tracing.spans import Span
from brrr.tracing.timeline import Timeline

FEWEST_CALLS, MOST_CALLS = 3, 20
LOOP_S = 0.25
"""A loop takes about so long at most, unless few calls take longer."""
MOST_EVENTS = 150
"""A loop whose device does more than this is traced again with fewer calls."""
LONG_S = 0.02
"""A loop that takes longer gives the period itself: it is as long as the timer's own loops."""
REPEATS_S = 0.15
WARM_UP_S = 0.02
SLICES, SLICE_S = 4, 0.02


@extras("trace")
def trace(
    fn: Callable[..., Any], *args: Any, calls: int | None = None, device: Place | None = None, **kwargs: Any
) -> Timeline:
    """Trace a loop of calls: what the host launched, what the GPU did when, and who waited for whom.

    >>> found = trace(lambda: sum(range(1000)), device="cpu", calls=3)
    >>> found.calls, found.streams, found.idle_share
    (3, (), None)

    Parameters
    ----------
    fn : callable
        The function. Some ten more calls, without the profiler, time the periods.
    *args, **kwargs
        Its arguments. If `fn` itself takes a keyword of `trace`, bind it with ``functools.partial``.
    calls : int, optional
        How many calls to trace. By default 3 to 20: at most a quarter of a second, and about 150 events on the device.
    device : str or CpuQueue, optional
        As for `measure`. Where torch's profiler sees nothing of the device (MPS), the host's part alone is traced.

    Returns
    -------
    Timeline
        It draws itself in a notebook, and prints the idle share and how much the profiler slowed the loop down.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, or if the function launches nothing on the GPU.
    UnavailableError
        If there is no GPU or no profiler, or another profiler is running. What `fn` itself raises passes through.

    Notes
    -----
    Times come from torch's profiler (CUPTI), on a `CpuQueue` from the queue itself.
    """
    if calls is not None:
        whole("trace", "calls", calls)
    refuse_shared(trace, fn, calls=calls, device=device)
    place = checked([fn], device, "hot", 1.0, "trace", args, kwargs)
    fn = partial(fn, *args, **kwargs) if args or kwargs else fn
    loop = TracedLoop(fn, place)
    with no_collection():
        loop.warm_up()
        refuse_elsewhere("trace", place, fn, loop.times.one()[0])
        count = calls or loop.fitting()
        loop.time(count)
        spans, seconds = loop.traced(count)
        per_call = sum(span.on_device for span in spans) / count
        if calls is None and per_call * count > MOST_EVENTS and count > 1:
            count = max(1, int(MOST_EVENTS / per_call))
            loop.loops.clear()
            loop.time(count)
            spans, seconds = loop.traced(count)
        loop.time(count)
    kind, badge = ("cpu-queue", "LIVE, CPU QUEUE") if isinstance(place, CpuQueue) else (place, "LIVE")
    return Timeline(spans, kind, name_of(place), date.today().isoformat(), torch_version() or "", count,
                    loop.period_s, median(loop.loops), seconds / count, badge)  # type: ignore[arg-type]  # fmt: skip


class TracedLoop:
    """A function called in a loop with one synchronisation at the end: timed without the profiler, and traced.

    >>> loop = TracedLoop(lambda: sum(range(1000)), "cpu")
    >>> loop.warm_up(); loop.time(3)
    >>> loop.period_s > 0
    True
    """

    def __init__(self, fn: Callable[[], Any], place: Place) -> None:
        self.fn, self.place = fn, place
        self.times = HostTimes(fn, wait_for(place))
        self.loops: list[float] = []
        self.call_s = 0.0

    def warm_up(self) -> None:
        """Three calls, and more until a fiftieth of a second is over; two where a call is slow."""
        until = time.perf_counter() + WARM_UP_S
        done = 0
        while done < FEWEST_CALLS or time.perf_counter() < until:
            self.call_s = self.times.one()[2]
            done += 1
            if self.call_s > LOOP_S and done >= 2:
                return

    def fitting(self) -> int:
        """How many calls to trace: those that fit into a quarter of a second, but 3 to 20; one where they are long."""
        if self.call_s > LOOP_S:
            return 1
        return max(FEWEST_CALLS, min(MOST_CALLS, int(LOOP_S / max(self.call_s, 1e-9))))

    def time(self, calls: int) -> None:
        """Sample the periods without the profiler, that of a long loop and that of this one."""
        if calls * self.call_s <= LONG_S:
            for _ in range(SLICES):
                self.times.round(SLICE_S)
        for _ in range(max(1, min(9, int(REPEATS_S / max(calls * self.call_s, 1e-9))))):
            self.loops.append(self.once(calls) / calls)

    def once(self, calls: int) -> float:
        """Seconds of the loop, synchronisation included."""
        self.times.wait()
        start = time.perf_counter_ns()
        for _ in range(calls):
            self.fn()
        self.times.wait()
        return (time.perf_counter_ns() - start) * 1e-9

    @property
    def period_s(self) -> float:
        """Seconds a call, in a loop so long that its one synchronisation hardly counts."""
        return median(self.times.period or self.loops)

    def traced(self, calls: int) -> tuple[tuple[Span, ...], float]:
        """The loop's spans, and its seconds while it was traced."""
        self.times.wait()
        if isinstance(self.place, CpuQueue):
            return traced_loop(self.fn, self.place, calls)
        return profiled_loop(self.fn, self.times.wait, calls, kind=self.place)
