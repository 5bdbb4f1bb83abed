"""Sampling the times of one function on one device: its warm-up, its rounds of samples, its measurement."""

import math
import os
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

from brrr.core import units
from brrr.core.callables import later, require_run
from brrr.core.errors import DeviceMemoryError
from brrr.core.measurement import Cache, Estimate, Field, Measurement, is_host_bound, median
from brrr.gpu import free_bytes, is_gpu, probe, used_bytes
from brrr.timing.cpu_queue import CpuQueue, Place, name_of, wait_for
from brrr.timing.elsewhere import refuse_elsewhere
from brrr.timing.host_times import HostTimes, clock_tick_s

PRECISION = 0.005
"""A measurement ends when every interval is within half a percent of its median, or when its budget is spent."""

LIVE_CPU_PRECISION = 0.05
"""On a laptop's CPU five percent must do: its clock and its other programs allow no more."""

MIN_SAMPLES, FEW_SAMPLES = 6, 3
"""The fewest samples from which a 95 % interval of the median exists."""

SLOW_CALLS = 4
"""A call that takes longer than so many budgets is made once."""

TURNS_NOTE = "calls take turns at being short and long: period_s is the mean of all"
SINGLE_NOTE = "a single call was measured, and a first one may take longer than those after it"
FIRST_TIMES, FIRST_S = 10, 1e-3
"""A first call is told of where it takes so many times as long as the others, and so many seconds longer."""
WORKED_CALLS = 11
SLICES = 8

SETTLED_SLICES, SETTLE_MOST = 2, 4
"""With a run-up the budget is spent in so many slices, each behind its own, repeated at most so often."""

POWER_S = 1.0
"""NVML tells the mean power of the last second: a run-up of at least that fills it."""

CROWDED = 0.1
"""Where others had a core for more than this share of the time, and each core was idle for less, cores were short."""

STEADY = 0.02
WARM_UP_SHARE = 0.3
DRIFT, FEW_DRIFT = 0.03, 0.1


def cpu_seconds() -> tuple[float, float, float]:
    """A clock, and the seconds so far that a core was idle, on average, and that all together ran other programs.

    Not numbers, and so never crowded, where nobody tells them: a sandbox may have no /proc.
    """
    import psutil

    try:
        every, own = psutil.cpu_times(), os.times()
    except Exception:  # psutil raises what reading what is not there leads to
        return time.perf_counter(), math.nan, math.nan
    idle_s = every.idle + getattr(every, "iowait", 0.0)
    others_s = sum(every[:8]) - idle_s - own.user - own.system  # behind these are guests', which the first ones hold
    return time.perf_counter(), idle_s / (psutil.cpu_count() or 1), others_s


def crowded(before: tuple[float, float, float], after: tuple[float, float, float]) -> bool:
    """Whether other programs ran in between while hardly a core was idle: then this one has waited for them.

    >>> crowded((0.0, 0.0, 0.0), (1.0, 0.05, 0.9)), crowded((0.0, 0.0, 0.0), (1.0, 0.5, 0.9))
    (True, False)
    """
    taken_s, idle_s, others_s = (now - then for now, then in zip(after, before, strict=True))
    return others_s > CROWDED * taken_s > idle_s


class Sampler:
    """Samples the times of one function on one device: warm-up, rounds of samples, and the measurement at the end."""

    def __init__(
        self, fn: Callable[[], Any], place: Place, cache: Cache, budget_s: float, settle_s: float = 0.0, fewest: int = 1
    ) -> None:
        """fewest: rounds of samples to take even where the budget is spent before."""
        self.fn, self.place, self.cache, self.budget_s, self.settle_s = fn, place, cache, budget_s, settle_s
        self.fewest = fewest
        self.gpu = is_gpu(place)
        self.host = HostTimes(fn, wait_for(place))
        self.precision = PRECISION if self.gpu else LIVE_CPU_PRECISION
        self.profiler, self.launches = True, False
        self.on_device = self.gpu  # whether the device's own times are wanted
        self.device_times: Any = None
        self.worked_s: list[float] = []
        self.flags: list[str] = []
        self.later, self.first_s = "", 0.0
        self.peak_bytes: int | None = None
        self.spent_s = 0.0
        self.call_s = 0.0
        self.rounds = 0
        self._clock_hz = 0.0
        self._before = cpu_seconds()

    def checked(self, verified: Callable[[Any], float]) -> float:
        """Check one call's result by `verified` and return its error; a slow call is not made again for the clock."""
        result, host_s, self.first_s = self.host.one()
        error = verified(result)
        self._note_nan(result)
        del result  # its memory is the next call's
        if self.first_s > SLOW_CALLS * self.budget_s:
            self._take_single(host_s, self.first_s)
        return error

    def start_again(self) -> bool:
        """Forget all samples and flags, to be measured anew; returns True."""
        self.host.forget()
        self.device_times, self.worked_s, self.flags, self.spent_s, self.rounds = None, [], [], 0.0, 0
        self._before = cpu_seconds()
        return True

    @property
    def done(self) -> bool:
        """Whether the samples suffice, or the budget is spent."""
        if self.rounds >= self.fewest and self.spent_s >= self.budget_s * self._patience:
            return True
        return self.rounds >= 2 and self._precise()

    @property
    def _patience(self) -> int:
        """Budgets to spend: more than one where a few calls differ."""
        return SLOW_CALLS if self.host.calls_wanted and not self._single else 1

    def warm_up(self) -> None:
        """Call until times and clock agree within 2 %: loading, compiling and the clock have then settled."""
        start = time.perf_counter()
        if not self._single:
            result, host_s, self.call_s = self.host.one()
            require_run("measure", "fn", self.fn, result)
            refuse_elsewhere("measure", self.place, self.fn, result)
            self.later, self.first_s = later(result), self.first_s or self.call_s
            self._note_nan(result)
            del result
            if self.call_s > SLOW_CALLS * self.budget_s:
                self._take_single(host_s, self.call_s)
            if not self._single:
                self._settle(start + WARM_UP_SHARE * self.budget_s)
        if self.on_device:
            self._prepare_device()
        if self._single:
            self.rounds, self.spent_s = self.fewest, self.budget_s

    def _settle(self, until: float) -> None:
        """Warm-up calls until they are steady; refuses a function that would use up the memory."""
        if self.call_s <= self.budget_s:
            self._refuse_growth()
        recent: list[float] = []
        while not recent or time.perf_counter() < until:
            result, _, self.call_s = self.host.one()
            recent.append(self.call_s)
            self.host.warm.append(self.call_s)
            if len(recent) >= 6 and _steady(recent) and self._clock_is_steady():
                break
        self._note_nan(result)

    def _refuse_growth(self) -> None:
        """Stop a function that keeps memory at every call before it has taken it all.

        Four calls tell the growth; DeviceMemoryError if the calls to come would need more than what is free.
        """
        used = []
        for _ in range(4):
            self.host.warm.append(self.host.one()[2])
            used.append(used_bytes(self.place))
        growth = min(b - a for a, b in pairwise(used))
        calls = 4 * self.budget_s / max(self.call_s, 1e-7)
        free = free_bytes(self.place)
        if growth > 0 and growth * calls > free:
            raise DeviceMemoryError(
                f"measure: fn keeps {units.nbytes(growth)} more at each call; about {calls:.0f} calls would need "
                f"{units.nbytes(growth * calls)} and {units.nbytes(free)} is free. Let it reuse its memory"
            )

    def settle(self) -> None:
        """Calls that are not measured, until the clock is what it was before a neighbour ran: `settle_s`, or more."""
        if not self.settle_s:
            return
        for _ in range(SETTLE_MOST):
            until = time.perf_counter() + self.settle_s
            self.host.one()
            while time.perf_counter() < until:
                self.host.one()
            if self._clock_is_steady():
                return

    def _clock_is_steady(self) -> bool:
        """Whether the GPU's clock is within 2 % of what it was when last asked; a CPU's is not asked."""
        if not self.gpu:
            return True
        from brrr.timing.gate import sm_clock_hz

        before, self._clock_hz = self._clock_hz, sm_clock_hz()
        return abs(self._clock_hz - before) <= STEADY * before

    @property
    def _single(self) -> bool:
        return "single-call" in self.flags

    def _take_single(self, host_s: float, call_s: float) -> None:
        """One call is all that the budget affords, so the first call must be the sample.

        On a queue it is the second, and what issuing costs is seen behind another call: the first one's issuing has
        loading and allocating in it, and one after a long wait is slow, each many times its own cost. Where the second
        is quick, the first compiled or loaded, and samples are taken as of any other function.
        """
        if self.host.waits:
            call_s = self.host.one()[2]
            if call_s <= SLOW_CALLS * self.budget_s:
                self.call_s = call_s
                return
            host_s = self.host.issuing_s()
        self.call_s = call_s
        self.host.take(host_s, call_s)
        self.flags.append("single-call")

    def _note_nan(self, result: Any) -> None:
        if _is_nan(result):
            self.flags.append("nan")

    def round(self) -> None:
        """One slice of samples of every time."""
        self.settle()
        start = time.perf_counter()
        slice_s = self.budget_s / (SETTLED_SLICES if self.settle_s else SLICES)
        if self.cache == "hot":
            self.host.round(slice_s * (0.6 if self.gpu else 1.0))
        if self.device_times is not None:
            self.device_times.round(slice_s * 0.4, self.call_s)
        self.rounds += 1
        self.spent_s += time.perf_counter() - start

    def finish(self, together: object = None) -> Measurement:
        """The measurement of all samples so far, the kernels' own times added; `together` stands for its neighbours."""
        fields: dict[Field, Estimate | None] = self.host.estimates(together or self) if self.cache == "hot" else {}
        notes = [TURNS_NOTE] * self.host.uneven + [self.later] * bool(self.later) + [SINGLE_NOTE] * self._single
        notes += first_note(self.first_s, median(self.host.latency or [self.call_s]))
        kernels, origin, clock, power = None, "", None, None
        if self.device_times is not None:
            from brrr.timing.device_times import finish_on_device

            self.settle()  # its kernels' own times, and its clock, are taken here
            power = probe.power_w() if self.settle_s >= POWER_S else None
            kernels, origin, clock = finish_on_device(
                self.device_times,
                fields,
                notes,
                self.flags,
                call_s=self.call_s,
                budget_s=self.budget_s,
                profiler=self.profiler,
            )
        elif isinstance(self.place, CpuQueue) and not self._single:
            kernels, fields["kernel_s"] = self._worked(self.place)
        if self.drifted:
            self.flags.append("unstable")
        if crowded(self._before, cpu_seconds()):
            self.flags.append("busy-cpu")
        host, span, period = fields.get("host_s"), fields.get("span_s"), fields.get("period_s")
        if is_host_bound(host, span, period):
            self.flags.append("host-bound")
        return Measurement(
            kernels=kernels,
            cache=self.cache,
            sm_clock_hz=clock,
            power_w=power,
            peak_bytes=self.peak_bytes,
            launched=self.device_times.launched if self.device_times is not None else (),
            device=name_of(self.place),
            flags=tuple(dict.fromkeys(self.flags)),
            kernel_times_from=origin,
            notes=tuple(notes),
            samples={name: tuple(values) for name, values in self._samples().items() if values},
            **cast(dict[str, Any], fields),
        )

    def _worked(self, queue: CpuQueue) -> tuple[int, Estimate]:
        """How many jobs a call submits to the CPU queue, and their own times added up, as the worker saw them."""
        counts, sums = [], self.worked_s
        for _ in range(WORKED_CALLS):
            queue.synchronize()
            queue.worked_s.clear()
            self.fn()
            queue.synchronize()
            counts.append(len(queue.worked_s))
            sums.append(sum(queue.worked_s))
        return round(median(counts)), Estimate.of(sums, clock_tick_s())

    def _prepare_device(self) -> None:
        from brrr.timing.device_times import DeviceTimes

        if not self.host.host:
            self.host.round(self.budget_s / SLICES / 4)
        self.device_times = DeviceTimes(self.fn, self.cache, median(self.host.host), launches=self.launches)
        if self.cache == "cold":
            self.host.forget()
        if self._single:
            self.settle()
            self.device_times.round(0.0, self.call_s)

    def _samples(self) -> dict[str, list[float]]:
        found = {"host_s": self.host.host, "period_s": self.host.period, "latency_s": self.host.latency}
        if self.device_times is not None:
            found |= self.device_times.samples
        return {**found, "kernel_s": self.worked_s} if self.worked_s else found

    def _precise(self) -> bool:
        lists = [values for values in self._samples().values() if values]
        if any(len(values) < MIN_SAMPLES for values in lists):
            return False
        return all(Estimate.of(values).relative_half_width <= self.precision for values in lists)

    @property
    def drifted(self) -> bool:
        """Whether the second half of the spans (on a CPU: of the loops) differs by more than 3 % from the first.

        Halves of three to five samples have no interval: there all of one half must lie above all of the other, and
        their medians a tenth apart.
        """
        values = self._samples().get("pair_s") or self.host.period
        half = len(values) // 2
        if half < FEW_SAMPLES:
            return False
        first, last = Estimate.of(values[:half]), Estimate.of(values[half:])
        apart = first.high < last.low or last.high < first.low
        return apart and abs(last.median / first.median - 1) > (DRIFT if half >= MIN_SAMPLES else FEW_DRIFT)


def first_note(first_s: float, others_s: float) -> list[str]:
    """What is said of a first call that took far longer than the others.

    >>> print(*first_note(0.28, 0.004), *first_note(0.002, 0.001))
    the first call took 280 ms, the others 4 ms: it may have loaded, compiled or cached something, or changed its input
    """
    if first_s < max(FIRST_TIMES * others_s, FIRST_S + others_s):
        return []
    times = f"took {units.seconds(first_s)}, the others {units.seconds(others_s)}"
    return [f"the first call {times}: it may have loaded, compiled or cached something, or changed its input"]


def _steady(recent: list[float]) -> bool:
    older, newer = median(recent[-6:-3]), median(recent[-3:])
    return abs(newer - older) <= STEADY * older


def _is_nan(result: Any) -> bool:
    """Whether a result (an array, a tensor, a number) holds a NaN; anything else does not."""
    try:
        return bool((result != result).any()) if hasattr(result, "any") else bool(result != result)
    except Exception:  # a result that cannot be compared is no NaN
        return False
