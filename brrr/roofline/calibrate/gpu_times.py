"""Times on the GPU for a calibration: the kernels' own by CUPTI, many in one recording, or gated event pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from brrr.core.errors import BrrrError
from brrr.core.measurement import Estimate
from brrr.core.values import Value
from brrr.gpu import clocks
from brrr.timing.activity import kernel_sum_s, record_activity, split_by_marker
from brrr.timing.calibration import calibration, pairs_s
from brrr.timing.device_times import EVENT_TICK_S
from brrr.timing.gate import gate_of, marker_kernel, sm_clock_hz

Call = Callable[[], Any]

WARM, TIMED = 3, 12
"""Calls of each that come first and are not counted, and those that are."""

GATE_S = 0.2
LONG_ENOUGH_S = 20e-6
"""Of what lasts so long, the assumed surplus of an event pair is at most a few percent."""


def clock_conditions() -> dict[str, Value]:
    """The SM clock as a kernel sees it just now, and what holds it back, if anything does."""
    found: dict[str, Value] = {"sm_clock_hz": round(sm_clock_hz(), -6)}
    held = clocks.throttle_reasons() - {"idle", "application-clocks"}
    return {**found, "held_back_by": ", ".join(sorted(held))} if held else found


def own_times(calls: Sequence[Call], warm: int = WARM, timed: int = TIMED) -> list[Estimate] | None:
    """The kernels' own time of each call by CUPTI, all calls in one recording, hot; None without a profiler.

    Each call is issued `warm` times uncounted and `timed` times counted, behind a gate, so that its kernels follow
    each other as in a full queue.
    """
    try:
        activities, _ = record_activity(lambda: _issue_all(calls, warm + timed))
    except RuntimeError:  # another profiler is running, or CUPTI is forbidden here
        return None
    buckets = split_by_marker(activities)
    each = warm + timed
    if len(buckets) != each * len(calls) or not all(buckets):
        return None
    samples = [
        [kernel_sum_s(bucket) for bucket in buckets[k * each + warm : (k + 1) * each]] for k in range(len(calls))
    ]
    return [Estimate.of(values, EVENT_TICK_S) for values in samples]


def _issue_all(calls: Sequence[Call], times: int) -> None:
    gate = gate_of(torch.cuda.current_device())
    for call in calls:
        gate.run(lambda call=call: _issue(call, times), GATE_S)  # type: ignore[misc]


def _issue(call: Call, times: int) -> None:
    for _ in range(times):
        marker_kernel()
        call()


def gated(call: Call, *, repeats: int = 8, rounds: int = 2) -> Estimate:
    """Event pairs behind the gate, less what a pair shows beyond the work: for calls that last 0.1 ms and more."""
    surplus_s = calibration(torch.cuda.current_device()).surplus_s("hot")
    pairs_s(call, 2, GATE_S)
    samples: list[float] = []
    for _ in range(rounds):
        samples += pairs_s(call, repeats, GATE_S) or []
    if not samples:
        raise BrrrError("calibrate: the gate never held; another program may be using the GPU")
    return Estimate.of(samples, EVENT_TICK_S).shifted(-surplus_s)


def times_of(calls: Sequence[Call]) -> tuple[list[Estimate | None], str]:
    """The time of each call and how it was come by: by CUPTI, else by event pairs, which tell only the long ones."""
    own = own_times(calls) or own_times(calls)  # CUPTI may still be detaching from an earlier recording
    if own is not None:
        return list(own), "cupti"
    long = [found if (found := gated(call)).median >= LONG_ENOUGH_S else None for call in calls]
    return list(long), "event pairs behind the gate"
