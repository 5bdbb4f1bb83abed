"""What lesson 08 is made of beside the experiment: the drawings of order and of the mini-batch, and its exercises."""

from typing import Any

import pytest
import torch
from formulas import Kept, time_of

from brrr.core.measurement import Measurement
from brrr.gpu.datasheet import hardware
from brrr_course.experiments import experiment
from brrr_course.experiments.rnn_ladder import BATCHES, CELLS, HIDDEN, STEPS
from brrr_course.lessons.checking import check
from brrr_course.lessons.drawings import drawing
from brrr_course.lessons.drawings.rnn_batch import Limits
from brrr_course.lessons.drawings.rnn_order import LAYERS, WAYS, length, turns
from brrr_course.sources.live import Live
from brrr_course.view.arguments import reachable

LADDER = experiment("rnn_ladder")
NOBODY: Any = None


# ---- the drawing of the order ----


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layers", LAYERS)
def test_each_product_waits_for_what_it_needs(way: str, layers: int) -> None:
    steps = 5
    found = turns(way, layers, steps)
    states = {(each.layer, each.step): each.at for each in found if each.kind == "state"}
    inputs = {(each.layer, step): each.at for each in found if each.kind == "input"
              for step in range(each.step, each.step + each.steps)}  # fmt: skip
    assert len(states) == len(inputs) == layers * steps
    for (layer, step), at in states.items():
        assert at > inputs[layer, step]
        assert step == 0 or at > states[layer, step - 1]
        assert layer == 0 or inputs[layer, step] > states[layer - 1, step]


def test_how_many_turns_each_order_takes() -> None:
    assert [length(turns(way, 4, 6)) for way in WAYS] == [48, 28, 28, 13]
    assert [len(turns(way, 4, 6)) for way in WAYS] == [48, 48, 28, 48]
    assert all(
        length(turns("wavefront", layers)) == min(length(turns(way, layers)) for way in WAYS) for layers in LAYERS
    )


def test_the_text_and_the_boxes(figures: list[Any]) -> None:
    made = drawing("rnn-order", source=NOBODY, order="wavefront", layers=4)
    assert "48 products in 13 turns, up to 6 at once" in made.text
    assert "one at a time" in made.set(order="loop").text
    figures.clear()
    for order in WAYS:
        drawing("rnn-order", source=NOBODY, order=order, layers=3).picture()
    boxes = [[patch for patch in each.axes[0].patches if patch.get_height()] for each in figures]
    assert [len(each) for each in boxes] == [len(turns(way, 3)) for way in WAYS]
    assert len({each.axes[0].get_xlim() for each in figures}) == 1


# ---- the drawing of the mini-batch ----


def product_s(batch: int) -> float:
    return 2e-6 * max(1, batch / 16)


def products(*lines: str) -> Any:
    """Times made up: the product grows beyond 16 samples, a step of the loop takes 5 µs more."""

    def measured(line: str, batch: int) -> Measurement:
        time = time_of(product_s(batch) if line == "state-product" else STEPS * (product_s(batch) + 5e-6))
        return Measurement(span_s=time, period_s=time)

    places = [(batch, HIDDEN, STEPS, 1, cell, "float32") for batch in BATCHES for cell in CELLS]
    return Kept({line: {at: measured(line, at[0]) for at in places} for line in lines})


PRODUCTS = products("state-product", "graph")


def test_limits_by_hand() -> None:
    device = hardware("h200")
    found = Limits.of("lstm", 64, device)
    assert found.weights_s == pytest.approx(4 * 512 * 512 * 4 / device.memory_bytes_per_s)
    assert found.each_s == pytest.approx(64 * found.weights_s)
    assert found.flop_s == pytest.approx(2 * 64 * 4 * 512 * 512 / device.peak("fp32", "cuda cores"))
    assert Limits.of("rnn_tanh", 64, device).flop_s == pytest.approx(found.flop_s / 4)


def test_what_is_plotted_is_measured_and_limits_are_dashed(figures: list[Any]) -> None:
    made = drawing("rnn-batch", source=PRODUCTS, batch=8)
    for cell in CELLS:
        made.set(cell=cell).picture()
    assert len({(each.axes[0].get_xlim(), each.axes[0].get_ylim()) for each in figures}) == 1
    lines = {line.get_label(): line for line in figures[-1].axes[0].get_lines()}
    measured = lines["the recurrent product"], lines["a step, loop in a CUDA Graph"]
    assert list(measured[0].get_ydata()) == pytest.approx([1e6 * product_s(batch) for batch in BATCHES])
    assert list(measured[1].get_ydata()) == pytest.approx([1e6 * product_s(batch) + 5 for batch in BATCHES])
    limits = [line for label, line in lines.items() if label.startswith("DATASHEET")]
    assert len(limits) == 3 and all(line.get_linestyle() != "-" for line in limits)
    assert "a step of cuDNN" not in lines, "what was not measured is not drawn"


# ---- 08-combine ----


def test_one_product_and_a_batch_of_them_are_right() -> None:
    side = check(
        "08-combine",
        stack=lambda w, u: torch.cat([torch.cat(w), torch.cat(u)], dim=1),
        gates=lambda x, h, weights: torch.nn.functional.linear(torch.cat([x, h], dim=1), weights).chunk(4, dim=1),
    )
    assert side.right and "one product" in side.text.lower()
    batched = check(
        "08-combine",
        stack=lambda w, u: (torch.stack(list(w)).mT.contiguous(), torch.stack(list(u)).mT.contiguous()),
        gates=lambda x, h, weights: (
            torch.bmm(x.expand(4, -1, -1), weights[0]) + torch.bmm(h.expand(4, -1, -1), weights[1])
        ),
    )
    assert batched.right


# ---- a machine without a GPU ----


def test_a_cpu_is_asked_only_for_sizes_that_it_has() -> None:
    wanted = {"batch": 64, "hidden": 1024, "steps": 64, "layers": 4, "dtype": "float16"}
    found = reachable(LADDER, Live("cpu"), wanted)
    assert found == {"batch": 16, "hidden": 256, "steps": 64, "layers": 4, "dtype": "float32"}
    assert LADDER.has("cpu-naive", {**found, "cell": "lstm"})
    assert [point["steps"] for _, point in LADDER.traces] == [16] * 4
    assert all(LADDER.has(name, point) for name, point in LADDER.traces)
