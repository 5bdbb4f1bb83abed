"""One step of a diagnosed trace as a timeline: operators, launches, and the device's streams."""

from __future__ import annotations

from brrr.diagnosis.trace_file import Event, Trace
from brrr.tracing.kineto import is_operator, outermost, runtime_kind, settled, short_name
from brrr.tracing.spans import LAUNCH, OPERATOR, PYTHON, Kind, Span
from brrr.tracing.timeline import Timeline


def timeline_of(trace: Trace, stretch: tuple[int, int, int], step_s: float, device: str, date: str) -> Timeline:
    """The first step of a stretch (start, end, steps) as the profiler saw it; `step_s` is its time without it.

    >>> relu = Event("aten::relu", "operator", 0, 3000)
    >>> timeline_of(Trace((relu,), {}), (0, 8000, 2), 4e-6, "a CPU", "").lanes
    ('python', 'operator')
    """
    start_ns, end_ns, steps = stretch
    held = [each for each in trace.events if start_ns <= each.start_ns < end_ns]
    operators = outermost(each for each in held if each.sort == "operator" and is_operator(each.name))
    each_step = -(-len(operators) // steps)
    until = operators[each_step].start_ns if 0 < each_step < len(operators) else start_ns + (end_ns - start_ns) // steps
    spans = [Span(PYTHON, "call", "call", start_ns, until, 0)]
    spans += [_span(each, OPERATOR, "operator") for each in operators[:each_step]]
    causes = {}
    for each in held:
        if each.sort == "runtime" and each.start_ns < until:
            causes[each.correlation] = len(spans)
            spans.append(_span(each, LAUNCH, runtime_kind(each.name)))
    for each in held:
        if each.on_device and (each.correlation in causes or each.end_ns <= until):
            kind: Kind = each.sort  # type: ignore[assignment]
            spans.append(_span(each, f"stream {each.stream}", kind, causes.get(each.correlation, -1)))
    gpu = any(each.on_device for each in trace.events)
    profiled_s = (end_ns - start_ns) / 1e9 / steps
    return Timeline(settled(spans, start_ns), "cuda" if gpu else "cpu", device, date, "", 1, step_s, step_s, profiled_s)


def _span(event: Event, lane: str, kind: Kind, cause: int = -1) -> Span:
    return Span(lane, kind, short_name(event.name), event.start_ns, event.end_ns, 0, cause)
