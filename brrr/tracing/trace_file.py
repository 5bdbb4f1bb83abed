"""The events of a trace that torch's profiler saved: Chrome's JSON, also gzipped, read piece by piece.

>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "trace.json"
>>> event = {"ph": "X", "cat": "cpu_op", "name": "aten::relu", "ts": 10.5, "dur": 2.0, "pid": 1, "tid": 1, "args": {}}
>>> _ = path.write_text(json.dumps({"traceEvents": [event]}))
>>> [(each.name, each.start_ns, each.end_ns) for each in read_trace(path).events]
[('aten::relu', 10500, 12500)]

A file of 500 MB holds some two million events, of which no more are read; it is never in memory as a whole, and equal
descriptions of inputs are kept once. Times in the file are microseconds, here whole nanoseconds.
"""

import codecs
import contextlib
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brrr.core.errors import BrrrError
from brrr.core.files import open_regular
from brrr.tracing.events import Event, Inputs, Sort, work_sort

CHUNK = 1 << 20
LARGEST = 1 << 23
"""Characters that no single event has: a file in which this many make none is damaged."""
MOST_EVENTS, DEEPEST = 2_000_000, 1000
"""Events that are read of a file, and the most around one of them: Python calls itself no deeper."""
MOST_SIZES, LARGEST_NUMBER, MOST_OTHERS, LONGEST_NAME = 64, 1 << 63, 1000, 200
"""Of a tensor, of anything, of entries that are no events, and of a device's name: CUDA gives it 256 characters."""
RATIO, FREE = 100, 1 << 24
"""How many times its size a trace has unzipped, beyond some bytes: a tenth of that is usual."""
LATEST_US, LONGEST_US = 1e17, 1e12
"""Times of year 5000, and lengths of days, are of no clock."""
HEAD = re.compile(r'^\s*\[|"traceEvents"\s*:\s*\[')
BLANK = re.compile(r"[\s,]*")


class TraceFileError(BrrrError, ValueError):
    """A file that is no trace of torch's profiler; the message says what was found and what was expected."""


@dataclass(frozen=True)
class Trace:
    """What a file holds: events by their starts, the names of the devices by number, and what is wrong with it."""

    events: tuple[Event, ...]
    devices: Mapping[int, str]
    problems: tuple[str, ...] = ()


def read_trace(path: Path | str) -> Trace:
    """The events of a saved trace, as `torch.profiler.profile.export_chrome_trace` writes it, also gzipped.

    A file that ends early is read as far as it goes, and `problems` says so. TraceFileError for a file that cannot be
    read, and for one that is no trace.
    """
    path = Path(path)
    header: dict[str, Any] = {}
    found: list[Event] = []
    problems: list[str] = []
    kept: dict[str, Inputs] = {}
    wrong = 0
    try:
        for event in _objects(filter(None, _pieces(path)), header, problems):
            try:
                made = _event(event, kept)
            except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
                wrong += 1
                continue
            if made is not None:
                found.append(made)
            if len(found) == MOST_EVENTS:
                problems.append(f"it has more than {MOST_EVENTS} events, and the others are left out")
                break
    except TraceFileError as error:
        raise TraceFileError(f"{path}: {error}") from None
    except (OSError, zlib.error) as error:
        if not found:
            raise TraceFileError(f"{path}: cannot be read: {error}") from error
        problems.append(f"the file is damaged behind {len(found)} events: {error}")
    if not found:
        raise TraceFileError(f"{path}: holds no events of torch's profiler; expected what export_chrome_trace() writes")
    if wrong:
        problems.append(f"{wrong} of its {wrong + len(found)} events have a time, or a number, that none can have")
    found.sort(key=lambda each: (each.start_ns, -each.end_ns))
    if (depth := _depth(found)) > DEEPEST:
        raise TraceFileError(f"{path}: {depth} of its events lie around one; expected {DEEPEST} at most: it is damaged")
    devices = {}
    for number, each in enumerate(_listed(header.get("deviceProperties"))):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            devices[_number(each.get("id", number))] = _printable(str(each.get("name", ""))[:LONGEST_NAME])
    return Trace(tuple(found), devices, (*problems, *broken(found)))


def _listed(devices: Any) -> list[Mapping[str, Any]]:
    return [each for each in devices if isinstance(each, dict)] if isinstance(devices, list) else []


def _pieces(path: Path) -> Iterator[str]:
    """The file's text piece by piece, unzipped; of a zipped file that ends early, what can be unzipped."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    with open_regular(path) as file:
        zipped, read, made = file.read(2) == b"\x1f\x8b", 0, 0
        file.seek(0)
        unzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
        while data := file.read(CHUNK):
            read += len(data)
            while data:
                piece, data = (unzip.decompress(data, CHUNK), unzip.unconsumed_tail) if zipped else (data, b"")
                made += len(piece)
                if made > FREE + RATIO * read:
                    raise TraceFileError(f"unzipped it has {RATIO} times its size and more: it is no trace")
                yield decode(piece)
                if unzip.eof:  # several files zipped one behind another
                    data, unzip = unzip.unused_data, zlib.decompressobj(zlib.MAX_WBITS | 16)
        yield decode(unzip.flush())


def _objects(pieces: Iterator[str], header: dict[str, Any], problems: list[str]) -> Iterator[Mapping[str, Any]]:
    """The objects of the array `traceEvents`, or of a file that is such an array, one after another."""
    decode = json.JSONDecoder(strict=False).raw_decode
    text = next(pieces, "")
    while not HEAD.search(text) and len(text) < LARGEST and (added := next(pieces, "")):
        text += added
    at = _array(text, header)
    count, others, more = 0, 0, True
    while True:
        at = BLANK.match(text, at).end()  # type: ignore[union-attr]
        if at < len(text) and text[at] == "]":
            return
        try:
            event, at = decode(text, at)
        except json.JSONDecodeError:
            if len(text) - at > LARGEST or not more:
                problems.append(f"the file ends early, or is damaged, behind {count} events")
                return
            added = next(pieces, "")
            text, at, more = text[at:] + added, 0, bool(added)
            continue
        except (RecursionError, ValueError):
            said = f"what stands behind {count} events is nested too deeply, or a number of too many digits"
            raise TraceFileError(f"{said}: it is damaged") from None
        count += 1
        if isinstance(event, dict) and "ph" in event:
            yield event
        elif (others := others + 1) > MOST_OTHERS:
            problems.append(f"the file is damaged behind {count - others} events: {others} entries are none")
            return


def _array(text: str, header: dict[str, Any]) -> int:
    """Where the events begin; what stands before them goes into `header`."""
    if text.lstrip()[:1] == "[":
        return text.index("[") + 1
    key = text.find('"traceEvents"')
    start = text.find("[", key)
    if key < 0 or start < 0:
        raise TraceFileError('no "traceEvents" at the beginning of the file: it is no trace of torch\'s profiler')
    with contextlib.suppress(ValueError, RecursionError):  # nothing but the device's name is lost
        header.update(json.loads(text[:start] + "[]}", strict=False))
    return start + 1


_HOST: Mapping[str, Sort] = {
    "cpu_op": "operator", "operator": "operator", "cuda_runtime": "runtime", "cuda_driver": "runtime",
    "user_annotation": "annotation", "overhead": "other",
}  # fmt: skip
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_NUMBERS = ("device", "stream", "correlation", "bytes")


def _event(raw: Mapping[str, Any], kept: dict[str, Inputs]) -> Event | None:
    """What the analysis needs of an event; None for flows, metadata and Python's own functions.

    What is damaged ends in a KeyError, a TypeError, a ValueError and so on.
    """
    category = str(raw.get("cat", "")).lower()
    on_device = category in _DEVICE
    if raw.get("ph") != "X" or not (on_device or category in _HOST):
        return None
    start_us, length_us = float(raw["ts"]), float(raw.get("dur") or 0.0)
    if not (abs(start_us) <= LATEST_US and 0 <= length_us <= LONGEST_US):
        raise ValueError
    start, args, name = round(start_us * 1000), raw.get("args") or {}, _printable(str(raw.get("name", "")))
    end = start + round(length_us * 1000)
    if on_device:
        where, stream, correlation, nbytes = (_number(args.get(key, 0)) for key in _NUMBERS)
        if len(grid := args.get("grid") or (0,)) > 3:
            raise ValueError
        kind, blocks = work_sort(name), math.prod(map(_number, grid))
        return Event(name, kind, start, end, 0, where, stream, correlation, 0, blocks, nbytes)
    thread, correlation = _whole(raw.get("tid")), _number(args.get("correlation", 0))
    return Event(name, _HOST[category], start, end, thread, correlation=correlation, inputs=_inputs(args, kept))


def _depth(events: Sequence[Event]) -> int:
    """The most events of one thread of the host that lie around each other; events by their starts."""
    stacks: dict[int, list[int]] = {}
    deepest = 0
    for each in events:
        stack = stacks.setdefault(each.thread, []) if not each.on_device else []
        while stack and stack[-1] <= each.start_ns:
            stack.pop()
        stack.append(each.end_ns)
        deepest = max(deepest, len(stack))
    return deepest


def _inputs(args: Mapping[str, Any], kept: dict[str, Inputs]) -> Inputs | None:
    if "Input Dims" not in args:
        return None
    sizes = args["Input Dims"]
    strides = args.get("Input Strides", [_dense(size) for size in sizes])  # older traces have none
    blank = [""] * len(sizes)
    parts = [sizes, strides, args.get("Input type", blank), args.get("Concrete Inputs", blank)]
    if len({len(part) for part in parts}) > 1:
        return None
    key = repr(parts)
    if key not in kept:
        kept[key] = Inputs(*map(_frozen, parts))
    return kept[key]


def _dense(size: Any) -> list[Any]:
    """Strides of a contiguous tensor of a size; of a list of tensors, each one's. ValueError for what is no size."""
    if any(isinstance(each, list) for each in size):
        return [_dense(each) for each in size]
    if len(size) > MOST_SIZES:
        raise ValueError
    size = [*map(_number, size)]
    steps = [1]
    for each in reversed(size[1:]):
        steps.append(steps[-1] * each)
    return steps[::-1] if size else []


def _frozen(part: Any) -> Any:
    """Lists as tuples, so that equal inputs are found again."""
    if isinstance(part, str):
        return _printable(part)
    return tuple(map(_frozen, part)) if isinstance(part, list | tuple) else part


def _number(value: Any) -> int:
    """A whole number that some counter can hold; ValueError for any other."""
    if abs(number := int(value)) > LARGEST_NUMBER:
        raise ValueError
    return number


def _printable(text: str) -> str:
    """The text with what would move a terminal's cursor, or turn its lines around, as Python writes it."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _whole(number: Any) -> int:
    """A thread's number; some writers name threads by text."""
    return number if isinstance(number, int) else hash(str(number))


# ---------------------------------------------------------------------------------------------------------------------
# What makes a trace useless for idle times: a device's events that are missing, or on another clock.

MISSING, EARLY = 0.2, 0.05
"""Shares from which on: of launches without work or work without a launch; of work that begins before its launch."""
LAUNCHES = ("LaunchKernel", "cuLaunch", "GraphLaunch", "MemcpyAsync", "MemsetAsync")


def broken(events: list[Event]) -> list[str]:
    """Why idle times of this trace would be wrong; nothing where it looks whole."""
    work = [each for each in events if each.on_device]
    launched = {each.correlation: each for each in events if each.sort == "runtime" and _launches(each.name)}
    if not launched:
        return ["it holds the device's work, but no launches of the host"] if work else []
    if not work:
        return [f"{len(launched)} launches, and none of the device's work: the profiler lost it"]
    reached = {each.correlation for each in work}
    lasting = [number for number, each in launched.items() if "Memset" not in each.name]  # one of no bytes does nothing
    lost = sum(number not in reached for number in lasting) / max(1, len(lasting))
    orphans = sum(each.correlation not in launched for each in work) / len(work)
    joined = [each for each in work if each.correlation in launched]
    early = sum(each.start_ns < launched[each.correlation].start_ns for each in joined)
    said = []
    if lost > MISSING:
        said.append(f"{lost:.0%} of the launches have no work on the device: the profiler lost some of it")
    if orphans > MISSING:
        said.append(f"{orphans:.0%} of the device's work has no launch: the host's part is incomplete")
    if joined and early / len(joined) > EARLY:
        said.append(f"{early / len(joined):.0%} of the device's work begins before its launch: the clocks disagree")
    return said


def _launches(name: str) -> bool:
    return any(each in name for each in LAUNCHES)
