"""The table of readers' own GPUs: what becomes a line of it, what is refused with words, and how a page shows it."""

import json
from pathlib import Path
from typing import Any

import pytest

from brrr.__main__ import main
from brrr.core.errors import RecordingError
from brrr_course.nouns.table import written
from brrr_course.sources import laptops
from brrr_course.sources.browser import keep

DEVICE = {"vendor": "apple", "architecture": "metal-3", "description": "", "browser": "Safari 26", "date": "2026-01-31",
          "software": False, "tick_s": 1e-3, "limits": {"maxBufferSize": 2**30}}  # fmt: skip


def row(experiment: str, variant: str, point: dict[str, Any], time_s: float, flop: float, field: str) -> dict[str, Any]:
    times = {field: [time_s, time_s / 2, time_s * 2, 7]}
    told = {"experiment": experiment, "variant": variant, "point": point, "times": times}
    return told | {"flop": flop, "bytes": 8e6, "error": 1e-7}


ROWS = [
    *(row("repeat", "webgpu-fma", {"repeat": n, "elements": 2**24, "dtype": "float32"}, 1e-3 * n, 2e9 * n * n,
          "period_s") for n in (512, 8)),
    *(row("fusion", variant, {"elements": 2**k, "dtype": "float32"}, time_s, 3.0 * 2**k, "period_s")
      for variant, k, time_s in [("webgpu-chain", 20, 2e-3), ("webgpu-chain", 24, 3e-3), ("webgpu-chain", 26, 9e-3),
                                 ("webgpu-chain-fused", 20, 1e-3), ("webgpu-chain-fused", 24, 1e-3)]),
    row("matmul", "webgpu-naive", {"size": 2048}, 1e-1, 2.0 * 2048**3, "latency_s"),
    row("matmul", "webgpu", {"size": 1024}, 1e-2, 2.0 * 1024**3, "latency_s"),
]  # fmt: skip
FOUND = {
    "device": DEVICE, "rows": ROWS, "said": [], "launch": {"alone": [4e-3, 3e-3, 5e-3, 7], "among": [2e-6, 0, 3e-6, 7]},
    "copy": row("copy", "webgpu", {"elements": 2**20}, 8e-5, 0, "period_s"),
}  # fmt: skip

EMPTY = written(laptops.COLUMNS, [])


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(laptops, "TABLE", tmp_path / "laptops.csv")
    laptops.TABLE.write_text(EMPTY, "utf-8")
    return laptops.TABLE


def sent(root: Path, **changed: Any) -> Path:
    path = root / "sent.json"
    path.write_text(json.dumps(FOUND | changed), "utf-8")
    return path


def test_a_file_that_was_sent_becomes_a_line_with_the_figures_of_the_largest_sizes(tmp_path: Path, table: Path) -> None:
    assert main(["join", str(sent(tmp_path)), "--model", "MacBook Air, M2"]) == 0
    (line,) = laptops.read(table)
    named = [line[name] for name in laptops.NAMED]
    assert named == ["apple", "metal-3", "MacBook Air, M2", "Safari 26", "2026-01-31"]
    figures = {name: [line[f"{name}{end}"] for end in laptops.ENDS] for name in laptops.FIGURES}
    assert figures == {
        "copy_bytes_per_s": [1e11, 5e10, 2e11], "flop_per_s": [1.024e15, 5.12e14, 2.048e15],
        "launch_alone_s": [4e-3, 3e-3, 5e-3], "launch_among_s": [2e-6, 0, 3e-6], "fusion_gain": [3, 0.75, 12],
        "matmul_flop_per_s": [2.147e11, 1.074e11, 4.295e11],
    }  # fmt: skip
    assert [line[name] for name in ("tick_s", *(f"{name}_at" for name in laptops.LARGEST))] == [
        1e-3, 2**20, 512, 2**24, 1024]  # fmt: skip


def test_a_folder_that_a_notebook_kept_becomes_the_same_line(tmp_path: Path, table: Path) -> None:
    folder, other = keep(FOUND, tmp_path / "recordings"), tmp_path / "other.csv"
    other.write_text(EMPTY, "utf-8")
    assert laptops.add(folder, table=table) == f"apple, metal-3, Safari 26, 2026-01-31: added to {table}"
    assert laptops.add(sent(tmp_path), table=other) and laptops.read(table) == laptops.read(other)


def test_the_same_device_browser_and_day_is_refused_with_words_and_nothing_is_lost(tmp_path: Path, table: Path) -> None:
    laptops.add(sent(tmp_path), table=table)
    before, other = table.read_bytes(), sent(tmp_path, launch={"alone": [1e-3, 1e-3, 1e-3, 7]})
    with pytest.raises(RecordingError, match=r"has apple, metal-3, Safari 26, .* already\. .* by --model"):
        laptops.add(other, table=table)
    assert table.read_bytes() == before
    laptops.add(other, "iPad", table)
    assert [line["model"] for line in laptops.read(table)] == ["", "iPad"] and table.read_bytes().startswith(before)
    assert laptops.read(table)[1]["launch_among_s"] is None


def on(**changed: Any) -> dict[str, Any]:
    return {"device": DEVICE | changed}


@pytest.mark.parametrize(("changed", "said"), [
    (on(software=True), "a processor played this GPU"), (on(software="no"), "a processor played"),
    ({"rows": [], "shown": "no WebGPU"}, "nothing was measured there; the browser said: no WebGPU"),
    ({"device": {}}, "'software' is missing"), (on(vendor=None), "vendor is None; expected a text"),
    (on(vendor=""), "model is ''; expected what the device is"), (on(browser="=1+1"), r"browser is '=1\+1'"),
    (on(architecture="a | b"), "architecture is 'a | b'; expected at most 200 letters"),
    (on(vendor="x\u202ey"), "vendor is"), (on(date="yesterday"), "yesterday"),
    (on(tick_s=5.0), "tick_s is '5.0'; expected a number, 1e-09 to 1 seconds: is it in another unit"),
    ({"launch": {"alone": [4e6, 3e6, 5e6, 7]}}, "launch_alone_s is '4000000.0'; .* in another unit"),
    ({"launch": {"alone": [4e-3, 5e-3, 5e-3, 7]}}, "launch_alone_s is 0.004; expected it in its interval, 0.005 to"),
    ({"launch": {"alone": ["4 ms", 0, 1, 7]}}, "times.* is '4 ms'; expected a finite number"),
    ({"launch": [4e-3]}, "sent.json: "), ({"copy": {"bytes": 8}}, "'experiment' is missing"),
    ({"copy": row("copy", "webgpu", {"elements": 4}, 8e3, 0, "period_s")}, "copy_bytes_per_s is '1000.0'"),
    ({"copy": row("copy", "webgpu", {"elements": 0.5}, 8e-5, 0, "period_s")}, "elements is 0.5; expected a whole"),
    ({"rows": [ROWS[0], ROWS[0]]}, "found is 'repeat.csv: row 2 .* same point"),
    ({"rows": [ROWS[0] | {"experiment": "copy"}]}, "experiment"), ({"rows": [ROWS[0] | {"times": []}]}, "sent.json: "),
    ({"rows": [ROWS[0] | {"flop": 10**400}]}, "sent.json: "), ({"rows": [7]}, "sent.json: "),
    ({"rows": [ROWS[-1] | {"times": {"latency_s": [1e6, 1e6, 1e6, 7]}}]}, "keep: found is .matmul.csv: row 1 .* unit"),
    ({"rows": [ROWS[-1] | {"times": {"host_s": [1e-3, 1e-3, 1e-3, 7]}}]}, "'period_s' is missing"),
])  # fmt: skip
def test_what_no_device_can_have_is_refused_and_nothing_is_written(
    changed: dict[str, Any], said: str, tmp_path: Path, table: Path, capsys: Any
) -> None:
    path = sent(tmp_path, **changed)
    with pytest.raises(RecordingError, match=said):
        laptops.add(path, table=table)
    assert main(["join", str(path)]) == 2 and capsys.readouterr().err.startswith(f"{path}: ")
    assert table.read_text("utf-8") == EMPTY


def test_a_recording_that_no_browser_made_needs_a_folder_to_go_into(tmp_path: Path, table: Path) -> None:
    with pytest.raises(RecordingError, match=r"browser.json: is missing\..* needs --into FOLDER"):
        laptops.add(tmp_path, table=table)


@pytest.mark.parametrize(("old", "new", "said"), [
    ("vendor,", "maker,", "wrong columns .missing: vendor"), ("apple", "", ".*model"),
    ("0.001", "1 ms", "row 1 .line 2.: tick_s is '1 ms'; expected a number"),
    (",Safari 26", "", ".*has 27 cells"), ("2026-01-31", '"', "line 2 is no CSV"),
])  # fmt: skip
def test_a_table_that_is_wrong_is_named(old: str, new: str, said: str, tmp_path: Path, table: Path) -> None:
    laptops.add(sent(tmp_path), table=table)
    table.write_text(table.read_text("utf-8").replace(old, new), "utf-8")
    with pytest.raises(RecordingError, match=f"laptops.csv: {said}"):
        laptops.add(sent(tmp_path), "another", table)


def test_the_course_s_table_reads() -> None:
    laptops.read(laptops.share("data") / "laptops.csv")
