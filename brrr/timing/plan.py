"""What is timed, where and how."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from brrr.core.measurement import Cache
from brrr.gpu import is_gpu
from brrr.timing.cpu_queue import Place

PRECISION = 0.005
"""A measurement ends when every interval is within half a percent of its median, or when its budget is spent."""

LIVE_CPU_PRECISION = 0.05
"""On a laptop's CPU five percent must do: its clock and its other programs allow no more."""

SLOW_CALLS = 4
"""A call that takes longer than so many budgets is made once."""


@dataclass(frozen=True)
class Plan:
    """What is timed and how, and what else is read: nothing in it changes while samples come in.

    settle_s: seconds of calls before each round that are not measured. fewest: rounds of samples to take even if the
    budget is spent. precision: half of an interval over its median that is enough, if the device's own is finer.
    on_device: whether a GPU's own times are wanted. profiler: whether CUPTI may tell them. launches: whether to note
    how each kernel was launched.
    """

    fn: Callable[[], Any]
    place: Place
    cache: Cache
    budget_s: float
    settle_s: float = 0.0
    fewest: int = 1
    precision: float = 0.0
    on_device: bool = True
    profiler: bool = True
    launches: bool = False

    @property
    def enough(self) -> float:
        """Half of an interval over its median with which a measurement ends before its budget is spent."""
        return max(self.precision, PRECISION if is_gpu(self.place) else LIVE_CPU_PRECISION)

    def is_slow(self, call_s: float) -> bool:
        """Whether a call takes so long that it is made once."""
        return call_s > SLOW_CALLS * self.budget_s
