"""The compact file of a timeline: JSON with a table of names and columns of whole numbers."""

from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Literal

from brrr.core.errors import ArgumentError, RecordingError
from brrr.core.files import json_text, read_json, require_writable, write_atomically
from brrr.core.measurement import DeviceKind
from brrr.tracing.spans import HOST_LANES, KINDS, Kind, Span
from brrr.tracing.timeline import Timeline

# The file format's history, newest last. A reader reads its own version and all before it; a change of any key makes
# a new version.
#   1  first format: tables of lanes, kinds and names; for each span a number in the columns `lane`, `sort`, `name`,
#      `start_ns` (the difference to the span before), `length_ns`, `call` and `cause`.
FORMAT = 1

LIMIT_BYTES = 200_000
LONGEST_S, LONGEST_NS, MOST_CALLS = 1e4, 10**13, 10**5


@dataclass(frozen=True)
class Content:
    """What the file holds; its checks are those of the numbers, by which other numbers are found."""

    what: Literal["timeline"]
    kind: DeviceKind
    calls: int
    device: str
    date: str
    torch: str
    period_s: float
    loop_period_s: float
    profiled_period_s: float
    lanes: tuple[str, ...]
    kinds: tuple[Kind, ...]
    names: tuple[str, ...]
    lane: tuple[int, ...]
    sort: tuple[int, ...]
    name: tuple[int, ...]
    start_ns: tuple[int, ...]
    length_ns: tuple[int, ...]
    call: tuple[int, ...]
    cause: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.calls <= MOST_CALLS:
            raise ArgumentError("Content", "calls", self.calls, f"1 to {MOST_CALLS}")
        for key in ("period_s", "loop_period_s", "profiled_period_s"):
            if not 0 < getattr(self, key) <= LONGEST_S:
                expected = f"a time above 0 and up to {LONGEST_S:g} seconds"
                raise ArgumentError("Content", key, getattr(self, key), expected)
        count = len(self.lane)
        if not count:
            raise ArgumentError("Content", "lane", self.lane, "at least one span")
        tables = {"lane": (0, len(self.lanes)), "sort": (0, len(self.kinds)), "name": (0, len(self.names))}
        times = dict.fromkeys(("start_ns", "length_ns"), (0, LONGEST_NS))
        for key, (least, end) in {**tables, **times, "call": (-1, self.calls), "cause": (-1, count)}.items():
            column: tuple[int, ...] = getattr(self, key)
            if len(column) != count:
                raise ArgumentError("Content", key, f"{len(column)} long", f"{count} values, as lane has")
            for place, value in enumerate(column):
                if not least <= value < end:
                    raise ArgumentError("Content", f"{key}[{place}]", value, f"{least} to {end - 1}")


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
    lanes, names = found.lanes, tuple(dict.fromkeys(span.name for span in found.spans))
    number = {name: place for place, name in enumerate(names)}
    starts = [0, *(span.start_ns for span in found.spans)]
    content = Content(
        "timeline", found.kind, found.calls, found.device, found.date, found.torch,
        found.period_s, found.loop_period_s, found.profiled_period_s, tuple(lanes), KINDS, names,
        lane=tuple(lanes.index(span.lane) for span in found.spans),
        sort=tuple(KINDS.index(span.kind) for span in found.spans),
        name=tuple(number[span.name] for span in found.spans),
        start_ns=tuple(after - before for before, after in pairwise(starts)),
        length_ns=tuple(span.end_ns - span.start_ns for span in found.spans),
        call=tuple(span.call for span in found.spans),
        cause=tuple(span.cause for span in found.spans),
    )  # fmt: skip
    return json_text(FORMAT, asdict(content))


def read(path: Path) -> Timeline:
    """Read and validate; RecordingError names the file and the field of what is wrong."""
    missing = "; `brrr record` writes the timelines of an experiment"
    found = read_json(path, Content, FORMAT, missing=missing, most=5 * LIMIT_BYTES)
    columns = (found.lane, found.sort, found.name, accumulate(found.start_ns), found.length_ns, found.call, found.cause)
    spans = tuple(
        Span(found.lanes[lane], found.kinds[sort], found.names[name], start, start + long, call, cause)
        for lane, sort, name, start, long, call, cause in zip(*columns, strict=True)
    )
    for place, span in enumerate(spans):
        if span.cause >= 0 and (not span.on_device or spans[span.cause].lane not in HOST_LANES):
            expected = "-1, or the place of a host's span for a device's"
            raise RecordingError(f"{path}: cause[{place}] is {span.cause}; expected {expected}")
    return Timeline(
        spans, found.kind, found.device, found.date, found.torch, found.calls,
        found.period_s, found.loop_period_s, found.profiled_period_s, badge_kind="RECORDED",
    )  # fmt: skip
