"""The compact file of a timeline: JSON with a table of names and columns of whole numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, get_args

from brrr.core.errors import ArgumentError, RecordingError
from brrr.core.files import JsonReader, digest, read_object, require_writable, write_atomically
from brrr.core.values import DeviceKind
from brrr.tracing.spans import HOST_LANES, KINDS, Kind, Span
from brrr.tracing.timeline import Timeline

# The file format's history, newest last. A reader reads its own version and all before it; a change of any key makes
# a new version.
#   1  first format: tables of lanes, kinds and names; for each span a number in the columns `lane`, `sort`, `name`,
#      `start_ns` (the difference to the span before), `length_ns`, `call` and `cause`.
FORMAT = 1

LIMIT_BYTES = 200_000
LONGEST_S = 1e4
COLUMNS = ("lane", "sort", "name", "start_ns", "length_ns", "call", "cause")
TEXTS = ("device", "date", "torch")
PERIODS = ("period_s", "loop_period_s", "profiled_period_s")


def write(found: Timeline, path: Path) -> Path:
    """Write the file whole or not at all; calls that do not fit into 200 KB are left out, the last ones first.

    ArgumentError where not even one call fits, RecordingError where the folder cannot be written to.
    """
    text = text_of(found)
    while len(text.encode()) > LIMIT_BYTES:
        if found.calls == 1:
            raise ArgumentError(
                "Timeline.write", "timeline", f"{len(found.spans)} spans in one call",
                f"at most {LIMIT_BYTES // 1000} KB in the file", "Trace a part of the function",
            )  # fmt: skip
        fitting = int(found.calls * LIMIT_BYTES / len(text.encode()))
        found = found.shortened(max(1, min(fitting, found.calls - 1)))
        text = text_of(found)
    require_writable(path.parent)
    write_atomically(path, text)
    return path


def text_of(found: Timeline) -> str:
    """The file's text."""
    lanes, names = list(found.lanes), list(dict.fromkeys(span.name for span in found.spans))
    number = {name: place for place, name in enumerate(names)}
    starts = [0, *(span.start_ns for span in found.spans)]
    columns: Mapping[str, list[int]] = {
        "lane": [lanes.index(span.lane) for span in found.spans],
        "sort": [KINDS.index(span.kind) for span in found.spans],
        "name": [number[span.name] for span in found.spans],
        "start_ns": [after - before for before, after in pairwise(starts)],
        "length_ns": [span.end_ns - span.start_ns for span in found.spans],
        "call": [span.call for span in found.spans],
        "cause": [span.cause for span in found.spans],
    }
    head = {"format": FORMAT, "what": "timeline", "kind": found.kind, "calls": found.calls}
    texts = {key: getattr(found, key) for key in (*TEXTS, *PERIODS)}
    content = {**head, **texts, "lanes": lanes, "kinds": list(KINDS), "names": names, **columns}
    content["checksum"] = _checksum(content)
    lines = (f" {json.dumps(key)}: {_packed(value)}" for key, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _packed(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _checksum(content: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return digest(json.dumps(rest, sort_keys=True))


def read(path: Path) -> Timeline:
    """Read and validate; RecordingError names the file and the field of what is wrong."""
    if not path.is_file():
        raise RecordingError(f"{path}: is missing; `brrr record` writes the timelines of an experiment")
    data = read_object(path)
    version = data.integer("format")
    if not 1 <= version <= FORMAT:
        newer = ", newer than this brrr reads: update it (pip install -U brrr)" if version > FORMAT else ""
        data.fail(f"format is {version}; expected 1 to {FORMAT}{newer}")
    if data.text("what") != "timeline":
        data.fail(f"what is {data.content['what']!r}; expected 'timeline'")
    device, date, torch = (data.text(key) for key in TEXTS)
    period_s, loop_period_s, profiled_period_s = (_period(data, key) for key in PERIODS)
    kind, calls = _kind(data), data.integer("calls")
    if calls < 1:
        data.fail(f"calls is {calls}; expected at least 1")
    spans = _spans(data, calls)
    checksum = data.text("checksum")
    data.finish()
    if checksum != _checksum(data.content):
        data.fail("the checksum does not fit the content: the file was damaged or edited. Restore it, or record anew")
    return Timeline(
        spans, kind, device, date, torch, calls, period_s, loop_period_s, profiled_period_s, badge_kind="RECORDED"
    )


def _kind(data: JsonReader) -> DeviceKind:
    found = data.text("kind")
    kinds: tuple[DeviceKind, ...] = get_args(DeviceKind)
    kind = next((known for known in kinds if known == found), None)
    return kind or data.fail(f"kind is {found!r}; expected one of {', '.join(kinds)}")


def _period(data: JsonReader, key: str) -> float:
    found = data.number(key)
    if not 0 < found <= LONGEST_S:
        data.fail(f"{key} is {found!r}; expected a time above 0 and up to {LONGEST_S:g} seconds")
    return float(found)


def _spans(data: JsonReader, calls: int) -> tuple[Span, ...]:
    lanes, names = data.texts("lanes"), data.texts("names")
    kinds = tuple(_known_kind(data, kind) for kind in data.texts("kinds"))
    columns = {key: data.integers(key) for key in COLUMNS}
    count = len(columns["lane"])
    for key, column in columns.items():
        if len(column) != count:
            data.fail(f"{key} has {len(column)} entries; expected {count}, as lane has")
    for key, most in (("lane", len(lanes)), ("sort", len(kinds)), ("name", len(names))):
        _require(data, key, columns[key], lambda value, most=most: 0 <= value < most, f"0 to {most - 1}")  # type: ignore[misc]
    for key in ("start_ns", "length_ns"):
        _require(data, key, columns[key], lambda value: value >= 0, "0 or more nanoseconds")
    _require(data, "call", columns["call"], lambda value: -1 <= value < calls, f"-1 to {calls - 1}")
    _require(data, "cause", columns["cause"], lambda value: -1 <= value < count, f"-1 to {count - 1}")
    spans = tuple(
        Span(lanes[lane], kinds[sort], names[name], start, start + long, call, cause)
        for lane, sort, name, start, long, call, cause in zip(
            columns["lane"], columns["sort"], columns["name"], accumulate(columns["start_ns"]),
            columns["length_ns"], columns["call"], columns["cause"], strict=True,
        )
    )  # fmt: skip
    for place, span in enumerate(spans):
        if span.cause >= 0 and (not span.on_device or spans[span.cause].lane not in HOST_LANES):
            data.fail(f"cause[{place}] is {span.cause}; expected -1, or the place of a host's span for a device's")
    return spans


def _known_kind(data: JsonReader, kind: str) -> Kind:
    found = next((known for known in KINDS if known == kind), None)
    return found or data.fail(f"kinds holds {kind!r}; expected some of {', '.join(KINDS)}")


def _require(data: JsonReader, key: str, column: Sequence[int], fits: Callable[[int], bool], expected: str) -> None:
    for place, value in enumerate(column):
        if not fits(value):
            data.fail(f"{key}[{place}] is {value}; expected {expected}")
