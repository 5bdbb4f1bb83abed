"""A recording: one experiment measured on one machine, as one CSV beside `machine.json`.

Reading checks the format, the columns, the units and the ranges, and names the file and the row of what is wrong.
Writing replaces the files whole, so that a kill at any moment leaves a recording that reads.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from brrr.core.errors import NotRecordedError, RecordingError
from brrr.core.files import digest, write_atomically
from brrr.course.nouns.experiment import Experiment
from brrr.course.sources.machine import Machine
from brrr.course.sources.rows import MEMORY, Row, check_row, columns, from_cells, to_cells


@dataclass(frozen=True)
class Recording:
    """The rows of one experiment, with the machine they were measured on."""

    experiment: Experiment
    machine: Machine
    rows: tuple[Row, ...] = ()

    @classmethod
    def read(cls, folder: Path, experiment: Experiment) -> Recording:
        """Read and check `<folder>/<experiment>.csv` and `<folder>/machine.json`.

        Raises NotRecordedError if the experiment has no CSV there, RecordingError (naming file and row) for a file
        that is damaged, edited, in another unit or from a newer brrr.
        """
        path = folder / f"{experiment.name}.csv"
        if not path.exists():
            raise NotRecordedError(f"{path}: is not there; `brrr record {experiment.name}` makes it")
        machine = Machine.read(folder)
        text = _text_of(path)
        rows = tuple(_rows_of(path, text, experiment, machine.device))
        recording = cls(experiment, machine, rows)
        _check_together(path, recording, [line for line, _ in _lines(path, text)][1:])
        if digest(text) not in machine.seals.get(experiment.name, ()):
            raise RecordingError(
                f"{path}: its {len(rows)} rows read well, but they are not those that `brrr record` wrote last: rows "
                "are missing, were edited, or come from another recording. Restore the file, or record anew"
            )
        return recording

    def added(self, rows: Iterable[Row]) -> Recording:
        """The recording with more rows."""
        return replace(self, rows=(*self.rows, *rows))

    def write(self, folder: Path) -> Recording:
        """Check every row, then replace the CSV; returns the recording as it reads from now on.

        The machine's seal goes first and accepts the CSV before and after, so a kill between the two files is harmless.
        """
        path = folder / f"{self.experiment.name}.csv"
        check(path, self)
        text = to_text(self)
        on_disk = digest(_text_of(path)) if path.exists() else None
        written = replace(self, machine=self.machine.sealed(self.experiment.name, digest(text), on_disk))
        written.machine.write(folder)
        write_atomically(path, text)
        return written


def to_text(recording: Recording) -> str:
    """The CSV's text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    memory = any(row.measurement.peak_bytes is not None for row in recording.rows)
    writer.writerow(columns(recording.experiment, memory=memory))
    writer.writerows(to_cells(row, memory=memory) for row in recording.rows)
    return out.getvalue()


def check(path: Path, recording: Recording) -> None:
    """Check rows before they are written; RecordingError names the file and the row."""
    for number, row in enumerate(recording.rows, start=1):
        try:
            check_row(row, recording.experiment)
        except ValueError as error:
            raise _in_row(path, number, number + 1, str(error)) from error
    _check_together(path, recording, range(2, len(recording.rows) + 2))


def _check_together(path: Path, recording: Recording, lines: Iterable[int]) -> None:
    """No point twice, no row of a run that the machine does not know."""
    runs = [run.id for run in recording.machine.runs]
    seen: dict[tuple[object, ...], int] = {}
    for number, (row, line) in enumerate(zip(recording.rows, lines, strict=True), start=1):
        if row.run not in runs:
            known = ", ".join(runs) or "none"
            raise _in_row(path, number, line, f"run is {row.run!r}; machine.json knows {known}")
        if row.key in seen:
            raise _in_row(path, number, line, f"the same point, variant, cache and run as row {seen[row.key]}")
        seen[row.key] = number


def _text_of(path: Path) -> str:
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise RecordingError(f"{path}: is no UTF-8 text ({error}); it is damaged") from error
    if not text:
        raise RecordingError(f"{path}: is empty; expected at least the line of column names")
    if not text.endswith("\n"):
        raise RecordingError(f"{path}: is truncated: the last line does not end. Restore the file, or record anew")
    return text


def _lines(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the number of its line."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise RecordingError(f"{path}: line {reader.line_num} is no CSV ({error})") from error


def _rows_of(path: Path, text: str, experiment: Experiment, device: str) -> Iterator[Row]:
    lines = list(_lines(path, text))
    names = columns(experiment, memory=MEMORY in lines[0][1])
    _check_header(path, lines[0][1], names)
    width = len(names)
    for number, (line, cells) in enumerate(lines[1:], start=1):
        if len(cells) != width:
            what = "is truncated" if number == len(lines) - 1 and len(cells) < width else "is wrong"
            raise _in_row(path, number, line, f"{what}: it has {len(cells)} of {width} columns")
        try:
            row = from_cells(cells, experiment, device)
            check_row(row, experiment)
        except ValueError as error:
            raise _in_row(path, number, line, str(error)) from error
        yield row


def _check_header(path: Path, found: list[str], expected: tuple[str, ...]) -> None:
    if tuple(found) == expected:
        return
    missing = [name for name in expected if name not in found]
    extra = [name for name in found if name not in expected]
    problems = [f"missing: {', '.join(missing)}"] if missing else []
    problems += [f"unknown: {', '.join(map(repr, extra))}"] if extra else []
    raise RecordingError(f"{path}: wrong columns ({'; '.join(problems) or 'in another order, or one twice'})")


def _in_row(path: Path, number: int, line: int, message: str) -> RecordingError:
    return RecordingError(f"{path}: row {number} (line {line}): {message}")
