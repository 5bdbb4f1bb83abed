"""A time step's time from a recording: the slope over the sequence's length, and the best of cuDNN's ways."""

from __future__ import annotations

from collections.abc import Iterable

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Value
from brrr_course.nouns.source import Evidence

SHORT, LONG, MAIN = 64, 256, 1024
"""Time steps between which the slope is taken; the hidden size at which most is measured."""
CUDNN = ("cudnn", "cudnn pad8", "cudnn pad16")
At = dict[str, Value]
Key = tuple[Value, ...]
AXES = ("batch", "hidden", "cell", "dtype")
"""The axes without the sequence's length: what a step's place is told by."""


def place(cell: str = "rnn_tanh", dtype: str = "float32", batch: int = 1, hidden: int = MAIN) -> At:
    """Where a step is asked for."""
    return {"batch": batch, "hidden": hidden, "cell": cell, "dtype": dtype}


def slope(evidence: Evidence, line: str, at: At, short: int = SHORT, long: int = LONG) -> Estimate:
    """Seconds of a step: what the longer sequence takes more, by the steps that it has more.

    By the device's own time; in a loop where a call launches more than the queue holds, which no gate can wait for.
    """
    missing = NotRecordedError(f"{line} was not measured")
    for name in (line, f"{line} loop"):
        try:
            less, more = (evidence.get(name, **at, steps=steps) for steps in (short, long))
        except NotRecordedError as error:
            missing = error
            continue
        return (more - less) / float(long - short)
    raise missing


def cudnn(evidence: Evidence, at: At) -> tuple[str, Estimate]:
    """The fastest of cuDNN's ways with these numbers, padded or not: its line and its step."""
    found = {"cudnn": slope(evidence, "cudnn", at)}
    for line in CUDNN[1:]:
        try:
            found[line] = slope(evidence, line, at)
        except NotRecordedError:
            continue
    return min(found.items(), key=lambda each: each[1].median)


def gains(evidence: Evidence, places: Iterable[At], rival: str = "") -> list[tuple[At, Estimate]]:
    """The rival's step over ours, the best of cuDNN's where no rival is named; all are looked up before any ratio."""
    steps = [
        (at, slope(evidence, rival, at) if rival else cudnn(evidence, at)[1], slope(evidence, "persistent", at))
        for at in places
    ]
    return [(at, theirs / ours) for at, theirs, ours in steps]


def slopes(evidence: Evidence, line: str) -> dict[Key, Estimate]:
    """A line's step at every place that has one; no point is named, so that none is measured first for it."""
    found: dict[Key, Estimate] = {}
    for name in (f"{line} loop", line):  # the device's own time replaces a loop's
        times = evidence.everywhere(name)
        for (batch, hidden, steps, cell, dtype), more in times.items():
            less = times.get((batch, hidden, SHORT, cell, dtype))
            if steps == LONG and less is not None:
                found[batch, hidden, cell, dtype] = (more - less) / float(LONG - SHORT)
    if not found:
        raise NotRecordedError(f"no step of {line} was measured")
    return found


def gains_everywhere(evidence: Evidence, lines: Iterable[str] = CUDNN) -> list[tuple[At, Estimate]]:
    """The fastest of some lines over ours, wherever both were measured."""
    ours, rivals = slopes(evidence, "persistent"), []
    for line in lines:
        try:
            rivals.append(slopes(evidence, line))
        except NotRecordedError:
            continue
    found = [(key, [each[key] for each in rivals if key in each], step) for key, step in ours.items()]
    both = [(dict(zip(AXES, key, strict=True)), min(theirs) / step) for key, theirs, step in found if theirs]
    if not both:
        raise NotRecordedError("ours was measured nowhere beside another way")
    return both


def named(at: At) -> str:
    """A place in a sentence.

    >>> named(place("lstm", "float16", 4))
    'lstm in float16, batch 4, hidden 1024'
    """
    return f"{at['cell']} in {at['dtype']}, batch {at['batch']}, hidden {at['hidden']}"
