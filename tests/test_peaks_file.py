"""Peaks in machine.json: what is written reads the same; what is damaged is refused, with file and field named."""

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
from brrr.core.paths import share
from brrr.course.experiments import experiment
from brrr.course.sources.folders import Store
from brrr.course.sources.machine import Machine
from brrr.course.sources.recording import Recording
from brrr.roofline.peaks.file import FORMAT, read_peaks, recorded_peaks, slug_of

PEAKS = replace(gpu_peaks(), device=made_up.GPU.device)


def test_what_is_written_reads_the_same(tmp_path: Path) -> None:
    path = write_peaks(tmp_path / "h200", PEAKS)
    assert path.name == "machine.json" and read_peaks(tmp_path / "h200") == PEAKS
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
        before = (writable_root / "h200" / "machine.json").read_bytes()
        with pytest.raises(RecordingError, match="cannot be joined"):
            write_peaks(writable_root / "h200", other)
        assert (writable_root / "h200" / "machine.json").read_bytes() == before


def test_a_recording_without_peaks_says_what_to_run(synthetic_root: Path) -> None:
    with pytest.raises(RecordingError, match=r"machine\.json: holds no peaks\. Run brrr\.calibrate"):
        read_peaks(synthetic_root / "h200")


def test_recorded_peaks_go_by_the_devices_short_name(writable_root: Path) -> None:
    write_peaks(writable_root / "h200", PEAKS)
    assert recorded_peaks("h200", writable_root) == PEAKS
    with pytest.raises(ArgumentError, match=r"device is 'h300'; expected one of cpu, h200\. Run brrr"):
        recorded_peaks("h300", writable_root)


def older(path: Path, peaks: dict[str, object]) -> None:
    """The file as the first format had it, its checksum made anew."""
    from brrr.course.sources.machine import _checksum

    content = {**json.loads(path.read_text()), "format": 1, "peaks": peaks}
    path.write_text(json.dumps({**content, "checksum": _checksum(content)}))


@pytest.mark.parametrize("peaks", [{}, {"memory_bytes_per_s": 4.1e12}])
def test_files_of_the_first_format_stay_readable(writable_root: Path, peaks: dict[str, object]) -> None:
    older(writable_root / "h200" / "machine.json", peaks)
    assert Machine.read(writable_root / "h200").peaks == peaks
    write_peaks(writable_root / "h200", PEAKS)
    assert read_peaks(writable_root / "h200") == PEAKS


def test_the_course_recordings_still_read() -> None:
    for folder in sorted((share("data") / "recordings").iterdir()):
        assert Machine.read(folder).slug == folder.name


Spoil = Callable[[dict[str, Any]], object]

WRONG: list[tuple[Spoil, str]] = [
    (lambda p: p.update(format=FORMAT + 1), f"peaks.format is {FORMAT + 1}; this brrr reads 1 to {FORMAT}"),
    (lambda p: p.update(format="1"), "peaks.format is '1'; expected a whole number"),
    (lambda p: p.update(kind="tpu"), "peaks.kind is 'tpu'; expected cuda or cpu"),
    (lambda p: p.pop("curves"), "peaks.curves is missing"),
    (lambda p: p.update(colour="red"), "peaks.colour is not a known key"),
    (lambda p: p["measured"]["gap.stream"].update(value="1 us"), "peaks.measured.gap.stream.value is '1 us'"),
    (lambda p: p["measured"]["gap.stream"].update(value=1e6), "expected 1e-10 to 1000 s: is it in another unit?"),
    (lambda p: p["measured"]["gap.stream"].update(low=1.0), "peaks.measured.gap.stream.low and high"),
    (lambda p: p["measured"]["gap.stream"].update(unit="ms"), "peaks.measured.gap.stream.unit is 'ms'"),
    (lambda p: p["measured"]["gap.stream"].update(kind="datasheet"), "kind is 'datasheet'; expected 'measured'"),
    (lambda p: p["measured"]["gap.stream"].update(spread=1), "peaks.measured.gap.stream.spread is not a known key"),
    (lambda p: p["measured"]["gap.stream"]["conditions"].update(on=None), "conditions.on is None"),
    (lambda p: p["measured"].update(more=3), "peaks.measured.more is 3; expected an object"),
    (lambda p: p["assumed"]["kernel.floor"].update(kind="measured"), "peaks.assumed.kernel.floor.kind is 'measured'"),
    (lambda p: p["curves"]["copy"].update(points=[]), "peaks.curves.copy.points: []"),
    (lambda p: p["curves"]["copy"]["points"].reverse(), "above zero and rising"),
    (lambda p: p["curves"]["copy"]["points"][1].pop("at"), "peaks.curves.copy.points[1].at is missing"),
    (lambda p: p["curves"]["copy"]["points"][1].update(unit="s"), "peaks.curves.copy.points[1].value"),
    (lambda p: p["curves"]["copy"].pop("axis"), "peaks.curves.copy.axis is missing"),
    (lambda p: p.update(notes="none"), "peaks.notes is 'none'; expected a list of texts"),
    (lambda p: p.update(date="2001-01-01"), "the checksum does not fit"),
]


@pytest.mark.parametrize(("spoil", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_peaks_are_refused_by_name(tmp_path: Path, spoil: Spoil, message: str) -> None:
    path = write_peaks(tmp_path, PEAKS)
    content = json.loads(path.read_text())
    spoil(content["peaks"])
    path.write_text(json.dumps(content))
    with pytest.raises(RecordingError) as caught:
        read_peaks(tmp_path)
    assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)


def test_the_folder_is_named_after_the_device() -> None:
    assert slug_of(gpu_peaks()) == "h200" and slug_of(replace(PEAKS, kind="cpu", device="Some CPU")) == "cpu"
