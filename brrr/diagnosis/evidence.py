"""The evidence that remedies look at: what a diagnosis knows of a stretch, and what it would take with less to do."""

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from brrr.core import units
from brrr.core.intervals import common, union
from brrr.counting.cost import OperatorCost
from brrr.diagnosis.assess import Assessed, Shares, time_of
from brrr.diagnosis.calls import nested
from brrr.diagnosis.split import STEP, Split
from brrr.roofline.device_model import DeviceModel
from brrr.tracing.events import Event, waits
from brrr.tracing.trace_file import Trace, launches

BLOCKS = re.compile(r"(?:cuda|cu|hip)Memcpy(?!.*Async)")
"""Copies that the host waits for, where they are made to it."""
WORTH, LEAST = 1.1, 1.05
"""A remedy that is predicted to gain less is weighed and dropped; the second is for what hides or hinders others."""


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

    steps: how often the program's step is in the stretch. traced: the split under the profiler. flags, of a live run:
    by `alike`, the share of a step's equal calls that others could do with them; "span_s", what the device takes for a
    step that is issued before; "launch blocking"; "asleep_s", seconds in which the host did nothing; "computed_s", all
    that its processes computed, workers too, or would have, had others left them a core; "recompiled", the share of it
    that was spent on compiling; "mended_s", seconds of a step without that, or without anomaly detection. Of what runs
    here also "cores" and "threads", as `cores_here` has them.
    """

    trace: Trace
    start_ns: int
    end_ns: int
    steps: int
    traced: Split
    split: Split
    shares: Shares
    calls: Sequence[Assessed]
    model: DeviceModel | None
    gpu: bool
    flags: Mapping[str, float] = field(default_factory=dict)
    _times: dict[tuple[OperatorCost, float], float] = field(default_factory=dict, repr=False)

    @property
    def wall_s(self) -> float:
        """Seconds of the stretch."""
        return self.split.wall_s

    @property
    def device_s(self) -> float:
        """Seconds in which the device was taken, copies from and to the host included."""
        return self.split.device_s

    @property
    def host_s(self) -> float:
        """Seconds in which the host did something else than wait for the device."""
        return self.split.issuing_s

    @cached_property
    def _host_events(self) -> tuple[list[int], float]:
        """The starts of the host's events, and the seconds that recording each of them has cost."""
        starts = [each.start_ns for each in self.events if not each.on_device]
        return starts, max(0.0, self.traced.issuing_s - self.split.issuing_s) / max(1, len(starts))

    def unprofiled_s(self, start_ns: int, end_ns: int) -> float:
        """Seconds of the host's between two times of the trace, without what recording its events has cost."""
        starts, each_s = self._host_events
        inside = bisect_left(starts, end_ns) - bisect_left(starts, start_ns)
        taken_s = (end_ns - start_ns) / 1e9
        return max(taken_s - each_s * inside, 0.1 * taken_s)

    @cached_property
    def events(self) -> list[Event]:
        """Those of the stretch."""
        return [each for each in self.trace.events if self.start_ns <= each.start_ns < self.end_ns]

    @cached_property
    def by_step(self) -> list[Sequence[Assessed]]:
        """The calls of each step."""
        length = max(1, -(-len(self.calls) // self.steps))
        return [self.calls[first : first + length] for first in range(0, len(self.calls), length)]

    @cached_property
    def callers(self) -> list[tuple[Event, Event]]:
        """Calls of the runtime, each with the outermost operator around it, or itself again."""
        found = []
        for event, around in nested([each for each in self.events if not each.on_device]):
            if event.sort == "runtime":
                found.append((event, next((each for each in around if each.name.startswith("aten::")), event)))
        return found

    @cached_property
    def feeding(self) -> list[Event]:
        """The operators, or else the calls of the runtime, that copy from the host to the device."""
        copies = {each.correlation for each in self.events if each.sort == "copy in"}
        return list({id(around): around for call, around in self.callers if call.correlation in copies}.values())

    @cached_property
    def waits(self) -> list[Event]:
        """Where the host waits for the device: the operator around it, else the call; copies to it do not count."""
        fed = union(each.interval for each in self.feeding)
        last = max((each.start_ns for each in self.trace.events if launches(each)), default=0)
        marks = [each.end_ns for each in self.trace.events if each.name.startswith(STEP)]
        closing = max([last, *marks])  # behind it the profiler waits, before it stops: no step does
        out = {each.correlation for each in self.events if each.sort == "copy out"}
        return [
            around for call, around in self.callers
            if self.gpu and (waits(call.name) or (BLOCKS.match(call.name) and call.correlation in out))
            and not common([call.interval], fed)
            and (around is not call or call.start_ns < closing)
        ]  # fmt: skip

    def predicted_s(self, costs: Iterable[OperatorCost], touched: float = 0.0) -> float:
        """What the roofline's model gives the work of these operators; equal ones are looked up once.

        touched: the bytes that the step touches, where more than an operator's own count.
        """
        total = 0.0
        for each in costs:
            if (each, touched) not in self._times:
                self._times[each, touched] = self._predicted_s(each, touched)
            total += self._times[each, touched]
        return total

    def _predicted_s(self, cost: OperatorCost, touched: float) -> float:
        made = time_of(cost, self.model, touched)
        return math.inf if made is None else made.device_s or 0.0  # what is not known saves nothing

    @property
    def share(self) -> float:
        """What a second of a kernel is of the busy time: less than one where kernels of several streams overlap."""
        total_s = sum(each.work_s for each in self.calls)
        return min(1.0, self.split.busy_s / total_s) if total_s else 1.0

    def faster(self, saved_s: float) -> float:
        """The gain if kernels took so much less: what the host takes meanwhile stays.

        Where it waits in each step, the time of its calls holds the waiting; what is left of them without, and without
        what the profiler adds to a step, stays.
        """
        saved_s = min(saved_s * self.share, 0.98 * self.split.busy_s)
        profiled = self.traced.wall_s / self.wall_s if self.in_step else 1.0
        least = min(self.wall_s, self.host_s / max(1.0, profiled)) if self.gpu else 0.0
        return self.wall_s / max(self.wall_s - saved_s, least, 1e-12)

    @property
    def in_step(self) -> bool:
        """Whether the host waits for the device in each step, so that neither works ahead of the other."""
        return not self.gpu or len(self.waits) + len(self.feeding) >= 0.5 * self.steps
