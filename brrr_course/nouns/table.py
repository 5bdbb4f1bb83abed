"""A table in a file: CSV, read in one pass by a schema that says of each column what it may hold.

>>> size, time_s = Column("size", int, 1), Column("time_s", float, 1e-9, 1e4, "seconds", may_be_empty=True)
>>> made = read(Path("a.csv"), [size, time_s], text=written([size, time_s], [{"size": "8", "time_s": "2e-06"}]))
>>> made
[{'size': 8, 'time_s': 2e-06}]
>>> read(Path("a.csv"), [size, time_s], text="size,time_s\\n8,2000000\\n")
Traceback (most recent call last):
...
brrr.core.errors.RecordingError: a.csv: row 1 (line 2): time_s is '2000000'; expected a number, 1e-09 to 10000 seconds:
is it in another unit?
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brrr.core.errors import ArgumentError, RecordingError
from brrr.core.files import file_bytes

NUMBER = re.compile(r"[-+.0-9a-z]+")
"""Python also takes spaces, underscores and the digits of every script."""
NUMBERS = re.compile(rf"({NUMBER.pattern}\n)*{NUMBER.pattern}|")
KINDS: Mapping[type, str] = {int: "a whole number", float: "a number", str: "printable text",
                             tuple: "printable texts with semicolons between"}  # fmt: skip
EMPTY: Mapping[type, Any] = {tuple: (), str: ""}
"""What an empty cell is, where it is not None."""
MOST = sys.float_info.max
MOST_ROWS = 100_000
"""Twenty times the longest: a file of line ends or commas is not kept."""
NOTE = "#"
"""How a line begins that is no row."""
RESTORE = "Restore the file, or record anew"


@dataclass(frozen=True)
class Column:
    """A column: its name, the type of its values, and of numbers their limits and unit; or the values that there are.

    `among` has them by their texts. A number that `may_be_zero` may be that below its lower limit. A file does without
    an `optional` column where no row fills it, and one without it reads as empty.
    """

    name: str
    kind: type = str
    low: float = -MOST
    high: float = MOST
    unit: str = ""
    among: Mapping[str, Any] | None = None
    may_be_zero: bool = False
    may_be_empty: bool = False
    optional: bool = False

    @property
    def expected(self) -> str:
        """What it may hold, in words."""
        if self.among is not None:
            return f"one of {', '.join(self.among)}"
        limits = "" if self.high == MOST else f", {limits_told(self.low, self.high, self.unit)}"
        return f"{KINDS[self.kind]}{limits}"

    def value(self, cell: str) -> Any:
        """The value that a cell holds, None of an empty one that is no text; ValueError where it can hold none."""
        if not cell and self.may_be_empty:
            return EMPTY.get(self.kind)
        try:
            if self.among is not None:
                return self.among[cell]
            if self.kind in (int, float):
                found = self.kind(cell) if NUMBER.fullmatch(cell) else MOST * 2
                if self.low <= found <= self.high or (self.may_be_zero and found == 0):
                    return found
            else:
                parts = tuple(cell.split(";")) if self.kind is tuple else (cell,)
                if all(part and part.isprintable() for part in parts):
                    return parts if self.kind is tuple else cell
        except (KeyError, ValueError):
            pass
        raise ValueError(f"{self.name} is {cell[:200]!r}; expected {self.expected}")

    def numbers(self, cells: Sequence[str]) -> list[Any] | None:
        """The numbers of a whole column at once; None where each cell must be looked at by itself."""
        filled = [cell for cell in cells if cell or not self.may_be_empty]
        if self.kind not in (int, float) or self.among is not None or not NUMBERS.fullmatch("\n".join(filled)):
            return None
        try:
            found = [None if not cell else self.kind(cell) for cell in cells]
        except ValueError:
            return None
        wrong = [x for x in found if not (x is None or self.low <= x <= self.high or (x == 0 and self.may_be_zero))]
        return None if wrong else found

    def text(self, value: Any) -> str:
        """The cell of a value, which `value` gives again; ValueError where a semicolon in a text would part it."""
        if self.kind is tuple:
            if ";" in "".join(value):
                raise ValueError(f"{self.name} holds {value!r}; expected no semicolon, which parts the texts")
            return ";".join(value)
        return "" if value is None else repr(self.kind(value)) if self.kind in (int, float) else str(value)


def within(call: str, name: str, value: float | None, low: float, high: float, unit: str = "") -> None:
    """ArgumentError unless it is None, or a number within these limits."""
    if value is not None and not low <= value <= high:
        raise ArgumentError(call, name, value, limits_told(low, high, unit))


def limits_told(low: float, high: float, unit: str = "") -> str:
    """Limits in words; what is outside is most often a slip of the unit."""
    return f"{low:g} to {high:g} {unit}".rstrip() + (": is it in another unit?" if unit else "")


def values_of(columns: Iterable[Column], cells: Mapping[str, str]) -> dict[str, Any]:
    """The values of a row from its cells by column; ValueError names the column of one that it cannot hold."""
    return {x.name: x.value(cells.get(x.name, "") if x.optional else cells[x.name]) for x in columns}


def cells_of(columns: Iterable[Column], values: Mapping[str, Any]) -> dict[str, str]:
    """The cells of a row, by column."""
    return {each.name: each.text(values[each.name]) for each in columns}


def written(columns: Iterable[Column], rows: Sequence[Mapping[str, str]]) -> str:
    """The text of a table of such cells, without optional columns that no row fills."""
    out = io.StringIO()
    there = [each.name for each in columns if not each.optional or any(row[each.name] for row in rows)]
    csv.writer(out, lineterminator="\n").writerows([there, *([row[name] for name in there] for row in rows)])
    return out.getvalue()


def text_of(path: Path) -> str:
    """What a table's file holds; RecordingError where it cannot be read, or ends in the middle of a line."""
    try:
        text = file_bytes(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordingError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if not text.endswith("\n"):
        raise RecordingError(f"{path}: is {'truncated: the last line does not end' if text else 'empty'}. {RESTORE}")
    return text


def read(
    path: Path, columns: Sequence[Column] = (), make: Callable[[dict[str, Any]], Any] = dict, text: str | None = None
) -> list[Any]:
    """What `make` makes of each row's values by column; without columns they are the cells as they stand.

    `text` is the file's, where it is known. RecordingError names the file, the row, its line, the column, the value and
    what was expected; a ValueError of `make` is told in the same way.
    """
    (_, names), *rows = _records(path, text_of(path) if text is None else text, columns)
    values: dict[str, Sequence[Any]] = dict(zip(names, zip(*(cells for _, cells in rows), strict=True), strict=False))
    found, number = list[Any](), 0
    try:
        for column in columns:
            cells, known = values.get(column.name, [""] * len(rows)), dict[str, Any]()
            if (numbers := column.numbers(cells)) is not None:
                values[column.name] = numbers
                continue
            for number, cell in enumerate(cells):  # noqa: B007 (told below)
                if cell not in known:  # most stood in a row before
                    known[cell] = column.value(cell)
            values[column.name] = [known[cell] for cell in cells]
        for number, row in enumerate(zip(*values.values(), strict=True)):  # noqa: B007
            found.append(make(dict(zip(values, row, strict=True))))
    except ValueError as error:
        raise RecordingError(f"{path}: row {number + 1} (line {rows[number][0]}): {error}") from error
    return found


def _records(path: Path, text: str, columns: Sequence[Column]) -> list[tuple[int, list[str]]]:
    """The header and each row with its line, all as long as the header; notes are left out."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        found = [(1, names := next(reader))]
        _check_header(path, names, columns or [Column(name) for name in names])
        for cells in reader:
            if cells and cells[0].startswith(NOTE):
                continue
            if len(cells) != len(names) or len(found) > MOST_ROWS:
                raise RecordingError(f"{path}: row {len(found)} (line {reader.line_num}): has {len(cells)} cells; "
                                     f"expected {len(names)}, in {MOST_ROWS} rows at most")  # fmt: skip
            found.append((reader.line_num, cells))
    except csv.Error as error:
        raise RecordingError(f"{path}: line {reader.line_num} is no CSV ({error})") from error
    return found


def _check_header(path: Path, found: Sequence[str], columns: Sequence[Column]) -> None:
    less = Counter(each.name for each in columns if not each.optional) - Counter(found)
    more = Counter(found) - Counter(each.name for each in columns)
    told = [
        f"{what}: {', '.join(names)[:500]}" for what, names in (("missing", less), ("unknown, or twice", more)) if names
    ]
    if told:
        raise RecordingError(f"{path}: wrong columns ({'; '.join(told)})")
