"""The three times that only the device can tell: the span behind the gate, and the kernels' own times."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from brrr.core.heavy import torch
from brrr.core.measurement import Estimate, Field, median
from brrr.gpu import probe
from brrr.timing import activity
from brrr.timing.calibration import (
    QUEUE_DEPTH,
    Calibration,
    calibration,
    cold_penalty_s,
    graph_gap_s,
    pairs_s,
    stream_gaps_s,
)
from brrr.timing.gate import eviction_of, gate_of, marker_kernel, sm_clock_hz
from brrr.timing.graph_times import graph_share, launches
from brrr.timing.plan import Plan

PROFILED_CALLS = 25

EVENT_TICK_S = 32e-9
"""Step of an event's time stamp on an H200; older GPUs may have a coarser one, which the samples then show."""

CLOSE_S = 0.3e-6
"""`busy_s` may exceed the span by so much through the two clocks' difference; the span is then set to it."""

PROFILED_LONGER = 0.06
"""Or by this share: under CUPTI kernels that fill the memory's bandwidth were seen to take 2 to 5 % longer (H200)."""


class DeviceTimes:
    """Samples of `span_s`, and the kernels' own times, of one call on torch's current GPU and stream."""

    def __init__(self, plan: Plan, host_s: float) -> None:
        self._index = index = torch.cuda.current_device()
        self.plan, self._host_s, self._gate = plan, host_s, gate_of(index)
        self._evict = eviction_of(index) if plan.cache == "cold" else None
        self._repeats = 16
        self.span: list[float] = []
        self.held = True
        self.kernels: int | None = None
        self.host_waits: list[str] = []
        self.per_call: list[list[activity.Activity]] = []

    def round(self, slice_s: float, call_s: float) -> None:
        """Take span samples in about `slice_s`, `call_s` being what a call takes; stops trying once no gate holds."""
        while self.held:
            repeats = max(1, min(self._repeats, int(slice_s / max(call_s, 1e-6))))
            pairs = pairs_s(self.plan.fn, repeats, self._timeout_s(repeats), self._evict)
            if pairs is not None:
                self.span += pairs
                return
            self.held = repeats > 1
            self._repeats = repeats // 4 or 1

    def profile(self, call_s: float, slice_s: float) -> None:
        """Record the activities of some calls under the profiler; nothing is recorded where there is none."""
        calls = max(3, min(PROFILED_CALLS, int(slice_s / max(call_s, 1e-6))))

        def run() -> None:
            for _ in range(calls):
                if self._evict is not None:
                    self._evict()
                marker_kernel()
                self.plan.fn()

        def gated() -> None:
            self._gate.run(run, self._timeout_s(calls))

        activities, host = activity.record_activity(gated if self.held else run, launches=self.plan.launches)
        self.per_call = [call for call in activity.split_by_marker(activities) if call]
        if self.per_call:
            self.kernels = round(median([len(call) for call in self.per_call]))
        self.host_waits = [name for name, count in Counter(activity.waits(host)).items() if count >= calls]

    @property
    def launched(self) -> tuple[str, ...]:
        """The kernels of the last recorded call, as `activity.launch_text` writes them."""
        return tuple(each.launch for each in self.per_call[-1] if each.launch) if self.per_call else ()

    @property
    def samples(self) -> dict[str, list[float]]:
        """What each estimate is made of: the event pairs' times, and sums over the recorded activities."""
        sums = {"kernel_s": activity.kernel_sum_s, "busy_s": activity.busy_union_s}
        return {"pair_s": self.span, **{name: [of(call) for call in self.per_call] for name, of in sums.items()}}

    def kernel_estimate(self, of: Callable[[list[activity.Activity]], float]) -> Estimate | None:
        """One of the sums over the recorded activities, a sample a call."""
        return Estimate.of([of(call) for call in self.per_call], EVENT_TICK_S) if self.per_call else None

    def span_estimate(self, calibrated: Calibration) -> Estimate | None:
        """The span: what the event pair showed, less the calibrated surplus.

        Of a call that is one kernel the span is that kernel's own time, so CUPTI's figure for it takes out what the
        surplus differs by from kernel to kernel.
        """
        if not self.span:
            return None
        pair = Estimate.of(self.span, EVENT_TICK_S)
        busy = self.kernel_estimate(activity.busy_union_s)
        if busy is not None and self.kernels == 1:
            return pair.shifted(busy.median - pair.median)
        return reconciled(pair.shifted(-calibrated.surplus_s(self.plan.cache)), busy)

    def fallback_estimate(self, calibrated: Calibration) -> tuple[Estimate | None, str]:
        """`kernel_s` without a profiler, and which method gave it; None for a call that waits for the device.

        Best is the call's share of a graph, less the graph's gaps. What cannot be captured, and copies (which a graph
        runs in another way), go by the span less the stream's gaps. Behind an emptied cache the hot figure is raised
        by as much as the pair grew, less what the launches' own misses cost.
        """
        span = self.span_estimate(calibrated)
        if span is None or not self.held:
            self.kernels = launches(self.plan.fn)  # tells a call that waits from one that overfills the queue
            return None, "missing, since no gate held: the call waits for the device, or overfills its queue"
        step = graph_share(self.plan.fn, span.median)
        if step is not None:
            self.kernels = step.kernels + step.copies
        hot = self._hot_pair() if self.plan.cache == "cold" else Estimate.of(self.span, EVENT_TICK_S)
        kernels = self.kernels or 1
        hot_span = hot.shifted(-calibrated.surplus_s("hot"))
        if step is not None and not step.copies and step.seconds <= hot_span.median + CLOSE_S:
            by_graph = step.seconds - step.kernels * graph_gap_s(self._index, calibrated)
            found, how = hot_span.shifted(by_graph - hot_span.median), "its share of a graph less the graph's gaps"
        else:
            gaps_s = stream_gaps_s(calibrated, kernels) if kernels > 1 else 0.0
            found, how = hot_span.shifted(-gaps_s), "the span less the stream's gaps"
        if self.plan.cache == "cold":
            penalty_s = cold_penalty_s(self._index, calibrated, kernels)
            grown = Estimate.of(self.span).median - hot.median - penalty_s
            found, how = found.shifted(grown), f"{how}, raised by what the emptied cache added"
        return found, how

    def _hot_pair(self) -> Estimate:
        samples: list[float] = []
        for _ in range(6):
            samples += pairs_s(self.plan.fn, self._repeats, self._timeout_s(self._repeats)) or []
        return Estimate.of(samples, EVENT_TICK_S)

    def _timeout_s(self, repeats: int) -> float:
        return max(0.02, 10 * repeats * self._host_s)


def reconciled(span: Estimate | None, busy: Estimate | None) -> Estimate | None:
    """The span, raised to `busy_s` where the calibration put it just below: the device cannot be busy for longer."""
    if span is None or busy is None or span.median >= busy.median:
        return span
    if busy.median - span.median > max(CLOSE_S, PROFILED_LONGER * busy.median):
        return span
    return Estimate(busy.median, min(span.low, busy.low), max(span.high, busy.high), span.n)


def contradicted(busy: Estimate | None, span: Estimate | None) -> bool:
    """Whether the profiler saw the device busy for longer than the whole call takes without it."""
    return busy is not None and span is not None and busy.median > span.median


# ---------------------------------------------------------------------------------------------------------------------
# The end of a measurement on a GPU: kernel times, span, clock, and the flags that only the device can raise.

POWER_CAP_CLOCK = 0.97


def finish_on_device(
    times: DeviceTimes, call_s: float, fields: dict[Field, Estimate | None], notes: list[str], flags: list[str]
) -> dict[str, Any]:
    """Fill in `span_s`, `kernel_s` and `busy_s`; returns what else a `Measurement` holds of the device's work."""
    index = torch.cuda.current_device()
    clock = sm_clock_hz()
    if times.plan.profiler:
        try:
            times.profile(call_s, times.plan.budget_s / 4)
        except RuntimeError as error:  # another profiler is running, or CUPTI is forbidden here
            notes.append(f"the profiler failed: {str(error).splitlines()[0]}")
    calibrated = calibration(index, profiler=bool(times.per_call))
    if times.per_call:
        origin = "cupti"
        fields["kernel_s"] = times.kernel_estimate(activity.kernel_sum_s)
        fields["busy_s"] = times.kernel_estimate(activity.busy_union_s)
    else:
        origin = f"fallback (yardstick's own time {calibrated.own_from})"
        fields["kernel_s"], how = times.fallback_estimate(calibrated)
        notes.append(f"no profiler: kernel_s is {how}")
        flags.append("no-profiler")
    fields["span_s"] = times.span_estimate(calibrated)
    if contradicted(fields.get("busy_s"), fields["span_s"]):
        fields["busy_s"] = None
        notes.append("busy_s is left out: under the profiler kernels that overlap took longer than the span without it")
    if not times.held:
        _explain_no_span(times, notes, flags)
    _judge_clock(flags, clock)
    return {"kernels": times.kernels, "kernel_times_from": origin, "launched": times.launched, "sm_clock_hz": clock}


def _explain_no_span(times: DeviceTimes, notes: list[str], flags: list[str]) -> None:
    """Tell a function that waits for the device from one that launches more than the queue holds."""
    full = times.kernels is not None and times.kernels > QUEUE_DEPTH
    if full and not times.host_waits:
        flags.append("queue-full")
        notes.append(f"no span: a call launches {times.kernels} kernels, more than the queue holds behind a gate")
        return
    flags.append("syncs")
    names = ", ".join(sorted(set(times.host_waits))) or "a wait that CUPTI does not name"
    notes.append(f"no span: the function waits for the device ({names}), so the gate opened by itself")


def _judge_clock(flags: list[str], clock: float) -> None:
    if (probe.compute_processes() or 0) > 1:
        flags.append("shared-gpu")
    highest = probe.max_sm_clock_hz()
    if highest is None or clock >= POWER_CAP_CLOCK * highest:
        return
    reasons = probe.throttle_reasons()
    if reasons & {"power-cap", "power-brake"}:
        flags.append("power-capped")
    if reasons & {"thermal", "hardware-slowdown"}:
        flags.append("thermal")
