"""A timeline in the trace event format of Chrome, which https://ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from brrr.core.files import require_writable, write_atomically
from brrr.tracing.spans import HOST_LANES, Span

HOST, DEVICE = 0, 1
"""The two processes of the trace: one lane of each is a thread."""
Arrows = Sequence[tuple[Span, Span]]


def write(
    path: Path, titles: Mapping[str, str], spans: Sequence[Span], arrows: Arrows, about: Mapping[str, str]
) -> Path:
    """Write the file; RecordingError where the folder cannot be written to."""
    require_writable(path.parent)
    write_atomically(path, json.dumps(content(titles, spans, arrows, about), ensure_ascii=False))
    return path


def content(
    titles: Mapping[str, str], spans: Sequence[Span], arrows: Arrows, about: Mapping[str, str]
) -> dict[str, Any]:
    """The trace: names of processes and threads, a complete event for each span, a flow for each arrow.

    >>> launch = Span("launch", "launch", "go", 0, 1000, 0)
    >>> relu = Span("stream 7", "kernel", "relu", 1500, 2000, 0, 0)
    >>> titles = {"launch": "launches", "stream 7": "stream 7"}
    >>> found = content(titles, [launch, relu], [(launch, relu)], {"device": "a GPU"})
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
