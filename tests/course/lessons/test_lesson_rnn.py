"""What lesson 08b is made of beside the experiment: its table of steps, the drawing of the floor, the exercises."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
from formulas import Kept, time_of

from brrr.core.errors import ArgumentError
from brrr.core.measurement import Measurement, Value
from brrr.roofline import persistent
from brrr_course import compare, guess, step_times
from brrr_course.experiments import experiment
from brrr_course.experiments import rnn as floor
from brrr_course.experiments.rnn import BATCHES, place
from brrr_course.lessons.checking import check
from brrr_course.lessons.drawings import drawing, rnn_floor
from brrr_course.lessons.exercises.lesson_08b import CASES, up_to
from brrr_course.nouns.source import Evidence

RNN = experiment("rnn")
Step = Callable[[int, str, str], float]


def ours(batch: int, cell: str, dtype: str) -> float:
    return 1e-6 * (1 + batch / 32) * (2 if cell == "lstm" else 1)


def theirs(batch: int, cell: str, dtype: str) -> float:
    """Faster than ours from 96 samples on, and as fast as an LSTM of ours with 64."""
    return 6e-6 if batch < 96 else ours(batch, cell, dtype) / 2


@cache
def calls(way: Step, variant: str) -> dict[tuple[Value, ...], Measurement]:
    """Times of calls by a formula of a step's; what happens once takes 50 µs."""

    def measured(point: Mapping[str, Value]) -> Measurement:
        step_s = way(int(point["batch"]), str(point["cell"]), str(point["dtype"]))
        return Measurement(span_s=time_of(50e-6 + step_s * int(point["steps"]), 1e-4))

    return {tuple(point.values()): measured(point) for point in RNN.points() if RNN.has(variant, point)}


def source(**times: Step) -> Any:
    ways = {"persistent": ours, "cudnn": theirs, **{name.replace("_", "-"): way for name, way in times.items()}}
    return Kept({name: calls(way, name) for name, way in ways.items()})


EMPTY: Any = Kept()


# ---- the table of steps ----


def test_steps_by_batch_without_what_happens_once() -> None:
    found = step_times("lstm", "float32", source=source())
    assert list(found["ours"]) == list(found["cudnn"]) == list(BATCHES)
    assert found["ours"][32] == pytest.approx(4e-6) and found["cudnn"][1] == pytest.approx(6e-6)
    assert step_times(source=EMPTY) == {"ours": {}, "cudnn": {}}
    assert list(step_times(hidden=1152, source=source())["ours"]) == [1, 3, 4, 24, 64, 96], (
        "where another size is measured"
    )


def test_a_guess_is_compared_with_the_first_batch() -> None:
    g = guess("A step is ... times as fast", unit="x", answer="3x")
    found = compare(g, "rnn", of="step", batch=(16, 64), source=source(graph=lambda *key: 20e-6))
    assert found.text.startswith(
        "A step of rnn_tanh in float32, hidden size 1024; at batch 16 you said 3x, measured 4x"
    )
    assert [row[0] for row in found.rows] == ["16", "64"] and len(found.header) == len(found.rows[0])
    assert found.rows[0][1:4] == ("1.5 µs", "6 µs", "cuDNN") and found.rows[0][6] == "20 µs"
    assert found.rows[1][4].startswith("2x (") and "RECORDED" in found.badge


def test_the_best_of_cudnn_is_named_and_what_is_missing_left_out() -> None:
    g = guess("A step is ... times as fast", unit="x", answer="3x")
    padded = source(cudnn_pad16=lambda *key: 3e-6)
    found = compare(g, "rnn", of="step", cell="lstm", dtype="float16", batch=(4, 7, 16), source=padded)
    assert [row[0] for row in found.rows] == ["4", "16"], "7 is no batch of the recording"
    assert found.rows[0][2:4] == ("3 µs", "cuDNN, batch padded to 16") and found.rows[1][3] == "cuDNN"
    assert {row[6] for row in found.rows} == {"–"}
    in_a_graph = compare(g, "rnn", of="step", batch=(16,), source=source(cudnn_graph=lambda *key: 3e-6))
    assert in_a_graph.rows[0][2:4] == ("3 µs", "cuDNN in a CUDA Graph") and in_a_graph.rows[0][5] == "6 µs"


def test_without_steps_or_a_guess_a_sentence_says_so() -> None:
    g = guess("A step is ... times as fast", unit="x", answer="3x")
    assert "it takes a GPU" in compare(g, "rnn", of="step", source=EMPTY).text
    open_guess = guess("A step takes ... times as long as another", unit="x")
    assert "Not answered yet" in compare(open_guess, "rnn", of="step", source=EMPTY).text
    with pytest.raises(ArgumentError, match="a guess of a factor"):
        compare(guess("A step takes ...", unit="s", answer="1 µs"), "rnn", of="step", source=EMPTY)


# ---- the drawing of the floor ----


def floor_at(evidence: Any, at: Any) -> persistent.Step:
    batch = int(at["batch"])
    parts = {"exchange": 0.8e-6, "state": 0.02e-6 * batch, "arithmetic": 0.01e-6 * batch}
    return persistent.Step(parts, serial_s=0.001e-6 * batch)


@pytest.fixture
def floored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rnn_floor, "floor_of", floor_at)


@pytest.mark.usefixtures("floored")
def test_what_is_plotted_is_measured_and_predicted_on_axes_that_stand_still(figures: list[Any]) -> None:
    made = drawing("rnn-floor", source=source(), batch=8)
    made.picture()
    made.set(cell="lstm", batch=128).picture()
    one, other = figures[0].axes[0], figures[-1].axes[0]
    assert one.get_xlim() == other.get_xlim() and one.get_ylim() == other.get_ylim()
    lines = {line.get_label(): list(line.get_ydata()) for line in one.get_lines()}
    assert lines["weights on the chip"] == pytest.approx([1e6 * ours(b, "rnn_tanh", "float32") for b in BATCHES])
    assert lines["cuDNN's best"] == pytest.approx([1e6 * theirs(b, "rnn_tanh", "float32") for b in BATCHES])
    assert lines["exchange"] == pytest.approx([0.8] * len(BATCHES))
    assert lines["state from L2"] == pytest.approx([0.02 * batch for batch in BATCHES])
    assert lines["PREDICTED floor"][-1] == pytest.approx(0.02 * 128 + 0.001 * 128)
    low, high = one.get_ylim()
    assert low < 0.8 and high > max(lines["cuDNN's best"])


def test_a_floor_is_made_of_the_plan_the_exchange_and_the_devices_rates() -> None:
    pytest.importorskip("brrr.kernels.recurrent.plan")
    from brrr.kernels.recurrent.plan import plan

    evidence, at = Evidence(RNN, source()), place("rnn_tanh", "float32", 64)
    made, found = plan("rnn_tanh", hidden=1024, batch=64, dtype="float32"), floor.floor_of(evidence, at)
    assert made.flop == 2 * 64 * 1024**2
    assert found.parts["exchange"] == pytest.approx(ours(1, "rnn_tanh", "float32"), rel=1e-3)
    assert 2e12 < made.state_bytes / found.parts["state"] < 20e12, "the rate of an L2 cache"
    few, small = plan("rnn_tanh", hidden=1024, batch=4), floor.floor_of(evidence, place("rnn_tanh", "float32", 4))
    assert (few.tiles, made.tiles) == (False, True)
    assert 50e12 < few.flop / small.parts["arithmetic"] < 70e12 and 30e12 < made.flop / found.serial_s < 67e12
    assert 80e12 < made.flop / found.parts["arithmetic"] < 165e12, "a third of TF32's rate"
    half = floor.floor_of(evidence, place("rnn_tanh", "float16", 64))
    assert made.flop / half.parts["arithmetic"] > 400e12


# ---- 08b-until ----


def test_the_right_function_and_what_it_says_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brrr_course.lessons.rnn_data.source_for", lambda *_: source())
    mark = check("08b-until", until=up_to)
    assert mark.right and "rnn_tanh in float32: 64; lstm in float16: 32" in mark.text
    monkeypatch.setattr("brrr_course.lessons.rnn_data.source_for", lambda *_: EMPTY)
    mark = check("08b-until", until=up_to)
    assert mark.right and "On your source" not in mark.text
    assert all(up_to(ours, theirs) == right for ours, theirs, right in CASES.values())
