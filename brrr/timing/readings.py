"""What came in of a function that is timed, and what follows: its samples, its notes, whether it drifted."""

from dataclasses import dataclass, field
from typing import Any

from brrr.core import units
from brrr.core.measurement import Estimate, median
from brrr.timing.host_times import HostTimes

MIN_SAMPLES, FEW_SAMPLES = 6, 3
"""The fewest samples from which a 95 % interval of the median exists."""

DRIFT, FEW_DRIFT = 0.03, 0.1

TURNS_NOTE = "calls take turns at being short and long: period_s is the mean of all"
SINGLE_NOTE = "a single call was measured, and a first one may take longer than those after it"
FIRST_TIMES, FIRST_S = 10, 1e-3
"""A first call is told of where it takes so many times as long as the others, and so many seconds longer."""


@dataclass
class Readings:
    """What a `Sampler` has read so far.

    before: how busy the machine was at the start, by `cpu_seconds`. first_s: seconds of the very first call; call_s: of
    the latest one of the warm-up. single: whether one call is all that is measured. device: `DeviceTimes` on a GPU.
    worked_s: the jobs' own times on a CPU queue, a sum a call. spent_s: seconds of all rounds.
    """

    host: HostTimes
    before: tuple[float, float, float]
    first_s: float = 0.0
    clock_hz: float = 0.0
    call_s: float = 0.0
    later: str = ""
    nan: bool = False
    single: bool = False
    device: Any = None
    worked_s: list[float] = field(default_factory=list)
    rounds: int = 0
    spent_s: float = 0.0

    @property
    def samples(self) -> dict[str, list[float]]:
        """The samples of each time that has some."""
        work = {"kernel_s": self.worked_s} if self.device is None else self.device.samples
        found = {"host_s": self.host.host, "period_s": self.host.period, "latency_s": self.host.latency, **work}
        return {name: values for name, values in found.items() if values}

    @property
    def notes(self) -> list[str]:
        """What is to be said of the calls."""
        said = [TURNS_NOTE] * self.host.uneven + [self.later] * bool(self.later) + [SINGLE_NOTE] * self.single
        return said + first_note(self.first_s, median(self.host.latency or [self.call_s]))

    def precise(self, enough: float) -> bool:
        """Whether half of each time's interval is at most this share of its median."""
        lists = self.samples.values()
        return all(len(each) >= MIN_SAMPLES and Estimate.of(each).relative_half_width <= enough for each in lists)

    @property
    def drifted(self) -> bool:
        """Whether the second half of the spans (on a CPU: of the loops) differs by more than 3 % from the first.

        Halves of three to five samples have no interval: there all of one half must lie above all of the other, and
        their medians a tenth apart.
        """
        values = self.samples.get("pair_s") or self.host.period
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
