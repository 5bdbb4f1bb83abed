"""The end of a measurement on a GPU: kernel times, span, clock, and the flags that only the device can raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brrr.machines import clocks
from brrr.measurement import Estimate, Field
from brrr.timing import activity
from brrr.timing.calibration import QUEUE_DEPTH, calibration
from brrr.timing.gate import sm_clock_hz

if TYPE_CHECKING:
    from brrr.timing.run import Run

POWER_CAP_CLOCK = 0.97


def finish_on_device(
    run: Run, fields: dict[Field, Estimate | None], notes: list[str], *, profiler: bool = True
) -> tuple[int | None, str, float]:
    """Fill in `span_s`, `kernel_s` and `busy_s`; returns the number of kernels, their times' origin, the SM clock."""
    import torch

    index = torch.cuda.current_device()
    times = run.device_times
    clock = sm_clock_hz()
    if profiler:
        try:
            times.profile(run.call_s, run.budget_s / 4)
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
        run.flags.append("no-profiler")
    fields["span_s"] = times.span_estimate(calibrated)
    if not times.held:
        _explain_no_span(run, notes)
    _judge_clock(run, clock)
    return times.kernels, origin, clock


def _explain_no_span(run: Run, notes: list[str]) -> None:
    """Tell a function that waits for the device from one that launches more than the queue holds."""
    times = run.device_times
    full = times.kernels is not None and times.kernels > QUEUE_DEPTH
    if full and not times.host_waits:
        run.flags.append("queue-full")
        notes.append(f"no span: a call launches {times.kernels} kernels, more than the queue holds behind a gate")
        return
    run.flags.append("syncs")
    names = ", ".join(sorted(set(times.host_waits))) or "a wait that CUPTI does not name"
    notes.append(f"no span: the function waits for the device ({names}), so the gate opened by itself")


def _judge_clock(run: Run, clock: float) -> None:
    if (clocks.compute_processes() or 0) > 1:
        run.flags.append("shared-gpu")
    highest = clocks.max_sm_clock_hz()
    if highest is None or clock >= POWER_CAP_CLOCK * highest:
        return
    reasons = clocks.throttle_reasons()
    if reasons & {"power-cap", "power-brake"}:
        run.flags.append("power-capped")
    if reasons & {"thermal", "hardware-slowdown"}:
        run.flags.append("thermal")
