"""The compact file: what goes in comes out, what is damaged is named; and the file for Perfetto."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import timelines
from hypothesis import given, settings
from hypothesis import strategies as st

from brrr.core.errors import ArgumentError, RecordingError
from brrr.core.files import _checksum
from brrr.tracing.kineto import settled
from brrr.tracing.spans import HOST_LANES, KINDS, LAUNCH, Span
from brrr.tracing.timeline import Timeline
from brrr_course.sources import timeline_file as files
from brrr_course.sources.timeline_file import LIMIT_BYTES, text_of

# ---- round trip ----


@st.composite
def timelines_of_any_kind(draw: Any) -> Timeline:
    """Any timeline that the format must hold: spans of all lanes and kinds, arrows from host to device."""
    calls = draw(st.integers(1, 4))
    spans: list[Span] = []
    for _ in range(draw(st.integers(1, 12))):
        lane = draw(st.sampled_from([*HOST_LANES, "stream 1", "stream 2", "worker"]))
        start, long = draw(st.integers(0, 10**12)), draw(st.integers(0, 10**10))
        hosts = [place for place, span in enumerate(spans) if not span.on_device]
        cause = draw(st.sampled_from([-1, *hosts])) if lane not in HOST_LANES else -1
        name, kind = draw(st.text(max_size=12)), draw(st.sampled_from(KINDS))
        spans.append(Span(lane, kind, name, start, start + long, draw(st.integers(-1, calls - 1)), cause))
    periods = [draw(st.floats(1e-9, 1e4)) for _ in range(3)]
    kind = draw(st.sampled_from(["cuda", "cpu", "cpu-queue"]))
    return Timeline(settled(spans, 0), kind, draw(st.text(max_size=9)), "2000-01-01", "2.11.0", calls, *periods,
                    "RECORDED")  # fmt: skip


@settings(deadline=None)
@given(timelines_of_any_kind())
def test_what_is_written_is_read(found: Timeline) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert files.read(files.write(found, Path(folder) / "deep" / "x.json")) == found


def test_a_typical_file_is_small(tmp_path: Path) -> None:
    path = files.write(timelines.host_bound(20), tmp_path / "x.json")
    assert path.stat().st_size < 4000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.json"], "a temporary file was left behind"


# ---- the limit ----


def of_launches(calls: int, launches: int) -> Timeline:
    """A timeline of so many launches in each call, with a wait at its end."""
    spans = [
        Span(LAUNCH, "launch", f"launch number {launch}", (call * launches + launch) * 1000, 10**9, call)
        for call in range(calls)
        for launch in range(launches)
    ]
    spans.append(Span(LAUNCH, "wait", "cudaDeviceSynchronize", 10**9, 2 * 10**9))
    return timelines.timeline(spans, calls, 1e-3, 1e-3)


def test_calls_that_do_not_fit_are_left_out(tmp_path: Path) -> None:
    found = of_launches(20, 1000)
    assert len(text_of(found).encode()) > LIMIT_BYTES
    path = files.write(found, tmp_path / "x.json")
    assert path.stat().st_size <= LIMIT_BYTES
    read = files.read(path)
    assert 1 < read.calls < 20 and len(read.spans) == 1000 * read.calls


def test_one_call_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"Timeline.write: timeline is '9001 spans .*at most 200 KB"):
        files.write(of_launches(1, 9000), tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []


# ---- damage ----


def change(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.__setitem__(key, value)


def change_in(key: str, place: int, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content[key].__setitem__(place, value)


COLUMNS = ("lane", "sort", "name", "start_ns", "length_ns", "call", "cause")
DAMAGES: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (change("calls", 0), "calls is 0; expected 1 to 100000"),
    (lambda content: content.update({key: [] for key in COLUMNS}), "lane is .*; expected at least one span"),
    (change_in("start_ns", 3, 10**40), rf"start_ns\[3\] is {10**40}; expected 0 to"),
    (change("device", "x" * 5 * LIMIT_BYTES), "cannot be read .it has more than 1 MB"),
    (change("period_s", 0), "period_s is 0; expected a time above 0"),
    (change("profiled_period_s", 1e9), "profiled_period_s is 1000000000.0"),
    (change("kinds", ["magic"]), r"kinds\[0\] is 'magic'; expected one of"),
    (lambda content: content["call"].pop(), "call is '40 long'; expected 41 values, as lane has"),
    (change_in("lane", 2, 9), r"lane\[2\] is 9; expected 0 to 3"),
    (change_in("sort", 0, -1), r"sort\[0\] is -1"),
    (change_in("name", 1, 99), r"name\[1\] is 99"),
    (change_in("start_ns", 3, -5), r"start_ns\[3\] is -5; expected 0 to 9999"),
    (change_in("length_ns", 3, -1), r"length_ns\[3\] is -1"),
    (change_in("call", 4, 10), r"call\[4\] is 10; expected -1 to 9"),
    (change_in("cause", 3, 41), r"cause\[3\] is 41"),
    (change_in("cause", 0, 1), r"cause\[0\] is 1; expected -1, or the place of a host's span"),
    (change_in("length_ns", 3, 77), "the checksum does not fit"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_damage_is_named_with_file_and_field(damage: Callable[[Any], Any], message: str, tmp_path: Path) -> None:
    path = files.write(timelines.host_bound(), tmp_path / "x.json")
    content = json.loads(path.read_text())
    damage(content)
    if "checksum" not in message:
        content["checksum"] = _checksum(content)  # so that only the damage itself is wrong
    path.write_text(json.dumps(content))
    with pytest.raises(RecordingError, match=message) as caught:
        files.read(path)
    assert str(path) in str(caught.value)


def test_one_that_is_missing_says_what_makes_it(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"x\.json: is missing; `brrr record`"):
        files.read(tmp_path / "x.json")


# ---- Perfetto ----


def test_perfetto_gets_every_span_and_arrow(tmp_path: Path) -> None:
    found = timelines.host_bound(3)
    events = json.loads(found.perfetto(tmp_path / "t" / "p.json").read_text())["traceEvents"]
    of = {phase: [e for e in events if e["ph"] == phase] for phase in "MXsf"}
    assert len(of["X"]) == len(found.spans) and len(of["s"]) == len(of["f"]) == len(found.arrows) == 3
    kernel = next(e for e in of["X"] if e["cat"] == "kernel")
    assert (kernel["name"], kernel["ts"], kernel["dur"], kernel["args"]) == ("relu", 6.0, 1.0, {"call": 0})
    names = {(e["pid"], e.get("tid")): e["args"]["name"] for e in of["M"]}
    assert names[kernel["pid"], kernel["tid"]] == "GPU stream 1" and names[1, None] == "synthetic device"
    for start, finish in zip(of["s"], of["f"], strict=True):
        assert start["id"] == finish["id"] and start["pid"] == 0 and finish["pid"] == 1
        inside = [e for e in of["X"] if e["tid"] == start["tid"] and e["ts"] <= start["ts"] <= e["ts"] + e["dur"]]
        assert [e["name"] for e in inside] == ["cudaLaunchKernel"], "a flow must begin in the span that launches"
