"""A device that no profiler sees: each operator is waited for, and its work is what that takes beyond a tiny one's."""

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.profiler import record_function
from torch.utils._python_dispatch import TorchDispatchMode

from brrr.gpu import synchronize, tensors_on
from brrr.tracing.events import Event
from brrr.tracing.kineto import LOOP
from brrr.tracing.recording import recorded, session
from brrr.tracing.trace_file import Trace

WAITED, TINY = "brrr_waited", 30


class _Waiting(TorchDispatchMode):
    """Waits for the device behind each operator, with a span from its call to its end."""

    def __init__(self, kind: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kind = kind

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with record_function(WAITED):
            found = func(*args, **(kwargs or {}))
            synchronize(self.kind)
        return found


def waited(step: Callable[[], Any], steps: int, kind: str) -> Trace:
    """Some steps, each operator waited for, as a trace whose device did what the waiting tells.

    The host's issuing and its waiting are in it as far as they exceed those of an operator on one number.
    """
    x = torch.zeros(1, device=tensors_on(kind))
    step()
    with session("diagnose", kind, record_shapes=True) as made, _Waiting(kind):
        for _ in range(TINY):
            x.add_(1)
        with record_function(LOOP):
            for _ in range(steps):
                step()
    return with_work(recorded(made))


def with_work(trace: Trace) -> Trace:
    """The trace with what the device did for each operator that was waited for."""
    began_ns = next(each.start_ns for each in trace.events if each.name == LOOP)
    spans = [each for each in trace.events if each.name == WAITED]
    tiny_ns = statistics.median(each.end_ns - each.start_ns for each in spans if each.end_ns <= began_ns)
    events = [each for each in trace.events if each.name != WAITED]
    for number, each in enumerate((each for each in spans if each.start_ns >= began_ns), 1):
        start_ns = min(each.end_ns - 1, each.start_ns + round(tiny_ns))
        events.append(Event("issue", "runtime", each.start_ns, each.start_ns + 1, each.thread, correlation=number))
        events.append(Event("work", "kernel", start_ns, each.end_ns, correlation=number))
    return replace(trace, events=tuple(events))
