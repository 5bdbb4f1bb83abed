"""The explorer without a browser: what it shows, says, refuses, covers, measures, and survives."""

import asyncio
import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from synthetic import Synthetic, live

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant
from brrr_course.sources.recorded import Recorded
from brrr_course.view import explorer, measuring
from brrr_course.view.display import sweep_all
from brrr_course.view.explorer import explore
from brrr_course.view.measuring import pace, taken_s

GPU_LINES = ["transfers", "unsynchronized", "synchronized"]


pytestmark = pytest.mark.usefixtures("made_up_recordings")


@pytest.fixture
def grid(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """An experiment with four axes, one of them a category."""
    made = Experiment(
        name="grid", title="Grid", question="?",
        axes=(
            Axis("batch", (1, 2, 4, 8)), Axis("width", (16, 64, 256)), Axis("share", (0.25, 0.5), scale="linear",
            integer=False), Axis("how", ("eager", "graph"), scale="category"),
        ),
        variants=(Variant("a", "A", "cpu"), Variant("b", "B", "cpu")),
        lines=(Line("a", "a", "latency_s", "line A"), Line("b", "b", "host_s", "line B", shown=False)),
        )  # fmt: skip
    monkeypatch.setattr(explorer, "experiment_named", lambda name: made)
    return made


# ---- what it shows ----


def test_the_text_line_says_the_values_that_are_drawn(synthetic_root: Path) -> None:
    shown = explore("matmul", at={"size": 4096}, lines=GPU_LINES, source="recorded:h200")
    known = Recorded("h200", synthetic_root).known(shown.scene.experiment, "gpu")[(4096,)]
    assert known.latency_s is not None
    row = next(row for row in shown.data["synchronized"] if row[0] == 4096)
    assert row == (4096, known.latency_s.median, known.latency_s.low, known.latency_s.high)
    assert "GPU, clock stopped after synchronize(): 2.76 ms" in shown.text
    ends = (
        "At size 4096, the next, GPU, clock stopped after synchronize(), took 460× as long as "
        "the shortest, GPU, clock stopped without waiting."
    )
    assert shown.text.startswith(f"{ends} At size 4096: ")


def test_the_slider_snaps_to_recorded_points() -> None:
    shown = explore("matmul", at={"size": 4000}, source="recorded:h200")
    assert shown.scene.point == {"size": 4096}
    assert shown.set(size=7).scene.point == {"size": 8}
    assert shown.set(size=46).scene.point == {"size": 64}, "46 is closer to 32, but by ratio to 64"
    assert [value for _, value in shown.sliders["size"].options] == list(shown.scene.values["size"])


def test_another_axis_moves_the_lines_over_the_same_axes(grid: Experiment) -> None:
    shown = explore("grid", sliders=["batch", "width"], at={"share": 0.5, "how": "eager"}, source=Synthetic())
    before = shown.data["a"]
    low, high = shown.scene.limits
    shown.set(width=256)
    assert shown.scene.limits == (low, high)
    assert [row[0] for row in shown.data["a"]] == [row[0] for row in before] == [1, 2, 4, 8]
    assert shown.data["a"] != before
    assert all(low <= row[1] <= high for row in shown.data["a"])


def test_ratio_to_a_line() -> None:
    shown = explore(
        "matmul", at={"size": 4096}, show={"ratio": "synchronized"}, source="recorded:h200", lines=GPU_LINES
    )
    plain = explore("matmul", at={"size": 4096}, source="recorded:h200", lines=GPU_LINES)
    times = {name: {row[0]: row[1] for row in rows} for name, rows in plain.data.items()}
    for x, middle, low, high in shown.data["transfers"]:
        assert middle == pytest.approx(times["transfers"][x] / times["synchronized"][x])
        assert low < middle < high
    assert {row[1] for row in shown.data["synchronized"]} == {1.0}
    assert "GPU, clock stopped after synchronize(): 1×" in shown.text


def test_lines_of_another_machine_give_way_to_all_that_there_are() -> None:
    shown = explore("matmul", lines=["transfers"], source="recorded:cpu")
    assert set(shown.data) == {"cpu", "queue synchronized", "queue unsynchronized"}


def test_a_slider_stops_where_every_line_stops() -> None:
    shown = explore("matmul", lines=["queue synchronized"], source=Synthetic())
    assert shown.scene.values["size"][-1] == 4096


# ---- what it refuses ----


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "matmull"}, "experiment: name is 'matmull'; expected one of matmul, timers"),
        ({"lines": ["fast"]}, "line is 'fast'; expected one of cpu, transfers"),
        ({"at": {"n": 1}}, "axis is 'n'; expected one of size"),
        ({"at": {"size": 0}}, "explore: size is 0; expected a positive whole number"),
        ({"at": {"size": 2.5}}, "size is 2.5"),
        ({"sliders": []}, r"at is \{\}; expected a value for the axis 'size', which has no slider"),
        ({"sliders": ["size", "size"]}, "different axes"),
        ({"show": "speed"}, "show is 'speed'; expected \"time\""),
        ({"show": {"ratio": "fast"}}, "line is 'fast'"),
        ({"show": {"x": "width"}}, "expected an x that has a slider: size"),
        ({"source": "tpu"}, "source: name is 'tpu'"),
        ({"source": "recorded:tpu"}, "tpu"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], said: str) -> None:
    given = {"name": "matmul", "source": "recorded:h200", **arguments}
    with pytest.raises(ArgumentError, match=said):
        explore(given.pop("name"), **given)


def test_four_sliders_are_one_too_many(grid: Experiment) -> None:
    with pytest.raises(ArgumentError, match=r"Pin the other axes with at=, as at=\{'how': 'eager'\}"):
        explore("grid", source=Synthetic())
    assert list(explore("grid", at={"how": "graph"}, source=Synthetic()).sliders) == ["batch", "width", "share"]


def test_set_names_what_it_knows() -> None:
    shown = explore("matmul", source="recorded:h200")
    with pytest.raises(ArgumentError, match="expected one of the sliders size"):
        shown.set(width=3)
    with pytest.raises(ArgumentError, match="size is 0"):
        shown.set(size=0)


def test_a_source_with_nothing_along_an_axis_is_named() -> None:
    class Empty(Synthetic):
        def values(self, experiment: Experiment, axis: str) -> tuple[int | float | str, ...]:
            return ()

    with pytest.raises(NotRecordedError, match="synthetic has no point of 'matmul' along 'size'"):
        explore("matmul", source=Empty())


# ---- the cover ----


@pytest.mark.parametrize("answered", [False, True])
def test_the_static_edition_has_text_and_picture_but_no_widget(
    answered: bool, displayed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRRR_STATIC", "1")
    asked: Any = SimpleNamespace(answered=answered, on_answer=lambda *calls: None)
    shown = explore("matmul", at={"size": 4096}, unlock=asked, source="recorded:h200")
    shown._ipython_display_()
    kinds = [set(data) for data, _ in displayed]
    assert kinds == [{"text/plain", "text/markdown"}, {"text/plain", "text/html", "image/png"}][: 2 if answered else 1]
    assert displayed[0][0]["text/plain"] == shown.text
    assert shown._panel is None
    if answered:
        alt = displayed[1][1]["image/png"]["alt"]
        assert "At size 4096" in alt
        assert "RECORDED" in alt


# ---- measuring ----


def test_nothing_is_measured_before_the_button() -> None:
    shown, source = live()
    shown.sweep()
    assert source.measured == []
    assert "Not measured yet: CPU; GPU, clock stopped after synchronize()." in shown.text
    shown.panel.measure.click()
    assert source.measured == [("cpu", (256,)), ("gpu", (256,))]
    assert source.together == [(("cpu", "gpu"), (256,))]
    assert shown.data["cpu"][0][0] == 256
    assert "Not measured" not in shown.text


def test_measure_all_fills_every_point_and_skips_what_is_there() -> None:
    shown, source = live()
    shown.panel.measure.click()
    shown.panel.measure_all.click()
    assert len(source.measured) == len(set(source.measured)) == 2 * len(shown.scene.values["size"])
    assert [row[0] for row in shown.data["cpu"]] == list(shown.scene.values["size"])


def test_the_seconds_of_the_first_points_correct_those_of_what_is_left() -> None:
    shown, source = live()
    shown.panel.measure.click()
    found = shown.scene.experiment
    assert pace(found, source, {}) == 1.0
    expected = 2 * taken_s(0.0, False)  # two variants, whose calls take microseconds
    assert pace(found, source, {(256,): 4 * expected, (1,): 0.1}) == pytest.approx(2.0, rel=0.05)


def test_an_unexpected_error_is_shown_kept_and_raised_by_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brrr_course.view.display.shown", set())  # without what other tests have left
    shown, _ = live(error=ZeroDivisionError("a mistake"))
    shown.panel.measure.click()
    assert "ZeroDivisionError: a mistake" in shown.text
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        shown.sweep()
    with pytest.raises(ZeroDivisionError):
        sweep_all()


def test_an_error_in_a_slider_s_callback_is_raised_by_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = explore("matmul", source="recorded:h200")
    monkeypatch.setattr(shown.panel.scene, "move", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        shown.sweep()


def test_cancel_stops_between_two_measurements() -> None:
    shown, source = live(slice_s=0.01)

    async def press() -> None:
        shown.panel.measure_all.click()
        assert shown.panel.measure.disabled
        while len(source.measured) < 3:
            await asyncio.sleep(0.005)
        shown.panel.cancel.click()
        await shown.panel._job.task

    asyncio.run(press())
    assert 3 <= len(source.measured) <= 5
    assert "Stopped: what was measured before is kept." in shown.text
    assert not shown.panel.measure.disabled
    shown.sweep()


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals need the main thread")
def test_an_interrupt_stops_a_measurement_and_leaves_it_usable() -> None:
    shown, source = live(slice_s=20)

    async def press() -> None:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a Jupyter kernel does between cells
        try:
            shown.panel.measure.click()
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            await shown.panel._job.task
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        finally:
            signal.signal(signal.SIGINT, before)

    asyncio.run(press())
    assert source.measured == []
    assert "Stopped" in shown.text
    shown.sweep()


def test_an_interrupt_between_two_measurements_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "BREATH_S", 1.0)
    shown, source = live()

    async def press() -> None:
        shown.panel.measure.click()
        await asyncio.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
        await shown.panel._job.task

    asyncio.run(press())
    assert source.measured == []
    assert "Stopped" in shown.text


def test_a_slow_point_on_a_cpu_asks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_recorded_s", lambda *_: None)
    source = Synthetic(live=True, name="cpu")
    shown = explore("matmul", at={"size": 16}, lines=["cpu"], source=source)
    source.measure(shown.scene.experiment, "cpu", {"size": 16})
    shown.set(size=32768)
    shown.panel.measure.click()
    assert "press the button again to measure" in shown.text
    assert len(source.measured) == 1
    shown.panel.measure.click()
    assert len(source.measured) == 2
    assert "press the button" not in shown.text


def test_of_all_points_the_quick_ones_are_measured_first_and_tell_how_long_the_rest_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measuring, "_recorded_s", lambda _, __, key: 1e-9 * float(key[0]) ** 3)
    source = Synthetic(live=True, name="cpu")
    shown = explore("matmul", lines=["cpu"], source=source)
    shown.panel.measure_all.click()
    quick = [size for _, (size,) in source.measured]
    assert quick and max(quick) < 2048, "what the recording says takes long waits"
    assert "What is left takes about" in shown.text
    told = sum(shown.panel._expected(shown.panel._later))
    monkeypatch.setattr(measuring, "_recorded_s", lambda *_: None)
    assert sum(shown.panel._expected(shown.panel._later)) >= told > 0
    shown.panel.measure_all.click()
    sizes = [size for _, (size,) in source.measured]
    assert len(sizes) == len(set(sizes)) > len(quick) and max(sizes) == 32768


def test_a_recorded_time_counts_as_much_longer_as_this_machine_is_slower_now(monkeypatch: pytest.MonkeyPatch) -> None:
    found, key = explore("matmul", source="recorded:h200").scene.experiment, (4096,)
    monkeypatch.setattr(measuring, "_product_s", lambda minute: 1.0)
    slow = measuring._recorded_s(found, "cpu", key)
    monkeypatch.setattr(measuring, "_product_s", lambda minute: 0.25)
    quick = measuring._recorded_s(found, "cpu", key)
    assert slow and quick and slow == pytest.approx(4 * quick)


def test_moving_the_slider_takes_the_confirmation_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_recorded_s", lambda *_: None)
    source = Synthetic(live=True, name="cpu")
    shown = explore("matmul", at={"size": 16384}, lines=["cpu"], source=source)
    shown.panel.measure.click()
    shown.set(size=32768)
    shown.panel.measure.click()
    assert source.measured == []
    assert "unknown time" in shown.text


def test_expected_time_grows_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_recorded_s", lambda *_: None)
    source = Synthetic(live=True, name="cpu")
    found = explore("matmul", lines=["cpu"], source=source).scene.experiment
    known = source.measure(found, "cpu", {"size": 1024}).latency_s
    assert known is not None
    said = measuring.expected_s(found, source, ["cpu"], {"size": 8192})
    assert said == pytest.approx(measuring.taken_s(known.median * 512, queue=False))
    assert measuring.expected_s(found, source, ["cpu"], {"size": 1024}) == 0


# ---- which values, and why one is missing ----


def test_only_the_values_asked_for_are_kept() -> None:
    shown = explore("matmul", at={"size": 64}, values={"size": [16, 64, 1024]}, source="recorded:h200")
    assert [value for _, value in shown.sliders["size"].options] == [16, 64, 1024]
    assert all({x for x, *_ in rows} <= {16, 64, 1024} for rows in shown.data.values())
    shown.sweep()


def test_values_that_the_source_has_not_have_no_say() -> None:
    everything = explore("matmul", source="recorded:h200").sliders["size"].options
    assert explore("matmul", values={"size": [7]}, source="recorded:h200").sliders["size"].options == everything


@pytest.mark.parametrize("values", [{"size": []}, {"size": [0]}, {"size": ["big"]}, {"width": [1]}])
def test_values_that_cannot_be(values: dict[str, list[Any]]) -> None:
    with pytest.raises(ArgumentError):
        explore("matmul", values=values, source="recorded:h200")


def test_a_point_that_could_not_be_measured_says_why() -> None:
    at = {"batch": 256, "context": 32768}
    shown = explore("decode", source="recorded:h100", at=at, lines=["graph"])
    assert "Not recorded here: CUDA Graph. Beside the model's weights, a step for 256 readers" in shown.text
    assert "needs 275 GB and 81.4 GB is free on the GPU." in shown.text
