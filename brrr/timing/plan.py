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

SLICES, PAIRED_SLICES = 8, 48
"""The budget is spent in so many rounds; in more and shorter ones where each is a pair with a neighbour's, so that what
holds up one of them spoils one pair of many."""

SETTLED_SLICES = 2
"""With a run-up the budget is spent in so many rounds, each behind its own."""

ENOUGH_ROUNDS, LONGEST = 8, 10
"""More pairs than so many are wanted only until so many budgets are spent."""

SLOW_CALLS = 4
"""A call that takes longer than so many budgets is made once."""


@dataclass(frozen=True)
class Plan:
    """What is timed and how, and what else is read: nothing in it changes while samples come in.

    settle_s: seconds of calls before each round that are not measured. fewest: rounds of samples to take even if the
    budget is spent. precision: half of an interval over its median that is enough, if the device's own is finer.
    on_device: whether a GPU's own times are wanted. profiler: whether CUPTI may tell them. launches: whether to note
    how each kernel was launched. paired: whether it is compared with its neighbours, in many short rounds that take all
    of the budget. call: what the user called, for messages.
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
    paired: bool = False
    call: str = "measure"

    @property
    def slice_s(self) -> float:
        """Seconds of a round."""
        return self.budget_s / (PAIRED_SLICES if self.paired else SETTLED_SLICES if self.settle_s else SLICES)

    @property
    def enough(self) -> float:
        """Half of an interval over its median with which a measurement ends before its budget is spent."""
        return 0.0 if self.paired else max(self.precision, PRECISION if is_gpu(self.place) else LIVE_CPU_PRECISION)

    def suffices(self, rounds: int, spent_s: float, budgets: int = 1) -> bool:
        """Whether so many rounds, which took so long, are all that the budget affords; `budgets` of it are wanted."""
        long = self.paired and spent_s >= LONGEST * self.budget_s
        wanted = min(self.fewest, ENOUGH_ROUNDS) if long else self.fewest
        return rounds >= wanted and spent_s >= budgets * self.budget_s

    def is_slow(self, call_s: float) -> bool:
        """Whether a call takes so long that it is made once."""
        return call_s > SLOW_CALLS * self.budget_s
