"""`peaks.json`: what `brrr calibrate` measured on a device, beside the recordings made on it."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from brrr.core.errors import ArgumentError, RecordingError
from brrr.core.files import json_text, read_json, read_object, typed, write_atomically
from brrr.core.paths import FILE, recorded_devices, recordings_root
from brrr.roofline.peaks.peaks import RESOLUTION, Peaks

# The history of the format, newest last.
#   1  an object inside machine.json: device, software and date; measured and assumed figures; measured curves; notes.
#   2  sweeps: a row is a line of text, its values and its nanoseconds with blanks between; "-" is the empty text.
#   3  a file of its own, `peaks.json`. A curve's point is [place, figure]; a sweep has lists of rows and of seconds.
FORMAT = 3
PEAKS = "peaks.json"


def write(folder: Path, peaks: Peaks) -> Path:
    """Write the peaks into a device's folder, whole or not at all; returns the file's path."""
    write_atomically(folder / PEAKS, json_text(FORMAT, asdict(peaks)))
    return folder / PEAKS


def read_peaks(folder: Path | str) -> Peaks:
    """The peaks of a device's folder of recordings; RecordingError if the file is damaged, or there is none."""
    found = find_peaks(folder)
    if found is None:
        raise RecordingError(f"{Path(folder) / PEAKS}: there are no peaks. {RESOLUTION}")
    return found


def find_peaks(folder: Path | str) -> Peaks | None:
    """As `read_peaks`, but None where there are none; a file is read once, and anew when it has changed."""
    there = [Path(folder) / name for name in (PEAKS, FILE) if (Path(folder) / name).is_file()]
    if not there:
        return None
    found = there[0].stat()
    return _read(there[0], found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, modified_ns: int, size: int) -> Peaks | None:
    """The arguments behind the first tell one state of the file from another."""
    return read_json(path, Peaks, FORMAT) if path.name == PEAKS else within(path)


def within(machine: Path) -> Peaks | None:
    """The peaks inside a `machine.json`, as its formats 1 to 3 had them; None where it holds none."""
    content = read_object(machine).get("peaks", {})
    if "format" not in content:  # empty, or a few bare numbers
        return None
    try:
        points = {name: [_point(**each) for each in curve["points"]] for name, curve in content["curves"].items()}
        curves = {name: {**curve, "points": points[name]} for name, curve in content["curves"].items()}
        sweeps = {name: _sweep(**sweep) for name, sweep in content.get("sweeps", {}).items()}
        rest = {key: content[key] for key in content if key != "format"}
        return typed(Peaks, {**rest, "curves": curves, "sweeps": sweeps}, "peaks")  # type: ignore[no-any-return]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RecordingError(f"{machine}: its peaks cannot be read: {error}") from None


def _point(at: float, **figure: Any) -> tuple[float, dict[str, Any]]:
    return at, figure


def _sweep(columns: list[str], conditions: Any, rows: list[str]) -> dict[str, Any]:
    cells = [row.split(" ") for row in rows]
    values = [[int(cell) if cell.isdecimal() else "" if cell == "-" else cell for cell in row[:-1]] for row in cells]
    seconds = [int(row[-1]) / 1e9 for row in cells]
    return {"columns": columns, "conditions": conditions, "rows": values, "seconds": seconds}


def recorded_peaks(device: str = "h200", root: Path | str | None = None) -> Peaks:
    """The peaks that were recorded for a device, by the short name of its folder.

    `root` is the folder of all recordings (default: the course's own, or `BRRR_RECORDINGS`). ArgumentError for a
    device without recordings, RecordingError for one whose recordings hold no peaks.
    """
    root = Path(root) if root is not None else recordings_root()
    there = recorded_devices(root)
    if device not in there:
        raise ArgumentError("recorded_peaks", "device", device, f"one of {', '.join(there) or 'none'}", RESOLUTION)
    return read_peaks(root / device)


def slug_of(peaks: Peaks) -> str:
    """The name of the device's folder of recordings."""
    from brrr.gpu.device import slug

    return "cpu" if peaks.kind == "cpu" else slug(peaks.device)
