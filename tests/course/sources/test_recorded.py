"""The recorded source: only what was measured, the newest of it, and errors that name what is there instead."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import made_up
import pytest

from brrr.core import recordings
from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.measurement import Estimate, Field, Measurement, Value
from brrr.core.recordings import own_root
from brrr.counting.cost import Cost
from brrr_course import sources
from brrr_course.experiments import NAMES, experiment
from brrr_course.lessons.claims_table import claims
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant
from brrr_course.nouns.source import AT_MOST, Evidence, broken
from brrr_course.sources import source, source_for
from brrr_course.sources.folders import Store
from brrr_course.sources.recorded import Recorded, as_read
from brrr_course.sources.recorded import recorded as kept
from brrr_course.sources.recording import Drift, Machine, Recording, RunDevice, RunInfo, on_several
from brrr_course.sources.rows import Row
from tests.refusals import refused

MATMUL = experiment("matmul")


def test_it_shows_what_was_recorded(synthetic_root: Path) -> None:
    recorded = Recorded("h200", synthetic_root)
    assert (recorded.live, recorded.name) == (False, "recorded:h200")
    assert recorded.variants(MATMUL) == ("cpu", "gpu-transfers", "gpu-first", "gpu")
    assert recorded.values(MATMUL, "size") == MATMUL.axis("size").values
    expected = made_up.made_up(MATMUL, "gpu", {"size": 4096}).measurement
    found = recorded.measure(MATMUL, "gpu", {"size": 4096})
    assert found == dataclasses.replace(expected, device="Synthetic H200")
    assert recorded.known(MATMUL, "gpu")[(4096,)] == found
    assert recorded.rows(MATMUL, "gpu")[(4096,)].error == 1e-7


def test_the_cpu_queue_ends_where_the_experiment_ends_it(synthetic_root: Path) -> None:
    recorded = Recorded("cpu", synthetic_root)
    assert recorded.variants(MATMUL) == ("cpu", "queue")
    assert max(recorded.known(MATMUL, "queue")) == (4096,)


@pytest.mark.parametrize(("name", "device", "size", "said"), [
    ("matmul", "h200", 5000, "matmul has no 'gpu' at size=5000.* nearest recorded: size=6000; size=4096; size=8192$"),
    ("matmul", "cpu", 64, "the variants recorded are cpu, queue"),
    ("softmax", "h200", 64, "experiment 'softmax' was not recorded; recorded are matmul"),
])  # fmt: skip
def test_what_is_missing_names_what_is(synthetic_root: Path, name: str, device: str, size: int, said: str) -> None:
    with pytest.raises(NotRecordedError, match=said):
        Recorded(device, synthetic_root).measure(dataclasses.replace(MATMUL, name=name), "gpu", {"size": size})


@pytest.mark.parametrize("size", [0, -1, 1.5, "big", True, None])
def test_a_size_or_a_variant_that_is_none_is_an_argument_error(synthetic_root: Path, size: object) -> None:
    with refused("size"):
        Recorded("h200", synthetic_root).measure(MATMUL, "gpu", {"size": size})  # type: ignore[dict-item]
    with refused("variant", "tpu"):
        Recorded("h200", synthetic_root).known(MATMUL, "tpu")


@pytest.mark.parametrize("device", ["b200", "", ".", "..", "../h200", "h200/", "H200 "])
def test_a_device_is_a_name_and_no_path(synthetic_root: Path, tmp_path: Path, device: str) -> None:
    with pytest.raises(ArgumentError, match="expected one of cpu, h200"):
        Recorded(device, synthetic_root)
    with pytest.raises(ArgumentError, match="`brrr record` makes one"):
        Recorded("h200", tmp_path / "nothing")


def test_a_session_reads_files_once_and_anew_when_they_have_changed(writable_root: Path, only_recordings: Any) -> None:
    only_recordings(writable_root)
    first = kept("h200")
    assert source("recorded:h200") is kept("h200") is first and first.known(MATMUL, "gpu")
    (writable_root / "h200" / "matmul.csv").unlink()
    assert first.known(MATMUL, "gpu") and kept("h200").experiments() == ()


def test_another_experiment_of_that_name_is_read_for_itself(synthetic_root: Path) -> None:
    recorded, other = Recorded("h200", synthetic_root), dataclasses.replace(MATMUL, title="another")
    assert [recorded.recording(each).experiment for each in (MATMUL, other)] == [MATMUL, other]


def test_the_newest_run_is_shown(writable_root: Path) -> None:
    again = made_up.run_info("run-2", "2000-03-04T05:06:07+00:00")
    here = writable_root / "h200"
    old = Recording.read(here, MATMUL)
    newer = dataclasses.replace(old, machine=old.machine.with_run(again))
    slow = made_up.made_up(MATMUL, "gpu", {"size": 64}, slower=2.0)
    newer.machine.write(here)
    newer.added([Row.of({"size": 64}, "gpu", slow, "run-2", "Synthetic H200")]).write(here)
    recorded = Recorded("h200", writable_root)
    assert recorded.known(MATMUL, "gpu")[(64,)].kernel_s == slow.measurement.kernel_s
    unchanged = made_up.made_up(MATMUL, "gpu", {"size": 128}).measurement
    assert recorded.known(MATMUL, "gpu")[(128,)].kernel_s == unchanged.kernel_s
    assert recorded.rows(MATMUL, "gpu")[(128,)].run == "run-1"
    assert recorded.badge(MATMUL).date == "2000-03-04"


def drift(variant: str, now_s: float, name: str = "latency_s", of: str = "matmul") -> Drift:
    """An anchor that took a second at first."""
    return Drift(of, variant, {"size": 1024}, name, first_s=1.0, now_s=now_s)


def test_the_largest_drift_of_each_time_in_the_runs_that_rows_come_from(writable_root: Path) -> None:
    anchors = {
        "run-1": (drift("cpu", 1.05), drift("gpu", 1.02), drift("gpu", 9.0, of="mlp")),
        "run-2": (drift("cpu", 0.75), drift("cpu", 1.2, "host_s"), drift("gpu", 0.98)),
        "run-3": (drift("cpu", 1.1), drift("gpu-first", 0.5)),
        "replaced": (drift("cpu", 5.0), drift("gpu", 5.0)),
    }
    here = writable_root / "h200"
    recording = Recording.read(here, MATMUL)
    machine = recording.machine
    for run, found in anchors.items():
        machine = machine.with_run(dataclasses.replace(made_up.run_info(run), anchors=found))
    machine.write(here)
    row = next(row for row in recording.rows if row.variant == "gpu")
    again = [dataclasses.replace(row, run=run) for run in ("run-2", "run-3")]
    dataclasses.replace(recording, machine=machine).added(again).write(here)
    recorded = Recorded("h200", writable_root)
    assert recorded.drifts(MATMUL) == {
        ("cpu", "latency_s"): 0.25, ("cpu", "host_s"): 0.2, ("gpu-first", "latency_s"): 0.5,
    }  # fmt: skip
    assert recorded.drifts(MATMUL) is recorded.drifts(MATMUL), "a slider's step finds it kept"


def test_a_cold_row_never_stands_in_for_a_hot_one(writable_root: Path) -> None:
    here = writable_root / "h200"
    old = Recording.read(here, MATMUL)
    hot = next(row for row in old.rows if row.variant == "gpu" and row.point == (64,))
    cold = dataclasses.replace(hot, measurement=dataclasses.replace(hot.measurement, cache="cold"), point=(77,))
    both = dataclasses.replace(cold, point=(64,))
    old.added([cold, both]).write(here)
    known = Recorded("h200", writable_root).known(MATMUL, "gpu")
    assert (77,) not in known
    assert known[(64,)].cache == "hot"


CATEGORIES = Experiment(
    name="categories",
    title="Categories",
    question="Do names work as axes?",
    axes=(
        Axis("function", ("zeta", "alpha", "mid"), scale="category"),
        Axis("cache", ("hot", "cold"), scale="category"),
        Axis("share", (0.0, 0.5, 1.0), scale="linear", integer=False),
    ),
    variants=(Variant("right", "right", "cuda"),),
    lines=(Line("right", "right", "latency_s", "right"),),
)


@pytest.fixture
def categories_root(tmp_path: Path) -> Path:
    here = tmp_path / "h200"
    here.mkdir()
    machine = made_up.GPU.with_run(made_up.run_info())
    rows = []
    for function in ("mid", "zeta"):
        for cache in ("hot", "cold"):
            ran = made_up.made_up(CATEGORIES, "right", {})
            ran = dataclasses.replace(ran, measurement=dataclasses.replace(ran.measurement, cache=cache))  # type: ignore[arg-type]
            point = {"function": function, "cache": cache, "share": 0.5}
            rows.append(Row.of(point, "right", ran, "run-1", machine.device))
    machine.write(here)
    Recording(CATEGORIES, machine, tuple(rows)).write(here)
    return tmp_path


def test_categories_keep_the_axis_order_and_the_cache_axis_is_obeyed(categories_root: Path) -> None:
    recorded = Recorded("h200", categories_root)
    assert recorded.values(CATEGORIES, "function") == ("zeta", "mid")
    assert recorded.values(CATEGORIES, "share") == (0.5,)
    known = recorded.known(CATEGORIES, "right")
    assert list(known) == [("zeta", "hot", 0.5), ("zeta", "cold", 0.5), ("mid", "hot", 0.5), ("mid", "cold", 0.5)]
    assert known[("zeta", "cold", 0.5)].cache == "cold"


def test_the_nearest_points_among_categories_are_those_of_the_same_name(categories_root: Path) -> None:
    with pytest.raises(NotRecordedError, match=r"nearest recorded: function=mid, cache=hot, share=0\.5; "):
        Recorded("h200", categories_root).measure(
            CATEGORIES, "right", {"function": "mid", "cache": "hot", "share": 1.0}
        )


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("mlp", [{"layers": 1, "batch": 2, "hidden": 128}, {"layers": 8, "batch": 2, "hidden": 128}]),
        ("strassen", [{"size": 4096}, {"size": 4097}]),
    ],
)
def test_two_points_that_a_claim_divides_come_from_one_run(name: str, points: list[dict[str, Value]]) -> None:
    """`host-cost-of-a-layer` and `odd-sizes`: a ratio of two points crosses no two runs, or GPUs."""
    described = experiment(name)
    folder = own_root() / "h200"
    newest = Machine.read(folder).newest_first()
    rows = Recording.read(folder, described).rows
    there = [[row for row in rows if row.point == tuple(described.point(**p).values())] for p in points]
    both = set.intersection(*({row.variant for row in each} for each in there))
    of_points = [{row.run for row in each if row.variant in both} for each in there]
    assert [min(runs, key=newest.index) for runs in of_points] == [min(of_points[0], key=newest.index)] * 2


# ---------------------------------------------------------------- one's own over the course's, and several softwares


@pytest.fixture
def over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own, over one that ships `matmul` and `unary`, recorded in one run."""
    monkeypatch.setattr(recordings, "_shipped", [tmp_path / "course"])
    monkeypatch.setenv("BRRR_RECORDINGS", str(tmp_path / "own"))
    made_up.record(tmp_path / "course", made_up.GPU, names=("matmul", "unary"))
    return tmp_path / "own"


NEWER = made_up.run_info("run-2", "2001-01-01T00:00:00+00:00", torch="2.13.0+cu130", driver="590.2")


def test_ones_own_lie_over_the_courses_experiment_by_experiment(over: Path) -> None:
    made_up.record(over, made_up.GPU, {"size": ["256"]}, run=NEWER)
    shown = Recorded("h200")
    assert list(shown.known(MATMUL, "gpu")) == [(256,)]
    assert str(shown.badge(MATMUL)) == "RECORDED · Synthetic H200 · 2001-01-01 · torch 2.13.0+cu130, your recording"
    assert shown.experiments() == ("matmul", "unary") and shown.known(experiment("unary"), "cos")
    assert str(shown.badge(experiment("unary"))) == "RECORDED · Synthetic H200 · 2000-01-01 · torch 2.11.0+cu130"


def test_a_damaged_one_of_ones_own_is_named_and_hides_nothing(over: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_up.record(over, made_up.GPU, {"size": ["256"]}, run=NEWER)
    (over / "h200" / "matmul.csv").write_text("size")
    assert len(Recorded("h200").known(MATMUL, "gpu")) > 1
    said = capsys.readouterr().err
    assert "own/h200/matmul.csv: is truncated" in said and "Shown instead: what" in said
    (over / "h200" / "machine.json").write_text("[]")
    assert len(Recorded("h200").known(MATMUL, "gpu")) > 1


def extended(root: Path, run: RunInfo) -> Recorded:
    """A recording of three sizes, and of a fourth in a later run."""
    made_up.record(root, made_up.GPU, {"size": ["256", "512", "1024"]})
    made_up.record(root, made_up.GPU, {"size": ["2048"]}, run=run)
    return Recorded("h200", root)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (NEWER, "torch 2.11.0+cu130; torch 2.13.0+cu130 at size 2048"),
        (made_up.run_info("run-2", driver="590.2"),
         "torch 2.11.0+cu130, driver 580.1; torch 2.11.0+cu130, driver 590.2 at size 2048"),
        (made_up.run_info("run-2"), "torch 2.11.0+cu130"),
    ],
)  # fmt: skip
def test_a_badge_names_each_part_with_its_software(tmp_path: Path, run: RunInfo, said: str) -> None:
    shown = extended(tmp_path, run)
    assert shown.badge(MATMUL).torch == said
    assert shown.badge(MATMUL, {"gpu": [(2048,)]}).torch == f"torch {run.torch}"
    assert said in claims(MATMUL, shown).badge


def test_a_badge_says_which_part_is_ones_own(over: Path) -> None:
    [root] = [path for path in recordings.search_path() if path.name == "course"]
    store = Store(over / "h200", made_up.GPU, [MATMUL], [root / "h200"])
    new = [Row.of({"size": 300}, "gpu", made_up.made_up(MATMUL, "gpu", {"size": 300}), "run-2", "Synthetic H200")]
    store.note(NEWER)
    store.add(MATMUL, new)
    assert Recorded("h200").badge(MATMUL).torch == (
        "torch 2.11.0+cu130; torch 2.13.0+cu130, your recording at size 300"
    )  # fmt: skip


def test_a_point_shows_one_software_so_that_no_ratio_crosses_two(tmp_path: Path) -> None:
    made_up.record(tmp_path, made_up.GPU, {"size": ["256", "512"]})
    old = Recording.read(tmp_path / "h200", MATMUL)
    newer = [dataclasses.replace(row, run="run-2") for row in old.rows if row.variant == "gpu" and row.point == (256,)]
    machine = old.machine.with_run(NEWER)
    machine.write(tmp_path / "h200")
    dataclasses.replace(old, machine=machine).added(newer).write(tmp_path / "h200")
    shown = Recorded("h200", tmp_path)
    assert set(shown.known(MATMUL, "gpu")) == {(256,), (512,)}
    assert set(shown.known(MATMUL, "cpu")) == {(512,)}


def test_points_that_no_axis_tells_apart_are_counted(tmp_path: Path) -> None:
    made_up.record(tmp_path, made_up.GPU, {"size": [str(size) for size in (64, 128, 256, 512, 1024, 2048)]})
    made_up.record(tmp_path, made_up.GPU, {"size": [str(size) for size in (4, 8, 16, 32)]}, run=NEWER)
    assert Recorded("h200", tmp_path).badge(MATMUL).torch.endswith("; torch 2.13.0+cu130 at 4 of 10 points")


def with_uuid(run: RunInfo, uuid: str) -> RunInfo:
    return dataclasses.replace(run, devices=(RunDevice("Synthetic H200", uuid),))


@pytest.mark.parametrize(("uuid", "said"), [("GPU-other", " · 2 GPUs"), ("GPU-made-up", "")])
def test_a_badge_says_how_many_gpus_its_rows_come_from(tmp_path: Path, uuid: str, said: str) -> None:
    shown = extended(tmp_path, with_uuid(made_up.run_info("run-2"), uuid))
    assert str(shown.badge(MATMUL)).endswith(f"torch 2.11.0+cu130{said}")
    assert claims(MATMUL, shown).badge.endswith(f"torch 2.11.0+cu130{said}")
    assert shown.badge(MATMUL, {"gpu": [(2048,)]}).gpus == shown.badge(MATMUL).gpus, "whatever is shown, as on a page"


def test_an_experiment_of_two_gpus_names_both_and_counts_each_once(tmp_path: Path) -> None:
    both = tuple(RunDevice("Synthetic H200", uuid) for uuid in ("GPU-made-up", "GPU-b"))
    shown = extended(tmp_path, dataclasses.replace(made_up.run_info("run-2"), devices=both))
    two = str(shown.badge(dataclasses.replace(MATMUL, devices=2)))
    assert two.startswith("RECORDED · 2 x Synthetic H200 · ") and two.endswith(" · 2 GPUs")
    assert shown.badge(MATMUL).device == "Synthetic H200" and "GPUs" not in str(shown.badge(MATMUL))


def test_a_table_of_several_experiments_counts_each_gpu_once() -> None:
    products, networks = (Recorded("h200").badge(experiment(name)).gpus for name in ("strassen", "mlp"))
    assert products - networks and networks - products
    assert claims("09", "recorded:h200").badge.endswith(f" · {len(products | networks)} GPUs")


def test_a_run_of_two_devices_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brrr.gpu.device.others", lambda kind, count: [("Synthetic H200", "GPU-b")][:count])
    names = [[each.uuid for each in on_several(made_up.run_info(), "cuda", count).devices] for count in (1, 2, 3)]
    assert names == [["GPU-made-up"], ["GPU-made-up", "GPU-b"], ["GPU-made-up", "GPU-b"]]


def shown_with(root: Path, **times: Estimate | None) -> Measurement:
    """What a recording shows of a row that was written with other times."""
    made_up.record(root, made_up.GPU, {"size": ["256"]})
    old = Recording.read(root / "h200", MATMUL)
    changed: dict[str, Any] = dict(times)
    rows = [dataclasses.replace(row, measurement=dataclasses.replace(row.measurement, **changed)) for row in old.rows]
    dataclasses.replace(old, rows=tuple(rows)).write(root / "h200")
    found = Recorded("h200", root)
    assert Recording.read(root / "h200", MATMUL).rows == tuple(rows), "the file keeps what was measured"
    return found.measure(MATMUL, "gpu", {"size": 256})


@pytest.mark.parametrize("long_s", [2e-6, 1e-3])
@pytest.mark.parametrize(("less", "more"), AT_MOST)
def test_a_time_that_is_longer_than_what_holds_it_is_flagged(less: Field, more: Field, long_s: float) -> None:
    def row(longer_s: float) -> Row:
        low = long_s + longer_s
        times: Any = {more: Estimate(long_s, long_s, long_s, 9), less: Estimate(1.1 * low, low, 1.2 * low, 9)}
        return as_read(Row((8,), "gpu", Measurement(**times), Cost(0, 0), 0, "run"))

    slack_s = max(0.03 * long_s, 0.5e-6)
    assert "contradictory" in row(1.01 * slack_s).measurement.flags
    assert "contradictory" not in row(0.99 * slack_s).measurement.flags


@pytest.mark.parametrize("device", ["h200", "h100", "cpu"])
def test_no_recorded_row_contradicts_itself_without_a_flag(device: str) -> None:
    source = kept(device)
    there = [experiment(name) for name in source.experiments() if name in NAMES]
    rows = [row.measurement for each in there for row in source.recording(each).rows]
    contradictory = [m for m in rows if broken(m)]
    assert contradictory and all("contradictory" in m.flags for m in contradictory)
    wide = [m for m in rows if m.period_s and m.period_s.high > 1.5 * m.period_s.low]
    assert wide and all("unstable" in m.flags for m in wide)


@pytest.mark.parametrize(("uuid", "mixed"), [("GPU-other", True), ("GPU-made-up", False)])
def test_a_point_whose_rows_cross_gpus_is_flagged(tmp_path: Path, uuid: str, mixed: bool) -> None:
    made_up.record(tmp_path, made_up.GPU, {"variant": ["gpu"], "size": ["2048", "4096"]})
    run = with_uuid(made_up.run_info("run-2"), uuid)
    made_up.record(tmp_path, made_up.GPU, {"variant": ["cpu"], "size": ["2048"]}, run=run)
    joined = Recording.read(tmp_path / "h200", MATMUL)  # the recorder itself measures all of a point in one run
    rows = tuple(row for row in joined.rows if (row.variant, row.run) != ("gpu", "run-2"))
    dataclasses.replace(joined, rows=rows).write(tmp_path / "h200")
    shown = Recorded("h200", tmp_path)
    flags = {(name, key): m.flags for name in ("gpu", "cpu") for key, m in shown.known(MATMUL, name).items()}
    found = {at for at, there in flags.items() if "several-gpus" in there}
    assert found == ({("gpu", (2048,)), ("cpu", (2048,))} if mixed else set())


@pytest.mark.parametrize("name", ["period_s", "span_s", "latency_s"])
@pytest.mark.parametrize("high", [1.49, 1.51])
def test_a_wide_interval_is_unstable_when_it_is_read(tmp_path: Path, name: str, high: float) -> None:
    found = shown_with(tmp_path, busy_s=None, **{name: Estimate(1.2e-5, 1e-5, high * 1e-5, 40)})
    assert found.flags.count("unstable") == (high > 1.5 and name != "latency_s")
    assert ("unstable" in str(found)) == bool(found.flags)


def test_one_reading_that_is_written_many_times_is_read_as_one(tmp_path: Path) -> None:
    percent = Estimate(0.98, 0.98, 0.98, 8)  # of a counter's steps several readings agree
    found = shown_with(tmp_path, period_s=Estimate(1e-5, 1e-5, 1e-5, 20), latency_s=Estimate(1e-5, 0.9e-5, 1e-5, 20))
    assert found.period_s == Estimate(1e-5, 1e-5, 1e-5, 1) and found.latency_s and found.latency_s.n == 20
    assert as_read(Row((8,), "driver", Measurement(busy_s=percent), Cost(0, 0), 0, "run")).measurement.busy_s == percent
    time = Evidence(MATMUL, Recorded("h200", tmp_path)).table("gpu", "period_s", {"size": 256}).values[()]
    assert (time.low, time.high) == pytest.approx((0.9e-5, 1.1e-5))


def test_where_no_source_is_named_a_recording_that_has_the_experiment_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_SOURCE", "recorded:h100")
    found = {name: source_for(None, name).name for name in ("matmul", "collective", "no-such-experiment")}
    assert found == {"matmul": "recorded:h100", "collective": "recorded:h200", "no-such-experiment": "recorded:h100"}
    assert source_for("recorded:h100", "collective").name == "recorded:h100"  # who names one gets that one
    monkeypatch.setattr(Recorded, "experiments", lambda self: ())
    nobody_has = {name: source_for(None, name).name for name in ("matmul", "utilisation")}
    assert nobody_has == {"matmul": "cpu", "utilisation": "recorded:h100"}, "what a CPU runs is measured there"


@pytest.mark.parametrize(("gpus", "shown"), [(1, "recorded:h200"), (2, "cuda")])
def test_what_takes_more_gpus_than_are_here_is_shown_from_the_recording(
    gpus: int, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = SimpleNamespace(name="cuda", kind="cuda", live=True)
    monkeypatch.setattr("brrr_course.sources._default_name", lambda: "cuda")
    monkeypatch.setitem(sources._live, "cuda", live)
    monkeypatch.setattr("brrr.gpu.device.others", lambda kind, count: [("GPU", "")] * min(count, gpus - 1))
    monkeypatch.delenv("BRRR_SOURCE", raising=False)
    assert source_for(None, "collective").name == shown
    assert source_for(None, "matmul") is live and source_for("cuda", "collective") is live
