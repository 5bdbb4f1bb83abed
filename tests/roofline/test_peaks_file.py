"""peaks.json: what is written reads the same; what is damaged is refused, with file and field named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_up
import pytest
from peaks_made_up import gpu_peaks

from brrr.cli.calibrate import write_peaks
from brrr.core.errors import ArgumentError, RecordingError
from brrr.core.files import digest, share
from brrr.roofline import peaks as file
from brrr.roofline.peak import Sweep
from brrr.roofline.peaks import FORMAT, Peaks, find_peaks, read_peaks, recorded_peaks, slug_of
from brrr_course.experiments import experiment
from brrr_course.sources.folders import Store
from brrr_course.sources.recording import Machine, Recording

PEAKS = replace(gpu_peaks(), device=made_up.GPU.device)


def test_what_is_written_reads_the_same(tmp_path: Path) -> None:
    path = write_peaks(tmp_path / "h200", PEAKS)
    assert path.name == "peaks.json" and read_peaks(tmp_path / "h200") == PEAKS
    again = replace(PEAKS, date="2001-01-01", assumed={}, notes=())
    write_peaks(tmp_path / "h200", again)
    assert read_peaks(tmp_path / "h200") == again


def test_peaks_live_with_a_recording_and_outlive_the_next_run(writable_root: Path) -> None:
    folder = writable_root / "h200"
    before = Recording.read(folder, experiment("matmul"))
    write_peaks(folder, PEAKS)
    assert Recording.read(folder, experiment("matmul")).rows == before.rows
    Store(folder, made_up.GPU, [experiment("matmul")]).note(made_up.run_info("run-2", "2000-01-02"))
    assert [run.id for run in Machine.read(folder).runs] == ["run-1", "run-2"]
    assert read_peaks(folder) == PEAKS


def test_peaks_of_another_machine_are_not_put_beside_a_recording(writable_root: Path) -> None:
    for other in (replace(PEAKS, torch="9.9"), replace(PEAKS, device="NVIDIA H100"), replace(PEAKS, kind="cpu")):
        before = {path: path.read_bytes() for path in (writable_root / "h200").iterdir()}
        with pytest.raises(RecordingError, match="cannot be joined"):
            write_peaks(writable_root / "h200", other)
        assert {path: path.read_bytes() for path in (writable_root / "h200").iterdir()} == before


def test_a_recording_without_peaks_says_what_to_run(synthetic_root: Path) -> None:
    with pytest.raises(RecordingError, match=r"peaks\.json: there are no peaks\. Run brrr\.calibrate"):
        read_peaks(synthetic_root / "h200")


def test_recorded_peaks_go_by_the_devices_short_name(writable_root: Path) -> None:
    write_peaks(writable_root / "h200", PEAKS)
    assert recorded_peaks("h200", writable_root) == PEAKS
    with pytest.raises(ArgumentError, match=r"device is 'h300'; expected one of cpu, h200\. Run brrr"):
        recorded_peaks("h300", writable_root)


def test_peaks_are_read_once_and_anew_when_the_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_peaks(tmp_path, PEAKS)
    first = find_peaks(tmp_path)
    monkeypatch.setattr(file, "read_json", lambda *args: pytest.fail("read twice"))
    assert find_peaks(tmp_path) is first
    monkeypatch.undo()
    again = replace(PEAKS, notes=("measured once more",))
    write_peaks(tmp_path, again)
    assert find_peaks(tmp_path) == again
    (tmp_path / "peaks.json").unlink()
    assert find_peaks(tmp_path) is None


SWEEP = Sweep.of(("operator", "form", "m"), [("aten.sum", "", 4096), ("aten.sum", "rows", 7)], [2.048e-6, 1.5e-3])


def in_rows(sweep: dict[str, Any]) -> dict[str, Any]:
    """As formats up to 4 had it."""
    columns = sweep["columns"]
    sweep.update(columns=list(columns), rows=list(zip(*columns.values(), strict=True)))
    return sweep


@pytest.mark.parametrize("version", [3, 4])
def test_sweeps_of_formats_3_and_4_had_rows(tmp_path: Path, version: int) -> None:
    """And those of format 3 were fitted to nothing."""
    fits = {"reduction/rows": (1.0,)} if version == 4 else {}
    peaks = replace(PEAKS, sweeps={"operators": replace(SWEEP, fits=fits)})
    path = older_file(tmp_path, peaks, version)
    assert read_peaks(tmp_path) == peaks and read_peaks(tmp_path).sweeps == peaks.sweeps
    content = json.loads(path.read_text())
    content["sweeps"]["operators"]["rows"][1] = ["aten.sum"]
    path.write_text(json.dumps(content))
    with pytest.raises(RecordingError, match=r"peaks.json: sweeps.operators has no rows with a value for each column"):
        read_peaks(tmp_path)


def older_file(folder: Path, peaks: Peaks, version: int) -> Path:
    """Written as these formats had it."""
    path = write_peaks(folder, peaks)
    content = {**json.loads(path.read_text()), "format": version}
    del content["checksum"]
    for sweep in content["sweeps"].values():
        in_rows(sweep)
        if version == 3:
            del sweep["fits"]
    path.write_text(json.dumps({**content, "checksum": digest(json.dumps(content, sort_keys=True))}))
    return path


def test_the_course_recordings_still_read() -> None:
    for folder in sorted((share("data") / "recordings").iterdir()):
        assert Machine.read(folder).slug == folder.name


Spoil = Callable[[dict[str, Any]], object]

WRONG: list[tuple[Spoil, str]] = [
    (
        lambda p: p.update(format=FORMAT + 1),
        f"format is {FORMAT + 1}; expected 1 to {FORMAT}: newer than",
    ),
    (lambda p: p.update(format="1"), "format is '1'; expected a whole number"),
    (lambda p: p.update(kind="tpu"), "kind is 'tpu'; expected one of cuda, cpu"),
    (lambda p: p.pop("curves"), "curves is missing"),
    (lambda p: p.update(colour="red"), "colour is not a known key"),
    (lambda p: p["measured"]["gap.stream"].update(value="1 us"), "measured.gap.stream.value is '1 us'"),
    (
        lambda p: p["measured"]["gap.stream"].update(value=1e6),
        "gap.stream.value is 1000000.0; expected 1e-10 to 1000 s",
    ),
    (lambda p: p["measured"]["gap.stream"].update(low=1.0), "measured.gap.stream.low and high"),
    (lambda p: p["measured"]["gap.stream"].update(unit="ms"), "measured.gap.stream.unit is 'ms'"),
    (
        lambda p: p["measured"]["gap.stream"].update(kind="datasheet"),
        "gap.stream is 'datasheet'; expected a measured",
    ),
    (lambda p: p["measured"]["gap.stream"].update(spread=1), "measured.gap.stream.spread is not a known key"),
    (lambda p: p["measured"]["gap.stream"]["conditions"].update(on=None), "conditions.on is None"),
    (lambda p: p["measured"].update(more=3), "measured.more is 3; expected an object"),
    (
        lambda p: p["assumed"]["kernel.floor"].update(kind="measured"),
        "assumed kernel.floor is 'measured'; expected",
    ),
    (lambda p: p["curves"]["copy"].update(points=[]), "curves.copy.points is []; expected at least one"),
    (lambda p: p["curves"]["copy"]["points"].reverse(), "above zero and rising"),
    (lambda p: p["curves"]["copy"]["points"][1].pop(0), "curves.copy.points[1] is [{"),
    (lambda p: p["curves"]["copy"]["points"][1][1].update(unit="s"), "curves.copy.points[1][1].value"),
    (lambda p: p["curves"]["copy"].pop("axis"), "curves.copy.axis is missing"),
    (lambda p: p.update(notes="none"), "notes is 'none'; expected a list"),
    (lambda p: p.update(date="2001-01-01"), "the checksum does not fit"),
]


@pytest.mark.parametrize(("spoil", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_peaks_are_refused_by_name(tmp_path: Path, spoil: Spoil, message: str) -> None:
    path = write_peaks(tmp_path, PEAKS)
    content = json.loads(path.read_text())
    spoil(content)
    path.write_text(json.dumps(content))
    with pytest.raises(RecordingError) as caught:
        read_peaks(tmp_path)
    assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)


def test_the_folder_is_named_after_the_device() -> None:
    assert slug_of(gpu_peaks()) == "h200" and slug_of(replace(PEAKS, kind="cpu", device="Some CPU")) == "cpu"
