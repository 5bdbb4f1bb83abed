"""Sampling the times of one function by a plan: its warm-up, its rounds of samples, its measurement."""

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any, TypeVar, cast

from brrr.core import units
from brrr.core.callables import later, require_run
from brrr.core.errors import DeviceMemoryError
from brrr.core.measurement import Estimate, Field, Measurement, is_host_bound, median
from brrr.gpu import free_bytes, is_cuda, is_gpu, probe, used_bytes
from brrr.timing.cpu_queue import CpuQueue, name_of, wait_for
from brrr.timing.elsewhere import refuse_elsewhere
from brrr.timing.host_times import HostTimes, clock_tick_s
from brrr.timing.plan import SLOW_CALLS, Plan
from brrr.timing.readings import Readings

Seen = TypeVar("Seen")

WORKED_CALLS = 11

SETTLE_MOST = 4
"""A run-up is repeated at most so often."""

POWER_S = 1.0
"""NVML tells the mean power of the last second: a run-up of at least that fills it."""

BUSY = "busy-cpu"
"""The flag of what other programs may have slowed down."""
WHY_BUSY = f"{BUSY}: other programs left hardly a core idle"

CROWDED = 0.1
"""Where others had a core for more than this share of the time, and each core was idle for less, cores were short."""

STEADY = 0.02
WARM_UP_SHARE = 0.3


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


def elsewhere_s() -> float:
    """Processor seconds of all processes that this one has started, as far as the system tells."""
    import psutil

    own = psutil.Process()
    found = sum(own.cpu_times()[2:4])  # of those that have ended
    for each in own.children(recursive=True):
        with suppress(psutil.Error):
            found += sum(each.cpu_times()[:4])
    return float(found)


def crowded(before: tuple[float, float, float], after: tuple[float, float, float]) -> bool:
    """Whether other programs ran in between while hardly a core was idle: then this one has waited for them.

    >>> crowded((0.0, 0.0, 0.0), (1.0, 0.05, 0.9)), crowded((0.0, 0.0, 0.0), (1.0, 0.5, 0.9))
    (True, False)
    """
    taken_s, idle_s, others_s = (now - then for now, then in zip(after, before, strict=True))
    return others_s > CROWDED * taken_s > idle_s


class Sampler:
    """Times one function by a plan: warm-up, rounds of samples, and the measurement at the end."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        by_slope = is_gpu(plan.place) and not is_cuda(plan.place)
        self.readings = Readings(HostTimes(plan.fn, wait_for(plan.place), by_slope=by_slope), cpu_seconds())

    def checked(self, look: Callable[[Any], Seen]) -> Seen:
        """What `look` finds in the result of one call before the samples; a slow call is taken in their place."""
        seen = self.readings
        result, host_s, seen.call_s = seen.host.one()
        found = look(result)
        seen.first_s = seen.first_s or seen.call_s
        seen.nan |= _is_nan(result)
        del result  # its memory is the next call's
        if self.plan.is_slow(seen.call_s):
            self._take_single(host_s)
        return found

    def start_again(self) -> bool:
        """Forget all samples and what was seen with them, to be measured anew; returns True."""
        was = self.readings
        was.host.forget()
        self.readings = Readings(was.host, cpu_seconds(), was.first_s, was.clock_hz)
        return True

    @property
    def done(self) -> bool:
        """Whether the samples suffice, or the budget is spent: four budgets, where a few calls differ."""
        plan, seen = self.plan, self.readings
        budgets = SLOW_CALLS if seen.host.calls_wanted else 1
        spent = plan.suffices(seen.rounds, seen.spent_s, budgets)
        return seen.single or spent or (seen.rounds >= 2 and seen.precise(plan.enough))

    def warm_up(self) -> None:
        """Call until times and clock agree within 2 %: loading, compiling and the clock have then settled."""
        until = time.perf_counter() + WARM_UP_SHARE * self.plan.budget_s
        if not self.readings.single:
            self.readings.later = self.checked(self._accepted)
        if not self.readings.single:  # the first call tells whether it is the only one
            self._warm_calls(until)
        if self.plan.on_device and is_cuda(self.plan.place):
            self._prepare_device()

    def _accepted(self, result: Any) -> str:
        """Refuse what cannot be timed; tells whether the result may be computed only later."""
        require_run(self.plan.call, "fn", self.plan.fn, result)
        refuse_elsewhere(self.plan.call, self.plan.place, self.plan.fn, result)
        return later(result)

    def _warm_calls(self, until: float) -> None:
        """Warm-up calls until they are steady; refuses a function that would use up the memory."""
        seen = self.readings
        if seen.call_s <= self.plan.budget_s:
            self._refuse_growth()
        recent: list[float] = []
        while not recent or time.perf_counter() < until:
            result, _, seen.call_s = seen.host.one()
            recent.append(seen.call_s)
            seen.host.warm.append(seen.call_s)
            if len(recent) >= 6 and _steady(recent) and self._clock_is_steady():
                break
        seen.nan |= _is_nan(result)

    def _refuse_growth(self) -> None:
        """Stop a function that keeps memory at every call before it has taken it all.

        Four calls tell the growth; DeviceMemoryError if the calls to come would need more than what is free.
        """
        used, host = [], self.readings.host
        for _ in range(4):
            host.warm.append(host.one()[2])
            used.append(used_bytes(self.plan.place))
        growth = min(b - a for a, b in pairwise(used))
        calls = 4 * self.plan.budget_s / max(self.readings.call_s, 1e-7)
        free = free_bytes(self.plan.place)
        if growth > 0 and growth * calls > free:
            raise DeviceMemoryError(
                f"{self.plan.call}: fn keeps {units.nbytes(growth)} more at each call; about {calls:.0f} calls would "
                f"need {units.nbytes(growth * calls)} and {units.nbytes(free)} is free. Let it reuse its memory"
            )

    def settle(self) -> None:
        """Calls that are not measured, until the clock is what it was before a neighbour ran: `settle_s`, or more."""
        if not self.plan.settle_s:
            return
        for _ in range(SETTLE_MOST):
            until = time.perf_counter() + self.plan.settle_s
            self.readings.host.one()
            while time.perf_counter() < until:
                self.readings.host.one()
            if self._clock_is_steady():
                return

    def _clock_is_steady(self) -> bool:
        """Whether the GPU's clock is within 2 % of what it was when last asked; a CPU's is not asked."""
        if not is_cuda(self.plan.place):
            return True
        from brrr.timing.gate import sm_clock_hz

        before, self.readings.clock_hz = self.readings.clock_hz, sm_clock_hz()
        return abs(self.readings.clock_hz - before) <= STEADY * before

    def _take_single(self, host_s: float) -> None:
        """One call is all that the budget affords, so the first call must be the sample.

        On a queue it is the second, and what issuing costs is seen behind another call: the first one's issuing has
        loading and allocating in it, and one after a long wait is slow, each many times its own cost. Where the second
        is quick, the first compiled or loaded, and samples are taken as of any other function.
        """
        seen = self.readings
        if seen.host.waits:
            seen.call_s = seen.host.one()[2]
            if not self.plan.is_slow(seen.call_s):
                return
            host_s = seen.host.issuing_s()
        seen.single = True
        seen.host.take(host_s, seen.call_s)

    def round(self) -> None:
        """One slice of samples of every time."""
        plan, seen = self.plan, self.readings
        self.settle()
        start = time.perf_counter()
        if plan.cache == "hot":
            seen.host.round(plan.slice_s * (0.6 if is_cuda(plan.place) else 1.0))
        if seen.device is not None:
            seen.device.round(plan.slice_s * 0.4, seen.call_s)
        seen.rounds += 1
        seen.spent_s += time.perf_counter() - start

    def finish(self, together: object = None) -> Measurement:
        """The measurement of all samples so far, the kernels' own times added; `together` stands for its neighbours."""
        plan, seen = self.plan, self.readings
        fields: dict[Field, Estimate | None] = seen.host.estimates(together or self) if plan.cache == "hot" else {}
        notes, flags = seen.notes, ["nan"] * seen.nan + ["single-call"] * seen.single
        ended = self._end(fields, notes, flags)
        flags += ["unstable"] * seen.drifted + [BUSY] * crowded(seen.before, cpu_seconds())
        if is_host_bound(fields.get("host_s"), fields.get("span_s"), fields.get("period_s")):
            flags.append("host-bound")
        return Measurement(
            cache=plan.cache,
            device=name_of(plan.place),
            flags=tuple(flags),
            notes=tuple(notes),
            samples={name: tuple(values) for name, values in seen.samples.items()},
            **ended,
            **cast(dict[str, Any], fields),
        )

    def _end(self, fields: dict[Field, Estimate | None], notes: list[str], flags: list[str]) -> dict[str, Any]:
        """Add what only the end tells: the work's own times, and under which conditions the device did it."""
        plan, seen = self.plan, self.readings
        if seen.device is None and seen.host.by_slope and plan.on_device:
            from brrr.timing.accelerator import finish_on_accelerator

            return finish_on_accelerator(plan, seen.call_s, fields, notes, flags)
        if seen.device is None:
            return self._worked(plan.place, fields) if isinstance(plan.place, CpuQueue) and not seen.single else {}
        from brrr.timing.device_times import finish_on_device

        self.settle()  # its kernels' own times, and its clock, are taken here
        power_w = probe.power_w() if plan.settle_s >= POWER_S else None
        return {**finish_on_device(seen.device, seen.call_s, fields, notes, flags), "power_w": power_w}

    def _worked(self, queue: CpuQueue, fields: dict[Field, Estimate | None]) -> dict[str, int]:
        """How many jobs a call submits to the CPU queue; adds their own times, as the worker saw them."""
        counts, sums = [], self.readings.worked_s
        for _ in range(WORKED_CALLS):
            queue.synchronize()
            queue.worked_s.clear()
            self.plan.fn()
            queue.synchronize()
            counts.append(len(queue.worked_s))
            sums.append(sum(queue.worked_s))
        fields["kernel_s"] = Estimate.of(sums, clock_tick_s())
        return {"kernels": round(median(counts))}

    def _prepare_device(self) -> None:
        from brrr.timing.device_times import DeviceTimes

        plan, seen = self.plan, self.readings
        if not seen.host.host:
            seen.host.round(plan.slice_s / 4)
        seen.device = DeviceTimes(plan, median(seen.host.host))
        if plan.cache == "cold":
            seen.host.forget()
        if seen.single:
            self.settle()
            seen.device.round(0.0, seen.call_s)


def _steady(recent: list[float]) -> bool:
    older, newer = median(recent[-6:-3]), median(recent[-3:])
    return abs(newer - older) <= STEADY * older


def _is_nan(result: Any) -> bool:
    """Whether a result (an array, a tensor, a number) holds a NaN; anything else does not."""
    try:
        return bool((result != result).any()) if hasattr(result, "any") else bool(result != result)
    except Exception:  # a result that cannot be compared is no NaN
        return False
