"""A recording: one experiment measured on one machine, as one CSV beside `machine.json`.

Reading checks the columns, the units and the ranges, and names the file and the row of what is wrong. Writing replaces
the file whole, so that a kill at any moment leaves a recording that reads. The last line seals the ones before it:

    # 12 rows, checksum 0123456789abcdef
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from brrr.core.errors import NotRecordedError, RecordingError
from brrr.core.files import digest, read_object, write_atomically
from brrr.core.measurement import FIELDS
from brrr.core.paths import FILE
from brrr.course.nouns.experiment import Experiment
from brrr.course.sources.machine import Machine
from brrr.course.sources.rows import Row, check_row, columns, from_cells, to_cells

SEAL = "# "
"""How the last line begins."""
RESTORE = "Restore the file, or record anew"


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
        table, seal = parted(path)
        lines = list(_lines(path, table))
        recording = cls(experiment, machine, tuple(_rows_of(path, lines, experiment, machine.device)))
        _check_together(path, recording, [line for line, _ in lines[1:]])
        if not seal:
            raise RecordingError(f"{path}: is truncated: its last line, with a checksum, is not there. {RESTORE}")
        if seal != seal_of(table):
            raise RecordingError(
                f"{path}: its {len(recording.rows)} rows read well, but they are not those that `brrr record` wrote "
                f"last ({seal.strip()}): rows are missing, or were edited. {RESTORE}"
            )
        return recording

    def added(self, rows: Iterable[Row]) -> Recording:
        """The recording with more rows."""
        return replace(self, rows=(*self.rows, *rows))

    def write(self, folder: Path) -> None:
        """Check every row, then replace the CSV; RecordingError names the file and the row of what cannot be."""
        path = folder / f"{self.experiment.name}.csv"
        for number, row in enumerate(self.rows, start=1):
            try:
                check_row(row, self.experiment)
            except ValueError as error:
                raise _in_row(path, number, number + 1, str(error)) from error
        _check_together(path, self, range(2, len(self.rows) + 2))
        write_atomically(path, to_text(self))


def to_text(recording: Recording) -> str:
    """The CSV's text."""
    rows = [to_cells(row, recording.experiment) for row in recording.rows]
    there = [name for name, must in columns(recording.experiment).items() if must or any(row[name] for row in rows)]
    out = io.StringIO()
    writer = csv.DictWriter(out, there, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue() + seal_of(out.getvalue())


def seal_of(table: str) -> str:
    """The last line of a file with these lines before it."""
    return f"{SEAL}{max(0, table.count(chr(10)) - 1)} rows, checksum {digest(table)}\n"


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
        raise RecordingError(f"{path}: is truncated: the last line does not end. {RESTORE}")
    return text


def parted(path: Path) -> tuple[str, str]:
    """The table of a CSV and its seal, "" where it has none; a file of formats 1 to 3 is turned into one of today's.

    Those had their seals in machine.json, and one column `n`, the smallest of a row.
    """
    text = _text_of(path)
    header = text.partition("\n")[0].rstrip("\r").split(",")
    if "n" not in header or "host_s_n" in header:
        body, _, last = text.removesuffix("\n").rpartition("\n")
        return (f"{body}\n", f"{last.rstrip()}\n") if last.startswith(SEAL) else (text, "")
    names = [name for name in dict.fromkeys(header) if name != "n"]  # an axis `cache` had a column beside that of all
    for name in FIELDS:
        if f"{name}_high" in names:
            names.insert(names.index(f"{name}_high") + 1, f"{name}_n")
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([names, *_with_n(_lines(path, text), header, names)])
    known = digest(text) in read_object(path.parent / FILE).get("seals", {}).get(path.stem, ())
    return out.getvalue(), seal_of(out.getvalue()) if known else SEAL


def _with_n(lines: Iterable[tuple[int, list[str]]], header: list[str], names: list[str]) -> Iterator[list[str]]:
    for _, cells in list(lines)[1:]:
        old = dict(zip(header, cells, strict=False))
        whole = len(cells) == len(header)  # another row is refused by name when it is read
        yield [old.get(name, old["n"] if old.get(name[:-2]) else "") for name in names] if whole else cells


def _lines(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the number of its line."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise RecordingError(f"{path}: line {reader.line_num} is no CSV ({error})") from error


def _rows_of(path: Path, lines: list[tuple[int, list[str]]], experiment: Experiment, device: str) -> Iterator[Row]:
    names = lines[0][1]
    _check_header(path, names, columns(experiment))
    for number, (line, cells) in enumerate(lines[1:], start=1):
        if len(cells) != len(names):
            what = "is truncated" if number == len(lines) - 1 and len(cells) < len(names) else "is wrong"
            raise _in_row(path, number, line, f"{what}: it has {len(cells)} of {len(names)} columns")
        try:
            row = from_cells(dict(zip(names, cells, strict=True)), experiment, device)
            check_row(row, experiment)
        except ValueError as error:
            raise _in_row(path, number, line, str(error)) from error
        yield row


def _check_header(path: Path, found: list[str], expected: Mapping[str, bool]) -> None:
    missing = [name for name, must in expected.items() if must and name not in found]
    unknown = [repr(name) for name in found if name not in expected]
    twice = dict.fromkeys(name for name in found if found.count(name) > 1)
    wrong = {"missing": missing, "unknown": unknown, "twice": twice}
    problems = [f"{what}: {', '.join(names)}" for what, names in wrong.items() if names]
    if problems:
        raise RecordingError(f"{path}: wrong columns ({'; '.join(problems)})")


def _in_row(path: Path, number: int, line: int, message: str) -> RecordingError:
    return RecordingError(f"{path}: row {number} (line {line}): {message}")
