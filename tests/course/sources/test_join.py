"""`brrr join`: recordings of several GPUs of one model become one; whatever does not belong together is refused."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import made_up
import pytest
import timelines

from brrr.__main__ import main
from brrr.core.errors import RecordingError
from brrr_course.experiments import experiment
from brrr_course.sources import folders, timeline_file
from brrr_course.sources.folders import Store, join, locked
from brrr_course.sources.recording import Failure, Machine, Recording
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
    for folder, calls in ((first, 2), (second, 3)):
        timeline_file.write(timelines.host_bound(calls), folder / TRACES / "matmul" / "both.json")
    timeline_file.write(timelines.host_bound(4), second / TRACES / "matmul" / "new.json")
    before = contents(first)
    assert main(["join", str(second), "--into", str(first)]) == 0
    assert {row.run for row in Recording.read(first, MATMUL).rows} == {"gpu-1"}
    after = contents(first)
    assert after["traces/matmul/both.json"] == before["traces/matmul/both.json"], "one's own stays"
    assert after["traces/matmul/new.json"] == contents(second)["traces/matmul/new.json"]


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


@pytest.mark.parametrize("place", ["traces", "traces/matmul", "traces/matmul/x.json", "matmul.csv", "machine.json",
                                   "matmul.samples.npz"])  # fmt: skip
def test_no_link_is_followed_and_nothing_unread_is_taken(tmp_path: Path, place: str) -> None:
    """A student's folder may lead to a teacher's own files."""
    first, second = recorded(tmp_path, 256, "gpu-0"), recorded(tmp_path, 1024, "gpu-1")
    before, path, secret = contents(first), second / place, tmp_path / "secret" / "matmul"
    secret.mkdir(parents=True)
    timeline_file.write(timelines.host_bound(2), secret / "key.json")
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to({"traces": secret.parent, "traces/matmul": secret}.get(place, secret / "key.json"))
    with pytest.raises(RecordingError, match=rf"{place}.*: is a link, or lies behind one"):
        join(first, second)
    path.unlink()
    if place.endswith(("x.json", "npz")):
        path.write_text("no timeline, and no archive")
        with pytest.raises(RecordingError, match=f"{place}: "):
            join(first, second)
    assert contents(first) == before


def test_a_run_that_went_on_is_the_same_run(tmp_path: Path) -> None:
    """Joined while it was recorded, it knows neither its end nor what failed later."""
    first, second = recorded(tmp_path, 256, "gpu-0"), recorded(tmp_path, 1024, "gpu-1")
    join(first, second)
    machine, failure = Machine.read(second), Failure("matmul", "gpu", {"size": 2048}, "DeviceMemoryError", "too large")
    (run,) = machine.runs
    machine.with_run(dataclasses.replace(run, failed=(failure,), sm_clock_after_hz=1.9e9)).write(second)
    for _ in range(2):
        join(first, second)
        assert Machine.read(first).runs[1].failed == (failure,)
    assert Machine.read(first).runs[1].sm_clock_after_hz == 1.9e9


RUNS = """
import sys
from pathlib import Path
import made_up
from brrr_course.sources import record
from brrr_course.sources.folders import join

into, how, *many = sys.argv[1:]
for each in many:
    if how == "join":
        join(Path(into), Path(each))
        continue
    record.collect_environment = lambda kind: (made_up.GPU, made_up.run_info(each))
    record._trace = lambda *_: False
    sys.modules["brrr_course.sources.isolated"] = made_up
    made_up.measure_step = made_up.measure
    assert record.main(["matmul", "--device", "cuda", "--out", str(Path(into).parent), "--only", f"size={each}"]) == 0
"""


def test_beside_each_other_nothing_is_lost_and_each_reader_sees_old_or_new(tmp_path: Path) -> None:
    into = recorded(tmp_path, 2048, "first")
    sources = [str(recorded(tmp_path, 256, f"gpu-{number}")) for number in range(12)]
    tests = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)])}
    work = [("join", sources[:6]), ("join", sources[6:]), ("record", ["64", "128", "512"])]
    processes = [subprocess.Popen([sys.executable, "-c", RUNS, str(into), how, *many], env=env) for how, many in work]
    seen = []
    while any(process.poll() is None for process in processes):
        seen.append(len(Recording.read(into, MATMUL).rows))
    assert [process.returncode for process in processes] == [0, 0, 0] and seen == sorted(seen)
    found = Recording.read(into, MATMUL)
    assert {row.run for row in found.rows} == {"first", *(f"gpu-{number}" for number in range(12)), "64", "128", "512"}
    assert not list(into.parent.glob(".*.lock"))


def test_who_comes_second_is_told_who_holds_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = recorded(tmp_path, 256, "gpu-0"), recorded(tmp_path, 1024, "gpu-1")
    before = contents(first)
    monkeypatch.setattr(folders, "WAIT_S", 0.1)
    with locked(first):
        monkeypatch.setattr(folders, "_held", set())  # as another process has it
        with pytest.raises(RecordingError, match="another process writes into it"):
            join(first, second)
        with pytest.raises(RecordingError, match="another process writes into it"):
            Store(first, made_up.GPU, [MATMUL]).note(made_up.run_info("gpu-2"))
    assert contents(first) == before
    join(first, second)


def test_a_folder_without_a_machine_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = recorded(tmp_path, 256, "gpu-0")
    assert main(["join", str(tmp_path / "nothing"), "--into", str(first)]) == 2
    assert "machine.json" in capsys.readouterr().err
