"""From the events of torch's profiler to the spans of a timeline: lanes, calls, and which launch caused what."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from brrr.tracing.events import Event, waits
from brrr.tracing.spans import LAUNCH, OPERATOR, PYTHON, Kind, Span

_OPERATOR = re.compile(r"\w+::")
E = TypeVar("E", bound=Any)
"""Whatever has a thread, a start and an end."""


def is_operator(name: str) -> bool:
    """Whether an event of the host is an operator of the dispatcher, and not a span that somebody named.

    >>> is_operator("aten::relu"), is_operator("my own part")
    (True, False)
    """
    return _OPERATOR.match(name) is not None


def short_name(name: str, most: int = 60) -> str:
    """A kernel's name without return type, namespaces, template arguments and parameters.

    >>> short_name("void at::native::vectorized_elementwise_kernel<4, at::native::relu>(int, float)")
    'vectorized_elementwise_kernel'
    """
    if name.startswith(("Memcpy", "Memset", "aten::")):
        return name.removeprefix("aten::")[:most]
    bare = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    bare = re.sub(r"^cutlass::Kernel2?<(.*?)[,>].*", r"\1", bare)  # here the argument is what tells
    return (re.split(r"[<(]", bare)[0].split("::")[-1].strip() or name)[:most]


def outermost(events: Iterable[E]) -> list[E]:
    """The events that lie in no other of the same thread: the operators called, without those that they call.

    >>> inner, outer = Event("aten::b", "operator", 2, 3), Event("aten::a", "operator", 1, 9)
    >>> [event.name for event in outermost([inner, outer])]
    ['aten::a']
    """
    found: list[E] = []
    until: dict[int, int] = {}
    for event in sorted(events, key=lambda e: (e.start_ns, -e.end_ns)):
        if event.end_ns > until.get(event.thread, -1):
            found.append(event)
            until[event.thread] = event.end_ns
    return found


LOOP, CALL = "brrr_loop", "brrr_call"
"""The names of the spans that the tracer puts around the loop and around each of its calls."""


@dataclass(frozen=True)
class LoopTimes:
    """When the loop began and ended, and each of its calls, in nanoseconds since 1970.

    >>> loop = LoopTimes(0, 20, (0, 10), (8, 18))
    >>> loop.call_at(12), loop.call_at(9)
    (1, -1)
    """

    start_ns: int
    end_ns: int
    starts_ns: tuple[int, ...]
    ends_ns: tuple[int, ...]

    @classmethod
    def of(cls, events: Sequence[Event]) -> LoopTimes:
        """The loop that the tracer's own spans show."""
        calls = sorted((e.start_ns, e.end_ns) for e in events if e.name == CALL and not e.on_device)
        whole = next(e for e in events if e.name == LOOP and not e.on_device)
        return cls(whole.start_ns, whole.end_ns, tuple(start for start, _ in calls), tuple(end for _, end in calls))

    def holds(self, event: Event) -> bool:
        """Whether the host did this in the loop: before it the profiler warms up, after it the profiler is stopped."""
        return self.start_ns <= event.start_ns <= self.end_ns

    def call_at(self, at_ns: int) -> int:
        """The number of the call that was under way on the host at a time, -1 for none."""
        place = bisect_right(self.starts_ns, at_ns) - 1
        return place if place >= 0 and at_ns <= self.ends_ns[place] else -1

    def last_before(self, at_ns: int) -> int:
        """The number of the last call begun before a time."""
        return max(0, bisect_right(self.starts_ns, at_ns) - 1)


def spans_of(events: Sequence[Event]) -> tuple[Span, ...]:
    """The spans of the loop's part of a recording, its start at 0.

    What the device did belongs to the call of its launch: the runtime's call with the same correlation id or, where
    that was not recorded, the operator that the profiler links it with.
    """
    loop = LoopTimes.of(events)
    host = _host(events, loop)
    by_correlation = {raw.correlation: place for place, (raw, _) in enumerate(host) if raw.sort == "runtime"}
    by_operator = {raw.correlation: place for place, (raw, _) in enumerate(host) if raw.sort == "operator"}
    outside = {e.correlation for e in events if e.sort == "runtime" and not loop.holds(e)}
    found = [e for e in events if e.on_device and e.name not in (LOOP, CALL) and e.correlation not in outside]
    causes = [by_correlation.get(e.correlation, by_operator.get(e.linked, -1)) for e in found]
    work = [(e, c) for e, c in zip(found, causes, strict=True) if c >= 0 or e.end_ns > loop.start_ns]
    lanes = _lanes([raw for raw, _ in work])
    spans = [span for _, span in host]
    for raw, cause in work:
        call = spans[cause].call if cause >= 0 else loop.last_before(raw.start_ns)
        lane, kind = lanes[raw.device, raw.stream], cast(Kind, "copy" if raw.sort == "peer copy" else raw.sort)
        spans.append(Span(lane, kind, short_name(raw.name), raw.start_ns, raw.end_ns, call, cause))
    return settled(spans, loop.start_ns)


def _host(events: Sequence[Event], loop: LoopTimes) -> list[tuple[Event, Span]]:
    """The host's events of the loop: its calls, the operators called in them, the runtime's calls."""
    inside = [e for e in events if e.sort in ("operator", "runtime", "annotation") and loop.holds(e)]
    operators = outermost(e for e in inside if e.sort == "operator" and is_operator(e.name))
    found = [(e, PYTHON, "call") for e in inside if e.name == CALL]
    found += [(e, OPERATOR, "operator") for e in operators]
    found += [(e, LAUNCH, "wait" if waits(e.name) else "launch") for e in inside if e.sort == "runtime"]
    return [(e, Span(lane, cast(Kind, kind), "call" if kind == "call" else short_name(e.name), *e.interval,
                     loop.call_at(e.start_ns))) for e, lane, kind in found]  # fmt: skip


def _lanes(work: Sequence[Event]) -> dict[tuple[int, int], str]:
    """A lane for each stream, numbered in the order of first use: the driver's own numbers change with each run."""
    streams = list(dict.fromkeys((e.device, e.stream) for e in sorted(work, key=lambda e: e.start_ns)))
    several = len({device for device, _ in streams}) > 1
    return {(device, stream): f"GPU {device} stream {number}" if several else f"stream {number}"
            for number, (device, stream) in enumerate(streams, start=1)}  # fmt: skip


def settled(spans: Sequence[Span], start_ns: int) -> tuple[Span, ...]:
    """The spans in the order of their starts, causes following, with the loop's start (or the first span's) at 0.

    The device's clock is known to the host's only to a microsecond or so, so that a span may seem to begin earlier.
    """
    zero = min([start_ns, *(span.start_ns for span in spans)])
    order = sorted(range(len(spans)), key=lambda i: (spans[i].start_ns, -spans[i].end_ns, i))
    place = {old: new for new, old in enumerate(order)}
    return tuple(
        Span(s.lane, s.kind, s.name, s.start_ns - zero, s.end_ns - zero, s.call, place.get(s.cause, -1))
        for s in (spans[i] for i in order)
    )
