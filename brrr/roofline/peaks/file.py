"""The `peaks` object of a recording's `machine.json`: written whole, and read key by key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from brrr.core.errors import ArgumentError, RecordingError
from brrr.core.files import JsonReader, read_object
from brrr.core.paths import FILE, recorded_devices, recordings_root
from brrr.roofline.peaks.peak import LIMITS, Curve, Kind, Peak, Sweep
from brrr.roofline.peaks.peaks import RESOLUTION, Peaks

# The history of the object, newest last; machine.json has a version of its own.
#   1  first format: device, software and date; measured and assumed figures; measured curves; notes.
#   2  sweeps: a row is a line of text, its values and its nanoseconds with blanks between; "-" is the empty text.
FORMAT = 2
EMPTY = "-"
TEXTS = ("device", "date", "brrr", "driver", "cuda", "torch")
T = TypeVar("T")


def to_object(peaks: Peaks) -> dict[str, Any]:
    """The peaks as what JSON can hold; `from_object` reads it."""
    return {
        "format": FORMAT,
        "kind": peaks.kind,
        **{name: getattr(peaks, name) for name in TEXTS},
        "measured": {name: _figure(peak) for name, peak in peaks.measured.items()},
        "curves": {name: _curve(curve) for name, curve in peaks.curves.items()},
        "assumed": {name: _figure(peak) for name, peak in peaks.assumed.items()},
        "sweeps": {name: _sweep(sweep) for name, sweep in peaks.sweeps.items()},
        "notes": list(peaks.notes),
    }


def _sweep(sweep: Sweep) -> dict[str, Any]:
    rows = [
        " ".join([*(str(value) or EMPTY for value in row), f"{time_s * 1e9:.0f}"])
        for row, time_s in zip(sweep.rows, sweep.seconds, strict=True)
    ]
    return {"columns": list(sweep.columns), "conditions": dict(sweep.conditions), "rows": rows}


def _figure(peak: Peak) -> dict[str, Any]:
    return {
        "value": peak.value,
        "low": peak.low,
        "high": peak.high,
        "unit": peak.unit,
        "kind": peak.kind,
        "conditions": dict(peak.conditions),
    }


def _curve(curve: Curve) -> dict[str, Any]:
    points = [{"at": place, **_figure(peak)} for place, peak in curve.points]
    return {"axis": curve.axis, "conditions": dict(curve.conditions), "points": points}


def from_object(data: JsonReader) -> Peaks:
    """The peaks from their JSON object; RecordingError names the file, the field and what is wrong with it."""
    version = data.integer("format")
    if not 1 <= version <= FORMAT:
        data.fail(f"{data.place}.format is {version}; this brrr reads 1 to {FORMAT}: update brrr (pip install -U brrr)")
    texts = {name: data.text(name) for name in TEXTS}
    measured, assumed = data.object("measured"), data.object("assumed")
    peaks = Peaks(
        **texts,
        kind=_device_kind(data),
        measured=measured.mapping(_reads(lambda each: _read_figure(each, "measured"))),
        curves=data.object("curves").mapping(_reads(_read_curve)),
        assumed=assumed.mapping(_reads(lambda each: _read_figure(each, "assumed"))),
        sweeps=data.object("sweeps").mapping(_reads(_read_sweep)) if version > 1 else {},
        notes=data.texts("notes"),
    )
    data.finish()
    return peaks


def _read_sweep(data: JsonReader) -> Sweep:
    columns, conditions = data.texts("columns"), data.point("conditions")
    rows, seconds = [], []
    for place, line in enumerate(data.texts("rows")):
        *values, nanoseconds = line.split(" ")
        if len(values) != len(columns) or not nanoseconds.isdecimal():
            data.fail(f"{data.place}.rows[{place}] is {line!r}; expected {', '.join(columns)} and nanoseconds")
        rows.append(tuple(_value(value) for value in values))
        seconds.append(int(nanoseconds) / 1e9)
    data.finish()
    try:
        return Sweep(columns, tuple(rows), tuple(seconds), conditions)
    except ArgumentError as error:
        data.fail(f"{data.place}.{error.argument}: {error.value!r}; expected {error.expected}")


def _value(text: str) -> int | str:
    return int(text) if text.isdecimal() else "" if text == EMPTY else text


def _device_kind(data: JsonReader) -> Literal["cuda", "cpu"]:
    kind = data.text("kind")
    if kind not in ("cuda", "cpu"):
        data.fail(f"{data.place}.kind is {kind!r}; expected cuda or cpu")
    return "cuda" if kind == "cuda" else "cpu"


def _reads(read: Callable[[JsonReader], T]) -> Callable[[JsonReader, str], T]:
    return lambda data, key: read(data.object(key))


def _read_figure(data: JsonReader, kind: Kind, *others: str) -> Peak:
    """A figure of this kind: one of another kind is refused, so that no file can mix them."""
    value, low, high = (data.number(name) for name in ("value", "low", "high"))
    unit, said, conditions = data.text("unit"), data.text("kind"), data.point("conditions")
    data.ignore(*others)
    data.finish()
    if said != kind:
        data.fail(f"{data.place}.kind is {said!r}; expected {kind!r}")
    if unit not in LIMITS:
        data.fail(f"{data.place}.unit is {unit!r}; expected one of {', '.join(LIMITS)}")
    try:
        return Peak(value, low, high, unit, kind, conditions)  # type: ignore[arg-type]
    except ArgumentError as error:
        data.fail(
            f"{data.place}.{error.argument} is {error.value!r}; expected {error.expected}: is it in another unit?"
        )


def _read_curve(data: JsonReader) -> Curve:
    axis, conditions = data.text("axis"), data.point("conditions")
    points = tuple((each.number("at"), _read_figure(each, "measured", "at")) for each in data.objects("points"))
    data.finish()
    try:
        return Curve(axis, points, conditions)
    except ArgumentError as error:
        data.fail(f"{data.place}.points: {error.value!r}; expected {error.expected}")


def read_peaks(folder: Path | str) -> Peaks:
    """The peaks in the `machine.json` of a device's folder of recordings.

    RecordingError if the file is damaged, or holds no peaks.
    """
    path = Path(folder) / FILE
    if not has_peaks(path.parent):
        raise RecordingError(f"{path}: holds no peaks. {RESOLUTION}")
    return from_object(read_object(path).object("peaks"))


def has_peaks(folder: Path) -> bool:
    """Whether the `machine.json` of a folder of recordings holds measured peaks."""
    return "format" in read_object(folder / FILE).object("peaks").content


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
