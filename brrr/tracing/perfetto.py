"""A timeline in the trace event format of Chrome, which https://ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from brrr.recordings.atomic import require_writable, write_atomically
from brrr.tracing.model import HOST_LANES, Span, Timeline
from brrr.tracing.words import lane_title

HOST, DEVICE = 0, 1
"""The two processes of the trace: one lane of each is a thread."""


def write(found: Timeline, path: Path) -> Path:
    """Write the file; RecordingError where the folder cannot be written to."""
    require_writable(path.parent)
    write_atomically(path, json.dumps(content(found), ensure_ascii=False))
    return path


def content(found: Timeline) -> dict[str, Any]:
    """The trace: names of processes and threads, a complete event for each span, a flow for each arrow.

    >>> spans = (Span("launch", "launch", "go", 0, 1000, 0), Span("stream 7", "kernel", "relu", 1500, 2000, 0, 0))
    >>> found = content(Timeline(spans, "cuda", "a GPU", "2024-01-01", "", 1, 4e-6, 5e-6, 1e-5))
    >>> [event["ph"] for event in found["traceEvents"]]
    ['M', 'M', 'M', 'M', 'X', 'X', 's', 'f']

    Times are microseconds, as the format has it.
    """
    events = [*_names(found), *(_complete(found, span) for span in found.spans), *_flows(found)]
    about = {"device": found.device, "date": found.date, "torch": found.torch, "text": found.text}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def _place(found: Timeline, lane: str) -> dict[str, int]:
    return {"pid": HOST if lane in HOST_LANES else DEVICE, "tid": found.lanes.index(lane)}


def _names(found: Timeline) -> Iterator[dict[str, Any]]:
    for pid, name in ((HOST, "host"), (DEVICE, found.device)):
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
    for lane in found.lanes:
        name = lane_title(found.kind, lane)
        yield {"ph": "M", "name": "thread_name", **_place(found, lane), "args": {"name": name}}


def _complete(found: Timeline, span: Span) -> dict[str, Any]:
    times = {"ts": span.start_ns / 1000, "dur": (span.end_ns - span.start_ns) / 1000}
    return {"ph": "X", "name": span.name, "cat": span.kind, **_place(found, span.lane), **times,
            "args": {"call": span.call}}  # fmt: skip


def _flows(found: Timeline) -> Iterator[dict[str, Any]]:
    for number, (launch, work) in enumerate(found.arrows):
        same = {"name": "launch", "cat": "launch", "id": number}
        yield {"ph": "s", **same, **_place(found, launch.lane), "ts": launch.start_ns / 1000}
        yield {"ph": "f", "bp": "e", **same, **_place(found, work.lane), "ts": work.start_ns / 1000}
