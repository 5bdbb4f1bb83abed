"""Record: measure what a plan lists, and keep every finished point safe on the disk at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from brrr.core.errors import BrrrError
from brrr.core.measurement import FIELDS, DeviceKind, Field, Point, Value
from brrr.tracing.timeline import Timeline
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Key, broken
from brrr_course.sources.folders import Store
from brrr_course.sources.plan import DurationEstimator, Step, is_quick, wanted_at
from brrr_course.sources.recording import Drift, Failure, RunInfo
from brrr_course.sources.rows import Row, Timed, check_row
from brrr_course.sources.timeline_file import write
from brrr_course.sources.timers import FOLDER, file_name, trace_variant

FAR = 3.0
"""An anchor this many times as long or as short as at first is no measurement of the same thing."""
SPIKE = 8.0
"""A point this many times off both its neighbours, on the same side, is asked for once more."""

Measure = Callable[[Step], Mapping[str, "Timed | BrrrError"]]
"""Measures all variants of a step, interleaved; a variant that cannot be measured gives its error instead."""


@dataclass
class Outcome:
    """What a run did: the steps measured, those left, those too long for one run, and the points that failed."""

    measured: list[Step] = field(default_factory=list)
    left: list[Step] = field(default_factory=list)
    too_long: list[tuple[Step, float]] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    drifts: list[Drift] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """What broke an inequality of the six times twice, and which."""
    interrupted: bool = False


@dataclass
class Recorder:
    """One run: anchors first, then what is missing, as long as the next point is predicted to fit into `limit_s`."""

    store: Store
    run: RunInfo
    measure: Measure
    estimator: DurationEstimator
    limit_s: float = 480.0
    sm_clock_hz: Callable[[], float | None] = lambda: None
    now_s: Callable[[], float] = time.monotonic
    on_step: Callable[[Step], None] = lambda step: None
    outcome: Outcome = field(default_factory=Outcome)

    def record(self, steps: Sequence[Step], *, retry: bool = False) -> Outcome:
        """Measure the steps that the store lacks; every finished one is on the disk before the next begins."""
        missing = [found for step in steps if (found := self.store.missing(step, retry=retry))]
        if not missing:
            return self.outcome
        self.run = replace(self.run, sm_clock_before_hz=self.sm_clock_hz())
        self.store.note(self.run)
        started_s = self.now_s()
        queue = [*self._anchors_again(steps), *missing]
        try:
            self._work(queue, started_s, retry)
            left, queue = [*self.outcome.left], self._spikes()
            self._work(queue, started_s, retry)
            self.outcome.left = left
        except KeyboardInterrupt:
            self.outcome.interrupted = True
            self.outcome.left += queue
        self.run = replace(self.run, sm_clock_after_hz=self.sm_clock_hz())
        self.store.note(self.run)
        return self.outcome

    def _work(self, queue: list[Step], started_s: float, retry: bool) -> None:
        """Measure what the queue holds, as far as the time allows, and take it out."""
        while queue:
            step = self._fitting(queue[0], self.now_s() - started_s, retry)
            if step is not None:
                self._measure(step)
                self.on_step(step)
            del queue[0]

    def _anchors_again(self, steps: Sequence[Step]) -> list[Step]:
        """The anchors that earlier runs measured: measured again, they show whether the machine drifted."""
        anchors = [step for step in steps if step.phase == "anchor" and self.store.missing(step, retry=False) is None]
        known = [(step, self._before(step)) for step in anchors]
        again = [replace(step, variants=tuple(v for v in step.variants if v in before)) for step, before in known]
        return [step for step in again if step.variants]

    def _before(self, step: Step) -> dict[str, Row]:
        """The step's rows in the first run with today's software that has them, by variant."""
        alike = (run.id for run in self.store.machine.runs if run.software == self.run.software)
        age = {name: age for age, name in enumerate(alike) if name != self.run.id}
        key = tuple(step.point.values())
        mine = [row for row in self.store.rows(step.experiment) if row.point == key and row.run in age]
        return {row.variant: row for row in sorted(mine, key=lambda row: age[row.run], reverse=True)}

    def _fitting(self, step: Step, elapsed_s: float, retry: bool) -> Step | None:
        """The step without the variants that no run can hold; None if nothing is left of it, or of the time."""
        again = self.store.missing(step, retry=retry) is None  # an anchor, measured for its drift
        kept, too_slow = self.estimator.split(step, self.limit_s)
        if too_slow is not None:
            self.outcome.too_long.append((too_slow, self.estimator.seconds(too_slow)))
            kept = kept if again or kept is None or self.store.missing(kept, retry=retry) else None
        if kept is not None and elapsed_s + self.estimator.seconds(kept) > self.limit_s:
            self.outcome.left.append(kept)
            return None
        return kept

    def _measure(self, step: Step) -> None:
        """Measure a step and keep its rows; an anchor far off its first time is measured again, then dropped.

        What breaks an inequality of the six times is measured again too, and kept then: whoever reads it is told.
        """
        started_s = self.now_s()
        failures = self.run, tuple(self.outcome.failed)
        rows, far = self._rows(step)
        if far or any(broken(row.measurement) for row in rows):
            self.run, self.outcome.failed = failures[0], [*failures[1]]  # what failed is seen again, or did not
            rows, far = self._rows(step)
        self.estimator.learn(step, self.now_s() - started_s)
        for variant, drift in far.items():
            self._fail(step, variant, "DriftError", f"{drift}, measured twice: dropped")
        rows = [row for row in rows if row.variant not in far]
        pairs = [(row.variant, pair) for row in rows for pair in broken(row.measurement)]
        self.outcome.broken += [f"{step}: {less} of {name} is above {more}" for name, (less, more) in pairs]
        if rows:
            self.store.add(step.experiment, rows)
            self.estimator.learn_rows(step.experiment, rows)
            self._compare(step, rows)
        if self.run != self.store.machine.run(self.run.id):
            self.store.note(self.run)
        self.outcome.measured.append(step)

    def _spikes(self) -> list[Step]:
        """What this run measured many times off both its neighbours, to be measured once more."""
        measured = {(step.experiment.name, tuple(step.point.values())): step for step in self.outcome.measured}
        experiments = {step.experiment.name: step.experiment for step in measured.values()}
        found = {name: spikes(each, self.store.rows(each)) for name, each in experiments.items()}
        return [step for (name, key), step in measured.items() if key in found[name]]

    def _rows(self, step: Step) -> tuple[list[Row], dict[str, Drift]]:
        """The rows of a step measured now, and which of them are far off where it is an anchor."""
        try:
            found = self.measure(step)
        except BrrrError as error:
            found = dict.fromkeys(step.variants, error)
        rows = [row for variant, timed in found.items() if (row := self._row(step, variant, timed)) is not None]
        return rows, self._far(step, rows)

    def _row(self, step: Step, variant: str, timed: Timed | BrrrError) -> Row | None:
        """The row of a variant, None (and a failure noted) if it could not be measured or makes no sense."""
        if isinstance(timed, BrrrError):
            self._fail(step, variant, type(timed).__name__, str(timed))
            return None
        row = Row.of(step.point, variant, timed, self.run.id, self.store.machine.device)
        try:
            check_row(row, step.experiment)
        except ValueError as error:
            self._fail(step, variant, "RecordingError", str(error))
            return None
        return row

    def _fail(self, step: Step, variant: str, error: str, reason: str) -> None:
        failure = Failure(step.experiment.name, variant, dict(step.point), error, reason)
        self.outcome.failed.append(failure)
        self.run = replace(self.run, failed=(*self.run.failed, failure))

    def _far(self, step: Step, rows: Sequence[Row]) -> dict[str, Drift]:
        """The variants of an anchor with a time that has changed by FAR or more, and the one that changed most."""
        far = sorted((drift for drift in self._drifts(step, rows) if drift.times >= FAR), key=lambda drift: drift.times)
        return {drift.variant: drift for drift in far}

    def _drifts(self, step: Step, rows: Sequence[Row]) -> list[Drift]:
        """How far an anchor has drifted since the first run, in the times that the experiment draws."""
        before = self._before(step) if step.phase == "anchor" else {}
        return [drift for row in rows if row.variant in before for drift in _drifts(step, before[row.variant], row)]

    def _compare(self, step: Step, rows: Sequence[Row]) -> None:
        """Note the drifts of an anchor."""
        drifts = self._drifts(step, rows)
        self.outcome.drifts += drifts
        self.run = replace(self.run, anchors=(*self.run.anchors, *drifts))


def spikes(experiment: Experiment, rows: Iterable[Row]) -> set[Key]:
    """The points where a variant takes SPIKE times as long as at both neighbours along an axis, or as short."""
    lines: dict[tuple[object, ...], dict[float, tuple[Key, float]]] = {}
    numeric = [at for at, axis in enumerate(experiment.axes) if axis.scale != "category"]
    for row, at in product(rows, numeric):
        m = row.measurement
        if taken := m.period_s or m.latency_s or m.span_s or m.busy_s:
            line = lines.setdefault((row.variant, m.cache, at, row.point[:at], row.point[at + 1 :]), {})
            line[float(row.point[at])] = row.point, taken.median  # of several runs the last
    ordered = [[line[value] for value in sorted(line)] for line in lines.values()]
    threes = (three for line in ordered for three in zip(line, line[1:], line[2:], strict=False))
    return {here for (_, a), (here, b), (_, c) in threes if b > SPIKE * max(a, c) or SPIKE * b < min(a, c)}


def _drifts(step: Step, first: Row, now: Row) -> Iterator[Drift]:
    lines = step.experiment.lines
    drawn: list[Field] = [line.field for line in lines if line.variant == now.variant] or list(FIELDS)
    for name in dict.fromkeys(drawn):
        a, b = first.measurement.get(name), now.measurement.get(name)
        if a is not None and b is not None and a.median > 0:
            yield Drift(step.experiment.name, now.variant, dict(step.point), name, a.median, b.median)


# ---------------------------------------------------------------------------------------------------------------------
# The timelines that the experiments list, each in a file of its own.

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
    listed = [(variant, experiment.point(**point)) for variant, point in experiment.traces]
    return [(variant, point) for variant, point in listed if variant in wanted_at(experiment, kind, point, only)
            and (not quick or is_quick(experiment, point))]  # fmt: skip


def record_traces(
    experiments: Sequence[Experiment], kind: DeviceKind, folder: Path, *,
    only: Mapping[str, Sequence[str]] | None = None, quick: bool = False, limit_s: float = float("inf"),
    tracer: Tracer = trace_variant,
) -> TraceOutcome:  # fmt: skip
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
