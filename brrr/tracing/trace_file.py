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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brrr.core.errors import BrrrError
from brrr.core.files import open_regular
from brrr.core.intervals import length, union
from brrr.core.shown import printable
from brrr.tracing.events import Event, Inputs, Sort, work_sort
from brrr.tracing.lines import LINE, is_users

CHUNK = 1 << 20
LARGEST, HEADER = 1 << 23, 1 << 26
"""Characters that no single event has, and that do not stand in front of all events: more of them make no trace."""
MOST_EVENTS, DEEPEST = 2_000_000, 1000
"""Events that are read of a file, and the most around one of them: Python calls itself no deeper."""
MOST_SIZES, LARGEST_NUMBER, MOST_OTHERS, MOST_KINDS, LONGEST_NAME = 64, 1 << 63, 1000, 8, 200
"""Of a tensor, of anything, of entries that are no events, of categories that are told, and of a device's name: CUDA
gives it 256 characters."""
RATIO, FREE = 100, 1 << 24
"""How many times its size a trace has unzipped, beyond some bytes: a tenth of that is usual."""
LATEST_US, LONGEST_US = 1e17, 1e11
"""Times of year 5000, and lengths of more than a day, are of no clock."""
LONG_NS, TIMES = 10**9, 100
"""What the device does at once may take so long, or so many times what most of the trace takes."""
HEAD = re.compile(r'^\s*\[|"traceEvents"\s*:\s*\[')
BOARDS = re.compile(r'"deviceProperties"\s*:\s*(?=\[)')
BLANK = re.compile(r"[\s,]*")
BOMS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""Encodings by the marks that some tools write in front of a text; that of UTF-8 is skipped."""


class TraceFileError(BrrrError, ValueError):
    """A file that is no trace of torch's profiler; the message says what was found and what was expected."""


@dataclass(frozen=True)
class Board:
    """A device as the trace describes it; 0 for what it does not tell."""

    name: str
    memory_bytes: int = 0
    sm_count: int = 0


@dataclass(frozen=True)
class Trace:
    """What a file holds: events by their starts, the devices by number, and what is wrong with it.

    unread: categories that show an accelerator, other than CUDA's, whose work may be of kinds that are not read.
    """

    events: tuple[Event, ...]
    devices: Mapping[int, Board]
    problems: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def read_trace(path: Path | str) -> Trace:
    """The events of a saved trace, as `torch.profiler.profile.export_chrome_trace` writes it, also gzipped.

    A file that ends early is read as far as it goes, and `problems` says so. TraceFileError for a file that cannot be
    read, and for one that is no trace.
    """
    path = Path(path)
    boards: list[Any] = []
    found: list[Event] = []
    problems: list[str] = []
    kept: dict[str, Inputs] = {}
    unread: dict[str, None] = {}
    wrong = 0
    try:
        for event in _objects(filter(None, _pieces(path)), boards, problems):
            try:
                made = _event(event, kept, unread)
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
    if all(each.name.startswith(LINE) for each in found):
        raise TraceFileError(f"{path}: holds no events of torch's profiler; expected what export_chrome_trace() writes")
    found.sort(key=lambda each: (each.start_ns, -each.end_ns))
    read, found = len(found) + wrong, _possible(found)
    if wrong := read - len(found):
        problems.append(f"{wrong} of its {read} events have a time, or a number, that none can have")
    if (depth := _depth(found)) > DEEPEST:
        raise TraceFileError(f"{path}: {depth} of its events lie around one; expected {DEEPEST} at most: it is damaged")
    devices = {}
    for number, each in enumerate(each for each in boards if isinstance(each, dict)):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            sizes = (_number(each.get(key) or 0) for key in ("totalGlobalMem", "numSms"))
            name = printable(str(each.get("name", ""))[:LONGEST_NAME])
            devices[_number(each.get("id", number))] = Board(name, *sizes)
    if unread and not any(each.on_device for each in found):
        problems.append(f"its accelerator's work is of kinds that are not read here: {', '.join(unread)}")
    return Trace(tuple(found), devices, (*problems, *broken(found)), tuple(unread))


def _possible(events: list[Event]) -> list[Event]:
    """The events, by their starts, without those that lie a day from the others, and work that never ended.

    CUPTI writes lengths of hours and centuries for work whose end it missed. The host waits for what really takes long.
    """
    starts = [each.start_ns for each in events] or [0]
    middle, most = starts[len(starts) // 2], starts[len(starts) * 19 // 20] - starts[len(starts) // 20]
    waited = max((each.end_ns - each.start_ns for each in events if each.sort in ("operator", "runtime")), default=0)
    day, longest = LONGEST_US * 1000, max(LONG_NS, TIMES * most, 2 * waited)

    def possible(each: Event) -> bool:
        return abs(each.start_ns - middle) < day and not (each.on_device and each.end_ns - each.start_ns > longest)

    return [each for each in events if possible(each)]


def _pieces(path: Path) -> Iterator[str]:
    """The file's text piece by piece, unzipped; of a zipped file that ends early, what can be unzipped."""
    decode: Callable[[bytes], str] | None = None
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
                if decode is None:
                    decode = codecs.getincrementaldecoder(BOMS.get(piece[:2], "utf-8-sig"))("replace").decode
                yield decode(piece)
                if unzip.eof:  # several files zipped one behind another
                    data, unzip = unzip.unused_data, zlib.decompressobj(zlib.MAX_WBITS | 16)
        if decode is not None:
            yield decode(unzip.flush())


def _objects(pieces: Iterator[str], boards: list[Any], problems: list[str]) -> Iterator[Mapping[str, Any]]:
    """The objects of the array `traceEvents`, or of a file that is such an array, one after another.

    The devices that are described in front of it, or behind, go into `boards`.
    """
    decode, seen = json.JSONDecoder(strict=False).raw_decode, 0
    text = next(pieces, "")
    while not (head := HEAD.search(text, max(0, seen - CHUNK))) and len(text) < HEADER and (added := next(pieces, "")):
        text, seen = text + added, len(text)
    if head is None:
        raise TraceFileError('no "traceEvents" at the beginning of the file: it is no trace of torch\'s profiler')
    _described(text[: head.end()], boards)
    text, at = text[head.end() :], 0
    count, others, more = 0, 0, True
    while True:
        at = BLANK.match(text, at).end()  # type: ignore[union-attr]
        if at < len(text) and text[at] == "]":
            text = text[at:]
            while len(text) < HEADER and (added := next(pieces, "")):
                text += added
            _described(text, boards)
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


def _described(text: str, boards: list[Any]) -> None:
    """The devices that a part of the file describes; where that is damaged, nothing but their names is lost."""
    if found := BOARDS.search(text):
        with contextlib.suppress(ValueError, RecursionError):
            boards += json.JSONDecoder(strict=False).raw_decode(text, found.end())[0]


_HOST: Mapping[str, Sort] = {
    "cpu_op": "operator", "operator": "operator", "runtime": "runtime", "driver": "runtime",
    "hpu_op": "runtime", "user_annotation": "annotation", "overhead": "other",
}  # fmt: skip
_DEVICE = ("kernel", "memcpy", "memset", "mtia_ccp_events")
"""Categories, whole or behind their last underscore: each accelerator, and each version of torch, has its own."""
_MARKS = ("ProfilerStep#", "Optimizer.", "enumerate(DataLoader)", LINE)
"""How spans of torch's own begin, which are operators in traces of torch 1.8 to 1.12; and the tracer's quick ones."""
_FRAME = re.compile(r"(.+)\((\d+)\): (.+)")
"""A function of Python's as the profiler names it: its file, its first line, its name."""
_DRAWN = ("annotation", "sync", "event", "range")
"""What is drawn on a device, and is no work of it."""
LINK = "External id"
"""What an operator has in common with all that the device did in it."""
_NUMBERS = ("device", "stream", "correlation", LINK, "bytes")


def _event(raw: Mapping[str, Any], kept: dict[str, Inputs], unread: dict[str, None]) -> Event | None:
    """What the analysis needs of an event; None for flows, metadata and Python's functions, unless they are the user's.

    What is damaged ends in a KeyError, a TypeError, a ValueError and so on.
    """
    category, args = str(raw.get("cat", "")).lower(), raw.get("args") or {}
    last = category.rpartition("_")[2]
    sort, on_device = _HOST.get(category) or _HOST.get(last), category in _DEVICE or last in _DEVICE
    if raw.get("ph") != "X":
        return None
    if category == "python_function":  # of which there are the most
        frame = _FRAME.fullmatch(raw["name"])
        if frame is None or not is_users(frame[1]):
            return None
        raw, sort = {**raw, "name": f"{LINE}{frame[1]}:{frame[2]} {frame[3]}"}, "annotation"
    if sort in (None, "runtime") and not on_device and len(unread) < MOST_KINDS and _accelerated(category, args):
        unread[printable(category[:LONGEST_NAME]) or "without a category"] = None
    if not on_device and sort is None:
        return None
    start_us, length_us = float(raw["ts"]), float(raw.get("dur") or 0.0)
    if not (abs(start_us) <= LATEST_US and 0 <= length_us <= LONGEST_US):
        raise ValueError
    start, name = math.floor(start_us) * 1000 + round(start_us % 1 * 1000), printable(str(raw.get("name", "")))
    end = start + round(length_us * 1000)
    if on_device:
        mtia = category == "mtia_ccp_events"  # whose copies tell a direction, and whose waits and marks are no work
        if mtia and name.startswith("event_"):
            return None
        pid = raw.get("pid")  # in old traces it is the device
        args = {"device": pid if isinstance(pid, int) else 0, "stream": args.get("sycl queue", 0), **args}
        where, stream, correlation, linked, nbytes = (_number(args.get(key, 0)) for key in _NUMBERS)
        if len(grid := args.get("grid") or (0,)) > 3:
            raise ValueError
        kind = work_sort(f"Memcpy {args['direction']}" if mtia and "direction" in args else name, category)
        blocks = math.prod(map(_number, grid))
        return Event(name, kind, start, end, 0, where, stream, correlation, linked, blocks, nbytes)
    if sort == "operator" and (name.startswith(_MARKS) or (category == "operator" and _is_span(name))):
        sort = "annotation"
    thread, correlation = _whole(raw.get("tid")), _number(args.get(LINK if sort == "operator" else "correlation", 0))
    inputs, sequence = _inputs(args, kept), _number(args.get("Sequence number", -1))
    return Event(name, sort or "other", start, end, thread, 0, 0, correlation, inputs=inputs, sequence=sequence)


def _is_span(name: str) -> bool:
    """Whether an event of an old trace is a span that somebody named: operators have a library's name in front."""
    return "::" not in name and re.search(r"Backward\d*$", name) is None


def _accelerated(category: str, args: Any) -> bool:
    """Whether an event that is no work on a device shows that an accelerator other than CUDA's works."""
    if category.endswith(("runtime", "driver", "hpu_op")):
        return not category.startswith(("cuda", "runtime", "driver"))
    placed = isinstance(args, dict) and any(str(key).lower().startswith(("device", "stream")) for key in args)
    return placed and not any(each in category for each in _DRAWN)


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
    sizes = args.get("Input Dims", args.get("Input dims"))
    if sizes is None:
        return None
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
    if isinstance(part, str | dict):
        return printable(str(part))
    return tuple(map(_frozen, part)) if isinstance(part, list | tuple) else part


def _number(value: Any) -> int:
    """A whole number that some counter can hold; ValueError for any other."""
    if abs(number := int(value)) > LARGEST_NUMBER:
        raise ValueError
    return number


def _whole(number: Any) -> int:
    """A thread's number; some writers name threads by text."""
    return number if isinstance(number, int) else hash(str(number))


# ---------------------------------------------------------------------------------------------------------------------
# What makes a trace useless for idle times: a device's events that are missing, or on another clock.

MISSING, EARLY, RESTLESS = 0.2, 0.05, 0.5
"""Shares from which on: of launches without work or work without a launch; of work that begins before its launch; of
the time in which a device works that has a queue."""
LAUNCHES = re.compile(r"(?i)^(?!.*graph(?!launch)).*(?:launch(?!host)|memcpy|memset)")
"""Calls of CUDA, HIP, SYCL and so on that give the device work; those that build a graph do not."""


def launches(event: Event) -> bool:
    """Whether the host gives the device work in it."""
    return event.sort == "runtime" and LAUNCHES.search(event.name) is not None


def left_over(events: Sequence[Event], start_ns: float = -math.inf) -> list[Event]:
    """What the device still did from then on, of events by their starts, for launches from before, recorded or not.

    It lies in front of the first work of its stream that was launched since: behind that, a launch is lost. Nor does a
    device rest while it has launched work.
    """
    since = (each.correlation for each in events if each.sort == "runtime" and each.start_ns >= start_ns)
    launched = {*since} - {0}
    work = [each for each in events if each.on_device and each.end_ns > start_ns]
    firsts: dict[tuple[int, int], int] = {}
    for each in work:
        if each.correlation in launched:
            firsts.setdefault((each.device, each.stream), each.start_ns)
    begun, others = min(firsts.values(), default=0), [each for each in work if each.correlation not in launched]
    found = [each for each in others if each.start_ns < firsts.get((each.device, each.stream), begun)]
    worked = union(each.interval for each in found)
    return found if worked and length(worked) > RESTLESS * (worked[-1][1] - worked[0][0]) else []


def broken(events: list[Event]) -> list[str]:
    """Why idle times of this trace would be wrong; nothing where it looks whole."""
    work = [each for each in events if each.on_device]
    issued = {each.correlation: each for each in events if each.sort == "runtime" and each.correlation}
    joined = [each for each in work if each.correlation in issued]
    launched = {each.correlation: each.name for each in events if launches(each)}
    if not joined and work:
        return ["it holds the device's work, but no launches of the host"]
    if not work:
        return [f"{len(launched)} launches, and none of the device's work: the profiler lost it"] if launched else []
    reached = {each.correlation for each in work}
    lasting = [number for number, name in launched.items() if "memset" not in name.lower()]  # of no bytes does nothing
    lost = sum(number not in reached for number in lasting) / max(1, len(lasting))
    orphans = 1 - (len(joined) + len(left_over(events))) / len(work)
    early = sum(each.start_ns < issued[each.correlation].start_ns for each in joined)
    said = []
    if lost > MISSING:
        said.append(f"{lost:.0%} of the launches have no work on the device: the profiler lost some of it")
    if orphans > MISSING:
        said.append(f"{orphans:.0%} of the device's work has no launch: the host's part is incomplete")
    if early / len(joined) > EARLY:
        said.append(f"{early / len(joined):.0%} of the device's work begins before its launch: the clocks disagree")
    return said
