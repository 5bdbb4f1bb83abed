"""The three times that a host clock can tell: what issuing costs, what a loop takes, what a single caller waits."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from operator import mul
from typing import Any

from brrr.core.measurement import Estimate, Field, Rounds, median
from brrr.core.time_limit import in_time

BURST = 8
"""Calls timed between two synchronisations for `host_s`: few enough that the queue is never full."""

RUN_UP, RUN_UP_S = 16, 0.5e-3
"""So many calls are launched untimed before them, as far as they are done in that time: the first ones after a wait are
launched slower than those of a loop."""

SHORT_S = 2e-6
"""Calls shorter than this are timed several at once, since reading the clock costs a good part of them."""

FEW_CALLS = 16
"""Loops of fewer calls do not even out what differs between them."""

MANY_CALLS = 24
"""So many calls that differ are wanted, for a mean that no unfinished turn decides."""

TURNS, AGAIN, SHARE = 1.5, 2, 0.1
"""Calls take turns where some take so many times as long as the others, and each kind is met again: so often at least,
and in such a share of the calls. Rarer ones are other programs' doing, which a median leaves out."""

SHORT_LOOP = 5
"""With the slope, the short loop has this part of the long one's calls."""

END_SHARE = 1 / 200
"""How much of a loop's time its two ends (the first call's latency, the last synchronisation) may be."""


@lru_cache(maxsize=1)
def clock_cost_s() -> float:
    """What a pair of clock readings adds to the time between them, in seconds: the median of many empty pairs."""
    pairs = []
    for _ in range(2000):
        start = time.perf_counter_ns()
        pairs.append(time.perf_counter_ns() - start)
    return median(pairs) * 1e-9


@lru_cache(maxsize=1)
def clock_tick_s() -> float:
    """The smallest step that the host's clock shows, in seconds."""
    return max(1e-9, time.get_clock_info("perf_counter").resolution)


class HostTimes:
    """Samples of `host_s`, `period_s` and `latency_s` of one call; `wait` synchronises and does nothing on a CPU.

    by_slope: a period is what the calls of a long loop take beyond those of a short one, for the wait at the end is not
    known to be short.

    >>> times = HostTimes(lambda: sum(range(1000)))
    >>> times.round(0.01)
    >>> times.estimate(times.latency) is not None
    True
    """

    def __init__(
        self, call: Callable[[], Any], wait: Callable[[], None] | None = None, *, by_slope: bool = False
    ) -> None:
        self.call, self.wait, self.by_slope = call, wait or _nothing, by_slope
        self.waits = wait is not None
        self.warm: list[float] = []  # warm-up calls: they tell no time, but whether calls take turns
        self.forget()

    def forget(self) -> None:
        """Drop the samples so far."""
        self.host, self.period, self.latency = list[float](), list[float](), list[float]()
        self.loops: list[int] = []  # calls in each loop
        self.rounds: list[tuple[float, float, float]] = []  # of each round the medians of host, period and latency

    def one(self) -> tuple[Any, float, float]:
        """One call on an idle device: its result, and the seconds to its return and to its synchronised end."""
        wait = partial(in_time, self.wait) if self.by_slope else self.wait
        wait()
        start = time.perf_counter_ns()
        result = self.call()
        returned = time.perf_counter_ns()
        wait()
        return result, (returned - start) * 1e-9, (time.perf_counter_ns() - start) * 1e-9

    def issuing_s(self) -> float:
        """What issuing costs right behind another call: after a long wait the first issue is slower than in a loop."""
        self.wait()
        self.call()
        start = time.perf_counter_ns()
        self.call()
        returned = time.perf_counter_ns()
        self.wait()
        return self._net(returned - start)

    def take(self, host_s: float, latency_s: float) -> None:
        """Let one call be the only sample: of a loop of one call the period is its latency."""
        self.host, self.period, self.latency, self.loops = [host_s], [latency_s], [latency_s], [1]

    def round(self, slice_s: float) -> None:
        """Take some samples of each time in about `slice_s`; at least one of each, however long a call takes."""
        latency_s = self._sample_latency(slice_s / 4)
        host_s = self._sample_host(slice_s / 4) if self.waits else None
        period_s = self._sample_period(slice_s / 2)
        if host_s is None:  # a call has ended when it returns
            self.host.append(host_s := period_s)
        self.rounds.append((host_s, period_s, latency_s))

    def estimates(self, together: object) -> dict[Field, Estimate | None]:
        """`host_s`, `period_s` and `latency_s`; `together` stands for whatever took turns with this call."""
        period, latency = self.period_estimate(), self.estimate(self.latency)
        host = self.estimate(self.host) if self.waits or not self.uneven else period
        found: dict[Field, Estimate | None] = {"host_s": host, "period_s": period, "latency_s": latency}
        of_each = zip(*self.rounds, strict=True) if self.rounds and not self.uneven else [None] * len(found)
        rounds = [Rounds(together, each) if each else None for each in of_each]
        return {name: e and replace(e, rounds=of) for (name, e), of in zip(found.items(), rounds, strict=True)}

    def estimate(self, samples: list[float]) -> Estimate | None:
        """The samples as an estimate, the cost of reading the clock taken off; None without samples."""
        return Estimate.of(samples, clock_tick_s()) if samples else None

    @property
    def uneven(self) -> bool:
        """Whether calls take turns at being short and long, in loops too short to even it out."""
        times = sorted(self.warm + self.latency)
        if len(times) < 2 * AGAIN or not times[0] or max(self.loops, default=0) >= FEW_CALLS:
            return False
        cut = max(range(1, len(times)), key=lambda i: times[i] / times[i - 1])
        again = min(cut, len(times) - cut) >= max(AGAIN, SHARE * len(times))
        return again and times[cut] > TURNS * times[cut - 1] and times[-1] < TURNS * times[cut]

    @property
    def calls_wanted(self) -> bool:
        """Whether there are few calls, and they differ so much that they may take turns: that takes more to tell."""
        times = self.warm + self.latency
        return 0 < len(self.latency) + sum(self.loops) < MANY_CALLS and max(times) > TURNS * min(times)

    def period_estimate(self) -> Estimate | None:
        """A loop's time by its calls: the median of the loops, or where calls take turns the mean of all of them."""
        if not self.uneven:
            return self.estimate(self.period)
        calls, loops = list(self.period), list(self.loops)
        if not self.waits:  # then a call that is timed by itself is a loop of one
            calls, loops = calls + self.latency, loops + [1] * len(self.latency)
        mean = sum(map(mul, calls, loops)) / sum(loops)
        spread = sum(n * (each - mean) ** 2 for each, n in zip(calls, loops, strict=True)) / sum(loops)
        off = 2 * math.sqrt(spread / len(loops))
        return Estimate(mean, max(min(calls), mean - off), min(max(calls), mean + off), sum(loops))

    def _sample_latency(self, slice_s: float) -> float:
        samples: list[float] = []
        until = time.perf_counter() + slice_s
        while not samples or (len(samples) < 50 and time.perf_counter() < until):
            samples.append(self._one_latency())
        self.latency += samples
        return median(samples)

    def _one_latency(self) -> float:
        calls = self._calls_at_once() if not self.waits else 1
        self.wait()
        start = time.perf_counter_ns()
        for _ in range(calls):
            self.call()
        self.wait()
        return self._net(time.perf_counter_ns() - start) / calls

    def _calls_at_once(self) -> int:
        known = self.latency[-1] if self.latency else SHORT_S
        return max(1, math.ceil(10 * SHORT_S / known)) if 0 < known < SHORT_S else 1

    def _sample_host(self, slice_s: float) -> float:
        until, samples = time.perf_counter() + slice_s, list[float]()
        while not samples or time.perf_counter() < until:
            self.wait()
            for _ in range(min(RUN_UP, int(RUN_UP_S / max(median(self.latency[-50:]), 1e-9)))):
                self.call()
            for _ in range(BURST):
                start = time.perf_counter_ns()
                self.call()
                samples.append(self._net(time.perf_counter_ns() - start))
                if time.perf_counter() >= until:
                    break
        self.wait()
        self.host += samples
        return median(samples)

    def _sample_period(self, slice_s: float) -> float:
        calls = self._loop_calls(slice_s) + len(self.loops) % 2  # so that no turn of the calls is always left out
        few = calls // SHORT_LOOP if self.by_slope else 0
        taken_ns = self._loop_ns(calls)
        if few and (short_ns := self._loop_ns(few)) < taken_ns:  # else something else has held up the short one
            taken_ns, calls = taken_ns - short_ns, calls - few
        self.period.append(self._net(taken_ns) / calls)
        self.loops.append(calls)
        return self.period[-1]

    def _loop_ns(self, calls: int) -> int:
        self.wait()
        start = time.perf_counter_ns()
        for _ in range(calls):
            self.call()
        self.wait()
        return time.perf_counter_ns() - start

    def _loop_calls(self, slice_s: float) -> int:
        """So many calls that the loop's ends weigh at most END_SHARE, as far as the slice allows."""
        latency = median(self.latency[-50:])
        period = self.period[-1] if self.period else max(median((self.host or self.latency)[-50:]), latency / 4)
        ends = max(latency - period, 0.0)
        wanted = max(3, math.ceil(ends / (END_SHARE * period))) if period > 0 else 1000
        wanted = max(wanted, math.ceil(slice_s / 4 / max(period, 1e-9)))
        return max(1, min(wanted, int(slice_s / max(period, 1e-9)), 20000))

    def _net(self, elapsed_ns: int) -> float:
        return max(0.0, elapsed_ns * 1e-9 - clock_cost_s())


def _nothing() -> None:
    """A CPU's call has ended when it returns."""
