"""`brrr join`: recordings of several GPUs of one model become one; whatever does not belong together is refused."""

import dataclasses
from pathlib import Path

import made_up
import pytest

from brrr.__main__ import main
from brrr.core.errors import RecordingError
from brrr_course.experiments import experiment
from brrr_course.sources.folders import join
from brrr_course.sources.recording import Machine, Recording
from brrr_course.sources.timers import FOLDER as TRACES

MATMUL = experiment("matmul")


def recorded(root: Path, size: int, run: str, machine: Machine = made_up.GPU) -> Path:
    """A folder with one size of `matmul`, recorded in one run."""
    made_up.record(root / run, machine, {"size": [str(size)]}, run=made_up.run_info(run))
    return root / run / machine.slug


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_rows_keep_their_run_and_a_second_time_adds_nothing(tmp_path: Path) -> None:
    first, second = recorded(tmp_path, 256, "gpu-0"), recorded(tmp_path, 1024, "gpu-1")
    theirs = Recording.read(second, MATMUL).rows
    both = [*Recording.read(first, MATMUL).rows, *theirs]
    assert join(first, second) == [f"matmul: {len(theirs)} rows from {second}"]
    joined = Recording.read(first, MATMUL)
    assert list(joined.rows) == both and {row.run for row in joined.rows} == {"gpu-0", "gpu-1"}
    assert [run.id for run in joined.machine.runs] == ["gpu-0", "gpu-1"]
    assert join(first, second) == [f"matmul: 0 rows from {second}"]
    again = Recording.read(first, MATMUL)
    assert again.rows == joined.rows and again.machine.runs == joined.machine.runs


def test_an_experiment_and_timelines_that_were_not_there_come_along(tmp_path: Path) -> None:
    first, second = recorded(tmp_path, 256, "gpu-0"), recorded(tmp_path, 1024, "gpu-1")
    (first / "matmul.csv").unlink()
    for folder, text in ((first, "mine"), (second, "theirs")):
        (folder / TRACES / "matmul").mkdir(parents=True)
        (folder / TRACES / "matmul" / "both.json").write_text(text)
    (second / TRACES / "matmul" / "new.json").write_text("theirs")
    assert main(["join", str(second), "--into", str(first)]) == 0
    assert {row.run for row in Recording.read(first, MATMUL).rows} == {"gpu-1"}
    assert (first / TRACES / "matmul" / "both.json").read_text() == "mine"
    assert (first / TRACES / "matmul" / "new.json").read_text() == "theirs"


def test_what_was_measured_on_another_machine_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    first = recorded(tmp_path, 256, "gpu-0")
    before = contents(first)
    other = recorded(tmp_path, 1024, "other", dataclasses.replace(made_up.GPU, device="Synthetic H100"))
    with pytest.raises(RecordingError, match="cannot be joined"):
        join(first, other)
    assert contents(first) == before


def test_two_runs_of_one_id_are_refused(tmp_path: Path) -> None:
    first, second = recorded(tmp_path / "a", 256, "gpu-0"), recorded(tmp_path / "b", 1024, "gpu-0")
    machine = Machine.read(second)
    dataclasses.replace(machine, runs=tuple(dataclasses.replace(run, devices=()) for run in machine.runs)).write(second)
    with pytest.raises(RecordingError, match="its run gpu-0 is not the run of that id"):
        join(first, second)


def test_a_folder_without_a_machine_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = recorded(tmp_path, 256, "gpu-0")
    assert main(["join", str(tmp_path / "nothing"), "--into", str(first)]) == 2
    assert "machine.json" in capsys.readouterr().err
