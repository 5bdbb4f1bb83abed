"""Bytes by hardware counters: what ncu prints is read right, and what was recorded agrees with what is counted."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from brrr.core.errors import RecordingError, UnavailableError
from brrr.core.files import share
from tools.counters import worker
from tools.counters.__main__ import (
    FILE,
    READ,
    WRITTEN,
    Movements,
    Profiled,
    complaint,
    measured,
    moved,
    parse,
    profiled,
    write_counters,
)
from tools.counters.worker import CALLS, L2_SETS, Moved, Streaming, planned, streaming

HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)


def line(number: int, kernel: str, metric: str, value: str, unit: str = "byte") -> str:
    cells = (number, 77, "python3", "127.0.0.1", kernel, 1, 7, "(128, 1, 1)", "(9, 1, 1)", 0, "9.0", "Command line")
    return ",".join(f'"{cell}"' for cell in (*cells, metric, unit, value))


def kernel_lines(number: int, kernel: str, read: str, written: str) -> list[str]:
    return [line(number, kernel, READ, read), line(number, kernel, WRITTEN, written)]


def printed(*lines: str) -> str:
    return "\n".join(["==PROF== Connected to process 77", "==PROF== Disconnected", HEAD, *lines, ""])


RELU = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::AUnaryFunctor<float, float>>(int, T2, T3)"


def test_kernels_come_in_the_order_in_which_they_ran_with_their_bytes() -> None:
    """Whatever the unit, and beside other metrics."""
    others = [line(9, RELU, "gpu__time_duration.sum", "9", "ns"), line(9, RELU, "", "", "")]
    later = [line(11, RELU, READ, "1.5", "Gbyte"), line(11, RELU, WRITTEN, "2,000.5", "Kbyte")]
    marker = kernel_lines(9, "brrr_marker", "32", "0")
    text = printed(*kernel_lines(10, RELU, "629,145,600", "620000000"), *later, *marker, *others)
    bytes_of = [Profiled("brrr_marker", 32, 0), Profiled(RELU, 629_145_600, 620_000_000)]
    assert parse(text) == [*bytes_of, Profiled(RELU, 1.5e9, 2_000_500)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line(0, RELU, READ, "1")], "did not give both counters of result 0"),
        ([line(0, RELU, READ, "n/a"), line(0, RELU, WRITTEN, "1")], "printed dram__bytes_read.sum = 'n/a'"),
        ([line(0, RELU, READ, "1", "sector"), line(0, RELU, WRITTEN, "1")], "'sector'; expected a number of bytes"),
    ],
)
def test_what_is_no_count_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(RecordingError, match=message):
        parse(printed(*lines))


def kernels(*names: str) -> list[Profiled]:
    return [Profiled(name, 10.0 * place, 1.0) for place, name in enumerate(names)]


def plan(*rows: Moved) -> dict[str, Any]:
    return {"l2_bytes": 1.0, "set_bytes": 20.0, "rows": [asdict(row) for row in rows]}


def test_a_call_is_what_runs_between_two_markers() -> None:
    """The middle one of three calls counts, all of its kernels together."""
    names = ("brrr_marker", "a", "b", "brrr_marker", "a", "b", "brrr_marker", "a", "b", *("brrr_marker", "c") * 3)
    first, second = measured(plan(relu(), relu()), kernels(*names))
    assert (first.measured_read, first.measured_written) == (90.0, 2.0)
    assert (second.measured_read, second.measured_written) == (120.0, 1.0)


@pytest.mark.parametrize(
    "names", [(), ("a",), ("brrr_marker",), ("brrr_marker", "a", "brrr_marker"), ("brrr_marker", "a") * 4]
)
def test_calls_too_few_or_too_many_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(RecordingError, match="calls with kernels; expected 3"):
        measured(plan(relu()), kernels(*names))


def test_every_operator_has_a_name_of_its_own_and_fills_the_working_set() -> None:
    every, set_bytes = streaming(), L2_SETS * 60 * 2**20
    assert len(every) >= 20 and len({each.name for each in every}) == len(every)
    for each in every:
        rows = each.rows(set_bytes)
        assert set_bytes <= each.cost(rows).working_set_bytes < 1.02 * set_bytes, each.name
        counted = planned(each, rows)
        assert set_bytes <= counted.counted_read + counted.counted_written <= 3 * set_bytes, each.name


@pytest.mark.parametrize("name", [each.name for each in streaming()])
def test_every_operator_runs(name: str) -> None:
    each = next(each for each in streaming() if each.name == name)
    inputs = each.filled(8, "cpu")
    assert [tuple(given.shape) for given in inputs] == [given.described(8).shape for given in each.inputs]
    each.run(*inputs)


def test_the_worker_runs_every_operator_between_start_and_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU, with the GPU's calls noted: a stand-in for the profiler's start, its stop, and the marker."""
    noted: list[str] = []
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: SimpleNamespace(L2_cache_size=2**10))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda.profiler, "start", lambda: noted.append("start"))
    monkeypatch.setattr(torch.cuda.profiler, "stop", lambda: noted.append("stop"))
    monkeypatch.setattr(worker, "marker_kernel", lambda: noted.append("marker"))
    monkeypatch.setattr(Streaming, "filled", lambda each, rows, device: [i.filled(rows, "cpu") for i in each.inputs])
    worker.main(tmp_path / "plan.json")
    assert noted == ["marker", "start", *["marker"] * CALLS, "stop"] * len(streaming())
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["set_bytes"] == L2_SETS * plan["l2_bytes"]
    assert [row["name"] for row in plan["rows"]] == [each.name for each in streaming()]


def relu(ratio: float = 1.01) -> Moved:
    return Moved(
        "relu", "torch.relu(x)", "float32", ("(8, 4096)",), ("aten.relu",), 512.0, 512.0, 512 * ratio, 512 * ratio
    )


def movements(*rows: Moved) -> Movements:
    texts = ("NVIDIA H200", "580", "13.0", "2.11", "2026-01-01T00:00:00+00:00", "0.1.0", "2025.3.1", "application")
    return Movements(*texts, l2_bytes=62914560.0, set_bytes=1258291200.0, rows=rows)


def test_the_table_names_what_is_not_within() -> None:
    found = movements(relu(), replace(relu(1.2), name="slow"))
    assert found.beyond == ("slow",)
    text = str(found)
    assert "1 of 2 counts right within 5 %; not: slow" in text and "1.010" in text and "1.200" in text


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program in the place of ncu; `log` and `plan` are the files that it is to fill."""

    def put(body: str) -> None:
        words = "import json, sys, time\nlog, plan = sys.argv[sys.argv.index('--log-file') + 1], sys.argv[-1]\n"
        (tmp_path / "ncu").write_text(f"#!{sys.executable}\n{words}{body}\n")
        (tmp_path / "ncu").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return put


posix = pytest.mark.skipif(os.name != "posix", reason="the stand-in is a script with a first line")


@posix
def test_what_ncu_saw_joins_what_ran(stand_in: Callable[[str], None], tmp_path: Path) -> None:
    calls = [each for _ in range(CALLS) for each in ("brrr_marker", RELU)]
    text = printed(*(row for k, name in enumerate(calls) for row in kernel_lines(k, name, "500", "520")))
    noting = f"open({str(tmp_path / 'words')!r}, 'w').write(' '.join(sys.argv[1:]))"
    stand_in(f"open(log, 'w').write({text!r}); json.dump({plan(relu())!r}, open(plan, 'w')); {noting}")
    (row,) = measured(*profiled())
    assert row == replace(relu(), measured_read=500.0, measured_written=520.0)
    words = (tmp_path / "words").read_text()
    assert f"--metrics {READ},{WRITTEN} --cache-control none --clock-control none" in words
    assert "--csv --print-units base" in words and "--profile-from-start off" in words
    assert "-m tools.counters.worker" in words


@posix
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "open(log, 'w').write('==ERROR== Failed: LibraryNotLoaded\\n'); sys.exit(1)",
            "counters: Failed: LibraryNotLoaded",
        ),
        ("print('no GPU'); sys.exit(3)", r"no GPU \(ncu ended with 3\)"),
        ("open(plan, 'w').write('{}')", "ncu said nothing"),
        ("print('waits', flush=True); time.sleep(60)", "took longer than 1 s: waits"),
    ],
)
def test_what_ncu_cannot_do_is_said(stand_in: Callable[[str], None], body: str, message: str) -> None:
    stand_in(body)
    with pytest.raises(UnavailableError, match=message):
        profiled(timeout_s=1.0)


def test_complaints() -> None:
    assert complaint("==PROF== x\n==ERROR== a\n", "b\n==ERROR== c") == "a | c"
    assert complaint("", "1\n2\n3\n4\n") == "2 | 3 | 4"


RECORDED = share("data") / "recordings" / "h200" / FILE
KNOWN = {
    "every second column": "the elements taken are counted; memory is read in sectors of 32 bytes, so all are read",
    "softmax, backward": "torch multiplies gradient and output in a kernel of its own; its result is written and read",
    "layer_norm": "a row is read a second time, and only in part from the L2: between one and two readings",
    "rms_norm": "a row is read a second time, and only in part from the L2: between one and two readings",
    "layer_norm, backward": "gradients of weight and of input are two kernels; the L2 answers in part",
}
"""The operators whose count is known not to be what moves, and why."""


def test_on_the_h200_the_counted_bytes_are_those_that_moved(tmp_path: Path) -> None:
    kept = json.loads(RECORDED.read_text("utf-8"))
    data = {each.name: kept[each.name] for each in fields(Movements)}
    found = Movements(**{**data, "rows": tuple(map(moved, data["rows"]))})
    assert found.set_bytes >= L2_SETS * found.l2_bytes
    assert {row.name for row in found.rows} == {each.name for each in streaming()}
    assert set(found.beyond) <= set(KNOWN), found
    write_counters(tmp_path / FILE, found)
    assert json.loads((tmp_path / FILE).read_text("utf-8")) == data
