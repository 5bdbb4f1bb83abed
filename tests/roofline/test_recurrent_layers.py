"""cuDNN's recurrent layers: the kernels they count as, also on a machine without a GPU, beside recorded times."""

import statistics
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

from brrr.counting.cost import Cost, OperatorCost
from brrr.counting.description import array
from brrr.roofline.device_model import model_of
from brrr.roofline.predicting import predict
from brrr.roofline.prediction import How
from brrr.roofline.recurrent import is_launch, lowered, recurrent_time, way_of
from brrr_course.experiments import experiment
from brrr_course.sources.recorded import Recorded

CELLS = {"rnn_tanh": nn.RNN, "rnn_relu": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def layer(cell: str = "lstm", hidden: int = 512, dtype: str = "float32", **options: Any) -> nn.Module:
    with torch.device("meta"):
        return CELLS[cell](hidden, hidden, dtype=getattr(torch, dtype), **options)


@cache
def work(
    cell: str, hidden: int, batch: int, steps: int, layers: int, dtype: str, backward: bool, device: str = "h200"
) -> Cost:
    """The cost, as `predict` counts it for a GPU."""
    x = torch.empty(steps, batch, hidden, dtype=getattr(torch, dtype), device="meta", requires_grad=backward)
    return predict(layer(cell, hidden, dtype, num_layers=layers), x, device=device, backward=backward).cost


# --- beside what was recorded ---

EVERY = 6
"""Lines of the recordings: all of them take two minutes."""
WAYS: dict[str, How] = {"cudnn": "eager", "train-cudnn": "eager", "cudnn-graph": "graph"}


def errors(device: str, way: str, field: str) -> Iterator[float]:
    for name in ("rnn", "rnn_ladder"):
        about = experiment(name)
        axes = [axis.name for axis in about.axes]
        known = Recorded(device).known(about, way).items() if any(each.name == way for each in about.variants) else ()
        for key, row in sorted(known)[::EVERY]:
            at: dict[str, Any] = {"layers": 1, **dict(zip(axes, key, strict=True))}
            time = getattr(row, field)
            if time is None:
                continue
            cost = work(at["cell"], at["hidden"], at["batch"], at["steps"], at["layers"], at["dtype"], "train" in way)
            said = predict(cost, device=device, how=WAYS[way], calls=10, tf32=False)
            assert not said.unknown
            yield getattr(said, field) / time.median - 1


@pytest.mark.parametrize("device", ["h200", "h100"])
@pytest.mark.parametrize(("way", "field", "median", "ninth"), [
    ("cudnn", "span_s", 0.15, 0.35), ("cudnn", "period_s", 0.2, 0.55), ("cudnn-graph", "span_s", 0.15, 0.35),
    ("train-cudnn", "span_s", 0.3, 0.45), ("train-cudnn", "period_s", 0.3, 0.45),
])  # fmt: skip
def test_recorded_layers_are_told(device: str, way: str, field: str, median: float, ninth: float) -> None:
    found = list(errors(device, way, field))
    sizes = sorted(map(abs, found))
    print(device, way, field, len(found), statistics.median(sizes), sizes[int(0.9 * len(sizes))], min(found))
    assert len(found) >= 2 and min(found) > -0.5
    assert statistics.median(sizes) <= median and sizes[int(0.9 * len(sizes))] <= ninth


# --- which kernels a layer counts as ---


def kernels(cost: Cost, device: str = "h200") -> list[OperatorCost]:
    return [each for each in lowered(cost.operators, model_of(device)) if is_launch(each)]


def test_a_step_is_a_product_and_a_cell_and_all_inputs_are_one_product() -> None:
    found = kernels(work("lstm", 512, 16, 20, 1, "float32", False))
    assert [each.matmuls[0].m for each in found if each.matmuls] == [20 * 16, *[16] * 20]
    assert len(found) == 1 + 2 * 20 and {each.matmuls[0].n for each in found if each.matmuls} == {4 * 512}
    with_events, without = (recurrent_time(found[-1], model_of("h200"), 0.0, events=each) for each in (True, False))
    assert with_events and without and (with_events.device_s or 0.0) > (without.device_s or 0.0), "none in a graph"


def test_layers_go_in_waves() -> None:
    """Of 3 layers and 20 steps: 22 waves; each layer adds its launches, and less than its time."""
    one, deep = (work("gru", 512, 16, 20, depth, "float32", False) for depth in (1, 3))
    steps = [each for each in kernels(deep) if not each.matmuls]
    assert len(steps) == 3 * 20 and [each.form.over for each in steps[:6]] == [1, 2, 2, 3, 3, 3]
    less, more = (predict(each, device="h200", tf32=False) for each in (one, deep))
    assert more.span_s and less.span_s and 1.3 * less.span_s < more.span_s < 2.7 * less.span_s
    assert more.host_s > 2.3 * less.host_s


def test_backward_the_weights_gradients_are_products_of_all_steps() -> None:
    found = [each for each in kernels(work("lstm", 512, 16, 20, 1, "float32", True)) if each.backward]
    sizes = [(each.matmuls[0].m, each.matmuls[0].n, each.matmuls[0].k) for each in found if each.matmuls]
    assert sizes[:3] == [(320, 512, 2048), (2048, 512, 320), (2048, 512, 320)] and sizes[3:] == [(16, 512, 2048)] * 20


WAYS_OF = {  # cell, hidden, batch, type, backward, device
    ("rnn_tanh", 384, 7, "float32", False, "h200"): "small",
    ("rnn_tanh", 384, 7, "float32", True, "h200"): "steps",
    ("lstm", 192, 1, "float16", False, "h200"): "small",
    ("lstm", 256, 1, "float16", False, "h200"): "steps",
    ("lstm", 1024, 8, "float16", False, "h200"): "chunks",
    ("lstm", 1024, 9, "float16", False, "h200"): "steps",
    ("lstm", 1024, 8, "bfloat16", False, "h200"): "steps",
    ("lstm", 1152, 8, "float16", False, "h200"): "steps",
    ("gru", 1024, 8, "float16", False, "h200"): "steps",
    ("rnn_tanh", 1024, 96, "float16", False, "h200"): "steps",
    ("gru", 1024, 16, "float16", False, "v100"): "chunks",
    ("lstm", 1024, 16, "float16", False, "t4"): "steps",
    ("lstm", 1024, 16, "float16", False, "l40s"): "chunks",
    ("lstm", 1024, 16, "float16", False, "rtx-3090"): "steps",
}


@pytest.mark.parametrize("at", WAYS_OF)
def test_torch_chooses_the_algorithm(at: tuple[str, int, int, str, bool, str]) -> None:
    cell, hidden, batch, dtype, backward, device = at
    cost = work(cell, hidden, batch, 64, 1, dtype, backward)
    (call,) = (each for each in cost.operators if each.kind == "recurrent" and each.backward == backward)
    assert way_of(call, model_of(f"datasheet:{device}")) == WAYS_OF[at]


def test_a_persistent_kernel_is_one_launch() -> None:
    few, many = (work("lstm", 1024, 16, steps, 1, "float16", False) for steps in (64, 256))
    assert [len(kernels(each)) for each in (few, many)] == [2, 2]
    less, more = (predict(each, device="h200") for each in (few, many))
    assert less.span_s and more.span_s and more.host_s == less.host_s and more.span_s > 3 * less.span_s
    assert any("one kernel for all steps" in note for note in less.notes)


# --- on a machine without a GPU ---

MADE: dict[str, Any] = {
    "deep, with dropout": nn.LSTM(64, 256, 3, dropout=0.5),
    "both ways, batch first": nn.GRU(64, 256, 2, bidirectional=True, batch_first=True),
    "projected": nn.LSTM(64, 256, 2, proj_size=32, bidirectional=True),
    "projected, no bias": nn.LSTM(64, 256, proj_size=32, bias=False),
    "relu, float64": nn.RNN(64, 256, nonlinearity="relu").double(),
    "bfloat16": nn.RNN(64, 512).bfloat16(),
}


@pytest.mark.parametrize("how", ["eager", "graph", "compiled"])
@pytest.mark.parametrize("name", MADE)
def test_every_layer_has_a_time(name: str, how: How) -> None:
    x = array((12, 8, 64), str(next(MADE[name].parameters()).dtype).removeprefix("torch."))
    forward, both = (predict(MADE[name], x, device="h200", how=how, backward=each, calls=3) for each in (False, True))
    names = {each.name for each in both.cost.operators}
    assert {"aten._cudnn_rnn", "aten._cudnn_rnn_backward"} <= names and not both.unknown
    assert 0 < 1.5 * forward.period_s < both.period_s


def test_packed_sequences_count_the_rows_of_each_step() -> None:
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(4, 3, 64), [4, 4, 1])
    module = nn.LSTM(64, 256, bias=False)
    held, given = predict(lambda: module(packed)[0].data, device="h200"), predict(module, packed, device="h200")
    for each in (held, given):
        (call,) = (one for one in each.cost.operators if one.kind == "recurrent")
        assert [product.m for product in call.matmuls] == [9, 3, 2, 2, 2] and "packed" in call.form.name


def test_without_cudnn_and_on_a_cpu_a_layer_is_its_steps() -> None:
    module, x = nn.LSTM(64, 128), array((5, 3, 64))
    with torch.backends.cudnn.flags(enabled=False):
        without = predict(module, x, device="h200")
    for each in (without, predict(module, x, device="cpu")):
        assert not any(one.kind == "recurrent" for one in each.cost.operators)


def test_an_old_board_has_a_lower_bound() -> None:
    """cuDNN's kernels of then took up to eight times as long."""
    said = predict(layer(), torch.empty(20, 16, 512, device="meta"), device="datasheet:p100")
    assert said.unknown == ("aten._cudnn_rnn",) and "at least" in repr(said)
