"""Record: measure what a plan lists, and keep every finished point safe on the disk at once."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from brrr.core import __version__
from brrr.core.errors import BrrrError, NotRecordedError, RecordingError
from brrr.core.files import require_writable
from brrr.core.measurement import FIELDS, Field
from brrr.core.paths import FILE
from brrr.core.values import DeviceKind
from brrr.course.nouns.experiment import Experiment
from brrr.course.sources.machine import Drift, Failure, Machine, RunInfo
from brrr.course.sources.plan import Pace, Step
from brrr.course.sources.recording import Recording
from brrr.course.sources.rows import Ran, Row, check_row

Measure = Callable[[Step], Mapping[str, "Ran | BrrrError"]]
"""Measures all variants of a step, interleaved; a variant that cannot be measured gives its error instead."""

LASTING = ("DeviceMemoryError", "UnavailableError", "WrongResultError")
"""Failures that the next run would see again; any other may have been an accident, and is tried again."""


class Store:
    """The folder of one device while it is recorded: what is there, and every new row written at once."""

    def __init__(self, folder: Path, machine: Machine, experiments: Sequence[Experiment]) -> None:
        """Read what is there, and refuse to add to it what may not be joined."""
        require_writable(folder)
        there = any(folder.glob("*.csv")) or (folder / FILE).exists()
        if there:
            old = Machine.read(folder)
            old.require_joinable(machine)
            machine = old
        self.folder, self.machine = folder, machine
        self.recordings = {e.name: _read_or_empty(folder, e, machine) for e in experiments}
        self._last_written = self._on_disk()

    def rows(self, experiment: Experiment) -> tuple[Row, ...]:
        """All rows of an experiment so far."""
        return self.recordings[experiment.name].rows

    def note(self, run: RunInfo) -> None:
        """Write what is known of a run: when it begins, what failed, how it ends."""
        self._require_alone()
        self.machine = self.machine.with_run(run)
        self.machine.write(self.folder)
        self._last_written = self._on_disk()

    def add(self, experiment: Experiment, rows: Sequence[Row]) -> None:
        """Write finished rows: after this returns, no kill can lose them."""
        self._require_alone()
        grown = replace(self.recordings[experiment.name], machine=self.machine).added(rows)
        written = grown.write(self.folder)
        self.recordings[experiment.name], self.machine = written, written.machine
        self._last_written = self._on_disk()

    def missing(self, step: Step, *, retry: bool) -> Step | None:
        """The step without what failed before (unless `retry`), None if nothing is left to measure.

        Where one variant is missing, all of them are measured again, so that no ratio crosses two runs.
        """
        key = tuple(step.point.values())
        there = {row.variant for row in self.rows(step.experiment) if row.point == key}
        failed = set() if retry else {name for name in step.variants if self.failure(step, name)}
        wanted = tuple(name for name in step.variants if name in there or name not in failed)
        return replace(step, variants=wanted) if set(wanted) - there else None

    def failure(self, step: Step, variant: str) -> Failure | None:
        """Why a variant could not be measured at this point in an earlier run, if it is for a lasting reason."""
        of_this = (step.experiment.name, variant, dict(step.point))
        every = (f for run in self.machine.runs for f in run.failed if f.error in LASTING)
        return next((f for f in every if (f.experiment, f.variant, dict(f.point)) == of_this), None)

    def _on_disk(self) -> bytes | None:
        path = self.folder / FILE
        return path.read_bytes() if path.exists() else None

    def _require_alone(self) -> None:
        if self._on_disk() != self._last_written:
            raise RecordingError(
                f"{self.folder / FILE}: was changed by somebody else while this recording runs; "
                "record into one folder from one process at a time"
            )


def _read_or_empty(folder: Path, experiment: Experiment, machine: Machine) -> Recording:
    try:
        return Recording.read(folder, experiment)
    except NotRecordedError:
        return Recording(experiment, machine)


@dataclass
class Outcome:
    """What a run did: the steps measured, those left, those too long for one run, and the points that failed."""

    measured: list[Step] = field(default_factory=list)
    left: list[Step] = field(default_factory=list)
    too_long: list[tuple[Step, float]] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    drifts: list[Drift] = field(default_factory=list)
    interrupted: bool = False


@dataclass
class Recorder:
    """One run: anchors first, then what is missing, as long as the next point is predicted to fit into `limit_s`."""

    store: Store
    run: RunInfo
    measure: Measure
    pace: Pace
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
            while queue:
                step = self._fitting(queue[0], self.now_s() - started_s, retry)
                if step is not None:
                    self._measure(step)
                    self.on_step(step)
                del queue[0]
        except KeyboardInterrupt:
            self.outcome.interrupted = True
            self.outcome.left += queue
        self.run = replace(self.run, sm_clock_after_hz=self.sm_clock_hz())
        self.store.note(self.run)
        return self.outcome

    def _anchors_again(self, steps: Sequence[Step]) -> list[Step]:
        """The anchors that earlier runs measured: measured again, they show whether the machine drifted."""
        anchors = [step for step in steps if step.phase == "anchor" and self.store.missing(step, retry=False) is None]
        known = [(step, self._before(step)) for step in anchors]
        again = [replace(step, variants=tuple(v for v in step.variants if v in before)) for step, before in known]
        return [step for step in again if step.variants]

    def _before(self, step: Step) -> dict[str, Row]:
        """The step's rows in the first run that has them, by variant."""
        age = {run.id: age for age, run in enumerate(self.store.machine.runs)}
        key = tuple(step.point.values())
        mine = [row for row in self.store.rows(step.experiment) if row.point == key and row.run != self.run.id]
        return {row.variant: row for row in sorted(mine, key=lambda row: age[row.run], reverse=True)}

    def _fitting(self, step: Step, elapsed_s: float, retry: bool) -> Step | None:
        """The step without the variants that no run can hold; None if nothing is left of it, or of the time."""
        again = self.store.missing(step, retry=retry) is None  # an anchor, measured for its drift
        kept, too_slow = self.pace.split(step, self.limit_s)
        if too_slow is not None:
            self.outcome.too_long.append((too_slow, self.pace.seconds(too_slow)))
            kept = kept if again or kept is None else self.store.missing(kept, retry=retry)
        if kept is not None and elapsed_s + self.pace.seconds(kept) > self.limit_s:
            self.outcome.left.append(kept)
            return None
        return kept

    def _measure(self, step: Step) -> None:
        started_s = self.now_s()
        try:
            found = self.measure(step)
        except BrrrError as error:
            found = dict.fromkeys(step.variants, error)
        self.pace.learn(step, self.now_s() - started_s)
        rows = [row for variant, ran in found.items() if (row := self._row(step, variant, ran)) is not None]
        if rows:
            self.store.add(step.experiment, rows)
            self.pace.learn_rows(step.experiment, rows)
            self._compare(step, rows)
        if self.run != self.store.machine.run(self.run.id):
            self.store.note(self.run)
        self.outcome.measured.append(step)

    def _row(self, step: Step, variant: str, ran: Ran | BrrrError) -> Row | None:
        """The row of a variant, None (and a failure noted) if it could not be measured or makes no sense."""
        if isinstance(ran, BrrrError):
            self._fail(step, variant, type(ran).__name__, str(ran))
            return None
        row = Row.of(step.point, variant, ran, self.run.id, self.store.machine.device)
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

    def _compare(self, step: Step, rows: Sequence[Row]) -> None:
        """Note how far an anchor has drifted since the first run, in the times that the experiment draws."""
        if step.phase != "anchor":
            return
        before = self._before(step)
        drifts = [drift for row in rows if row.variant in before for drift in _drifts(step, before[row.variant], row)]
        self.outcome.drifts += drifts
        self.run = replace(self.run, anchors=(*self.run.anchors, *drifts))


def _drifts(step: Step, first: Row, now: Row) -> Iterator[Drift]:
    lines = step.experiment.lines
    drawn: list[Field] = [line.field for line in lines if line.variant == now.variant] or list(FIELDS)
    for name in dict.fromkeys(drawn):
        a, b = first.measurement.get(name), now.measurement.get(name)
        if a is not None and b is not None and a.median > 0:
            yield Drift(step.experiment.name, now.variant, dict(step.point), name, a.median, b.median)


# ---------------------------------------------------------------------------------------------------------------------
# This machine, and a new run on it: what `machine.json` says of both.


def here(kind: DeviceKind) -> tuple[Machine, RunInfo]:
    """This machine, and a new run on it; UnavailableError where CUDA is asked for and absent."""
    from brrr.gpu.device import this_device

    device = this_device(kind)
    machine = Machine(
        slug=device.slug,
        device=device.name,
        kind=kind,
        driver=device.driver_version or "",
        cuda=device.cuda_version or "",
        torch=device.torch_version or "",
    )
    now = datetime.now(UTC)
    run = RunInfo(
        id=now.strftime("%Y%m%d-%H%M%S-%f")[:-3],
        date=now.isoformat(timespec="seconds"),
        brrr=__version__,
        uuid=device.uuid or "",
        triton=_version("triton") if kind == "cuda" else "",
        python=platform.python_version(),
        runtime=device.runtime,
        cpu=device.cpu,
        cpu_cores=device.cpu_count,
    )
    return machine, run


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
