"""The last part of `brrr record`: the timelines that the experiments list, each in a file of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from brrr.core.errors import BrrrError
from brrr.core.values import DeviceKind, Point, Value
from brrr.course.nouns.experiment import Experiment
from brrr.course.sources.timers import FOLDER, file_name, trace_variant
from brrr.tracing.files import write
from brrr.tracing.timeline import Timeline

Tracer = Callable[[Experiment, str, Point], Timeline]


@dataclass
class TraceOutcome:
    """What was traced, what is left for want of time, and what could not be traced and why."""

    written: list[Path] = field(default_factory=list)
    left: int = 0
    failed: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def text(self) -> str:
        """The outcome as lines; empty where there was nothing to do."""
        lines = [f"{len(self.written)} timelines written."] if self.written else []
        lines += [f"NOT TRACED {failure}" for failure in self.failed]
        if self.left:
            lines.append(f"{self.left} timelines are left; the same command goes on with them.")
        return "\n".join(lines)


def wanted(
    experiment: Experiment, kind: DeviceKind, only: Mapping[str, Sequence[str]], *, quick: bool = False
) -> list[tuple[str, dict[str, Value]]]:
    """The variants and points to trace on a device of this kind; `only` and `quick` as for the measurements.

    A GPU machine traces its CPU's variants too; a machine without one the CPU's and the queue's.
    """
    if not set(only) <= {"variant", *(axis.name for axis in experiment.axes)}:
        return []
    kinds = ("cpu", "cuda") if kind == "cuda" else ("cpu", "cpu-queue")
    listed = [(variant, experiment.point(**point)) for variant, point in experiment.traces]
    return [
        (variant, point)
        for variant, point in listed
        if experiment.variant(variant).device in kinds
        and variant in only.get("variant", (variant,))
        and all(str(value) in only.get(name, (str(value),)) for name, value in point.items())
        and (not quick or all(is_quick(experiment, name, value) for name, value in point.items()))
        and experiment.has(variant, point)
    ]


def is_quick(experiment: Experiment, axis: str, value: Value) -> bool:
    """Whether the small grid has this value: one of the axis's quick ones, or at most the largest of them."""
    quick = experiment.axis(axis).quick
    if not quick or value in quick:
        return True
    return not isinstance(value, str) and value <= max(number for number in quick if not isinstance(number, str))


def record_traces(
    experiments: Sequence[Experiment],
    kind: DeviceKind,
    folder: Path,
    *,
    only: Mapping[str, Sequence[str]] | None = None,
    quick: bool = False,
    limit_s: float = float("inf"),
    tracer: Tracer = trace_variant,
) -> TraceOutcome:
    """Trace what is listed and not there yet, into `folder/traces`; what fails is noted, and the rest goes on.

    A file is whole or not there at all. No trace begins after `limit_s` seconds.
    """
    outcome, start = TraceOutcome(), time.monotonic()
    todo = [
        (e, variant, point, path)
        for e in experiments
        for variant, point in wanted(e, kind, only or {}, quick=quick)
        if not (path := folder / FOLDER / e.name / file_name(variant, point)).exists()
    ]
    for number, (e, variant, point, path) in enumerate(todo):
        if time.monotonic() - start > limit_s:
            outcome.left = len(todo) - number
            break
        try:
            outcome.written.append(write(tracer(e, variant, point), path))
        except BrrrError as error:
            where = ", ".join(f"{name}={value}" for name, value in point.items())
            outcome.failed.append(f"{e.name} {variant} at {where}: {error}")
        except KeyboardInterrupt:
            outcome.interrupted, outcome.left = True, len(todo) - number
            break
    return outcome
