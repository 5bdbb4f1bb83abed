"""Whole folders: `brrr join` makes one of several GPUs' of a model; `Store` is the one that a recording grows in.

CUDA_VISIBLE_DEVICES=0 brrr record mlp --only layers=8 --out first &
CUDA_VISIBLE_DEVICES=1 brrr record mlp --only layers=4 --out second &
brrr join second/h200 --into first/h200

All variants of a point come from one run on one GPU, so that no ratio crosses two; each row keeps its run, and each run
its GPU and its software. The device's model must be the same. Peaks are not joined: the folder keeps its own.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from brrr.core.errors import BrrrError, NotRecordedError, RecordingError
from brrr.core.files import require_writable
from brrr.core.recordings import FILE, first_that_reads
from brrr.gpu import tensors_on
from brrr_course.nouns.experiment import Experiment
from brrr_course.sources import samples
from brrr_course.sources.plan import Step
from brrr_course.sources.recording import Failure, Machine, Recording, RunInfo
from brrr_course.sources.rows import Row
from brrr_course.sources.timers import FOLDER as TRACES


def main(argv: Sequence[str]) -> int:
    """`brrr join`: 0 when it went well, 2 for an error."""
    options = _parser().parse_args(argv)
    try:
        for folder in options.folders:
            for line in join(options.into, folder):
                print(line)
    except BrrrError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="brrr join", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a device's folder of recordings")
    parser.add_argument("--into", required=True, type=Path, metavar="FOLDER", help="the device's folder that gets them")
    return parser


def join(into: Path, other: Path) -> list[str]:
    """Add the runs, rows and timelines of another folder that are not in this one yet; a line for each that grew.

    RecordingError, and nothing is written, where the machines differ, a run of one id is another one, or a file is
    damaged.
    """
    from brrr_course.experiments import NAMES, experiment

    mine, theirs = Machine.read(into), Machine.read(other)
    mine.require_joinable(theirs)
    machine = _with_runs(mine, theirs, other)
    found = [experiment(name) for name in NAMES if (other / f"{name}.csv").exists()]
    grown = [(_read_or_empty(into, e, machine), Recording.read(other, e)) for e in found]
    machine.write(into)  # before the rows, each of which names its run
    lines = []
    for recording, new in grown:
        keys = {row.key for row in recording.rows}
        rows = [row for row in new.rows if row.key not in keys]
        replace(recording, machine=machine).added(rows).write(into)
        lines.append(f"{recording.experiment.name}: {len(rows)} rows from {other}")
        if (kept := other / f"{recording.experiment.name}{samples.ENDING}").exists():
            samples.join(into / kept.name, kept)
    return lines + _timelines(into, other)


def _with_runs(mine: Machine, theirs: Machine, other: Path) -> Machine:
    for run in theirs.runs:
        there = mine.run(run.id)
        if there is not None and there != run:
            raise RecordingError(f"{other / FILE}: its run {run.id} is not the run of that id in the other folder")
        mine = mine.with_run(run)
    return mine


def _timelines(into: Path, other: Path) -> list[str]:
    """Timelines are files of their own; one that is here already stays."""
    files = [path for path in sorted((other / TRACES).glob("*/*")) if path.is_file()]
    new = [path for path in files if not (into / path.relative_to(other)).exists()]
    for path in new:
        target = into / path.relative_to(other)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return [f"{len(new)} timelines from {other}"] if new else []


# ---------------------------------------------------------------------------------------------------------------------
# The folder that a recording grows in.

LASTING = ("DeviceMemoryError", "UnavailableError", "WrongResultError")
"""Failures that the next run would see again; any other may have been an accident, and is tried again."""


WRITING = 0.05
"""Writing a large file again for every point would take longer than measuring: at most this share of the time."""


class Store:
    """The folder of one device while it is recorded: what is there, and what is new, written within seconds.

    A kill loses at most the points of the time in which writing would have taken more than WRITING.
    """

    def __init__(
        self, folder: Path, machine: Machine, experiments: Sequence[Experiment], below: Sequence[Path] = ()
    ) -> None:
        """Read what is there, and refuse to add to it what may not be joined.

        An experiment that this folder lacks goes on from the first of the folders `below` that has it.
        """
        require_writable(folder)
        if any(folder.glob("*.csv")) or (folder / FILE).exists():
            old = Machine.read(folder)
            old.require_joinable(machine)
            machine = old
        self.folder, self.machine = folder, machine
        self.recordings = {e.name: self._begun(e, below) for e in experiments}
        self._last_written = self._on_disk()
        self._unwritten: dict[str, list[Row]] = {}
        self._write_after_s = 0.0

    def _begun(self, experiment: Experiment, below: Sequence[Path]) -> Recording:
        """What there is of an experiment, its runs among the machine's."""
        name = f"{experiment.name}.csv"
        if not (self.folder / name).exists():
            fitting = (each for each in below if (each / name).exists() and self._is_of(each))
            found = first_that_reads(fitting, lambda each: Recording.read(each, experiment))
            if found is not None:
                there = {row.run for row in found.rows}
                for run in found.machine.runs:
                    if run.id in there and self.machine.run(run.id) is None:
                        self.machine = self.machine.with_run(run)
                return replace(found, machine=self.machine)
        return _read_or_empty(self.folder, experiment, self.machine)

    def _is_of(self, folder: Path) -> bool:
        """Whether another folder is of this device; one that is damaged is named where its rows are read."""
        try:
            found = Machine.read(folder)
        except RecordingError:
            return True
        return (found.device, found.kind) == (self.machine.device, self.machine.kind)

    def rows(self, experiment: Experiment) -> tuple[Row, ...]:
        """All rows of an experiment so far."""
        return self.recordings[experiment.name].rows

    def note(self, run: RunInfo) -> None:
        """Write what is known of a run: when it begins, what failed, how it ends; and all rows so far."""
        self._require_alone()
        self._write()
        self.machine = self.machine.with_run(run)
        self.machine.write(self.folder)
        self._last_written = self._on_disk()

    def add(self, experiment: Experiment, rows: Sequence[Row]) -> None:
        """Keep finished rows, and write them unless the last writing was too short a while ago."""
        self._require_alone()
        self.recordings[experiment.name] = replace(self.recordings[experiment.name], machine=self.machine).added(
            replace(row, measurement=replace(row.measurement, samples={})) for row in rows
        )
        self._unwritten.setdefault(experiment.name, []).extend(rows)
        if time.monotonic() >= self._write_after_s:
            self._write()

    def _write(self) -> None:
        """Write the recordings that have new rows."""
        started_s = time.monotonic()
        for name, rows in sorted(self._unwritten.items()):
            self.recordings[name].write(self.folder)
            samples.append(self.folder / f"{name}{samples.ENDING}", rows)
        self._unwritten.clear()
        self._last_written = self._on_disk()
        now_s = time.monotonic()
        self._write_after_s = now_s + (now_s - started_s) / WRITING

    def missing(self, step: Step, *, retry: bool) -> Step | None:
        """The step without what failed before (unless `retry`), None if nothing is left to measure.

        Where one variant is missing, all that are there are measured again, so that no ratio crosses two runs.
        """
        key = tuple(step.point.values())
        there = {row.variant for row in self.rows(step.experiment) if row.point == key}
        failed = set() if retry else {name for name in step.variants if self.failure(step, name)}
        if not set(step.variants) - failed - there:
            return None
        alive = step.experiment.variants_on(tensors_on(self.machine.kind))
        again = [name for name in alive if name in there and step.experiment.has(name, step.point)]
        wanted = {*again, *step.variants} - (failed - there)
        return replace(step, variants=tuple(v.name for v in step.experiment.variants if v.name in wanted))

    def failure(self, step: Step, variant: str) -> Failure | None:
        """Why a variant could not be measured at this point in an earlier run, if it is for a lasting reason."""
        of_this = (step.experiment.name, variant, dict(step.point))
        every = (f for run in self.machine.runs for f in run.failed if f.error in LASTING)
        return next((f for f in every if (f.experiment, f.variant, dict(f.point)) == of_this), None)

    def _on_disk(self) -> dict[Path, tuple[int, int]]:
        found = [self.folder / FILE, *(self.folder / f"{name}.csv" for name in self.recordings)]
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found if path.exists()}

    def _require_alone(self) -> None:
        if self._on_disk() != self._last_written:
            raise RecordingError(
                f"{self.folder}: was changed by somebody else while this recording runs; "
                "record into one folder from one process at a time"
            )


def _read_or_empty(folder: Path, experiment: Experiment, machine: Machine) -> Recording:
    try:
        return Recording.read(folder, experiment)
    except NotRecordedError:
        return Recording(experiment, machine)
