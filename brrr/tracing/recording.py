"""A loop under torch's profiler; everything that can be wrong with a profiler is said here."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from brrr.core.errors import ArgumentError, UnavailableError, first_line
from brrr.core.heavy import torch
from brrr.gpu import is_cuda, synchronize, tensors_on
from brrr.timing.activity import ATTEMPTS, PROFILED, SETTLE_S, detaching_cupti, no_other_session, one_cycle, sees
from brrr.timing.cpu_queue import CpuQueue, Ticket
from brrr.tracing.events import Event
from brrr.tracing.kineto import CALL, LOOP, LoopTimes, settled, spans_of
from brrr.tracing.lines import marker
from brrr.tracing.spans import LAUNCH, PYTHON, Kind, Span
from brrr.tracing.trace_file import Trace, read_trace

INSTEAD = {
    "trace": "Recorded timelines can be looked at without a profiler.",
    "diagnose": "A saved trace needs none: diagnose_trace(path).",
}
"""What works without a profiler, by the call that needs one."""


def profiled_loop(
    fn: Callable[[], Any], wait: Callable[[], None], calls: int, *, kind: str
) -> tuple[tuple[Span, ...], float]:
    """Run the loop under the profiler: its spans, and its seconds there; those of a device only where it is seen.

    On a GPU a kernel of our own goes first, outside the loop: a recording that lacks even this one failed, and is
    made again; one that has nothing else belongs to a function that launches nothing.
    """
    gpu = sees(kind)
    for _ in range(ATTEMPTS if gpu else 1):
        events, seconds = recorded_loop(fn, wait, calls, kind=kind)
        if not gpu or any(event.on_device for event in events):
            break
        time.sleep(SETTLE_S)  # the last session's detaching was still under way, and this one recorded nothing
    else:
        raise UnavailableError(
            "trace: the profiler recorded nothing on the GPU, not even a kernel of its own. Another program may be "
            f"using CUPTI (nsys, ncu, a debugger): end it and trace again. {INSTEAD['trace']}"
        )
    spans = spans_of(events)
    if gpu and not any(span.on_device for span in spans):
        raise ArgumentError(
            "trace", "fn", fn, f"a function that launches work on the GPU; in {calls} calls nothing ran there",
            "Is it a function of the CPU, or are its tensors there? Then trace it with device='cpu'",
        )  # fmt: skip
    return spans, seconds


def recorded_loop(
    fn: Callable[[], Any], wait: Callable[[], None], calls: int, *, kind: str
) -> tuple[list[Event], float]:
    """One session of the profiler: its events, and the loop's seconds."""
    with session("trace", kind) as made:
        if sees(kind):
            torch.ones(8, device=tensors_on(kind))
        fn()  # the profiler's own first steps are slow, and stay out of the loop with this call
        wait()
        seconds = _marked_loop(fn, wait, calls)
    return list(recorded(made).events), seconds


def recorded(made: Any) -> Trace:
    """What a session of the profiler recorded, by the file that torch writes of it: one reader for both."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        made.export_chrome_trace(str(path))
        return read_trace(path)


@contextmanager
def session(call: str, kind: str, **options: bool) -> Iterator[Any]:
    """torch's profiler around a block, quiet, and gone from the GPU behind it; UnavailableError where it cannot start.

    call: who asks, for the message. kind: the device; of one that the profiler does not see, the host is recorded.
    options: what `torch.profiler.profile` takes besides.
    """
    from torch.profiler import ProfilerActivity, profile

    _require_profiler(call, kind)
    gpu = sees(kind)
    activities = [ProfilerActivity.CPU, *([getattr(ProfilerActivity, PROFILED[kind])] if gpu else [])]
    made: Any = profile(activities=activities, **options)  # type: ignore[arg-type]
    with one_cycle(), detaching_cupti():
        _start(made, call)
        try:
            with no_other_session():
                yield made
        finally:
            with without_chatter():
                made.stop()
            if gpu:
                synchronize()  # CUPTI leaves at the next call into CUDA, on a thread of its own
                time.sleep(SETTLE_S)


def _require_profiler(call: str, kind: str) -> None:
    from torch.profiler import ProfilerActivity, supported_activities

    if torch._C._autograd._profiler_enabled():
        raise UnavailableError(
            f"{call}: another session of torch's profiler is running in this process, and only one can. "
            f"Leave its `with` block (or call its stop()), then {call} again. {INSTEAD[call]}"
        )
    needed = ProfilerActivity.CUDA if is_cuda(kind) else ProfilerActivity.CPU
    if needed not in supported_activities():
        raise UnavailableError(
            f"{call}: this build of torch ({torch.__version__}) has no profiler for {needed.name}. Install one that "
            f"has, from pytorch.org. {INSTEAD[call]}"
        )


def _start(made: Any, call: str) -> None:
    try:
        with without_chatter():
            made.start()
    except RuntimeError as error:
        reason = f"the profiler cannot start: {first_line(error)}"
        raise UnavailableError(f"{call}: {reason}. {INSTEAD[call]}") from error


def _marked_loop(fn: Callable[[], Any], wait: Callable[[], None], calls: int) -> float:
    """The loop, with a span around it and one around each call: those cost half a microsecond each."""
    marked = marker()
    start = time.perf_counter_ns()
    with marked(LOOP):
        for _ in range(calls):
            with marked(CALL):
                fn()
        wait()
    return (time.perf_counter_ns() - start) * 1e-9


# ---------------------------------------------------------------------------------------------------------------------
# Tracing the CPU queue: no profiler is needed, since the queue itself notes when each call was put in and run.


def traced_loop(fn: Callable[[], Any], queue: CpuQueue, calls: int) -> tuple[tuple[Span, ...], float]:
    """Run the loop, synchronise, and return the spans and the seconds of it all."""
    starts, ends, result = [], [], None
    with queue.noting() as tickets:
        for _ in range(calls):
            starts.append(time.perf_counter_ns())
            result = fn()
            ends.append(time.perf_counter_ns())
        queue.synchronize()
        end = time.perf_counter_ns()
    del result
    loop = LoopTimes(starts[0], end, tuple(starts), tuple(ends))
    return _spans(loop, tickets, end), (end - starts[0]) * 1e-9


def _spans(loop: LoopTimes, tickets: list[Ticket], end_ns: int) -> tuple[Span, ...]:
    """A call, its submits and the worker's part, and the synchronisation at the end."""
    spans = [Span(PYTHON, "call", "call", start, end, number)
             for number, (start, end) in enumerate(zip(loop.starts_ns, loop.ends_ns, strict=True))]  # fmt: skip
    for ticket in tickets:
        call = loop.call_at(ticket.submitted_ns)
        spans.append(Span(LAUNCH, "launch", "submit", ticket.submitted_ns, ticket.returned_ns, call))
        kind = cast(Kind, ticket.kind)
        ran = (ticket.started_ns, ticket.ended_ns, call, len(spans) - 1)
        spans.append(Span(ticket.lane, kind, ticket.name, *ran))
    spans.append(Span(LAUNCH, "wait", "synchronize", loop.ends_ns[-1], end_ns))
    return settled(spans, loop.start_ns)


# ---------------------------------------------------------------------------------------------------------------------
# Keep what torch's profiler writes to the process's error output (its start and its stop) out of a notebook.

CHATTER = (b"USDT:", b"STAGE:", b"INFO:")
"""How the lines begin that kineto writes at each start and stop of a session."""


@contextmanager
def without_chatter() -> Iterator[None]:
    """Hold the process's error output back, and let through all but the profiler's own lines.

    For moments only, as starting and stopping a session: what other threads write meanwhile comes later.
    """
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # a process without an error output has nothing to keep quiet
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            said = b"".join(line for line in held if not line.startswith(CHATTER))
            if said:
                os.write(2, said)
