"""`brrr join`: recordings that several GPUs of one model made side by side become one.

CUDA_VISIBLE_DEVICES=0 brrr record mlp --only layers=8 --out first &
CUDA_VISIBLE_DEVICES=1 brrr record mlp --only layers=4 --out second &
brrr join second/h200 --into first/h200

All variants of a point come from one run on one GPU, so that no ratio crosses two; each row keeps its run, and each run
its GPU. Device model, driver, CUDA and torch must be the same. Peaks are not joined: the folder keeps its own.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from brrr.core.errors import BrrrError, RecordingError
from brrr.core.paths import FILE
from brrr.course.nouns.experiment import Experiment
from brrr.course.sources.machine import Machine
from brrr.course.sources.recording import Recording
from brrr.course.sources.timers import FOLDER as TRACES


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
    from brrr.course.experiments import NAMES, experiment

    machine = _with_runs(Machine.read(into), Machine.read(other), other)
    found = [experiment(name) for name in NAMES if (other / f"{name}.csv").exists()]
    grown = [(_rows_here(into, e, machine), Recording.read(other, e)) for e in found]
    lines = []
    for mine, new in grown:
        keys = {row.key for row in mine.rows}
        rows = [row for row in new.rows if row.key not in keys]
        machine = Recording(mine.experiment, machine, mine.rows).added(rows).write(into).machine
        lines.append(f"{mine.experiment.name}: {len(rows)} rows from {other}")
    machine.write(into)
    return lines + _timelines(into, other)


def _with_runs(mine: Machine, theirs: Machine, other: Path) -> Machine:
    mine.require_joinable(theirs)
    for run in theirs.runs:
        there = mine.run(run.id)
        if there is not None and there != run:
            raise RecordingError(f"{other / FILE}: its run {run.id} is not the run of that id in the other folder")
        mine = mine.with_run(run)
    return mine


def _rows_here(into: Path, experiment: Experiment, machine: Machine) -> Recording:
    if not (into / f"{experiment.name}.csv").exists():
        return Recording(experiment, machine)
    return Recording.read(into, experiment)


def _timelines(into: Path, other: Path) -> list[str]:
    """Timelines are files of their own; one that is here already stays."""
    files = [path for path in sorted((other / TRACES).glob("*/*")) if path.is_file()]
    new = [path for path in files if not (into / path.relative_to(other)).exists()]
    for path in new:
        target = into / path.relative_to(other)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return [f"{len(new)} timelines from {other}"] if new else []
