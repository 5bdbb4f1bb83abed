"""What a measurement is: six times, each a median with its interval, and the conditions they hold under.

| field | what it is |
| --- | --- |
| `host_s` | from the call's start to its return, the queue never full: what issuing costs |
| `kernel_s` | sum of the kernels' own times |
| `busy_s` | union of the kernel, copy and memset intervals on the device |
| `span_s` | first start to last end on the device, the queue prefilled behind a gate: launch gaps included |
| `period_s` | N calls without synchronising, one synchronisation at the end, over N: what a loop really takes |
| `latency_s` | one call on an idle device, to its synchronised end: what a single caller waits |
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import NormalDist
from statistics import median as median
from typing import Literal

from brrr.core import units
from brrr.core.cards import Card, Carded, Exported

# ---------------------------------------------------------------------------------------------------------------------
# The median and its 95 % interval, without assuming any distribution of the times.

CONFIDENCE = 0.95


def median_interval(
    values: Sequence[float], tick: float = 0.0, level: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Median, low and high end of its interval, by default the 95 % one: `(median, low, high)`.

    The interval's ends are two of the sorted values, chosen by the binomial distribution (the sign test turned round:
    Conover, Practical Nonparametric Statistics, 3.2), so outliers and two-humped times do not spoil it. With fewer
    than six values no pair reaches 95 %, and the ends are the extremes. The interval is never narrower than `tick`,
    the step of the clock, for a clock cannot vouch for less.

    >>> median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    (4.0, 1.0, 7.0)
    >>> median_interval([5.0], tick=1.0)
    (5.0, 4.5, 5.5)
    """
    ordered = sorted(values)
    middle = median(ordered)
    rank = _low_rank(len(ordered), level)
    low, high = ordered[rank], ordered[len(ordered) - 1 - rank]
    return middle, min(low, middle - tick / 2), max(high, middle + tick / 2)


@lru_cache(maxsize=4096)
def _low_rank(n: int, confidence: float) -> int:
    """The index of the interval's low end among n sorted values; the high end lies as far from the other side."""
    if n > 1000:  # the normal approximation errs to the wide side, by one rank at most; the sum is slow
        return max(0, math.floor((n - 1 - NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(n)) / 2))
    tail, rank = 0.0, 0
    for k in range(n):
        tail += math.comb(n, k) / 2**n
        if tail > (1 - confidence) / 2:
            break
        rank = k + 1
    # The interval from the k-th to the (n+1-k)-th sorted value misses with probability 2 * P(Binomial(n, 1/2) < k).
    return max(0, rank - 1)


Field = Literal["host_s", "kernel_s", "busy_s", "span_s", "period_s", "latency_s"]
FIELDS: Mapping[Field, str] = {
    "host_s": "on the host", "kernel_s": "of kernels", "busy_s": "of work on the device", "span_s": "on the device",
    "period_s": "a call in a loop", "latency_s": "a call alone, to its end"}  # fmt: skip
"""The six times, in words."""
Cache = Literal["hot", "cold"]

HOST_BOUND_PERIOD, HOST_BOUND_HOST = 1.1, 0.9
"""A call is host-bound when `period_s >= 1.1 span_s` and `host_s >= 0.9 period_s`."""


@dataclass(frozen=True)
class Rounds:
    """The median of each round of samples, and which samplers took turns in these rounds."""

    together: object
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Estimate(Exported):
    """A time in seconds as a median with its 95 % interval, or a number computed from such times.

    >>> print(Estimate(2e-6, 1.9e-6, 2.2e-6, 40))
    2 µs (1.9 to 2.2 µs, n=40)
    >>> ratio = Estimate(4.0, 3.0, 5.0, 9) / Estimate(2.0, 1.0, 2.5, 7)
    >>> print(ratio, f"{1 / ratio:%}")
    2x (1.2x to 5x, n=7) 50 % (20 % to 83 %)
    >>> print(Estimate(3e-6, 3e-6, 3e-6, 1) / Estimate(2e-6, 1e-6, 3e-6, 9))
    1.5x (n=1, no interval)

    Estimates can be divided, multiplied and subtracted, by each other and by numbers. The result knows its unit: a time
    over a time is a ratio. The format ``x`` writes a ratio, ``%`` a percentage. By its median an estimate is sorted,
    compared with a number, and made a ``float``; ``estimate.high < 1e-3`` asks of the whole interval.

    Parameters
    ----------
    median : float
        The middle of the samples, in seconds.
    low, high : float
        The ends of the interval. A quotient, product or difference has the widest one that the two intervals allow.
    n : int
        The number of samples; of a quotient, product or difference the smaller one. One sample has no interval.
    power : int
        The unit as a power of the second: 1 for a time, 0 for a ratio, -1 for a rate.
    rounds : Rounds, optional
        The median of each round of samples. Two times from one `measure_together` are compared round by round.

    Notes
    -----
    The interval's ends are two of the sorted samples, chosen by the binomial distribution (W. J. Conover, "Practical
    Nonparametric Statistics", 3.2); with fewer than six samples they are the extremes. The ratio of two times from
    one `measure_together` is computed round by round, so that what slows both down cancels. If widening by the clock's
    tick takes a divisor's lower end to zero, the quotient's upper end is infinite; if the divisor may be negative, the
    quotient has no interval.
    """

    median: float
    low: float
    high: float
    n: int
    power: int = 1
    rounds: Rounds | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, samples: Sequence[float], tick: float = 0.0, power: int = 1, level: float = CONFIDENCE) -> Estimate:
        """Make an estimate from samples in seconds; its interval is never narrower than the clock's `tick`."""
        middle, low, high = median_interval(samples, tick, level)
        return cls(middle, low, high, len(samples), power)

    @property
    def relative_half_width(self) -> float:
        """Half the interval over the median: 0.005 means that the median is known to half a percent."""
        return (self.high - self.low) / 2 / self.median if self.median > 0 else float("inf")

    def shifted(self, by: float) -> Estimate:
        """The estimate with a constant added, such as a calibrated overhead, cut off at zero."""
        middle, low, high = (max(0.0, each + by) for each in (self.median, self.low, self.high))
        rounds = self.rounds and replace(self.rounds, values=tuple(max(0.0, each + by) for each in self.rounds.values))
        return Estimate(middle, low, high, self.n, self.power, rounds)

    def __float__(self) -> float:
        return self.median

    def __lt__(self, other: Estimate | float) -> bool:
        return self.median < _exact(other).median

    def __le__(self, other: Estimate | float) -> bool:
        return self.median <= _exact(other).median

    def __gt__(self, other: Estimate | float) -> bool:
        return self.median > _exact(other).median

    def __ge__(self, other: Estimate | float) -> bool:
        return self.median >= _exact(other).median

    def __truediv__(self, other: Estimate | float) -> Estimate:
        by = _exact(other)
        if self.rounds and by.rounds and self.rounds.together is by.rounds.together:
            pairs = zip(self.rounds.values, by.rounds.values, strict=False)  # one may have ended first
            return Estimate.of([_quotient(mine, theirs) for mine, theirs in pairs], power=self.power - by.power)
        ends = [_quotient(mine, theirs) for mine in (self.low, self.high) for theirs in (by.low, by.high)]
        low, high = (-math.inf, math.inf) if by.low < 0 <= by.high else (min(ends), max(ends))
        middle = _quotient(self.median, by.median)
        return Estimate(middle, low, high, min(self.n, by.n), self.power - by.power)

    def __rtruediv__(self, number: float) -> Estimate:
        return _exact(number) / self

    def __mul__(self, other: Estimate | float) -> Estimate:
        by = _exact(other)
        ends = [mine * theirs for mine in (self.low, self.high) for theirs in (by.low, by.high)]
        return Estimate(self.median * by.median, min(ends), max(ends), min(self.n, by.n), self.power + by.power)

    __rmul__ = __mul__

    def __sub__(self, other: Estimate | float) -> Estimate:
        less = _exact(other)
        n = min(self.n, less.n)
        return Estimate(self.median - less.median, self.low - less.high, self.high - less.low, n, self.power)

    def __rsub__(self, number: float) -> Estimate:
        return replace(_exact(number), power=self.power) - self

    @property
    def has_interval(self) -> bool:
        """Whether it has an interval: one sample has none, nor has a quotient whose divisor may be negative."""
        return self.n > 1 and (self.low > -math.inf or self.high < math.inf)

    def __str__(self) -> str:
        write = {1: units.seconds, 0: units.ratio}.get(self.power, lambda value: f"{value:.3g} s^{self.power}")
        ends = f"{write(self.low)} to {write(self.high)}"
        ends = units.seconds_range(self.low, self.high, like_s=self.median) if self.power == 1 else ends
        return units.sayable(self._with(write(self.median), ends + f", n={self.n}" * (self.n < sys.maxsize)))

    def __format__(self, spec: str) -> str:
        """`x` writes a ratio with its interval, `%` a share."""
        if spec not in ("x", "%"):
            return format(str(self), spec)
        middle, low, high = (
            units.ratio(each) if spec == "x" else units.percent(each, 2) for each in (self.median, self.low, self.high)
        )
        return self._with(middle, f"{low} to {high}")

    def _with(self, middle: str, interval: str) -> str:
        lacking = "n=1, no interval" if self.n == 1 else "no interval"
        return f"{middle} ({interval if self.has_interval else lacking})"


def _quotient(one: float, by: float) -> float:
    return one / by if by else math.copysign(math.inf, one)


def _exact(value: Estimate | float) -> Estimate:
    """A number as an estimate that any other's number of samples is below."""
    return value if isinstance(value, Estimate) else Estimate(value, value, value, sys.maxsize, power=0)


@dataclass(frozen=True, repr=False)
class Measurement(Carded):
    """Six timings of one function on one device, with the conditions they were measured under.

    >>> m = Measurement(host_s=Estimate(11e-6, 10e-6, 12e-6, 9), kernel_s=Estimate(1e-6, 1e-6, 1e-6, 9),
    ...                 span_s=Estimate(1e-6, 1e-6, 1e-6, 9), period_s=Estimate(11e-6, 11e-6, 11e-6, 9))
    >>> print(m)
    11 µs on the host, 1 µs of GPU work: host-bound
    >>> m.host_bound, m.busy_s is None
    (True, True)

    `measure` returns it. A time is None where it does not apply (`kernel_s` on a CPU) or could not be measured; `notes`
    then says why. `details()` prints everything.

    Attributes
    ----------
    host_s : Estimate or None
        Seconds from the call's start to its return: what launching the work costs the host.
    kernel_s : Estimate or None
        The kernels' own times, added up.
    busy_s : Estimate or None
        How long the device was busy; overlapping work counts once.
    span_s : Estimate or None
        From the first start to the last end on the device, with the queue filled beforehand: what the device alone
        needs, gaps between kernels included.
    period_s : Estimate or None
        Time per call in a loop that waits only at its end: what a loop really takes.
    latency_s : Estimate or None
        One call on an idle device, until its result is there: how long a single caller waits.
    kernels : int or None
        How many kernels a call launches.
    cache : {"hot", "cold"}
        Whether the L2 cache was emptied before each call.
    sm_clock_hz : float or None
        The clock of the multiprocessors while measuring, in Hz.
    power_w : float or None
        The GPU's power in watts, if it ran the call again and again for a second or more.
    peak_bytes : int or None
        The peak memory of one call, beyond what was allocated before it. Only experiments on memory fill it.
    estimated_s : float or None
        What another tool estimates for the call (lesson 01 compares some), in seconds.
    launched : tuple of str
        The kernels of a call, each with its grid and block size; only some experiments ask for them.
    device : str
        The device's name.
    flags : tuple of str
        Warnings, as `measure` lists them.
    kernel_times_from : str
        The source of `kernel_s`: "cupti" (the profiler), or the fallback that estimates it.
    notes : tuple of str
        What a reader should know, for example why a time is missing.
    samples : mapping of str to tuple of float
        The individual samples of each time, in seconds.
    error : float or None
        The result's relative error against a reference in higher precision, if there was one.

    Notes
    -----
    A call is *host-bound* if ``period_s >= 1.1 * span_s`` and ``host_s >= 0.9 * period_s``. The share of a loop in
    which the device is idle is ``1 - busy_s / period_s`` (`idle_share`).
    """

    host_s: Estimate | None = None
    kernel_s: Estimate | None = None
    busy_s: Estimate | None = None
    span_s: Estimate | None = None
    period_s: Estimate | None = None
    latency_s: Estimate | None = None
    kernels: int | None = None
    cache: Cache = "hot"
    sm_clock_hz: float | None = None
    power_w: float | None = None
    peak_bytes: int | None = None
    estimated_s: float | None = None
    launched: tuple[str, ...] = ()
    device: str = ""
    flags: tuple[str, ...] = ()
    kernel_times_from: str = ""
    notes: tuple[str, ...] = ()
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict, repr=False, compare=False)
    error: float | None = field(default=None, compare=False)
    _more = "host_bound", "idle_share"

    def get(self, name: str) -> Estimate | None:
        """The time of that name, such as "period_s"; None if it was not measured."""
        if name not in FIELDS:
            raise KeyError(f"Measurement.get: name is {name!r}; expected one of {', '.join(FIELDS)}")
        found: Estimate | None = getattr(self, name)
        return found

    @property
    def host_bound(self) -> bool | None:
        """Whether the device waits for the host (see Notes above); None if a time that tells it is missing."""
        return is_host_bound(self.host_s, self.span_s, self.period_s)

    @property
    def idle_share(self) -> float | None:
        """The share of a loop in which the device is idle, ``1 - busy_s / period_s``; None without both times."""
        if self.busy_s is None or self.period_s is None or self.period_s.median <= 0:
            return None
        return max(0.0, 1 - self.busy_s.median / self.period_s.median)

    def __str__(self) -> str:
        verdicts = [*(["host-bound"] if self.host_bound else []), *(f for f in self.flags if f != "host-bound")]
        text = ", ".join(_parts(self)) or "nothing measured"
        return units.sayable(f"{text}: {', '.join(verdicts)}" if verdicts else text)

    def _card(self) -> Card:
        idle = self.idle_share
        shares = {} if idle is None else {"GPU busy": 1 - idle, "GPU idle": idle}
        times = [(str(time), what, name) for name, what in FIELDS.items() if (time := self.get(name)) is not None]
        clock = "" if self.sm_clock_hz is None else f", SM clock {units.quantity(self.sm_clock_hz, 'Hz')}"
        kernels = "" if self.kernels is None else f", kernels {self.kernels}"
        peak = f"memory {units.nbytes(self.peak_bytes or 0)} at most, beside what was there before the call"
        more = [f"{self.cache} cache{clock}{kernels}", peak * (self.peak_bytes is not None)]
        more += [*([f"flags: {', '.join(self.flags)}"] * bool(self.flags)), *(f"note: {note}" for note in self.notes)]
        return Card(f"{self}.", (), shares, self.device, [[("time", "what it is", "in code"), *times], *more])


def is_host_bound(host: Estimate | None, span: Estimate | None, period: Estimate | None) -> bool | None:
    """`period_s >= 1.1 span_s` and `host_s >= 0.9 period_s`, on the medians; None where one of them is missing."""
    if host is None or span is None or period is None:
        return None
    slower = period.median >= HOST_BOUND_PERIOD * span.median
    return slower and host.median >= HOST_BOUND_HOST * period.median


def _parts(m: Measurement) -> list[str]:
    """What a call costs: on the host and on the device, else until its end, else in a loop."""
    work, end = m.kernel_s or m.span_s, "until the result is there"
    times = [(m.host_s, FIELDS["host_s"]), (work, "of GPU work"), (None if work else m.latency_s, end)]
    said = [f"{units.seconds(each.median)} {what}" for each, what in times if each is not None]
    return said or [f"{units.seconds(each.median)} {FIELDS['period_s']}" for each in [m.period_s] if each is not None]


# ---------------------------------------------------------------------------------------------------------------------
# The values that everything speaks of: a point of a grid, a kind of device, the badge of a figure.

Value = int | float | str
Point = Mapping[str, Value]
Processor = str
"""The CPU ("cpu"), a kind of accelerator (`brrr.gpu.KNOWN`), or what a vendor calls its own."""
DeviceKind = str
"""A processor, or the CPU queue ("cpu-queue"), one worker thread that runs what is submitted, so that a CPU can be
asynchronous as a GPU is; what a browser measures of its reader's GPU is "webgpu", which nothing here runs."""


@dataclass(frozen=True)
class Badge:
    """What stands on every figure and table: live or recorded, the device, the date, torch's version."""

    kind: Literal[
        "LIVE", "RECORDED", "PREDICTED", "DATASHEET", "LIVE, CPU QUEUE", "LIVE, REMOTE", "LIVE, REMOTE, CPU QUEUE"
    ]
    device: str
    date: str
    torch: str
    gpus: frozenset[str] = frozenset()
    """The UUIDs of the GPUs of that model that the rows behind it were measured on: several are counted."""

    def __str__(self) -> str:
        parts = (self.kind, self.device, self.date, self.torch, f"{len(self.gpus)} GPUs" * (len(self.gpus) > 1))
        return " · ".join(part for part in parts if part)
