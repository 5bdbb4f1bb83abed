"""The evidence that remedies look at: what a diagnosis knows of a stretch, and what it would take with less to do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.counting.cost import OperatorCost
from brrr.diagnosis.assess import Assessed, Shares
from brrr.diagnosis.split import Split
from brrr.diagnosis.trace_file import Event, Trace
from brrr.roofline.device_model import DeviceModel
from brrr.roofline.terms import operator_time

WORTH = 1.1
"""A remedy that is predicted to gain less is not named."""


@dataclass(frozen=True)
class Remedy:
    """What to do, why, and the predicted gain: the time as it is over the time with it."""

    name: str
    gain: float
    why: str

    def __str__(self) -> str:
        return f"{self.name}: predicted gain {units.ratio(self.gain)}. {self.why}"


@dataclass(frozen=True)
class Evidence:
    """What a diagnosis knows: the trace's stretch, its split, the calls, the device's figures, and flags that were set.

    steps: how often the program's step is in the stretch. flags, of a live run: "launch blocking"; "asleep_s", seconds
    in which the host did nothing; "recompiled", the share of it that was spent on compiling.
    """

    trace: Trace
    start_ns: int
    end_ns: int
    steps: int
    split: Split
    shares: Shares
    calls: Sequence[Assessed]
    model: DeviceModel | None
    gpu: bool
    flags: Mapping[str, float] = field(default_factory=dict)
    _times: dict[OperatorCost, float] = field(default_factory=dict, repr=False)

    @property
    def wall_s(self) -> float:
        """Seconds of the stretch."""
        return self.split.wall_s

    @property
    def device_s(self) -> float:
        """Seconds in which the device worked, copies from and to the host included."""
        return self.split.busy_s + self.split.transfer_s

    @property
    def host_s(self) -> float:
        """Seconds in which the host did something else than wait for the device."""
        return sum(seconds for cause, seconds in self.split.host_s.items() if cause != "synchronisation")

    @cached_property
    def events(self) -> list[Event]:
        """Those of the stretch."""
        return [each for each in self.trace.events if self.start_ns <= each.start_ns < self.end_ns]

    def predicted_s(self, costs: Iterable[OperatorCost]) -> float:
        """What the roofline's model gives the work of these operators; equal ones are looked up once."""
        total = 0.0
        for each in costs:
            if each not in self._times:
                self._times[each] = self._predicted_s(each)
            total += self._times[each]
        return total

    def _predicted_s(self, cost: OperatorCost) -> float:
        assert self.model is not None
        try:
            made = operator_time(cost, self.model, cost.bytes, host_s=0.0 if self.model.is_gpu else None)
        except BrrrError:  # the device has no figure for its type: nothing is known to be saved
            return math.inf
        return made.device_s or 0.0

    @property
    def share(self) -> float:
        """What a second of a kernel is of the busy time: less than one where kernels of several streams overlap."""
        total_s = sum(each.work_s for each in self.calls)
        return min(1.0, self.split.busy_s / total_s) if total_s else 1.0

    def faster(self, saved_s: float) -> float:
        """The gain if kernels took so much less: what the host takes meanwhile stays."""
        saved_s = min(saved_s * self.share, 0.98 * self.split.busy_s)
        least = min(self.wall_s, self.host_s) if not self.waits else 0.0
        return self.wall_s / max(self.wall_s - saved_s, least, 1e-12)

    @property
    def waits(self) -> bool:
        """Whether the host waits for the device in the steps, so that neither works ahead of the other."""
        return self.split.host_s.get("synchronisation", 0.0) > 0.02 * self.wall_s or not self.gpu
