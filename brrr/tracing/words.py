"""What a timeline shows, in words: computed from it, so that no sentence can contradict the picture."""

from __future__ import annotations

from brrr import units
from brrr.experiment import DeviceKind
from brrr.tracing.model import LAUNCH, OPERATOR, PYTHON, WORKER, Timeline

RUNS_AHEAD = 2
"""Calls ahead from which the host is said to run ahead: one call is always under way while the next is issued."""
OVERLAPPING = 1.05
"""Busy time over period from which the calls of a loop must overlap each other on the device."""
SELDOM, MOSTLY = 0.1, 0.5
"""Idle shares up to which the device seldom waits, and from which it mostly waits."""


def sentences(found: Timeline) -> str:
    """The text line: period, idle share corrected and as pictured, inflation, who waits for whom, transfers."""
    if found.kind == "cpu":
        said = capital(inflated(found))
        return f"{calls(found)}, {period(found)}: the CPU does each call itself, so nothing waits. {said}"
    parts = [f"{calls(found)}, {period(found)}: {busy(found)}", pictured(found), waiting(found), *copies(found)]
    return " ".join(parts)


def calls(found: Timeline) -> str:
    """How many calls were traced."""
    return f"{found.calls} call{'s' if found.calls != 1 else ''}"


def device(found: Timeline) -> str:
    """What computes: the GPU, or the toy accelerator's worker."""
    return "the worker" if found.kind == "cpu-queue" else "the GPU"


def tracer(found: Timeline) -> str:
    """What slows the traced loop down."""
    return "tracing" if found.kind == "cpu-queue" else "the profiler"


def period(found: Timeline) -> str:
    """A call's time without the profiler."""
    return f"{units.seconds(found.period_s)} a call without {tracer(found)}"


def busy(found: Timeline) -> str:
    """Busy time and idle share, the profiler's cost left out."""
    assert found.busy_s is not None and found.idle_share is not None
    if found.busy_s > OVERLAPPING * found.period_s:
        works = f"its work is on {device(found)} for {units.seconds(found.busy_s)}"
        return f"{works}, for in a loop the calls overlap, and {device(found)} is never idle."
    return (
        f"{device(found)} works {units.seconds(found.busy_s)} of it and is idle {share(found.idle_share)} of the time."
    )


def pictured(found: Timeline) -> str:
    """The idle share under the profiler, and the profiler's own cost."""
    assert found.profiled_idle_share is not None
    return f"As pictured it is idle {share(found.profiled_idle_share)}; {inflated(found)}"


def inflated(found: Timeline) -> str:
    """How much longer the loop takes under the profiler."""
    if found.inflation < 1.05:
        return f"{tracer(found)} adds little."
    return f"{tracer(found)} makes the loop {units.ratio(found.inflation, 2)} as long."


def capital(text: str) -> str:
    """The text with a capital at its start, the rest as it is.

    >>> capital("the GPU waits.")
    'The GPU waits.'
    """
    return text[:1].upper() + text[1:]


def waiting(found: Timeline) -> str:
    """Who waits for whom."""
    name, idle = device(found), found.idle_share or 0.0
    if found.waits_in_calls:
        return f"Each call waits for {name}, so the CPU cannot run ahead."
    ahead = f"The CPU runs ahead by up to {found.calls_ahead} calls" if found.calls_ahead >= RUNS_AHEAD else ""
    if idle <= SELDOM:
        return f"{ahead}, and {name} seldom waits." if ahead else capital(f"{name} seldom waits.")
    if ahead:
        return f"{ahead}, yet {name} pauses between its pieces of work."
    how = "most of the time" if idle >= MOSTLY else "part of the time"
    return capital(f"{name} waits for the CPU {how}.")


def copies(found: Timeline) -> list[str]:
    """The share of transfers, and of what runs at the same time, where there is any."""
    said = []
    if found.transfer_share:
        of_all = share(found.transfer_share_of_period)
        said.append(
            f"Copies to and from it are under way in {share(found.transfer_share)} of its busy time, "
            f"{of_all} of the whole time."
        )
    if found.overlap_share >= 0.005:
        said.append(f"Copies run beside other work in {share(found.overlap_share)} of its busy time.")
    return said


def share(of_one: float) -> str:
    """A share as a whole percentage.

    >>> share(0.8123), share(0.004)
    ('81 %', '0.4 %')
    """
    return units.percent(of_one, 2 if of_one >= 0.01 else 1)


def lane_title(kind: DeviceKind, lane: str) -> str:
    """A lane's name for a reader.

    >>> lane_title("cuda", "launch"), lane_title("cpu-queue", "launch"), lane_title("cuda", "stream 7")
    ('launches (CUDA API)', 'submit (queue)', 'GPU stream 7')
    """
    titles = {PYTHON: "Python: calls", OPERATOR: "operators (torch)", WORKER: "worker"}
    titles[LAUNCH] = "submit (queue)" if kind == "cpu-queue" else "launches (CUDA API)"
    return titles.get(lane) or (f"GPU {lane}" if lane.startswith("stream") else lane)
