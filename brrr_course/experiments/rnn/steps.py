"""A time step's time from a recording: the slope over the sequence's length, and the best of cuDNN's ways."""

from contextlib import suppress
from typing import Any

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr_course.nouns.expression import Table, pointwise
from brrr_course.nouns.source import Evidence

SHORT, LONG, MAIN = 64, 256, 1024
"""Time steps between which the slope is taken; the hidden size at which most is measured."""
CUDNN = ("cudnn", "cudnn-pad8", "cudnn-pad16", "cudnn-graph")
At = dict[str, Any]


def place(cell: str = "rnn_tanh", dtype: str = "float32", batch: int = 1, hidden: int = MAIN) -> At:
    """Where a step is asked for."""
    return {"batch": batch, "hidden": hidden, "cell": cell, "dtype": dtype}


def step(evidence: Evidence, variant: str, *, short: int = SHORT, long: int = LONG, **at: Any) -> Any:
    """Seconds of a step: what the longer sequence takes more, by the steps that it has more.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("rnn"), Recorded("h200"))
    >>> print(step(evidence, "persistent", **place()))
    885 ns (883 to 888 ns, n=18)

    A table over the axes that `at` leaves open; NotRecordedError where it leaves none and the step was not measured.
    By the device's own time; in a loop where a call launches more than the queue holds, which no gate can wait for.
    """
    found: dict[Any, Estimate] = {}
    for column in ("period_s", "span_s"):  # the device's own time replaces a loop's
        less, more = (evidence.table(variant, column, {**at, "steps": steps}) for steps in (short, long))
        found |= pointwise(lambda less, more: (more - less) / float(long - short), less, more).values
    if less.axes:
        return Table(less.axes, found)
    if () not in found:
        raise NotRecordedError(f"a step of {variant} at {', '.join(map(str, at.values()))} was not measured")
    return found[()]


def best_cudnn(evidence: Evidence, at: At) -> tuple[str, Estimate]:
    """The fastest of cuDNN's ways with these numbers, padded or in a CUDA Graph: its variant and its step."""
    found = {"cudnn": step(evidence, "cudnn", **at)}
    for name in CUDNN[1:]:
        with suppress(NotRecordedError):
            found[name] = step(evidence, name, **at)
    return min(found.items(), key=lambda each: each[1].median)
