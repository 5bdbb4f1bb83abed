"""Whole folders: `brrr join` makes one of several GPUs' of a model; `Store` is the one that a recording grows in.

CUDA_VISIBLE_DEVICES=0 brrr record mlp --only layers=8 --out first &
CUDA_VISIBLE_DEVICES=1 brrr record mlp --only layers=4 --out second &
brrr join second/h200 --into first/h200
brrr join recordings/yours

All variants of a point come from one run on one GPU, so that no ratio crosses two; each row keeps its run, and each run
its GPU and its software. The device's model must be the same. Peaks are not joined: the folder keeps its own.
The last one is what a browser measured of its reader's GPU: without `--into` it becomes a line of `data/laptops.csv`.
One process at a time writes into a folder; a second one waits for a few seconds, and is then refused.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from brrr.core.errors import BrrrError, NotRecordedError, RecordingError
from brrr.core.files import cannot_write, is_own, require_writable, write_atomically
from brrr.core.recordings import FILE, first_that_reads
from brrr_course.nouns.experiment import Experiment
from brrr_course.sources import laptops, samples, timeline_file
from brrr_course.sources.plan import Step
from brrr_course.sources.recording import Failure, Machine, Recording, RunInfo
from brrr_course.sources.rows import Row
from brrr_course.sources.timers import FOLDER as TRACES


def main(argv: Sequence[str]) -> int:
    """`brrr join`: 0 when it went well, 2 for an error."""
    options = _parser().parse_args(argv)
    try:
        for folder in options.folders:
            for line in join(options.into, folder) if options.into else [_laptop(folder, options.model)]:
                print(line)
    except BrrrError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="brrr join", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a device's folder of recordings")
    parser.add_argument("--into", type=Path, metavar="FOLDER",
                        help="the device's folder that gets them; without it, what a browser measured, or a file "
                             f"of it that was sent, goes into {laptops.TABLE}")  # fmt: skip
    parser.add_argument("--model", default="", help="of what a browser measured: the device's, which no browser tells")
    return parser


def _laptop(source: Path, model: str) -> str:
    with locked(laptops.TABLE):
        return laptops.add(source, model, laptops.TABLE)


def join(into: Path, other: Path) -> list[str]:
    """Add the runs, rows and timelines of another folder that are not in this one yet; a line for each that grew.

    RecordingError, and nothing is written, where the machines differ, a run of one id is another one, a file is
    damaged, or another process writes into the folder. No link in the other folder is followed.
    """
    from brrr_course.experiments import NAMES, experiment

    Machine.read(into)  # one that is not there is a slip of the name, not a new folder
    _own(other / FILE, other)
    found = [Recording.read(other, experiment(name)) for name in NAMES if _own(other / f"{name}.csv", other).exists()]
    theirs = Machine.read(other)  # afterwards: it may grow meanwhile, and runs are there before their rows
    named = [_own(other / f"{each.experiment.name}{samples.ENDING}", other) for each in found]
    kept = {path.name: parts for path in named if (parts := samples.parts(path))}
    files = [_own(path, other) for name in NAMES for path in sorted((other / TRACES / name).glob("*.json"))]
    timelines = {path.relative_to(other): timeline_file.text_of(timeline_file.read(path)) for path in files}
    with locked(into):
        lines = add(into, theirs, found, other)
        for name, parts in kept.items():
            samples.join(into / name, parts)
        new = {path: text for path, text in timelines.items() if not (into / path).exists()}
        for path, text in new.items():
            require_writable((into / path).parent)
            write_atomically(into / path, text)
    return lines + ([f"{len(new)} timelines from {other}"] if new else [])


def add(into: Path, theirs: Machine, found: Sequence[Recording], source: Path) -> list[str]:
    """Add runs and rows that are not there yet to a folder, which need not exist; a line for each experiment.

    `source` is where they come from, for the messages. RecordingError, and nothing is written, as for `join`.
    """
    with locked(into):
        mine = Machine.read(into) if is_recording(into) else replace(theirs, runs=())
        mine.require_joinable(theirs)
        machine = _with_runs(mine, theirs, source)
        grown = [(_read_or_empty(into, new.experiment, machine), new) for new in found]
        require_writable(into)
        machine.write(into)  # before the rows, each of which names its run
        lines = []
        for recording, new in grown:
            keys = {row.key for row in recording.rows}
            rows = [row for row in new.rows if row.key not in keys]
            replace(recording, machine=machine).added(rows).write(into)
            lines.append(f"{recording.experiment.name}: {len(rows)} rows from {source}")
    return lines


def is_recording(folder: Path) -> bool:
    """Whether anything was recorded there: a CSV without its machine is a damaged recording, not a free place."""
    return (folder / FILE).exists() or any(folder.glob("*.csv"))


def _own(path: Path, folder: Path) -> Path:
    """The path, if it is a file of the folder, or nothing; RecordingError for a link, whatever it leads to."""
    if os.path.lexists(path) and path.resolve() != folder.resolve() / path.relative_to(folder):
        raise RecordingError(f"{path}: is a link, or lies behind one; expected a file that `brrr record` wrote")
    return path


def _with_runs(mine: Machine, theirs: Machine, source: Path) -> Machine:
    runs = {run.id: run for run in mine.runs}
    for run in theirs.runs:
        there = runs.setdefault(run.id, run)
        if there.begun != run.begun:
            raise RecordingError(f"{source}: its run {run.id} is not the run of that id in the other folder")
        runs[run.id] = there.grown(run)
    return replace(mine, runs=tuple(runs.values()))


# ---------------------------------------------------------------------------------------------------------------------
# One writer at a time: a lock beside the folder, which ends with its process, however that ends.

WAIT_S = 5.0
"""How long a writer waits for another one: a join takes less, a recording more."""
_held: set[Path] = set()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else writes into that folder of recordings meanwhile; RecordingError where somebody does already.

    The lock is a file beside the folder, so that `--fresh` may rename the folder. Inside itself it does nothing.
    """
    folder = folder.resolve()
    path = folder.with_name(f".{folder.name}.lock")
    if path in _held:
        yield
        return
    require_writable(folder.parent)
    until_s = time.monotonic() + WAIT_S
    while (file := _taken(path)) is None:
        if time.monotonic() > until_s:
            after = "Record or join when that has ended, or into another folder"
            raise RecordingError(f"{folder}: another process writes into it (it holds {path}). {after}")
        time.sleep(0.02)
    _held.add(path)
    try:
        yield
    finally:
        _held.discard(path)
        with suppress(OSError):  # Windows takes no open file away: there it stays
            if is_own(path):
                path.unlink()
        file.close()


def _taken(path: Path) -> IO[bytes] | None:
    """The file of the lock if this process has it now, else None."""
    try:
        file = path.open("ab")
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            return file
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):  # not one that its holder took away meanwhile
            return file
    except (BlockingIOError, PermissionError, FileNotFoundError):
        pass
    except OSError as error:  # a file system that knows no locks, as some networks' do
        print(f"{path}: cannot be locked ({error.strerror}): let one process write at a time", file=sys.stderr)
        return file
    file.close()
    return None


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
        for each in experiments:
            samples.names(folder / f"{each.name}{samples.ENDING}")  # another's file is not added to
        self.folder = folder
        self._files = [folder / FILE, *(folder / f"{e.name}.csv" for e in experiments)]
        self._last_written = self._on_disk()  # before anything is read: what others write meanwhile is seen
        if is_recording(folder):
            old = Machine.read(folder)
            old.require_joinable(machine)
            machine = old
        self.machine = machine
        self.recordings = {e.name: self._begun(e, below) for e in experiments}
        self._unwritten: dict[str, list[Row]] = {}
        self._write_after_s = 0.0

    def _begun(self, experiment: Experiment, below: Sequence[Path]) -> Recording:
        """What there is of an experiment, its runs among the machine's."""
        name = f"{experiment.name}.csv"
        if not (self.folder / name).exists():
            fitting = (each for each in below if (each / name).exists() and self._is_of(each))
            found = first_that_reads(fitting, lambda each: Recording.read(each, experiment))
            if found is not None:
                wanted = {row.run for row in found.rows} - {run.id for run in self.machine.runs}
                new = (run for run in found.machine.runs if run.id in wanted)
                self.machine = replace(self.machine, runs=(*self.machine.runs, *new))
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
        with self._alone():
            self._write()
            self.machine = self.machine.with_run(run)
            self.machine.write(self.folder)
            self._last_written = self._on_disk()

    def add(self, experiment: Experiment, rows: Sequence[Row]) -> None:
        """Keep finished rows, and write them unless the last writing was too short a while ago.

        A point that one run measures twice has its later row.
        """
        again = {row.key for row in rows}
        kept = tuple(row for row in self.rows(experiment) if row.key not in again)
        kept += tuple(replace(row, measurement=replace(row.measurement, samples={})) for row in rows)
        self.recordings[experiment.name] = Recording(experiment, self.machine, kept)
        self._unwritten.setdefault(experiment.name, []).extend(rows)
        if time.monotonic() >= self._write_after_s:
            with self._alone():
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
        alive = step.experiment.variants_on(self.machine.kind)
        again = [name for name in alive if name in there and step.experiment.has(name, step.point)]
        wanted = {*again, *step.variants} - (failed - there)
        return replace(step, variants=tuple(v.name for v in step.experiment.variants if v.name in wanted))

    def failure(self, step: Step, variant: str) -> Failure | None:
        """Why a variant could not be measured at this point in an earlier run, if it is for a lasting reason."""
        of_this = (step.experiment.name, variant, dict(step.point))
        every = (f for run in self.machine.runs for f in run.failed if f.error in LASTING)
        return next((f for f in every if (f.experiment, f.variant, dict(f.point)) == of_this), None)

    def _on_disk(self) -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in self._files if path.exists()}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Around writing: RecordingError where somebody else writes, or has written since this store looked."""
        with locked(self.folder):
            if self._on_disk() != self._last_written:
                raise RecordingError(
                    f"{self.folder}: was changed by somebody else while this recording runs; "
                    "record into one folder from one process at a time"
                )
            yield


def _read_or_empty(folder: Path, experiment: Experiment, machine: Machine) -> Recording:
    try:
        return Recording.read(folder, experiment)
    except NotRecordedError:
        return Recording(experiment, machine)
