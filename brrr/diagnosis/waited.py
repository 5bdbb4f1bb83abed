"""A device that no profiler sees: each operator is waited for, and its work is what that takes beyond a tiny one's."""

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.profiler import record_function
from torch.utils._python_dispatch import TorchDispatchMode

from brrr.gpu import synchronize, tensors_on
from brrr.roofline.calibrate.cpu import HIDDEN
from brrr.timing import measure
from brrr.tracing.events import Event
from brrr.tracing.kineto import LOOP
from brrr.tracing.recording import recorded, session
from brrr.tracing.trace_file import Trace

WAITED, TINY = "brrr_waited", 30
MODE = "PythonDispatchMode"
"""What the profiler records of the waiting itself."""


class _Waiting(TorchDispatchMode):
    """Waits for the device behind each operator, with a span from its call to its end."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with record_function(WAITED):
            found = func(*args, **(kwargs or {}))
            synchronize()
        return found


def waited(step: Callable[[], Any], steps: int, kind: str) -> Trace:
    """Some steps, each operator waited for, as a trace whose device did what the waiting tells.

    The host's issuing and its waiting are in it as far as they exceed those of an operator on one number, whose own
    work is the period of a loop of it, where that is longer than issuing it.
    """
    x = torch.zeros(1, device=tensors_on(kind))
    tiny = measure(lambda: x.add_(1), device=kind, budget_s=0.05)
    assert tiny.period_s is not None and tiny.host_s is not None
    period_s = tiny.period_s.median
    step()
    with session("diagnose", kind, record_shapes=True) as made, _Waiting():  # type: ignore[no-untyped-call]
        for _ in range(TINY):
            x.add_(1)
        with record_function(LOOP):
            for _ in range(steps):
                step()
    return with_work(recorded(made), period_s if period_s >= HIDDEN * tiny.host_s.median else 0.0)


def with_work(trace: Trace, tiny_s: float) -> Trace:
    """The trace with what the device did for each operator that was waited for; a tiny one works for `tiny_s`."""
    loop = next(each for each in trace.events if each.name == LOOP)
    spans = [each for each in trace.events if each.name == WAITED]
    tiny_ns = statistics.median(each.end_ns - each.start_ns for each in spans if each.end_ns <= loop.start_ns)
    tiny_ns -= tiny_s * 1e9
    events = [each for each in trace.events if each.name not in (WAITED, MODE)]
    inside = [each for each in spans if loop.start_ns <= each.start_ns and each.end_ns <= loop.end_ns]
    for number, each in enumerate(inside, 1):
        if (start_ns := each.start_ns + max(0, round(tiny_ns))) < each.end_ns:
            events.append(Event("issue", "runtime", each.start_ns, each.start_ns + 1, each.thread, correlation=number))
            events.append(Event("work", "kernel", start_ns, each.end_ns, correlation=number))
    return replace(trace, events=tuple(sorted(events, key=lambda each: (each.start_ns, -each.end_ns))))
