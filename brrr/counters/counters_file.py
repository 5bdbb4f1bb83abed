"""`counters.json`, beside a device's recordings: what its operators moved, with a checksum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from brrr.counters.moved import Moved, Movements
from brrr.recordings.atomic import require_writable, write_atomically
from brrr.recordings.json_reader import JsonReader, read_object
from brrr.recordings.machine import digest

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
    rows = ",\n  ".join(_line(asdict(row)) for row in found.rows)
    lines = [f" {json.dumps(key)}: {_line(value)}," for key, value in head.items()]
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


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _checksum(content: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return digest(json.dumps(rest, sort_keys=True))
