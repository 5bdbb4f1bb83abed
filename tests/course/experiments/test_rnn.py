"""A recurrent layer that stays on the chip: grid and plan, workloads, what its claims call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from formulas import Made, time_of

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Measurement, Value
from brrr_course.experiments import experiment
from brrr_course.experiments import rnn as claims
from brrr_course.experiments.checked import relative
from brrr_course.experiments.rnn import (
    CELLS,
    MAKERS,
    TOLERANCES,
    RecurrentInputs,
    gradients,
    make_module,
    place,
    step,
)
from brrr_course.lessons.rnn_data import best_cudnn
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Evidence

RNN = experiment("rnn")


# ---- the grid, the plan, the costs ----


# ---- workloads ----


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_are_those_of_float64(cell: str) -> None:
    given = RecurrentInputs(cell, 16, 3, 6, "float32", "cpu")
    found = MAKERS["train-cudnn"](given)()
    assert len(found) == 1 + len(list(given.module.parameters())) == 5
    assert given.error(found, training=True) <= 1e-5
    for place_of in range(5):
        wrong = tuple(each * (1.01 if n == place_of else 1) for n, each in enumerate(found))
        assert given.error(wrong, training=True) == pytest.approx(0.01, rel=0.01)
    x, above = given.x.double(), given.above.double()
    wide = make_module(cell, 16, "cpu", torch.float64)
    wide.load_state_dict(given.module.state_dict())
    nudged = x.clone()
    nudged[1, 2, 3] += 1e-6
    change = ((wide(nudged)[0] - wide(x)[0]) * above).sum() / 1e-6
    assert float(gradients(wide, wide, x, above)[0][1, 2, 3]) == pytest.approx(change.item(), rel=1e-4, abs=1e-6)


def test_tf32_would_be_found_out_among_float32() -> None:
    given = RecurrentInputs("lstm", 24, 3, 6, "float32", "cpu")
    right = MAKERS["cudnn"](given)()
    assert given.error(right * (1 + 3e-4)) > TOLERANCES["float32"]
    assert relative(right, right.double(), torch.float32) == 0


# ---- claims on made-up machines ----

POINTS = list(RNN.points())
KEYS = {each.name: [tuple(p.values()) for p in POINTS if RNN.has(each.name, p)] for each in RNN.variants}
FACTORS = {"persistent": 1.0, "cudnn": 10.0, "cudnn-pad8": 15.0, "cudnn-pad16": 2.0}
OURS_S = 0.35e-6


@dataclass
class Layers(Made):
    """A step takes so many times ours, wherever the grid has the variant; what happens once a call takes 1 ms."""

    fields: Mapping[str, str] = field(default_factory=dict)

    def known(self, described: Experiment, variant: str) -> dict[tuple[Value, ...], Measurement]:
        name, factor = self.fields.get(variant, "span_s"), FACTORS.get(variant)
        return {key: Measurement(**{name: time_of(1e-3 + OURS_S * factor * int(key[2]), self.spread)})
                for key in KEYS[variant] if factor}  # fmt: skip


def made(**fields: str) -> Evidence:
    return Evidence(RNN, Layers({}, (), spread=0, fields=fields))


def test_a_step_is_a_slope_without_what_happens_once() -> None:
    assert step(made(), "persistent", **place()).median == pytest.approx(OURS_S)
    late = step(made(), "persistent", **place(), short=256, long=1024)
    assert late.median == pytest.approx(OURS_S)
    found = step(made(), "persistent", cell="lstm", dtype="float32", hidden=1024, batch=[1, 4, 5])
    assert (found.axes, list(found.values)) == (("batch",), [(1,), (4,)]), "where it was measured"
    with pytest.raises(NotRecordedError, match="a step of graph at 1, 1024, rnn_tanh, float32 was not measured"):
        step(made(), "graph", **place())


def test_a_loops_time_stands_in_where_the_queue_overflows() -> None:
    assert step(made(cudnn="period_s"), "cudnn", **place()).median == pytest.approx(10 * OURS_S)
    with pytest.raises(NotRecordedError, match="a step of cudnn"):
        step(made(cudnn="host_s"), "cudnn", **place())


def test_the_best_of_cudnn_may_be_padded() -> None:
    half = place("lstm", "float16", 4)
    variant, found = best_cudnn(made(), half)
    assert (variant, found.median) == ("cudnn-pad16", pytest.approx(2 * OURS_S))
    assert claims.cudnn(made(), **half).median == pytest.approx(2 * OURS_S)
    everywhere = claims.cudnn(made()).values
    assert everywhere[4, 1024, "lstm", "float16"].median == pytest.approx(2 * OURS_S)
    assert everywhere[4, 1024, "lstm", "float32"].median == pytest.approx(10 * OURS_S)
    with pytest.raises(NotRecordedError):
        claims.cudnn(made(cudnn="host_s"), **half)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_share_of_weights_in_registers_is_the_plans(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(cell: str, hidden: int, batch: int, dtype: str) -> Any:
        registers = 4 * hidden**2 * (1 if dtype == "float32" else 0.5) / 3 / 128 / 256
        return SimpleNamespace(flop=2 * 4 * hidden**2 * batch, weight_registers=registers, threads=256,
                               group_blocks=128)  # fmt: skip

    monkeypatch.setitem(__import__("sys").modules, "brrr.kernels.recurrent.plan", SimpleNamespace(plan=plan))
    assert claims.held(made(), cell="lstm", dtype=dtype, hidden=1024, batch=4) == pytest.approx(1 / 3)
    with pytest.raises(NotRecordedError):
        claims.held(made(persistent="host_s"), cell="lstm", dtype=dtype, hidden=1024, batch=4)
