"""One step of a diagnosed trace as a timeline: operators, launches, and the device's streams."""

from brrr.tracing.events import Event
from brrr.tracing.kineto import CALL, LOOP, is_operator, outermost, spans_of
from brrr.tracing.timeline import Timeline
from brrr.tracing.trace_file import Trace


def timeline_of(trace: Trace, stretch: tuple[int, ...], step_s: float, device: str, date: str, kind: str) -> Timeline:
    """The first step of a stretch (start, end, steps) as the profiler saw it; `step_s` is its time without it.

    kind: of its GPU, if the trace is of one. date: of what ran just now, empty for what was recorded.

    >>> relu = Event("aten::relu", "operator", 0, 3000)
    >>> timeline_of(Trace((relu,), {}), (0, 8000, 2), 4e-6, "a CPU", "", "cpu").lanes
    ('python', 'operator')
    """
    start_ns, end_ns, steps = stretch
    held = [each for each in trace.events if start_ns <= each.start_ns < end_ns and each.name != LOOP]
    operators = outermost(each for each in held if each.sort == "operator" and is_operator(each.name))
    each_step = -(-len(operators) // steps)
    until = operators[each_step].start_ns if 0 < each_step < len(operators) else start_ns + (end_ns - start_ns) // steps
    marks = [Event(name, "annotation", start_ns, until - 1) for name in (LOOP, CALL)]
    gpu = any(each.on_device for each in trace.events)
    spans = spans_of([*marks, *held])
    kind, took_s = kind if gpu else "cpu", (end_ns - start_ns) / 1e9 / steps
    return Timeline(spans, kind, device, date, "", 1, step_s, step_s, took_s, "LIVE" if date else "RECORDED")
