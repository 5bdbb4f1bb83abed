"""What an accelerator without CUDA tells beyond the host's clock: kernels' times, where torch's profiler sees them."""

from brrr.core.measurement import HOST_BOUND_HOST, Estimate, Field
from brrr.gpu import backend_of
from brrr.timing import activity
from brrr.timing.plan import Plan

PROFILED_CALLS, TICK_S = 25, 1e-9


def finish_on_accelerator(
    plan: Plan, call_s: float, fields: dict[Field, Estimate | None], notes: list[str], flags: list[str]
) -> dict[str, object]:
    """Fill in `kernel_s` and `busy_s` where they can be had; returns what else a `Measurement` holds of the device."""
    backend = backend_of(plan.place)
    notes.append(f"timed by the host's clock, period_s by slope; no gate holds the queue of {backend}: no span_s")
    host, period = fields.get("host_s"), fields.get("period_s")
    if host is not None and period is not None and host.median >= HOST_BOUND_HOST * period.median:
        flags.append("host-bound")
    per_call, problem = _profiled(plan, call_s)
    if not per_call:
        notes.append(f"no kernel times: {problem}")
        return {}
    for name, of in (("kernel_s", activity.kernel_sum_s), ("busy_s", activity.busy_union_s)):
        fields[name] = Estimate.of([of(each) for each in per_call], TICK_S)  # type: ignore[index]
    return {"kernels": len(per_call[0]), "kernel_times_from": "torch's profiler"}


def _profiled(plan: Plan, call_s: float) -> tuple[list[list[activity.Activity]], str]:
    """The activities of each call, all of the same number; none, and why, where a profiler tells nothing."""
    kind, calls = str(plan.place), max(3, min(PROFILED_CALLS, int(plan.budget_s / 4 / max(call_s, 1e-6))))
    if not plan.profiler or not activity.sees(kind):
        return [], f"torch's profiler sees nothing of {backend_of(kind)}"

    def run() -> None:
        for _ in range(calls):
            plan.fn()

    try:
        found, _ = activity.record_activity(run, kind=kind)
    except RuntimeError as error:
        return [], f"the profiler failed: {str(error).splitlines()[0]}"
    kernels, rest = divmod(len(found), calls)
    if rest or not kernels:
        return [], f"the profiler saw {len(found)} kernels in {calls} calls, which differ"
    return [found[n : n + kernels] for n in range(0, len(found), kernels)], ""
