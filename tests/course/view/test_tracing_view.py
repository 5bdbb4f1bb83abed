"""The widget, the sources and `brrr record`: which timelines there are, what is shown, and what is refused."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import timelines

from brrr.core.errors import ArgumentError, BrrrError, NotRecordedError, UnavailableError
from brrr.tracing.timeline import Timeline
from brrr_course.lessons.guessing import guess
from brrr_course.nouns.experiment import Experiment, Variant
from brrr_course.sources import record
from brrr_course.sources import timeline_file as files
from brrr_course.sources.live import Live
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.recorder import record_traces, wanted
from brrr_course.sources.timers import FOLDER, file_name, trace_variant
from brrr_course.view import display
from brrr_course.view import timeline_view as view
from brrr_course.view.display import COVERED, sweep_all
from brrr_course.view.explorer import explore
from brrr_course.view.timeline_view import timeline

SIZES = (8, 64, 512)


def experiment(**changed: Any) -> Experiment:
    """`matmul` with timelines of the GPU's variant, of the queue's and of the CPU's."""
    from brrr_course.experiments import experiment as named

    traces = tuple((name, {"size": n}) for name in ("gpu", "gpu-transfers", "queue", "cpu") for n in SIZES)
    return replace(named("matmul"), traces=traces, **changed)


@pytest.fixture
def matmul(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    found = experiment()
    monkeypatch.setattr(view, "experiment_named", lambda name: found)
    return found


@pytest.fixture
def root(writable_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Made-up recordings with timelines: the larger the size, the less the GPU waits."""
    monkeypatch.setenv("BRRR_RECORDINGS", str(writable_root))
    for size, kernel in zip(SIZES, (1000, 5000, 50_000), strict=True):
        found = timelines.host_bound(kernel_ns=kernel) if kernel < 9000 else timelines.device_bound()
        folder = writable_root / "h200" / FOLDER / "matmul"
        files.write(found, folder / file_name("gpu", {"size": size}))
        if size != 512:
            files.write(found, folder / file_name("gpu-transfers", {"size": size}))
    return writable_root


# ---- sources ----


def test_a_recorded_source_has_the_timelines_that_were_recorded(root: Path, matmul: Experiment) -> None:
    source = Recorded("h200", root)
    assert source.traced(matmul, "gpu") == tuple({"size": size} for size in SIZES)
    assert source.traced(matmul, "gpu-transfers") == ({"size": 8}, {"size": 64})
    assert source.traced(matmul, "cpu") == ()
    found = source.timeline(matmul, "gpu", {"size": 8})
    assert found.badge.kind == "RECORDED" and found.idle_share == pytest.approx(0.8)
    assert source.timeline(matmul, "gpu", {"size": 8}) is found


def test_a_point_that_was_not_traced_names_the_nearest(root: Path, matmul: Experiment) -> None:
    source = Recorded("h200", root)
    with pytest.raises(NotRecordedError, match="no timeline of 'gpu' at size=128; nearest recorded: size=64; size=512"):
        source.timeline(matmul, "gpu", {"size": 128})
    with pytest.raises(NotRecordedError, match="no timeline of 'cpu' at size=8; none is recorded"):
        source.timeline(matmul, "cpu", {"size": 8})


def test_a_live_source_traces_and_keeps() -> None:
    source, found = Live("cpu"), experiment()
    assert source.traced(found, "queue") == ()
    first = source.timeline(found, "queue", {"size": 64})
    assert first.kind == "cpu-queue" and source.timeline(found, "queue", {"size": 64}) is first
    assert source.traced(found, "queue") == ({"size": 64},)
    assert source.timeline(found, "cpu", {"size": 64}).kind == "cpu"
    with pytest.raises(UnavailableError, match="timeline: variant 'gpu' of 'matmul' needs another device"):
        source.timeline(found, "gpu", {"size": 64})


def test_a_wrong_result_is_not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wrong", SimpleNamespace(workload=wrong_workload))
    wrong = experiment(package="wrong")
    with pytest.raises(BrrrError, match="the relative error is nan"):
        trace_variant(wrong, "cpu", {"size": 8})


def wrong_workload(variant: Variant, point: Any) -> Any:
    """A product whose result is not a number."""
    from brrr_course.nouns.experiment import Workload

    return Workload(lambda: float("nan"), lambda result: result, 1e-3)


def test_a_first_call_has_no_loop() -> None:
    with pytest.raises(UnavailableError, match="first call"):
        trace_variant(experiment(), "gpu-first", {"size": 8})


# ---- the widget ----


def test_it_shows_what_was_recorded(root: Path, matmul: Experiment) -> None:
    shown = timeline("matmul", variant="gpu", source="recorded:h200")
    label = matmul.variant("gpu").label
    assert shown.text.startswith(f"{label}, size 8: 10 calls, 5 µs a call without the profiler")
    assert "GPU waits for the CPU" in shown.text and shown.timeline is not None
    assert shown.panel.figure.scene["badge"].count("RECORDED · synthetic device · 2000-01-01") == 1
    assert shown.picture().alt.startswith(f"{label}, size 8. A timeline with the lanes")
    assert shown.picture().png.startswith(b"\x89PNG")


def test_the_slider_moves_over_the_traced_points(root: Path, matmul: Experiment) -> None:
    shown = timeline("matmul", variant="gpu", at={"size": 400}, source="recorded:h200")
    assert [value for _, value in shown.sliders["size"].options] == list(SIZES)
    assert shown.selection.point == {"size": 512} and "runs ahead by up to 9 calls" in shown.text
    before = list(shown.panel.figure.at)
    shown.set(size=50)
    assert shown.selection.point == {"size": 64} and shown.sliders["size"].value == 64
    assert "size 64" in shown.text and shown.panel.figure.at != before


def test_lanes_do_not_jump(root: Path, matmul: Experiment) -> None:
    shown = timeline("matmul", variant="gpu", source="recorded:h200")
    assert shown.selection.lanes == ("python", "operator", "launch", "stream 1")
    shown.set(size=512)  # its timeline has no operators
    assert shown.timeline is not None and "operator" not in shown.timeline.lanes
    assert shown.selection.lanes == ("python", "operator", "launch", "stream 1")


def test_variants_to_choose_from(root: Path, matmul: Experiment) -> None:
    shown = timeline("matmul", at={"size": 512}, source="recorded:h200")
    assert shown.selection.variants == ("gpu", "gpu-transfers")
    shown.panel.variants.value = "gpu-transfers"
    assert shown.selection.point == {"size": 64} == {"size": shown.sliders["size"].value}
    assert matmul.variant("gpu-transfers").label in shown.text and not shown.panel.failures
    one = timeline("matmul", variants=["gpu-transfers"], source="recorded:h200")
    assert one.selection.variants == ("gpu-transfers",)
    assert [len(each.panel.figure.scene["sliders"][0]["texts"]) for each in (shown, one)] == [2, 1]


def test_a_cover_waits_for_the_guess(root: Path, matmul: Experiment, displayed: list[Any]) -> None:
    asked = guess("When is it shown?", unit="x")
    shown = timeline("matmul", variant="gpu", unlock=asked, source="recorded:h200")
    assert shown.covered and shown.text == COVERED and shown.timeline is None
    with pytest.raises(ArgumentError, match="unanswered guess"):
        shown.picture()
    shown._ipython_display_()
    ((data, _),) = displayed
    assert data["text/plain"] == COVERED and shown._panel is None, "a widget already holds data"
    assert set(data) == {"text/plain", "application/vnd.jupyter.widget-view+json"}
    asked.answer("2x")
    assert shown._root.children == (shown.panel.root,) and "10 calls" in shown.text


def test_the_edition_for_reading_has_text_and_picture(
    root: Path, matmul: Experiment, displayed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRRR_STATIC", "1")
    timeline("matmul", variant="gpu", source="recorded:h200")._ipython_display_()
    (text, _), (picture, metadata) = displayed
    assert text["text/markdown"].startswith(experiment().variant("gpu").label)
    assert "image/png" in picture and metadata["image/png"]["alt"]
    displayed.clear()
    timeline("matmul", variant="cpu", source="recorded:cpu")._ipython_display_()
    ((text, _),) = displayed
    assert "No timeline" in text["text/plain"]


def test_without_a_timeline_it_says_so_and_lives(root: Path, matmul: Experiment) -> None:
    shown = timeline("matmul", variant="gpu", source="recorded:cpu")
    assert "No timeline" in shown.text and "`brrr record matmul`" in shown.text and shown.timeline is None
    assert shown.panel.trace.layout.display == "none" and "No timeline" in shown.panel.text.value
    shown.sweep()
    with pytest.raises(ArgumentError, match="a point that was traced"):
        shown.picture()


def test_an_experiment_that_was_not_recorded_says_so_too(
    writable_root: Path, matmul: Experiment, only_recordings: Callable[[Path], None]
) -> None:
    only_recordings(writable_root)
    (writable_root / "h200" / "matmul.csv").unlink()
    shown = timeline("matmul", source="recorded:h200")
    assert "No timeline" in shown.text and shown.panel.figure.scene["badge"] == ""


def test_live_it_traces_the_first_point_and_the_others_on_the_button(matmul: Experiment) -> None:
    shown = timeline("matmul", variant="gpu", source="cpu")
    assert shown.selection.variants == ("queue",), "the queue stands in for the GPU"
    assert shown.timeline is None, "nothing is traced before it is shown"
    panel = shown.panel
    assert shown.timeline is not None and panel.trace.layout.display == "none"
    assert "LIVE, CPU QUEUE" in panel.figure.scene["badge"]
    shown.set(size=64)
    assert shown.timeline is None and "Not traced yet" in shown.text and panel.trace.layout.display == "block"
    blank = panel.figure.scene
    panel.trace.click()
    assert shown.timeline is not None and panel.figure.scene != blank and not panel.failures
    assert panel.trace.layout.display == "none"


def test_what_cannot_be_traced_becomes_the_text(matmul: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = timeline("matmul", variant="queue", source="cpu")
    panel = shown.panel

    def refuse(*_: object) -> Timeline:
        raise UnavailableError("trace: another session is running")

    monkeypatch.setattr(shown.selection.source, "timeline", refuse)
    monkeypatch.setattr(shown.selection.source, "traced", lambda *_: ())
    panel.trace.click()
    assert "another session is running" in panel.text.value and not panel.failures
    monkeypatch.setattr(shown.selection.source, "timeline", lambda *_: 1 / 0)
    panel.trace.click()
    assert "ZeroDivisionError" in panel.text.value
    with pytest.raises(ZeroDivisionError):
        shown.sweep()


def test_a_timeline_and_its_curve_in_one_cell_move_together(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = iter((1, 1, 2))
    monkeypatch.setattr(display, "this_cell", lambda: next(cells))
    line, curve, other = (show("run_ahead", at={"elements": 65536}) for show in (timeline, explore, explore))
    sliders = [each.sliders["elements"] for each in (line, curve, other)]
    drawn: list[object] = []
    line.panel.figure.observe(lambda _: drawn.append(line.selection.value), "at")
    curve.set(elements=2**22)
    assert [slider.value for slider in sliders] == [2**22, 2**22, 65536]
    curve.set(elements=16384)  # has no timeline: the nearest one
    assert [slider.value for slider in sliders] == [65536, 16384, 65536]
    line.set(elements=1024)
    assert [slider.value for slider in sliders] == [1024, 1024, 65536]
    assert drawn[:2] == [2**22, 65536]
    with curve.panel._silently():
        sliders[1].value = 2**22
    assert sliders[0].value == 1024
    curve.sweep()
    line.sweep()


def test_a_quick_grid_is_small(matmul: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_QUICK", "1")
    quick = max(n for n in matmul.axis("size").quick if not isinstance(n, str))
    shown = timeline("matmul", variant="queue", source="cpu")
    assert all(value <= quick for value in shown.selection.values if value is not None)  # type: ignore[operator]


def test_a_sweep_of_the_session_moves_it_too(root: Path, matmul: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "shown", set())
    shown = timeline("matmul", source="recorded:h200")
    seen: list[tuple[str, object]] = []
    record = lambda _: seen.append((shown.selection.variant, shown.selection.value))  # noqa: E731
    shown.panel.figure.observe(record, "at")
    assert sweep_all() == 1
    assert {("gpu", 8), ("gpu", 512), ("gpu-transfers", 8), ("gpu-transfers", 64)} <= set(seen)
    assert (shown.selection.variant, shown.selection.value) == ("gpu", 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"variant": "tpu"}, "variant is 'tpu'"),
        ({"variants": ["gpu", "tpu"]}, "variant is 'tpu'"),
        ({"variant": "gpu", "variants": ["cpu"]}, "timeline: variants is"),
        ({"at": {"width": 3}}, "axis is 'width'"),
        ({"at": {"size": -1}}, "timeline: size is -1"),
        ({"calls": 0}, "timeline: calls is 0"),
        ({"source": "recorded:none"}, "Recorded: device is 'none'"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str, root: Path, matmul: Experiment) -> None:
    with pytest.raises(ArgumentError, match=message):
        timeline("matmul", **arguments)
    with pytest.raises(ArgumentError, match="the slider's axis: size"):
        timeline("matmul", source="recorded:h200").set(width=3)


# ---- recording ----


def tracer(experiment: Experiment, variant: str, point: Any) -> Timeline:
    if point["size"] == 64:
        raise UnavailableError("trace: no room")
    return timelines.host_bound()


def test_recording_writes_what_is_missing_and_notes_what_fails(tmp_path: Path) -> None:
    first = record_traces([experiment()], "cuda", tmp_path, tracer=tracer)
    names = sorted(path.name for path in (tmp_path / FOLDER / "matmul").iterdir())
    assert names == sorted(file_name(v, {"size": n}) for v in ("gpu", "gpu-transfers", "cpu") for n in (8, 512))
    assert len(first.written) == 6 and len(first.failed) == 3 and first.left == 0
    assert "6 timelines written." in first.text and "NOT TRACED matmul gpu at size=64: trace: no room" in first.text
    again = record_traces([experiment()], "cuda", tmp_path, tracer=tracer)
    assert again.written == [] and len(again.failed) == 3


def test_recording_keeps_to_the_device_and_to_only() -> None:
    found = experiment()
    assert {v for v, _ in wanted(found, "cpu", {})} == {"queue", "cpu"}
    assert wanted(found, "cuda", {"size": ["64"], "variant": ["gpu"]}) == [("gpu", {"size": 64})]
    assert wanted(found, "cuda", {"width": ["64"]}) == []


def test_recording_stops_when_the_time_is_over(tmp_path: Path) -> None:
    outcome = record_traces([experiment()], "cpu", tmp_path, limit_s=-1.0, tracer=tracer)
    assert outcome.written == [] and outcome.left == 6 and "6 timelines are left" in outcome.text


def test_an_interrupt_keeps_what_is_there(tmp_path: Path) -> None:
    def interrupted(experiment: Experiment, variant: str, point: Any) -> Timeline:
        if point["size"] == 512:
            raise KeyboardInterrupt
        return timelines.host_bound()

    outcome = record_traces([experiment()], "cpu", tmp_path, tracer=interrupted)
    assert outcome.interrupted and len(outcome.written) == 2 and outcome.left == 4


@pytest.mark.usefixtures("own_environment")
def test_the_command_records_points_then_timelines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import brrr_course.experiments

    found = experiment()
    monkeypatch.setattr(brrr_course.experiments, "experiment", lambda name: found)
    command = ["matmul", "--device", "cpu", "--out", str(tmp_path), "--only", "size=8", "--budget", "0.01"]
    assert record.main(command) == 0
    assert "2 timelines written." in capsys.readouterr().out
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    source = Recorded(folder.name, tmp_path)
    assert source.traced(found, "queue") == source.traced(found, "cpu") == ({"size": 8},)
    assert source.timeline(found, "queue", {"size": 8}).kind == "cpu-queue"
    assert json.loads((folder / FOLDER / "matmul" / "queue@size=8.json").read_text())["what"] == "timeline"
    assert record.main(command) == 0
    assert "timelines" not in capsys.readouterr().out, "what is there is traced again"
