"""Quick times of many small cases on a GPU: a few milliseconds each, kernels recorded for a whole batch at once.

Attaching the profiler takes longer than measuring a case, so the kernels of BATCH cases are recorded in one session
when the first of them is asked for. The host's times are then taken case by case, without a profiler around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from brrr.errors import BrrrError, UnavailableError
from brrr.experiments.prediction_calls import surroundings
from brrr.experiments.prediction_cases import Case, case, cases, intervened, twin
from brrr.measurement import Estimate, Measurement
from brrr.peaks.host_cost import reference_call
from brrr.statistics import median
from brrr.timing import activity, no_collection
from brrr.timing.device_times import EVENT_TICK_S
from brrr.timing.gate import gate_of, marker_kernel, sm_clock_hz
from brrr.timing.host_times import HostTimes

BATCH = 40
ROUNDS = 8
SLICE_S = 2e-3
"""Each round takes the three times of the host's clock in about this time, or one call of each."""

REFERENCE_SLICE_S = 0.5e-3
"""And a reference beside it in this, which tells how fast the host is."""

CALLS, FEWEST_CALLS = 12, 4
LAUNCHES = 800
"""So many launches at most wait behind a gate."""
GATE_S = 0.1

Activities = list[list[activity.Activity]]


def measured(run: Callable[[], Any], made: Case, *, kernels: bool) -> Measurement:
    """The host's times of a call, and with `kernels` its kernels' own times, which are recorded in batches."""
    times = HostTimes(run, torch.cuda.synchronize)
    beside = HostTimes(reference_call("cuda"), torch.cuda.synchronize)
    calls = kernel_times(made) if kernels else []
    with surroundings(made), no_collection():
        for _ in range(3):
            run()
            beside.one()
        for _ in range(ROUNDS):
            times.round(SLICE_S)
            beside.round(REFERENCE_SLICE_S)
        clock = sm_clock_hz()
    if kernels:
        _beside[made.name] = beside
    return Measurement(
        host_s=times.estimate(times.host),
        period_s=times.estimate(times.period),
        latency_s=times.estimate(times.latency),
        kernel_s=_estimate(calls, activity.kernel_sum_s),
        busy_s=_estimate(calls, activity.busy_union_s),
        kernels=round(median([len(call) for call in calls])) if calls else None,
        sm_clock_hz=clock,
        device=torch.cuda.get_device_name(),
        kernel_times_from="cupti" if calls else "",
    )


_beside: dict[str, HostTimes] = {}


def reference(made: Case) -> Measurement:
    """How fast the host was beside the case's own times: a relu of 8 x 8 numbers, measured by turns with it.

    UnavailableError where the case was not measured in this process: at another time the host has another speed.
    """
    if made.name not in _beside:
        raise UnavailableError(
            f"prediction: {made.name} was measured earlier, and the host's speed of then is not known"
        )
    times = _beside.pop(made.name)
    return Measurement(
        host_s=times.estimate(times.host),
        period_s=times.estimate(times.period),
        latency_s=times.estimate(times.latency),
        device=torch.cuda.get_device_name(),
    )


def _estimate(calls: Activities, of: Callable[[list[activity.Activity]], float]) -> Estimate | None:
    return Estimate.of([of(call) for call in calls], EVENT_TICK_S) if calls else None


_known: dict[str, Activities] = {}


def kernel_times(wanted: Case) -> Activities:
    """What the device did in each of some calls of a case; empty where that could not be recorded."""
    if wanted.name not in _known:
        together = _batch_of(wanted)
        _known.update({each.name: [] for each in together})
        ready = [made for each in together if (made := _ready(each)) is not None]
        with suppress(RuntimeError):  # another profiler is running, or CUPTI is forbidden here
            _known.update(_recorded(ready))
    return _known[wanted.name]


@lru_cache(maxsize=1)
def _jobs() -> tuple[Case, ...]:
    """All cases whose kernels are recorded: the cases in their order, then the twins."""
    twins = [twin(case(name), changed) for name in sorted(intervened()) for changed in ("bytes", "flop")]
    return tuple(dict.fromkeys((*cases(), *(each for each in twins if each is not None))))


def _batch_of(wanted: Case) -> tuple[Case, ...]:
    jobs = _jobs()
    if wanted not in jobs:
        return (wanted,)
    start = jobs.index(wanted) // BATCH * BATCH
    return jobs[start : start + BATCH]


def _recorded(ready: Sequence[Ready]) -> dict[str, Activities]:
    """One profiler session around some calls of each case; in halves where the session lost some of them."""
    if not ready:
        return {}
    gate = gate_of(torch.cuda.current_device())

    def run() -> None:
        for each in ready:
            with surroundings(each.case):
                gate.run(each.issue, GATE_S)

    found = activity.split_by_marker(activity.record_activity(run)[0])
    if len(found) == sum(each.calls for each in ready):
        return _dealt_out(ready, found)
    half = len(ready) // 2
    return {**_recorded(ready[:half]), **_recorded(ready[half:])} if half else {}


@dataclass(frozen=True)
class Ready:
    """A case that has run, with its inputs, to be called so many times."""

    case: Case
    call: Callable[[], Any]
    calls: int

    def issue(self) -> None:
        """The calls, a marker before each."""
        for _ in range(self.calls):
            marker_kernel()
            self.call()


def _ready(each: Case) -> Ready | None:
    """The case, called three times: what happens once is loaded and chosen then; None if it cannot run here."""
    from brrr.experiments.prediction_work import call_of, inputs_of

    try:
        with surroundings(each):
            call = call_of(each, inputs_of(each, "cuda"))
            for _ in range(3):
                call()
            torch.cuda.synchronize()
    except (RuntimeError, BrrrError):  # out of memory, or an operator that this torch lacks
        return None
    return Ready(each, call, max(FEWEST_CALLS, min(CALLS, LAUNCHES // (4 * each.length))))


def _dealt_out(ready: Sequence[Ready], found: Activities) -> dict[str, Activities]:
    """The recorded calls, each to its case."""
    dealt, start = {}, 0
    for each in ready:
        dealt[each.case.name] = [call for call in found[start : start + each.calls] if call]
        start += each.calls
    return dealt
