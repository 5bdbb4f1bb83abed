"""Tracing the toy accelerator: no profiler is needed, for the queue itself notes when each call was put in and run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from brrr.timing.cpu_queue import CpuQueue, Ticket
from brrr.tracing.assemble import Loop, settled
from brrr.tracing.model import LAUNCH, PYTHON, Kind, Span


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
    loop = Loop(starts[0], end, tuple(starts), tuple(ends))
    return _spans(loop, tickets, end), (end - starts[0]) * 1e-9


def _spans(loop: Loop, tickets: list[Ticket], end_ns: int) -> tuple[Span, ...]:
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
