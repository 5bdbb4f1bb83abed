"""What the GPU did, by CUPTI: each kernel, copy and memset with its own start and end, read through torch.profiler."""

import json
import os
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brrr.core.errors import UnavailableError
from brrr.core.heavy import torch
from brrr.gpu import CUDA, ROCM, is_cuda, synchronize

MARKER = "brrr_marker"
MEASURING = ("brrr_gate", "brrr_evict_write", "brrr_evict_read")
"""Kernels of the measurement itself; they are not part of a call."""
ATTEMPTS = 4
SETTLE_S = 0.005
"""How long CUPTI is given to detach after a recording."""


@dataclass(frozen=True, slots=True)
class Activity:
    """One thing the device did: name, start and end in whole nanoseconds on the device's clock, and its stream.

    Whole numbers, because seconds since 1970 in a float are known to a quarter of a microsecond only.
    """

    name: str
    start_ns: int
    end_ns: int
    stream: int
    launch: str = ""


def record_activity(
    run: Callable[[], Any], *, launches: bool = False, attempts: int = ATTEMPTS, kind: str = CUDA
) -> tuple[list[Activity], list[str]]:
    """Run under the profiler: the device's activities in order of their start, and the names of the host's CUDA calls.

    With `launches` each kernel's `launch` is told, its short name with its grid and its threads.

    The host's calls tell whether a function waited for the device. `run` must launch something, and must not profile
    itself; RuntimeError where a profiler cannot be had. CUPTI is detached afterwards: left attached, it makes every
    later launch dearer (an operator's host time rose from 5.0 to 7.2 µs on an H200 with torch 2.11).
    """
    for _ in range(attempts):
        activities, calls = _session(run, launches, kind)
        if activities:
            return activities, calls
        time.sleep(SETTLE_S)  # the last session's detaching was still under way, and this one recorded nothing
    return [], []


@contextmanager
def one_cycle() -> Iterator[None]:
    """Around a session of torch's profiler: no warning that a next cycle would drop this one's events.

    With `acc_events` there is none either, but torch then makes an object of each event, as long as all else takes.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning: Profiler clears events")
        yield


PROFILED = {CUDA: "CUDA", ROCM: "CUDA", "xpu": "XPU"}
"""What torch's profiler calls the accelerators that it sees."""


def sees(kind: str) -> bool:
    """Whether torch's profiler tells what an accelerator does; where it does not for CUDA, that is an error.

    >>> sees("mps")
    False
    """
    from torch.profiler import supported_activities

    return is_cuda(kind) or PROFILED.get(kind) in {each.name for each in supported_activities()}


def _session(run: Callable[[], Any], launches: bool, kind: str) -> tuple[list[Activity], list[str]]:
    from torch.profiler import ProfilerActivity, profile

    synchronize()
    kernels = profile(activities=[getattr(ProfilerActivity, PROFILED[kind])])
    with one_cycle(), detaching_cupti(), kernels as session, no_other_session():
        run()
        synchronize()
    activities, calls = [], []
    grids = _grids(session.profiler.kineto_results) if launches else {}
    for event in sorted(session.profiler.kineto_results.events(), key=lambda each: each.start_ns()):
        if event.device_type() == getattr(torch._C._autograd.DeviceType, PROFILED[kind]):
            start, name = event.start_ns(), event.name()
            named = grids.get((event.correlation_id(), name))
            launch = named.pop(0) if named else ""
            activities.append(Activity(name, start, start + event.duration_ns(), event.device_resource_id(), launch))
        else:
            calls.append(event.name())
    synchronize()  # CUPTI leaves at the next call into CUDA, on a thread of its own
    time.sleep(SETTLE_S)
    return activities, calls


def _grids(results: Any) -> dict[tuple[int, str], list[str]]:
    """How kernels were launched, in order of their start; only the profiler's file tells the grid.

    They are found by correlation id and name: all kernels of a CUDA Graph have the id of its one launch.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        results.save(str(path))
        events = json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
    found: dict[tuple[int, str], list[str]] = {}
    for event in sorted((each for each in events if each.get("cat") == "kernel"), key=lambda each: float(each["ts"])):
        name, args = event["name"], event["args"]
        found.setdefault((args["correlation"], name), []).append(launch_text(name, args))
    return found


def launch_text(name: str, args: dict[str, Any]) -> str:
    """A kernel's short name, its grid and the threads of a block.

    >>> launch_text("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(int)",
    ...             {"grid": [16, 8, 1], "block": [128, 1, 1]})
    'cutlass_80_simt_sgemm_128x64_8x5_nn_align1 16x8x1 of 128'
    >>> launch_text("void cublasLt::splitKreduce_kernel<32, 16>(int)", {"grid": [8, 1, 1], "block": [32, 16, 1]})
    'cublasLt::splitKreduce_kernel 8x1x1 of 512'
    """
    inner = re.search(r"Kernel2?<([\w]+)>", name)
    bare = name.replace("(anonymous namespace)::", "")
    while (less := re.sub(r"<[^<>]*>", "", bare)) != bare:
        bare = less
    short = inner[1] if inner else bare.partition("(")[0].split()[-1]
    x, y, z = args.get("block", (0, 0, 0))
    return f"{short} {'x'.join(map(str, args.get('grid', ())))} of {x * y * z}"


@contextmanager
def detaching_cupti() -> Iterator[None]:
    """Ask torch's profiler to detach CUPTI when it ends; the caller's own setting of the variable is put back."""
    before = os.environ.get("TEARDOWN_CUPTI")
    os.environ["TEARDOWN_CUPTI"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TEARDOWN_CUPTI"]
        else:
            os.environ["TEARDOWN_CUPTI"] = before


STARTS = ("_prepare_profiler", "_enable_profiler")
"""What `torch.autograd.profiler` calls to start a session, whichever class asked for it."""


@contextmanager
def no_other_session() -> Iterator[None]:
    """Within a session: UnavailableError for the code that starts another one, by which torch would end the process."""
    from torch.autograd import profiler

    def refuse(*_: object, **__: object) -> None:
        raise UnavailableError(
            "this code starts torch's profiler, which runs already to look at it, and a process has only one. "
            "Take it out; or diagnose the trace that it saves: diagnose_trace(path), `brrr diagnose trace.json`"
        )

    before = {name: getattr(profiler, name) for name in STARTS if hasattr(profiler, name)}
    try:
        for name in before:
            setattr(profiler, name, refuse)
        yield
    finally:
        for name, was in before.items():
            setattr(profiler, name, was)


def split_by_marker(activities: Sequence[Activity]) -> list[list[Activity]]:
    """The activities of each call: a marker kernel stands before each, and the measurement's own are left out."""
    calls: list[list[Activity]] = []
    for activity in activities:
        if activity.name.startswith(MARKER):
            calls.append([])
        elif calls and not activity.name.startswith(MEASURING):
            calls[-1].append(activity)
    return calls


def kernel_sum_s(activities: Sequence[Activity]) -> float:
    """Sum of the activities' own times: more than the span where they overlap."""
    return sum(a.end_ns - a.start_ns for a in activities) * 1e-9


def busy_intervals(activities: Sequence[Activity]) -> list[tuple[int, int]]:
    """Start and end of each interval, in nanoseconds, through which some activity ran.

    >>> busy_intervals([Activity("a", 0, 10, 7), Activity("b", 5, 12, 8), Activity("c", 20, 21, 7)])
    [(0, 12), (20, 21)]
    """
    found: list[tuple[int, int]] = []
    for each in sorted(activities, key=lambda a: a.start_ns):
        if found and each.start_ns <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], each.end_ns)
        else:
            found.append((each.start_ns, each.end_ns))
    return found


def busy_union_s(activities: Sequence[Activity]) -> float:
    """Length of the union of the activities' intervals: what the device was busy for.

    >>> busy_union_s([Activity("a", 0, 10, 7), Activity("b", 5, 12, 8), Activity("c", 20, 21, 7)])
    1.3e-08
    """
    return sum(end - start for start, end in busy_intervals(activities)) * 1e-9


def waits(calls: Sequence[str]) -> list[str]:
    """The host's CUDA calls that wait for the device."""
    return [name for name in calls if "Synchronize" in name]
