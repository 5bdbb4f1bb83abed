"""Recordings on the disk: what is written reads the same; what is damaged is refused, with file and row named."""

import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import made_up
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brrr.core import files
from brrr.core.errors import NotRecordedError, RecordingError
from brrr.core.files import share
from brrr.core.measurement import FIELDS, Estimate, Measurement
from brrr.counting.cost import Cost
from brrr_course.experiments import experiment
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant
from brrr_course.nouns.table import Column
from brrr_course.sources import rows as rows_module
from brrr_course.sources.recording import FORMAT, Drift, Failure, Machine, Recording, seal_of, to_text
from brrr_course.sources.rows import COLUMNS, Row, Timed, check_row
from tools.judge.experiments import OF_CALLS, described

MATMUL = experiment("matmul")
MIXED = Experiment(
    name="mixed",
    title="Mixed axes",
    question="Does every kind of axis come back?",
    axes=(
        Axis("size", (1, 2, 4)),
        Axis("share", (0.1, 0.5), integer=False, scale="linear"),
        Axis("function", ("tiny, relu", 'a "copy"', "spin 1 µs", 7), scale="category"),
    ),
    variants=(Variant("a", "A", "cuda"), Variant("b", "B", "cpu", cache="cold")),
    lines=(Line("a", "a", "host_s", "A"),),
)

# ---------------------------------------------------------------- round trip

seconds = st.floats(1e-9, 1e4)
counts, few = st.floats(0, 1e18), st.floats(0, 1e4)
dates = st.datetimes().map(lambda when: when.isoformat())
words = st.text(st.characters(exclude_characters=";").filter(str.isprintable), min_size=1, max_size=12)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate | None:
    if draw(st.booleans()):
        return None
    low, median, high = sorted(draw(st.tuples(seconds, seconds, seconds)))
    return Estimate(median, draw(st.sampled_from([low, 0.0])), high, draw(st.integers(1, 10**6)))


@st.composite
def rows(draw: st.DrawFn) -> Row:
    times = {name: draw(estimates()) for name in FIELDS}
    if times["busy_s"] and times["span_s"] and times["busy_s"].low > times["span_s"].high:
        times["busy_s"], times["span_s"] = times["span_s"], times["busy_s"]
    others_s = sum(each.median for name, each in times.items() if each and name != "latency_s")
    if times["latency_s"] and others_s and times["latency_s"].median > rows_module.SLOWEST_ALONE * others_s:
        times["latency_s"] = None  # a column in another unit, to a reader
    estimated_s = draw(st.none() | st.floats(1e-9, 1e4))
    if estimated_s is None and not any(times.values()):
        times["host_s"] = Estimate(1e-6, 1e-6, 1e-6, 3)
    measurement = Measurement(
        **times,  # type: ignore[arg-type]
        kernels=draw(st.none() | st.integers(0, 10**6)),
        cache=draw(st.sampled_from(["hot", "cold"])),
        sm_clock_hz=draw(st.none() | st.floats(1e7, 1e10)),
        peak_bytes=draw(st.none() | st.integers(0, 10**12)),
        estimated_s=estimated_s,
        launched=tuple(draw(st.lists(words, max_size=3))),
        power_w=draw(st.none() | st.floats(1.0, 1e4)),
        device=made_up.GPU.device,
        flags=tuple(draw(st.lists(words, max_size=3))),
    )
    function = draw(st.sampled_from(MIXED.axis("function").values))
    point = (draw(st.integers(1, 10**12)), draw(st.floats(1e-300, 1e15)), function)
    cost = Cost(draw(counts), draw(counts))
    return Row(point, draw(st.sampled_from("ab")), measurement, cost, draw(few), draw(st.sampled_from(["r1", "r2"])))


machines = st.builds(
    lambda text, date, number: dataclasses.replace(
        made_up.GPU,
        runs=(
            dataclasses.replace(made_up.run_info("r1", date), driver=text, runtime=text, sm_clock_before_hz=number),
            dataclasses.replace(
                made_up.run_info("r2"),
                anchors=(Drift("mixed", "a", {"size": 1, "function": text}, "host_s", 1.0, number / 1e7),),
                failed=(Failure("mixed", "b", {"size": 2}, "DeviceMemoryError", text),),
            ),
        ),
    ),
    st.text(st.characters(exclude_categories=["Cs"])),
    dates,
    st.floats(1e7, 1e10),
)


@contextmanager
def folder() -> Iterator[Path]:
    """A new folder for each example; Hypothesis calls a test many times with one `tmp_path`."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@settings(deadline=None)
@given(machines, st.lists(rows(), max_size=6, unique_by=lambda row: row.key))
def test_what_is_written_reads_exactly_the_same(machine: Machine, some: list[Row]) -> None:
    with folder() as here:
        machine.write(here)
        Recording(MIXED, machine, tuple(some)).write(here)
        again = Recording.read(here, MIXED)
    assert again.rows == tuple(some)
    assert again.machine == machine


def test_columns_are_found_by_their_header(writable_root: Path) -> None:
    path = writable_root / "h200" / "matmul.csv"
    before = Recording.read(path.parent, MATMUL)
    cells = cells_of(path)
    write_cells(path, [row[::-1] for row in cells])
    assert path.read_text().startswith("run,")
    assert Recording.read(path.parent, MATMUL).rows == before.rows


@dataclasses.dataclass(frozen=True)
class WithJoules(Measurement):
    """A measurement of a later brrr."""

    joules: float | None = None


def test_a_column_is_added_in_the_measurement_and_in_the_list(
    writable_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a contributor edits: brrr/core/measurement.py, brrr_course/sources/rows.py, and what measures it."""
    here = writable_root / "h200"
    before = Recording.read(here, MATMUL)
    more = Column("joules", float, may_be_empty=True, optional=True)
    monkeypatch.setattr(rows_module, "Measurement", WithJoules)
    monkeypatch.setattr(rows_module, "COLUMNS", (*COLUMNS, more))
    old = Recording.read(here, MATMUL)
    assert {row.measurement.joules for row in old.rows} == {None}  # type: ignore[attr-defined]
    measured = dataclasses.replace(old.rows[0].measurement, joules=0.25)  # type: ignore[call-arg]
    timed = Timed(measured, Cost(1, 1), 0.0)
    old.added([Row.of({"size": 77}, "cpu", timed, "run-1", made_up.GPU.device)]).write(here)
    assert cells_of(here / "matmul.csv")[0][-1] == "joules"
    again = Recording.read(here, MATMUL).rows
    assert [row.measurement.joules for row in again] == [None] * len(old.rows) + [0.25]  # type: ignore[attr-defined]
    monkeypatch.undo()
    with pytest.raises(RecordingError, match=r"matmul\.csv: wrong columns \(unknown, or twice: joules\)"):
        Recording.read(here, MATMUL)  # a brrr that does not know it says so
    before.write(here)
    assert Recording.read(here, MATMUL).rows == before.rows


KERNELS = ("cutlass_80_simt_sgemm_128x64_8x5_nn_align1 32x1x4 of 128", "cublasLt::splitKreduce_kernel 3x128x1 of 512")


def with_optional_columns(recording: Recording) -> Recording:
    """The recording, its fifth row with kernels and a power, and at its end an estimate without a time."""
    row = recording.rows[4]
    told = dataclasses.replace(row, measurement=dataclasses.replace(row.measurement, launched=KERNELS, power_w=612.25))
    timed = Timed(Measurement(estimated_s=2e-5), Cost(1, 1), 0)
    estimated = Row.of({"size": 77}, "gpu", timed, "run-1", "Synthetic H200")
    return dataclasses.replace(recording, rows=(*recording.rows[:4], told, *recording.rows[5:], estimated))


def test_an_optional_column_stands_in_a_file_where_a_row_fills_it(writable_root: Path) -> None:
    path = writable_root / "h200" / "matmul.csv"
    before = Recording.read(path.parent, MATMUL)
    more = with_optional_columns(before)
    for recording, last in ((more, ["estimated_s", "launched", "power_w"]), (before, ["error", "flags", "run"])):
        recording.write(path.parent)
        assert cells_of(path)[0][-3:] == last and Recording.read(path.parent, MATMUL).rows == recording.rows


def test_a_kernels_name_with_a_semicolon_is_not_written(writable_root: Path) -> None:
    row = Recording.read(writable_root / "h200", MATMUL).rows[0]
    spoilt = dataclasses.replace(row, measurement=dataclasses.replace(row.measurement, launched=("a;b",)))
    with pytest.raises(ValueError, match=r"launched holds .*'a;b'.*; expected no semicolon"):
        check_row(spoilt, MATMUL)
    before = (writable_root / "h200" / "matmul.csv").read_bytes()
    with pytest.raises(RecordingError, match=r"matmul\.csv: launched holds"):
        Recording(MATMUL, made_up.GPU, (spoilt,)).write(writable_root / "h200")
    assert (writable_root / "h200" / "matmul.csv").read_bytes() == before


def test_a_row_is_in_the_cache_state_of_its_point() -> None:
    of_caches = dataclasses.replace(MATMUL, axes=(Axis("cache", ("hot", "cold"), scale="category"),))
    timed = Timed(Measurement(host_s=Estimate(1e-6, 1e-6, 1e-6, 3), cache="cold"), Cost(1, 1), 0.0)
    cold, wrong = (Row.of({"cache": cache}, "gpu", timed, "run-1", "Synthetic H200") for cache in ("cold", "hot"))
    assert check_row(cold, of_caches)["cache"] == "cold"
    with pytest.raises(ValueError, match="cache is 'cold'; expected that of the point, 'hot'"):
        check_row(wrong, of_caches)


def test_a_row_keeps_each_times_own_n_and_cuts_the_interval_at_zero() -> None:
    measured = Measurement(
        host_s=Estimate(1e-8, -4e-8, 6e-8, 7), latency_s=Estimate(1.0, 1.0, 1.0, 3), notes=("said",), device="somewhere"
    )
    row = Row.of({"size": 1}, "cpu", Timed(measured, Cost(2, 12), 0.0), "r1", "Synthetic H200")
    assert row.measurement.host_s == Estimate(1e-8, 0.0, 6e-8, 7)
    assert row.measurement.latency_s == Estimate(1.0, 1.0, 1.0, 3)
    assert (row.measurement.notes, row.measurement.device) == ((), "Synthetic H200")


def test_line_ends_of_windows_read_the_same(writable_root: Path) -> None:
    before = Recording.read(writable_root / "h200", MATMUL)
    for path in (writable_root / "h200").iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert Recording.read(writable_root / "h200", MATMUL).rows == before.rows


# ---------------------------------------------------------------- damage


Cells = list[list[str]]


def cells_of(path: Path) -> Cells:
    """The header and the rows, without the seal."""
    return [line.split(",") for line in path.read_text().splitlines()[:-1]]


def write_cells(path: Path, cells: Cells) -> None:
    """Such cells, with a seal that fits."""
    table = "".join(",".join(row) + "\n" for row in cells)
    path.write_text(table + seal_of(table))


def refusal(root: Path, name: str = "matmul.csv") -> str:
    """What is said of a damaged file, behind its path."""
    with pytest.raises(RecordingError) as caught:
        Recording.read(root / "h200", MATMUL)
    said = str(caught.value)
    assert said.startswith(f"{root / 'h200' / name}: ")
    return said.removeprefix(f"{root / 'h200' / name}: ")


SECONDS = "10000 seconds: is it in another unit?"
WRONG_CELLS = {
    "latency_s": (f"a number, 1e-09 to {SECONDS}", "abc", "nan", "inf", "0", "0.99e-9", "1.001e4"),
    "latency_s_low": (f"a number, 0 to {SECONDS}", "-1e-6", "nan"),
    "latency_s_high": (f"a number, 0 to {SECONDS}", "1.001e4"),
    "busy_s": (f"a number, 1e-09 to {SECONDS}", "1e-12", "-0.5"),
    "latency_s_n": ("a whole number, 1 to 1e+09", "0", "2.5", f"1{'0' * 30}", f"1{'0' * 5000}"),
    "size": ("a whole number, 1 to 1.1259e+15", "1.5", "0", "-1", "", str(2**200), "1_0", "\u0663", " 3 "),
    "estimated_s": (f"a number, 1e-09 to {SECONDS}", "0.0", "0.9e-9", "1.1e4", "-1.0", "nan", "inf"),
    "cache": ("one of hot, cold", "warm", ""),
    "kernels": ("a whole number, 0 to 1e+09", "-1", "1.0"),
    "sm_clock_hz": ("a number, 1e+07 to 1e+10 Hz: is it in another unit?", "1980"),
    "flop": ("a number, 0 to 1e+30 FLOP: is it in another unit?", "nan", "", "1_0", "\u0663", " 3 "),
    "bytes": ("a number, 0 to 1e+18 bytes: is it in another unit?", "-1.0"),
    "error": ("a number, 0 to 10000", "-1e-9", "1e9"),
    "power_w": ("a number, 1 to 10000 W: is it in another unit?", "612250", "0.6"),
    "launched": ("printable texts with semicolons between", "a 1x1x1 of 32;;b 1x1x1 of 32", "a\tb"),
    "variant": ("printable text", "", "a\tb"),
}
"""By the column what is expected, and cells that it cannot hold."""


@pytest.mark.parametrize("column", WRONG_CELLS)
def test_a_wrong_cell_is_named_with_file_row_value_and_what_was_expected(writable_root: Path, column: str) -> None:
    path, (expected, *wrong) = writable_root / "h200" / "matmul.csv", WRONG_CELLS[column]
    with_optional_columns(Recording.read(path.parent, MATMUL)).write(path.parent)
    cells = cells_of(path)
    for value in wrong:
        cells[5][cells[0].index(column)] = value
        write_cells(path, cells)
        assert refusal(writable_root) == f"row 5 (line 6): {column} is {value[:200]!r}; expected {expected}"


def put(column: str, value: str) -> Callable[[Cells], object]:
    """Another cell in the fifth row."""
    return lambda cells: cells[5].__setitem__(cells[0].index(column), value)


def times_larger(name: str, factor: float, at: str = "") -> Callable[[Cells], object]:
    """A time of the longest row, or of its share of another's, in another unit."""

    def edit(cells: Cells) -> None:
        place = {column: cells[0].index(column) for column in cells[0]}
        row = max(
            (row for row in cells[1:] if row[place["variant"]] == "gpu"), key=lambda row: float(row[place["latency_s"]])
        )
        for end in ("", "_low", "_high"):
            row[place[f"{name}{end}"]] = repr(float(row[place[at or f"{name}{end}"]]) * factor)

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (put("latency_s", ""), "latency_s: the median, one end of its interval or n is empty"),
        (put("latency_s_n", ""), "latency_s: the median, one end of its interval or n is empty"),
        (put("latency_s_low", "999"), "; expected it in its interval, 999.0 to "),
        (put("run", "run-9"), "run is 'run-9'; machine.json knows run-1"),
        (put("variant", "queue"), "variant is 'queue', which no cuda machine runs"),
        # milliseconds among seconds are within the limits, and make no sense beside the other times
        (times_larger("latency_s", 1000), "is one in another unit?"),
        (times_larger("span_s", 0.5, at="busy_s"), "expected at most that"),
        (lambda cells: cells.append(cells[3]), "the same point, variant, cache and run as row 3"),
    ],
)
def test_rows_that_make_no_sense_are_refused(
    writable_root: Path, edit: Callable[[Cells], object], message: str
) -> None:
    path = writable_root / "h200" / "matmul.csv"
    cells = cells_of(path)
    edit(cells)
    write_cells(path, cells)
    said = refusal(writable_root)
    assert said.startswith("row ") and message in said


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a pipe with a name is of POSIX")
@pytest.mark.parametrize("name", ["matmul.csv", "machine.json"])
def test_a_pipe_in_a_files_place_is_refused_and_not_waited_for(writable_root: Path, name: str) -> None:
    path = writable_root / "h200" / name
    path.unlink()
    os.mkfifo(path)
    assert refusal(writable_root, name).startswith("cannot be read (it is no regular file")


@pytest.mark.parametrize(("name", "most"), [("machine.json", files.MOST_JSON_BYTES), ("matmul.csv", files.MOST_BYTES)])
def test_a_file_larger_than_any_is_refused_unread(writable_root: Path, name: str, most: int) -> None:
    os.truncate(writable_root / "h200" / name, most + 1)
    assert refusal(writable_root, name).startswith(f"cannot be read (it has more than {most / 1e6:.3g} MB")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ({"busy_s": (0.0, 0.0, 1e4)}, {"host_s": (0.0, 0.0, 1e4)}),
        ({"busy_s": (1.03, 1.029, 1.03), "span_s": (1.0,) * 3}, {"busy_s": (1.04, 1.031, 1.04), "span_s": (1.0,) * 3}),
        ({"busy_s": (1.4e-6,) * 3, "span_s": (1e-6,) * 3}, {"busy_s": (1.6e-6,) * 3, "span_s": (1e-6,) * 3}),
    ],
)
def test_where_the_limits_of_a_time_are(right: dict[str, Any], wrong: dict[str, Any]) -> None:
    """From 1 ns to 10 000 s; busy for 3 % and half a microsecond more than the span at most."""

    def row(times: dict[str, Any]) -> Row:
        measured = {name: Estimate(*each, 3) for name, each in times.items()}
        return Row((1, 0.5, 7), "a", Measurement(**measured), Cost(1.0, 1.0), 0.0, "r1")

    check_row(row(right), MIXED)
    with pytest.raises(ValueError, match="expected"):
        check_row(row(wrong), MIXED)


def without_last_row(text: str) -> str:
    return text[: text.rindex("\n", 0, text.rindex("#") - 1) + 1] + text[text.rindex("#") :]


SPOILT_FILES: list[tuple[Callable[[str], str], str]] = [
    (lambda text: "", "is empty"),
    (lambda text: text[:-1], "is truncated: the last line does not end"),
    (lambda text: text[: text.rindex(",", 0, text.rindex("#"))] + "\n", " cells; expected "),
    (lambda text: text[: text.rindex("#")], "the line with their checksum is not there"),
    (without_last_row, "rows are missing"),
    (lambda text: text.replace("\n1024,", "\n1024,9,", 1), "has 31 cells; expected 29, in"),
    (lambda text: text.replace("latency_s,", "latency_us,", 1), "missing: latency_s; unknown, or twice: latency_us"),
    (lambda text: text.replace("host_s,host_s_low", "host_s_low,host_s", 1), "expected it in its interval"),
    (lambda text: text.replace("host_s,host_s_low", "host_s,host_s", 1), "host_s_low; unknown, or twice: host_s"),
    (lambda text: text.replace(",run\n", ",run,more\n", 1), "unknown, or twice: more"),
    (lambda text: text.replace("cpu", '"cpu', 1), "is no CSV"),
    (lambda text: "\ufeff" + text, "missing: size"),
    (lambda text: text + "\n", "row"),
    (lambda text: text + "\n" * (1 << 20), "has 0 cells; expected"),
    (lambda text: text + ("," * text.partition("\n")[0].count(",") + "\n") * (1 << 17), "row 100001 (line 100003)"),
    (lambda text: text + "," * (1 << 20) + "\n", "has 1048577 cells"),
    (lambda text: re.sub(r"(?<=,)2\.0(?=,)", "3.0", text, count=1), "not those that `brrr record` wrote last"),
    (lambda text: text[:-5] + "\udcff\udcfe\n", "'utf-8' codec can't decode"),
]


@pytest.mark.parametrize(("spoil", "message"), SPOILT_FILES)
def test_a_spoilt_file_is_refused(writable_root: Path, spoil: Callable[[str], str], message: str) -> None:
    path = writable_root / "h200" / "matmul.csv"
    text, width = path.read_text(), len(cells_of(path)[0])
    assert spoil(text) != text
    path.write_bytes(spoil(text).encode(errors="surrogateescape"))
    assert message.replace("31 cells; expected 29", f"{width + 1} cells; expected {width}") in refusal(writable_root)


# ---------------------------------------------------------------- machine.json


RUN = dataclasses.asdict(made_up.run_info())
ANCHOR = {"experiment": "matmul", "variant": "gpu", "point": {}, "field": "host_s", "first_s": -1, "now_s": 1}
WRONG_MACHINES = [
    ({"format": FORMAT + 1}, f"format is {FORMAT + 1}; expected {FORMAT}: newer than this brrr reads, update it"),
    ({"format": 0}, "format is 0; expected 5"),
    ({"runs": [{}]}, "runs[0].id is missing"),
    ({"colour": "red"}, "colour is not a known key"),
    ({"device": "another"}, "the checksum does not fit"),
    ({"kind": "a toaster"}, "kind is 'a toaster'; expected cpu, or what torch calls an accelerator"),
    ({"device": "Synthetic CPU"}, "kind is 'cuda'; expected cpu, as Synthetic CPU is one"),
    ({"slug": "../../etc"}, "slug is '../../etc'; expected lower-case letters"),
    ({"runs": [RUN, RUN]}, "runs[1].id is 'run-1'; expected an id that no other run has"),
    ({"runs": [RUN | {"date": "yesterday"}]}, "runs[0].date is 'yesterday'; expected a date"),
    ({"runs": [RUN | {"cpu_cores": -3}]}, "runs[0].cpu_cores is -3; expected 1 to"),
    ({"runs": [RUN | {"sm_clock_after_hz": 1980}]}, "runs[0].sm_clock_after_hz is 1980; expected 1e+07 to 1e+10 Hz"),
    ({"runs": [RUN | {"anchors": [ANCHOR]}]}, "runs[0].anchors[0].first_s is -1; expected 0 to 10000 seconds"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG_MACHINES)
def test_a_wrong_machine_file_is_refused(writable_root: Path, changes: dict[str, object], message: str) -> None:
    path = writable_root / "h200" / "machine.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    assert message in refusal(writable_root, "machine.json")


def test_a_missing_csv_is_not_recorded(writable_root: Path) -> None:
    (writable_root / "h200" / "matmul.csv").unlink()
    with pytest.raises(NotRecordedError, match="brrr record matmul"):
        Recording.read(writable_root / "h200", MATMUL)


@pytest.mark.parametrize(("field", "value"), [("device", "other"), ("kind", "cpu")])
def test_only_the_same_model_may_be_joined(field: str, value: str) -> None:
    made_up.GPU.require_joinable(dataclasses.replace(made_up.GPU, runs=(made_up.run_info(),)))
    other = dataclasses.replace(made_up.GPU, **{field: value})  # type: ignore[arg-type]
    with pytest.raises(RecordingError) as caught:
        made_up.GPU.require_joinable(other)
    assert made_up.GPU.device in str(caught.value) and other.device in str(caught.value)


# ---------------------------------------------------------------- writing


def bad_row(recording: Recording) -> Row:
    measurement = dataclasses.replace(recording.rows[0].measurement, latency_s=Estimate(5e9, 5e9, 5e9, 3))
    return dataclasses.replace(recording.rows[0], measurement=measurement, point=(77,))


def test_a_bad_row_is_not_written(writable_root: Path) -> None:
    recording = Recording.read(writable_root / "h200", MATMUL)
    before = {path: path.read_bytes() for path in (writable_root / "h200").iterdir()}
    with pytest.raises(RecordingError, match=r"row \d+ .*is it in another unit"):
        recording.added([bad_row(recording)]).write(writable_root / "h200")
    assert {path: path.read_bytes() for path in (writable_root / "h200").iterdir()} == before


# ---------------------------------------------------------------- those that ship

COURSE_S = share("data") / "recordings"


@pytest.mark.parametrize("device", ["cpu", "h100", "h200"])
def test_each_value_of_the_courses_recordings_is_read_as_it_stands(device: str) -> None:
    content = json.loads((COURSE_S / device / "machine.json").read_text())
    found = dataclasses.asdict(Machine.read(COURSE_S / device))
    assert json.loads(json.dumps(found)) == {key: content[key] for key in content if key not in ("format", "checksum")}
    for path in sorted((COURSE_S / device).glob("*.csv")):
        about = described(path) if path.stem in OF_CALLS else experiment(path.stem)
        assert to_text(Recording.read(path.parent, about)) == path.read_text()


def test_what_one_run_tells_twice_is_kept_once() -> None:
    drifts = [Drift("matmul", "gpu", {"size": size}, "latency_s", 1e-3, 1e-3) for size in range(20_000)]
    one, other = (dataclasses.replace(made_up.run_info(), anchors=tuple(part)) for part in (drifts[:-1], drifts[1:]))
    assert list(one.grown(other).anchors) == drifts
