"""Recording: what comes first, what a kill leaves, what is skipped, refused, flagged and reported."""

import dataclasses
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import made_up
import pytest
from made_up import CPU, GPU
from played_clock import Clock

import brrr
from brrr.core import files
from brrr.core.errors import BrrrError, DeviceMemoryError, RecordingError, UnavailableError, WrongResultError
from brrr.core.measurement import Measurement
from brrr_course.experiments import experiment
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant
from brrr_course.nouns.source import broken
from brrr_course.sources import isolated, record
from brrr_course.sources.folders import Store
from brrr_course.sources.plan import PHASES, DurationEstimator, Step, prioritized, steps
from brrr_course.sources.record import summary
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.recorder import Outcome, Recorder, spikes
from brrr_course.sources.recording import Machine, Recording
from brrr_course.sources.rows import Row, Timed

pytestmark = pytest.mark.usefixtures("own_environment")  # the command sets how threads wait
MATMUL = experiment("matmul")
SIZES = MATMUL.axis("size").values


def sizes(root: Path, variant: str = "gpu", device: str = "h200") -> list[object]:
    return [size for (size,) in Recorded(device, root).known(MATMUL, variant)]


Found = dict[str, Timed | BrrrError]
ANCHORS = {"size": ["1024", "8192"]}


def again(root: Path, number: int = 2, **options: Any) -> Outcome:
    """Another run on the made-up GPU."""
    return made_up.record(root, GPU, run=made_up.run_info(f"run-{number}"), **options)


def but(change: Callable[[Step, Found], object], slower: float = 1.0) -> Callable[[Step], Found]:
    """A measurer of made-up times, some of which are changed."""

    def measure(step: Step) -> Found:
        found = dict(made_up.measure(step, slower))
        change(step, found)
        return found

    return measure


def never(step: Step) -> Found:
    raise AssertionError(f"{step}: nothing may be measured here")


# ---------------------------------------------------------------- the plan


def test_every_point_is_planned_once_and_the_important_ones_come_first() -> None:
    order = prioritized(MATMUL)
    assert sorted(point["size"] for point, _ in order) == list(SIZES)
    phases = [PHASES.index(phase) for _, phase in order]
    assert phases == sorted(phases)
    assert [point["size"] for point, phase in order if phase == "anchor"] == [1024, 8192]
    assert [point["size"] for point, phase in order if phase == "claim"] == [1, 32768]


GRID = Experiment(
    name="grid",
    title="Grid",
    question="Is an interrupted recording even?",
    axes=(Axis("size", tuple(range(1, 65)), scale="linear"), Axis("kind", ("x", "y"), scale="category")),
    variants=(Variant("a", "A", "cpu"), Variant("b", "B", "cpu-queue"), Variant("c", "C", "cuda")),
    lines=(Line("a", "a", "latency_s", "A"),),
)


def test_corners_and_middle_come_with_every_category() -> None:
    order = [(tuple(point.values()), phase) for point, phase in prioritized(GRID)]
    assert [key for key, phase in order if phase == "corner"] == [(1, "x"), (1, "y"), (64, "x"), (64, "y")]
    assert [key for key, phase in order if phase == "middle"] == [(33, "x"), (33, "y")]
    assert len(order) == len({key for key, _ in order}) == 128


@pytest.mark.parametrize("share", [4, 8])
def test_an_interrupted_grid_is_spread_evenly(share: int) -> None:
    done = sorted({int(point["size"]) for point, _ in prioritized(GRID)[: 128 // share]} | {0, 65})
    assert max(b - a for a, b in itertools.pairwise(done)) <= 2 * share


def test_a_grid_of_categories_alone_is_planned_too() -> None:
    only_names = dataclasses.replace(GRID, axes=(GRID.axis("kind"), Axis("cache", ("hot", "cold"), scale="category")))
    assert len(prioritized(only_names)) == 4
    assert len(steps([only_names], "cpu")) == 4


def test_a_device_measures_its_own_variants() -> None:
    assert {step.variants for step in steps([GRID], "cpu")} == {("a", "b")}
    assert {step.variants for step in steps([GRID], "cuda")} == {("a", "c")}
    at_end = next(step for step in steps([MATMUL], "cpu") if step.point["size"] == 32768)
    assert at_end.variants == ("cpu",)


def test_only_keeps_points_and_variants() -> None:
    found = steps([MATMUL, GRID], "cuda", only={"size": ["64", "1024"], "variant": ["gpu"]})
    assert [(step.experiment.name, step.point["size"], step.variants) for step in found] == [
        ("matmul", 1024, ("gpu",)),
        ("matmul", 64, ("gpu",)),
    ]


def test_the_budget_is_larger_where_a_claim_looks() -> None:
    budgets = {step.point["size"]: step.budget_s for step in steps([MATMUL], "cuda")}
    assert budgets[1024] == budgets[1] == 0.2
    assert budgets[64] == 0.03
    assert {step.budget_s for step in steps([MATMUL], "cuda", budget_s=0.5)} == {0.5}


def test_where_a_claim_looks_a_slow_call_gets_the_samples_of_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    claimed = next(step for step in steps([MATMUL], "cpu") if step.phase == "claim")
    grid = next(step for step in steps([MATMUL], "cpu") if step.phase == "grid")
    assert (claimed.fewest, grid.fewest) == (6, 1)
    tiny = dataclasses.replace(claimed, point={"size": 64}, variants=("cpu",), budget_s=1e-9)
    monkeypatch.setattr("brrr.timing.plan.SLOW_CALLS", 1e12)  # a call far longer than the budget, yet repeated

    def samples(fewest: int) -> int:
        found = isolated.measure_point(MATMUL, tiny.variants, tiny.point, budget_s=tiny.budget_s, fewest=fewest)["cpu"]
        assert isinstance(found, Timed) and found.measurement.period_s is not None
        return found.measurement.period_s.n

    assert min(samples(1) for _ in range(5)) < 6 <= samples(6), "one that others disturb is taken twice"


def test_predictions_grow_with_the_work_and_follow_what_was_measured() -> None:
    small, large = (next(s for s in steps([MATMUL], "cpu") if s.point["size"] == n) for n in (64, 16384))
    pace = DurationEstimator(cores=2)
    before = pace.seconds(large)
    assert before > 20 * pace.seconds(small)
    pace.learn(large, 3 * before)
    assert 2 * before < pace.seconds(large) <= 3 * before


def test_what_a_variant_takes_to_prepare_is_planned_and_nothing_where_it_says_none() -> None:
    longest = tuple(dataclasses.replace(each, prepare_s=30.0) for each in MATMUL.variants)
    slow = dataclasses.replace(MATMUL, variants=longest)
    plain, compiled = (next(s for s in steps([each], "cpu") if s.point["size"] == 64) for each in (MATMUL, slow))
    longer_s = DurationEstimator(cores=2).seconds(compiled) - DurationEstimator(cores=2).seconds(plain)
    assert longer_s == pytest.approx(30.0 * len(plain.variants))


def test_a_measured_neighbour_replaces_the_assumed_rate(synthetic_root: Path) -> None:
    slow = DurationEstimator(cores=1)
    step = next(s for s in steps([MATMUL], "cpu") if s.point["size"] == 16384)
    assumed = slow.seconds(step)
    slow.learn_rows(MATMUL, Recording.read(synthetic_root / "cpu", MATMUL).rows)
    assert slow.seconds(step) < assumed / 3  # the made-up CPU is much faster than one core


# ---------------------------------------------------------------- resuming


def run_for(root: Path, limit_s: float, run_id: str, machine: Machine = GPU, slower: float = 1.0) -> list[Step]:
    """Record until the limit, each point taking five seconds of a made-up clock; returns the steps measured."""
    clock = Clock()

    def measure(step: Step) -> Found:
        clock.go_on(5)
        return made_up.measure(step, slower)

    info = made_up.run_info(run_id, f"2000-01-0{run_id[-1]}")
    options = {"estimator": DurationEstimator(16), "limit_s": limit_s, "now_s": clock.perf_counter}
    outcome = made_up.record(root, machine, run=info, measure=measure, **options)
    assert clock.now_ns <= limit_s * 1e9
    return outcome.measured


def test_runs_stop_at_their_limit_and_go_on_where_they_stopped(tmp_path: Path) -> None:
    measured: list[Step] = []
    for number in range(1, 9):
        measured += run_for(tmp_path, 60, f"run-{number}", CPU)
        if len(sizes(tmp_path, "cpu", "cpu")) >= 18:
            break
    assert 1 < number < 9
    grid = [step.point["size"] for step in measured if step.phase not in ("anchor",)]
    assert len(grid) == len(set(grid))
    anchors = [step.point["size"] for step in measured if step.phase == "anchor"]
    assert anchors.count(1024) == number
    runs = Machine.read(tmp_path / "cpu").runs
    assert [run.id for run in runs] == [f"run-{k}" for k in range(1, number + 1)]


class Stubborn(DurationEstimator):
    """An estimator that goes on believing in one slow core, whatever it sees: a made-up measurer takes no time."""

    def learn(self, step: Step, taken_s: float) -> None:
        pass

    def learn_rows(self, experiment: Experiment, rows: Sequence[Row]) -> None:
        pass


def test_a_slow_variant_does_not_keep_the_fast_ones_from_being_measured(tmp_path: Path) -> None:
    outcome = made_up.record(tmp_path, GPU, limit_s=60.0, estimator=Stubborn(1), now_s=lambda: 0.0)
    assert {step.variants for step, _ in outcome.too_long} == {("cpu",)}
    assert "with cpu, more than --minutes 1 holds: left out" in summary(outcome, 60.0)
    assert sizes(tmp_path) == list(SIZES)
    assert sizes(tmp_path, "gpu-transfers") == list(SIZES)
    assert 32768 not in sizes(tmp_path, "cpu")
    once_more = again(tmp_path, limit_s=60.0, estimator=Stubborn(1))
    assert [step for step in once_more.measured if step.phase != "anchor"] == []
    longer = made_up.record(tmp_path, GPU, estimator=DurationEstimator(1), run=made_up.run_info("run-3", "2000-01-03"))
    assert 32768 in [step.point["size"] for step in longer.measured]
    assert sizes(tmp_path, "cpu") == list(SIZES)
    recorded = Recorded("h200", tmp_path)
    assert {recorded.rows(MATMUL, v)[(32768,)].run for v in ("cpu", "gpu", "gpu-transfers")} == {"run-3"}


def test_a_finished_recording_is_not_touched(writable_root: Path) -> None:
    before = {path: path.read_bytes() for path in (writable_root / "h200").iterdir()}

    assert again(writable_root, measure=never).measured == []
    assert {path: path.read_bytes() for path in (writable_root / "h200").iterdir()} == before


def test_all_variants_of_a_point_are_measured_together_even_if_one_was_missing(tmp_path: Path) -> None:
    made_up.record(tmp_path, GPU, only={"size": ["1"], "variant": ["gpu", "cpu"]})
    outcome = made_up.record(tmp_path, GPU, only={"size": ["1"]}, run=made_up.run_info("run-2", "2000-01-02"))
    expected = ("cpu", "gpu-transfers", "gpu-first", "gpu")
    assert [step.variants for step in outcome.measured] == [expected]
    recorded = Recorded("h200", tmp_path)
    assert {recorded.rows(MATMUL, v)[(1,)].run for v in recorded.variants(MATMUL)} == {"run-2"}


def test_control_c_keeps_what_is_finished(tmp_path: Path) -> None:
    def measure(step: Step) -> Found:
        if step.phase == "grid":
            raise KeyboardInterrupt
        return made_up.measure(step)

    outcome = made_up.record(tmp_path, GPU, measure=measure, sm_clock_hz=lambda: 1.98e9)
    assert outcome.interrupted
    assert sizes(tmp_path) == [1, 512, 1024, 8192, 32768]
    assert len(outcome.left) == len(SIZES) - 5
    assert "Interrupted: all finished points are kept." in summary(outcome, 480.0)
    [run] = Machine.read(tmp_path / "h200").runs
    assert (run.sm_clock_before_hz, run.sm_clock_after_hz) == (1.98e9, 1.98e9)
    assert len(again(tmp_path).left) == 0
    assert sizes(tmp_path) == list(SIZES)


RECORDING_PROCESS = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
import made_up
from played_clock import Clock

def measure(step):
    time.sleep(float(sys.argv[3]))
    return made_up.measure(step)

made_up.record(Path(sys.argv[1]), made_up.GPU, run=made_up.run_info(sys.argv[2]), measure=measure)
"""


def recording_process(root: Path, run_id: str, pause_s: float) -> subprocess.Popen[bytes]:
    here = Path(__file__).parents[2]
    path = os.pathsep.join([str(here), str(here.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", RECORDING_PROCESS, str(root), run_id, str(pause_s)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE)


def kill_later(root: Path, run_id: str, pause_s: float, delay_s: float) -> int:
    """Kill a recording, at once and without a chance to tidy up, `delay_s` after its run began and a row is there."""
    process = recording_process(root, run_id, pause_s)
    machine, rows = root / "h200" / "machine.json", root / "h200" / "matmul.csv"
    deadline = time.monotonic() + 60
    while not (rows.exists() and f'"{run_id}"' in machine.read_text()):
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < deadline
        time.sleep(0.001)
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a POSIX signal")
def test_a_killed_recording_reads_and_goes_on(tmp_path: Path) -> None:
    """Killed at several moments, among them within a write, for a measurer that takes no time writes all the time."""
    there: list[int] = []
    for number, (pause_s, delay_s) in enumerate([(0.05, 0.12), (0.0, 0.01), (0.0, 0.002), (0.0, 0.0), (0.0, 0.005)]):
        code = kill_later(tmp_path, f"run-{number}", pause_s, delay_s)
        there.append(len(Recording.read(tmp_path / "h200", MATMUL).rows))
        assert code in (-signal.SIGKILL, 0)
    assert there == sorted(there)
    assert there[0] > 0
    last = recording_process(tmp_path, "run-last", 0.0)
    assert last.wait(timeout=60) == 0, last.communicate()[1].decode()
    last.communicate()
    assert sizes(tmp_path) == list(SIZES)
    rows = Recording.read(tmp_path / "h200", MATMUL).rows
    grid = [row.point for row in rows if row.variant == "gpu" and row.point not in [(1024,), (8192,)]]
    assert len(grid) == len(set(grid))


# ---------------------------------------------------------------- joining, drift


def test_another_machine_is_refused_before_anything_is_measured(writable_root: Path) -> None:
    with pytest.raises(RecordingError, match="of Synthetic H200 cannot be joined with measurements on another GPU"):
        made_up.recorder(writable_root, dataclasses.replace(GPU, device="another GPU"))


NEWER = made_up.run_info("run-2", "2001-01-01", torch="2.13.0+cu130", driver="590.2")


def test_a_newer_torch_extends_a_recording(tmp_path: Path) -> None:
    made_up.record(tmp_path, GPU, {"size": ["256"]})
    made_up.record(tmp_path, GPU, {"size": ["256", "512"]}, run=NEWER)
    rows = Recording.read(tmp_path / "h200", MATMUL).rows
    assert {(row.point, row.run) for row in rows} == {((256,), "run-1"), ((512,), "run-2")}


def test_an_anchor_drifts_only_against_the_same_software(tmp_path: Path) -> None:
    made_up.record(tmp_path, GPU, {"size": ["1024"]})
    slower = partial(made_up.measure, slower=100.0)
    outcome = made_up.record(tmp_path, GPU, {"size": ["1024", "256"]}, run=NEWER, measure=slower)
    assert not outcome.drifts and not outcome.failed


def test_an_experiment_goes_on_from_the_folder_below(tmp_path: Path) -> None:
    made_up.record(tmp_path / "course", GPU, {"size": ["256"]})
    for root, below in (("own", tmp_path / "course" / "h200"), ("other", tmp_path / "nothing")):
        store = Store(tmp_path / root / "h200", GPU, [MATMUL], [below])
        recorder = Recorder(store, NEWER, made_up.measure, DurationEstimator(16))
        recorder.record(steps([MATMUL], "cuda", only={"size": ["256", "512"]}))
    assert {row.run for row in Recording.read(tmp_path / "own" / "h200", MATMUL).rows} == {"run-1", "run-2"}
    assert {row.run for row in Recording.read(tmp_path / "other" / "h200", MATMUL).rows} == {"run-2"}
    another = Store(tmp_path / "third" / "h200", dataclasses.replace(GPU, device="H200 NVL"), [MATMUL],
                    [tmp_path / "course" / "h200"])  # fmt: skip
    assert not another.rows(MATMUL)


@pytest.mark.parametrize("name", ["matmul.csv", "machine.json"])
def test_damaged_and_missing_files_are_refused_before_anything_is_measured(writable_root: Path, name: str) -> None:
    path = writable_root / "h200" / name
    path.write_text(path.read_text()[:-30])
    with pytest.raises(RecordingError, match=name):
        made_up.recorder(writable_root, GPU)
    if name == "machine.json":
        path.unlink()
        with pytest.raises(RecordingError, match="is missing"):
            made_up.recorder(writable_root, GPU)


def test_two_recordings_at_once_into_one_folder_are_refused(tmp_path: Path) -> None:
    first = made_up.recorder(tmp_path, GPU)

    def measure(step: Step) -> Found:
        if step.phase == "grid":
            GPU.with_run(made_up.run_info("run-9")).write(tmp_path / "h200")
        return made_up.measure(step)

    first.measure = measure
    with pytest.raises(RecordingError, match="was changed by somebody else"):
        first.record(steps([MATMUL], "cuda"))


@pytest.mark.parametrize(("slower", "flagged"), [(1.05, True), (0.95, True), (1.01, False), (1.0, False)])
def test_an_anchor_that_drifts_is_flagged(tmp_path: Path, slower: float, flagged: bool) -> None:
    made_up.record(tmp_path, GPU, only=ANCHORS)
    outcome = again(tmp_path, measure=partial(made_up.measure, slower=slower))
    mine = [d for d in outcome.drifts if (d.variant, d.field, d.point) == ("gpu", "latency_s", {"size": 8192})]
    assert [d.flagged for d in mine] == [flagged]
    assert mine[0].drift == pytest.approx(slower - 1, abs=1e-3)
    content = json.loads((tmp_path / "h200" / "machine.json").read_text())
    written = [a for a in content["runs"][1]["anchors"] if a["variant"] == "gpu" and a["field"] == "latency_s"]
    assert [a["flagged"] for a in written if a["point"] == {"size": 8192}] == [flagged]
    assert ("DRIFT" in summary(outcome, 480)) == flagged
    rows = [row for row in Recording.read(tmp_path / "h200", MATMUL).rows if row.point == (8192,)]
    assert {row.run for row in rows} == {"run-1", "run-2"}


@pytest.mark.parametrize("slower", [400.0, 1 / 400])
def test_an_anchor_three_times_off_is_measured_again_and_kept_if_it_comes_back(tmp_path: Path, slower: float) -> None:
    made_up.record(tmp_path, GPU, only=ANCHORS)
    tries = iter([slower, 1.0, 1.0])
    again(tmp_path, measure=lambda step: made_up.measure(step, next(tries, 1.0)))
    recording = Recording.read(tmp_path / "h200", MATMUL)
    second = [row for row in recording.rows if row.run == "run-2" and row.point in ((1024,), (8192,))]
    assert {row.point for row in second} == {(1024,), (8192,)}
    assert not recording.machine.runs[1].failed


def test_what_fails_beside_an_anchor_measured_again_is_noted_once(tmp_path: Path) -> None:
    made_up.record(tmp_path, GPU, only=ANCHORS)
    too_much = {"cpu": DeviceMemoryError("needs too much")}
    outcome = again(
        tmp_path, measure=but(lambda step, found: step.point == {"size": 1024} and found.update(too_much), 5.0)
    )
    for failed in (outcome.failed, Machine.read(tmp_path / "h200").runs[1].failed):
        assert [each.variant for each in failed if each.error == "DeviceMemoryError"] == ["cpu"]


def test_an_anchor_three_times_off_twice_is_dropped_and_machine_json_says_so(tmp_path: Path) -> None:
    made_up.record(tmp_path, GPU, only=ANCHORS)

    def slow(step: Step, found: Found) -> None:
        if step.point["size"] == 1024:
            found["cpu"] = made_up.measure(step, 5.0)["cpu"]

    again(tmp_path, measure=but(slow))
    recording = Recording.read(tmp_path / "h200", MATMUL)
    second = {(row.point, row.variant) for row in recording.rows if row.run == "run-2"}
    assert ((1024,), "cpu") not in second and ((1024,), "gpu") in second and ((8192,), "cpu") in second
    dropped = [failure for failure in recording.machine.runs[1].failed if failure.error == "DriftError"]
    assert [(each.variant, each.point) for each in dropped] == [("cpu", {"size": 1024})]
    assert "at first" in dropped[0].reason


# ---------------------------------------------------------------- a process of its own


MLP = experiment("mlp")
APART = Step(MLP, {"layers": 8, "batch": 2, "hidden": 128}, ("cpu-module", "max-autotune", "cpu-numpy"), "grid", 0.01)
DIES = """
import json, os, sys
if "max-autotune" in json.loads(sys.argv[1])[1]:
    print("CUDA error: unspecified launch failure", file=sys.stderr)
    os.abort()
from brrr_course.sources.isolated import main
main(sys.argv[1])
"""


def test_a_variant_that_ends_its_process_is_a_failure_and_the_others_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolated, "python", lambda _, *words: [sys.executable, "-c", DIES, *words])
    found = isolated.measure_step(APART)
    died = found["max-autotune"]
    assert isinstance(died, UnavailableError) and "unspecified launch failure" in str(died)
    assert f"{-signal.SIGABRT}" in str(died)
    for name in ("cpu-module", "cpu-numpy"):
        timed = found[name]
        assert isinstance(timed, Timed) and timed.measurement.period_s is not None and timed.error < 1e-5


# ---------------------------------------------------------------- failures


def failing(error: BrrrError, *at: int) -> Callable[[Step], Found]:
    return but(lambda step, found: step.point["size"] in at and found.update(gpu=error))


LASTING = [
    DeviceMemoryError("needs 12.9 GB; 8 GB are free"),
    UnavailableError("no GPU"),
    WrongResultError("the relative error is nan"),
]


@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_a_point_that_fails_is_listed_and_the_recording_goes_on(tmp_path: Path, error: BrrrError) -> None:
    outcome = made_up.record(tmp_path, GPU, measure=failing(error, 16384, 32768))
    text = summary(outcome, 480.0)
    assert f"NOT MEASURED matmul gpu at 32768; 16384: {type(error).__name__}: {error}" in text
    assert sizes(tmp_path) == [size for size in SIZES if size not in (16384, 32768)]
    assert sizes(tmp_path, "cpu") == list(SIZES)
    assert again(tmp_path).measured == []
    tried = made_up.recorder(tmp_path, GPU, run=made_up.run_info("run-3")).record(steps([MATMUL], "cuda"), retry=True)
    assert {step.point["size"] for step in tried.measured if step.phase != "anchor"} == {16384, 32768}
    assert sizes(tmp_path) == list(SIZES)


def test_a_failure_that_may_have_been_an_accident_is_tried_again(tmp_path: Path) -> None:
    made_up.record(tmp_path, GPU, measure=failing(BrrrError("CUDA error: unspecified launch failure"), 32768))
    assert 32768 not in sizes(tmp_path)
    again(tmp_path)
    assert sizes(tmp_path) == list(SIZES)


def test_a_measurer_that_raises_fails_its_point_only(tmp_path: Path) -> None:
    def measure(step: Step) -> Found:
        if step.point["size"] == 64:
            raise DeviceMemoryError("needs too much")
        return made_up.measure(step)

    outcome = made_up.record(tmp_path, GPU, measure=measure)
    assert {failure.point["size"] for failure in outcome.failed} == {64}
    assert {failure.variant for failure in outcome.failed} >= {"cpu", "gpu", "gpu-transfers"}
    assert sizes(tmp_path) == [size for size in SIZES if size != 64]


def test_a_measurement_that_makes_no_sense_is_listed_and_not_written(tmp_path: Path) -> None:
    senseless = {4096: Measurement(kernel_s=made_up.estimate(5e5)), 2048: Measurement()}

    def spoil(step: Step, found: Found) -> None:
        if measured := senseless.get(int(step.point["size"])):
            found["gpu"] = Timed(measured, MATMUL.cost_at("gpu", step.point), 0.0)

    outcome = made_up.record(tmp_path, GPU, measure=but(spoil))
    assert {failure.reason for failure in outcome.failed} == {
        "kernel_s is '500000.0'; expected a number, 1e-09 to 10000 seconds: is it in another unit?",
        "holds no time at all",
    }
    assert sizes(tmp_path) == [size for size in SIZES if size not in (2048, 4096)]


def odd(times: dict[str, float], size: int, tries: int) -> Callable[[Step], Found]:
    """A measurer whose `gpu` takes other times at that size, so many times."""
    left = iter(range(tries))
    other: dict[str, Any] = {name: made_up.estimate(seconds) for name, seconds in times.items()}

    def change(step: Step, found: Found) -> None:
        gpu = found["gpu"]
        if step.point["size"] == size and isinstance(gpu, Timed) and next(left, None) is not None:
            found["gpu"] = dataclasses.replace(gpu, measurement=dataclasses.replace(gpu.measurement, **other))

    return but(change)


@pytest.mark.parametrize("tries", [0, 1, 2])
@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({"host_s": 2e-4, "period_s": 2e-4}, "host_s of gpu is above latency_s"),
        ({"span_s": 2e-4, "period_s": 2e-4}, "span_s of gpu is above latency_s"),
        ({"host_s": 7e-6}, "host_s of gpu is above period_s"),
        ({"busy_s": 1e-5, "kernel_s": 1e-5, "span_s": 1e-5, "period_s": 6e-6}, "busy_s of gpu is above period_s"),
    ],
)
def test_what_breaks_an_inequality_is_measured_again_and_named_if_it_does_again(
    tmp_path: Path, times: dict[str, float], said: str, tries: int
) -> None:
    outcome = made_up.record(tmp_path, GPU, only={"size": ["64", "128"]}, measure=odd(times, 128, tries))
    kept = Recorded("h200", tmp_path).measure(MATMUL, "gpu", {"size": 128})
    assert bool(broken(kept)) == (tries == 2) and len(outcome.measured) == 2
    assert [each.partition(": ")[2] for each in outcome.broken] == [said] * (tries == 2)
    assert (f"DOUBTFUL, measured twice: matmul size=128: {said}" in summary(outcome, 480)) == (tries == 2)
    assert sum(Recorded("h200", tmp_path).broken(MATMUL).values()) == (tries == 2)


@pytest.mark.parametrize("tries", [1, 2])
@pytest.mark.parametrize("times", [100.0, 0.01])
def test_a_point_many_times_off_both_its_neighbours_is_asked_for_once_more(
    tmp_path: Path, times: float, tries: int
) -> None:
    right = made_up.made_up(MATMUL, "gpu", {"size": 512}).measurement.period_s
    assert right is not None
    away = dict.fromkeys(("kernel_s", "busy_s", "span_s", "period_s", "latency_s"), times * right.median)
    away["host_s"] = 1e-9
    asked: list[int] = []
    measure = odd(away, 512, tries)
    made_up.record(
        tmp_path, GPU, only={"size": ["64", "128", "256", "512", "1024"]},
        measure=lambda step: asked.append(int(step.point["size"])) or measure(step),
    )  # fmt: skip
    [row] = [
        row for row in Recording.read(tmp_path / "h200", MATMUL).rows if (row.point, row.variant) == ((512,), "gpu")
    ]
    assert (row.measurement.period_s == right) == (tries == 1)
    assert sorted(asked) == [64, 128, 256, 512, 512, 1024]


def test_a_point_at_an_end_or_on_a_slope_is_no_spike(tmp_path: Path) -> None:
    made_up.record(tmp_path, GPU)
    rows = Recording.read(tmp_path / "h200", MATMUL).rows
    assert not spikes(MATMUL, rows)
    steep = [row for row in rows if row.point in ((1,), (1024,), (32768,))]
    assert len({row.point for row in steep}) == 3 and not spikes(MATMUL, steep)


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordingError, match=r"cannot be written .*--out DIR"):
        made_up.record(tmp_path / "file", GPU, measure=never)

    def refused(**options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.tempfile, "TemporaryFile", refused)
    with pytest.raises(RecordingError, match=r"cannot be written \(Permission denied\)"):
        made_up.record(tmp_path, GPU, measure=never)


# ---------------------------------------------------------------- the command


@pytest.fixture
def on_made_up_gpu(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """`brrr record` on a made-up GPU; gives the list of the steps it measures."""
    measured: list[Step] = []
    runs = iter(range(1, 100))

    def measure_now(step: Step) -> Found:
        measured.append(step)
        return made_up.measure(step)

    monkeypatch.setattr(record, "processor_for", lambda call: "cuda")
    monkeypatch.setattr(record, "collect_environment", lambda kind: (GPU, made_up.run_info(f"run-{next(runs)}")))
    monkeypatch.setattr("brrr_course.sources.isolated.measure_step", measure_now)
    monkeypatch.setattr(record, "sm_clock_hz", lambda: None)
    return measured


def test_the_command_records_resumes_and_begins_anew(
    tmp_path: Path, on_made_up_gpu: list[Step], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["matmul", "--out", str(tmp_path), "--minutes", "100", "--only", "size=64,size=128"]
    assert record.main(command) == 0
    printed = capsys.readouterr()
    assert "2 points to measure, " in printed.out
    assert "2 points measured." in printed.out
    assert "100%" in printed.err
    assert "left" in printed.err
    assert sizes(tmp_path) == [64, 128]
    assert record.main(command) == 0
    assert len(on_made_up_gpu) == 2
    assert record.main([*command, "--fresh"]) == 0
    assert len(on_made_up_gpu) == 4
    assert "set aside as" in capsys.readouterr().out
    [aside] = [path for path in tmp_path.iterdir() if path.name != "h200"]
    assert {row.point for row in Recording.read(aside, MATMUL).rows} == {(64,), (128,)}


@pytest.mark.parametrize("set_by_hand", [None, "ACTIVE"])
@pytest.mark.usefixtures("on_made_up_gpu")
def test_threads_sleep_while_they_wait_unless_one_has_said_otherwise(
    tmp_path: Path, set_by_hand: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", set_by_hand or "")
    if set_by_hand is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    record.main(["matmul", "--out", str(tmp_path), "--only", "size=64"])
    assert os.environ["OMP_WAIT_POLICY"] == (set_by_hand or "PASSIVE")


def test_the_plan_prints_minutes_and_measures_nothing(
    tmp_path: Path, on_made_up_gpu: list[Step], capsys: pytest.CaptureFixture[str]
) -> None:
    assert record.main(["matmul", "--plan", "--out", str(tmp_path / "new")]) == 0
    text = capsys.readouterr().out
    assert on_made_up_gpu == []
    assert not (tmp_path / "new").exists()
    assert "together" in text
    assert "min predicted, in about" in text
    assert "matmul       anchor       2 points" in text
    record.main(["matmul", "--out", str(tmp_path), "--minutes", "100"])
    capsys.readouterr()
    record.main(["matmul", "--plan", "--out", str(tmp_path)])
    assert capsys.readouterr().out == "All of it is recorded; --fresh begins anew.\n"


def test_the_plan_needs_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(kind: str) -> None:
        raise UnavailableError("there is no NVIDIA GPU")

    monkeypatch.setattr(record, "collect_environment", absent)
    assert record.main(["--plan", "matmul", "--out", str(tmp_path)]) == 0
    assert "Planned as if nothing were there" in capsys.readouterr().out
    assert record.main(["matmul", "--out", str(tmp_path)]) == 2
    assert re.search("there is no NVIDIA GPU.*`--device cpu`", capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_what_is_here_is_recorded_where_no_device_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(record, "processor_for", lambda call: kind)
    monkeypatch.setattr(record, "collect_environment", lambda kind: asked.append(kind) or (GPU, made_up.run_info()))
    assert record.main(["matmul", "--plan", "--out", str(tmp_path)]) == 0
    assert asked == [kind]


def test_another_model_of_the_same_short_name_begins_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all CPUs are called `cpu`."""
    made_up.record(tmp_path, CPU, {"size": ["64"]})
    other = dataclasses.replace(CPU, device="Another CPU")
    monkeypatch.setattr(record, "collect_environment", lambda kind: (other, made_up.run_info("run-2", machine=CPU)))
    monkeypatch.setattr("brrr_course.sources.isolated.measure_step", made_up.measure)
    command = ["matmul", "--device", "cpu", "--out", str(tmp_path), "--only", "size=128"]
    assert [record.main(command) for _ in range(2)] == [0, 0]
    assert Machine.read(tmp_path / "another-cpu").device == "Another CPU"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["another-cpu", "cpu"]
    assert {row.point for row in Recording.read(tmp_path / "cpu", MATMUL).rows} == {(64,)}


WRONG_COMMANDS = [
    (["matmull"], "name is 'matmull'; expected one of matmul"),
    (["matmul", "--only", "size"], "--only is 'size'; expected NAME=VALUE"),
    (["matmul", "--only", "=3"], "--only is '=3'; expected NAME=VALUE"),
    (["matmul", "--only", "width=3"], "--only is 'width'; expected one of variant, size"),
    (["matmul", "--only", "size=3"], "--only size is '3'; expected one of 1, 2, 4"),
    (["matmul", "--only", "variant=queue"], "variants that this device has"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_COMMANDS)
def test_wrong_arguments_are_named(
    tmp_path: Path, on_made_up_gpu: list[Step], capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert record.main([*arguments, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert on_made_up_gpu == []


def test_a_value_that_only_a_claims_point_has_can_be_asked_for(
    tmp_path: Path, on_made_up_gpu: list[Step], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["mlp", "--only", "layers=8,batch=4096,hidden=4096", "--plan", "--out", str(tmp_path)]
    assert record.main(asked) == 0
    assert re.search(r"mlp +claim +1 points", capsys.readouterr().out)


def test_this_machines_cpu_is_recorded_for_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["matmul", "--device", "cpu", "--out", str(tmp_path), "--only", "size=4,size=64", "--budget", "0.02"]
    assert record.main(command) == 0, capsys.readouterr().err
    assert "NOT MEASURED" not in capsys.readouterr().out
    recorded = Recorded("cpu", tmp_path)
    assert recorded.variants(MATMUL) == ("cpu", "queue")
    found = recorded.measure(MATMUL, "cpu", {"size": 64})
    assert found.latency_s is not None
    assert found.latency_s.n >= 1
    [run] = Machine.read(tmp_path / "cpu").runs
    assert run.python == ".".join(map(str, sys.version_info[:3]))
    assert run.torch and run.devices[0].name == Machine.read(tmp_path / "cpu").device
    assert run.brrr == brrr.__version__
    row = recorded.rows(MATMUL, "cpu")[(64,)]
    assert (row.cost.flop, row.cost.bytes) == (2 * 64**3, 3 * 4 * 64**2)
    assert 0 <= row.error < 1e-4


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only the test moves, and a disk that takes half a second for each file."""
    now, write = [100.0], Recording.write

    def slowly(recording: Recording, folder: Path) -> None:
        write(recording, folder)
        now[0] += 0.5

    monkeypatch.setattr("brrr_course.sources.folders.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(Recording, "write", slowly)
    return now


def test_rows_are_written_at_once_after_a_pause_and_with_a_note(tmp_path: Path, slow_disk: list[float]) -> None:
    """Half a second of writing is at most a twentieth of the time: the next comes ten seconds later."""
    store = Store(tmp_path / "h200", GPU, [MATMUL])
    store.note(made_up.run_info())

    def add(size: int) -> list[object]:
        timed = made_up.made_up(MATMUL, "gpu", {"size": size})
        store.add(MATMUL, [Row.of({"size": size}, "gpu", timed, "run-1", GPU.device)])
        return sizes(tmp_path)

    assert add(1) == [1], "the first is written at once"
    slow_disk[0] += 9.9
    assert add(2) == [1] and add(4) == [1], "a kill loses these two, and no other"
    assert [row.point for row in store.rows(MATMUL)] == [(1,), (2,), (4,)]
    slow_disk[0] += 0.2
    assert add(8) == [1, 2, 4, 8], "those that waited come along"
    assert add(16) == [1, 2, 4, 8]
    store.note(made_up.run_info())
    assert sizes(tmp_path) == [1, 2, 4, 8, 16]
    again = Store(tmp_path / "h200", GPU, [MATMUL])
    assert again.rows(MATMUL) == store.rows(MATMUL)


def test_what_waits_of_several_experiments_is_written_together(tmp_path: Path, slow_disk: list[float]) -> None:
    store = Store(tmp_path / "h200", GPU, [MATMUL, GRID])
    store.note(made_up.run_info())
    point = {"size": 3, "kind": "x"}
    timed = Timed(Measurement(latency_s=made_up.estimate(1e-3)), made_up.Cost(1, 1), 0.0)
    matmul = Row.of({"size": 4}, "gpu", made_up.made_up(MATMUL, "gpu", {"size": 4}), "run-1", GPU.device)
    store.add(MATMUL, [matmul])
    store.add(GRID, [Row.of(point, "c", timed, "run-1", GPU.device)])
    assert not (tmp_path / "h200" / "grid.csv").exists()
    slow_disk[0] += 60
    store.add(MATMUL, [dataclasses.replace(matmul, point=(8,))])
    assert len(Recording.read(tmp_path / "h200", GRID).rows) == 1 and sizes(tmp_path) == [4, 8]
    before = (tmp_path / "h200" / "grid.csv").stat().st_mtime_ns
    store.note(made_up.run_info())
    assert (tmp_path / "h200" / "grid.csv").stat().st_mtime_ns == before, "nothing new, nothing written"
