"""What operators moved by the hardware's counters, beside what was counted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from brrr.core import units
from brrr.core.files import JsonReader, digest, read_object, require_writable, write_atomically

TOLERANCE = 0.05
_HEAD = ("operator", "written", "dtype", "counted: read", "written", "measured: read", "written", "measured / counted")


@dataclass(frozen=True)
class Moved:
    """One operator: its bytes of one call, read from and written to memory, as counted and as measured.

    >>> relu = Moved("relu", "torch.relu(x)", "float32", ("(8, 8)",), ("aten.relu",), 256, 256, 252, 268)
    >>> relu.ratio, relu.within
    (1.015625, True)
    """

    name: str
    written: str
    dtype: str
    shapes: tuple[str, ...]
    operators: tuple[str, ...]
    counted_read: float
    counted_written: float
    measured_read: float = 0.0
    measured_written: float = 0.0

    @property
    def counted(self) -> float:
        """The bytes counted, read and written."""
        return self.counted_read + self.counted_written

    @property
    def measured(self) -> float:
        """The bytes measured, read and written."""
        return self.measured_read + self.measured_written

    @property
    def ratio(self) -> float:
        """Measured over counted: 1 where the count is right."""
        return self.measured / self.counted

    @property
    def within(self) -> bool:
        """Whether the count is right within 5 %."""
        return abs(self.ratio - 1) <= TOLERANCE


@dataclass(frozen=True)
class Movements:
    """All operators measured on one device, in one run.

    `set_bytes` is the working set of each, `l2_bytes` the size of the L2; `replay` is how Nsight Compute measured:
    "application" kernel by kernel, "app-range" several calls as one range.
    """

    device: str
    driver: str
    cuda: str
    torch: str
    date: str
    brrr: str
    ncu: str
    replay: str
    l2_bytes: float
    set_bytes: float
    rows: tuple[Moved, ...]

    @property
    def within(self) -> tuple[str, ...]:
        """The operators whose count is right within 5 %."""
        return tuple(row.name for row in self.rows if row.within)

    @property
    def beyond(self) -> tuple[str, ...]:
        """The operators whose count is not."""
        return tuple(row.name for row in self.rows if not row.within)

    def __repr__(self) -> str:
        size, l2 = units.nbytes(self.set_bytes), units.nbytes(self.l2_bytes)
        by = f"{self.device}, torch {self.torch}, ncu {self.ncu} ({self.replay}), {self.date}"
        head = f"{by}\nworking sets of {size}, an L2 of {l2}; bytes of one call"
        found = f"{len(self.within)} of {len(self.rows)} counts right within {units.percent(TOLERANCE)}"
        rest = f"; not: {', '.join(self.beyond)}" if self.beyond else ""
        return "\n".join([head, "", *_aligned([_HEAD, *(_line(row) for row in self.rows)]), "", found + rest])


def _line(row: Moved) -> tuple[str, ...]:
    moved = (row.counted_read, row.counted_written, row.measured_read, row.measured_written)
    return (row.name, row.written, row.dtype, *(units.nbytes(each) for each in moved), f"{row.ratio:.3f}")


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


# ---------------------------------------------------------------------------------------------------------------------
# `counters.json`, beside a device's recordings: what its operators moved, with a checksum.

FILE = "counters.json"
FORMAT = 1
_TEXTS = ("device", "driver", "cuda", "torch", "date", "brrr", "ncu", "replay")
_NUMBERS = ("counted_read", "counted_written", "measured_read", "measured_written")


def write_counters(folder: Path, found: Movements) -> Path:
    """Write the file into the folder, whole or not at all."""
    require_writable(folder)
    write_atomically(folder / FILE, to_text(found))
    return folder / FILE


def to_text(found: Movements) -> str:
    """The text of the file, one line an operator; the last key is a checksum of all the others."""
    content = {"format": FORMAT, **asdict(found)}
    head = {key: value for key, value in content.items() if key != "rows"}
    rows = ",\n  ".join(_line_of(asdict(row)) for row in found.rows)
    lines = [f" {json.dumps(key)}: {_line_of(value)}," for key, value in head.items()]
    ending = f' "rows": [\n  {rows}\n ],\n "checksum": "{_checksum(content)}"'
    return "\n".join(["{", *lines, ending, "}", ""])


def read_counters(path: Path) -> Movements:
    """What such a file holds; RecordingError names the file, the key and what is wrong with it."""
    data = read_object(path)
    if data.integer("format") != FORMAT:
        data.fail(f"format is {data.content['format']}; this brrr reads {FORMAT}: update brrr (pip install -U brrr)")
    head: dict[str, Any] = {key: data.text(key) for key in _TEXTS}
    head |= {key: _positive(data, key) for key in ("l2_bytes", "set_bytes")}
    found = Movements(**head, rows=tuple(_row(row) for row in data.objects("rows")))
    checksum = data.text("checksum")
    data.finish()
    if checksum != _checksum(data.content):
        data.fail("the checksum does not fit the content: the file was damaged or edited. Restore it, or measure anew")
    return found


def _row(data: JsonReader) -> Moved:
    given: dict[str, Any] = {key: data.text(key) for key in ("name", "written", "dtype")}
    given |= {key: data.texts(key) for key in ("shapes", "operators")}
    given |= {key: data.number(key) for key in _NUMBERS}
    row = Moved(**given)
    data.finish()
    if min(getattr(row, key) for key in _NUMBERS) < 0 or not row.counted:
        data.fail(f"{data.place} has a negative number of bytes, or counts none")
    return row


def _positive(data: JsonReader, key: str) -> float:
    value = data.number(key)
    return value if value > 0 else data.fail(f"{key} is {value}; expected a number above zero")


def _line_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _checksum(content: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return digest(json.dumps(rest, sort_keys=True))
