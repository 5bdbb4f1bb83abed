"""Spans of time in whole nanoseconds, and their file for Perfetto."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from brrr.core.intervals import Interval

PYTHON, OPERATOR, LAUNCH, WORKER = "python", "operator", "launch", "worker"
HOST_LANES = (PYTHON, OPERATOR, LAUNCH)

Kind = Literal["call", "operator", "launch", "wait", "kernel", "copy in", "copy out", "copy", "memset"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TRANSFERS: tuple[Kind, ...] = ("copy in", "copy out")
"""Copies that cross the link between host and device; a copy inside the device is no transfer."""


@dataclass(frozen=True, slots=True)
class Span:
    """One thing that happened: its lane, what it was, and when, in whole nanoseconds from the timeline's start.

    `call` is the number of the loop's call that it belongs to, -1 for none (the synchronisation at the loop's end);
    `cause` is the place, among the timeline's spans, of the host's span that launched it, -1 where none is known.
    """

    lane: str
    kind: Kind
    name: str
    start_ns: int
    end_ns: int
    call: int = -1
    cause: int = -1

    @property
    def on_device(self) -> bool:
        """Whether the device did it, and not the host."""
        return self.lane not in HOST_LANES

    @property
    def interval(self) -> Interval:
        """Start and end."""
        return (self.start_ns, self.end_ns)


# ---------------------------------------------------------------------------------------------------------------------
# A timeline in the trace event format of Chrome, which https://ui.perfetto.dev and chrome://tracing open.

HOST, DEVICE = 0, 1
"""The two processes of the trace: one lane of each is a thread."""
Arrows = Sequence[tuple[Span, Span]]


def perfetto_content(
    titles: Mapping[str, str], spans: Sequence[Span], arrows: Arrows, about: Mapping[str, str]
) -> dict[str, Any]:
    """The trace: names of processes and threads, a complete event for each span, a flow for each arrow.

    >>> launch = Span("launch", "launch", "go", 0, 1000, 0)
    >>> relu = Span("stream 7", "kernel", "relu", 1500, 2000, 0, 0)
    >>> titles = {"launch": "launches", "stream 7": "stream 7"}
    >>> found = perfetto_content(titles, [launch, relu], [(launch, relu)], {"device": "a GPU"})
    >>> [event["ph"] for event in found["traceEvents"]]
    ['M', 'M', 'M', 'M', 'X', 'X', 's', 'f']

    `titles` are the lanes' names for a reader, `arrows` lead from a launch to what it started. Times are microseconds,
    as the format has it.
    """
    lanes = list(titles)

    def place(lane: str) -> dict[str, int]:
        return {"pid": HOST if lane in HOST_LANES else DEVICE, "tid": lanes.index(lane)}

    def events() -> Iterator[dict[str, Any]]:
        for pid, name in ((HOST, "host"), (DEVICE, about["device"])):
            yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for lane, title in titles.items():
            yield {"ph": "M", "name": "thread_name", **place(lane), "args": {"name": title}}
        for span in spans:
            times = {"ts": span.start_ns / 1000, "dur": (span.end_ns - span.start_ns) / 1000}
            named = {"name": span.name, "cat": span.kind, "args": {"call": span.call}}
            yield {"ph": "X", **named, **place(span.lane), **times}
        for number, (launch, work) in enumerate(arrows):
            same = {"name": "launch", "cat": "launch", "id": number}
            yield {"ph": "s", **same, **place(launch.lane), "ts": launch.start_ns / 1000}
            yield {"ph": "f", "bp": "e", **same, **place(work.lane), "ts": work.start_ns / 1000}

    return {"traceEvents": list(events()), "displayTimeUnit": "ns", "otherData": dict(about)}
