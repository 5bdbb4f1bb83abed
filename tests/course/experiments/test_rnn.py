"""A recurrent layer that stays on the chip: grid and plan, workloads, every claim holding and failing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from formulas import Made

from brrr.core.errors import BrrrError, DeviceMemoryError, NotRecordedError
from brrr.core.measurement import Measurement, Point, Value
from brrr.roofline.persistent import Step
from brrr_course.experiments import experiment
from brrr_course.experiments.checked import relative
from brrr_course.experiments.rnn import CELLS, DTYPES, HIDDEN, recurrent_flop
from brrr_course.experiments.rnn.claims import BATCHES, TABLE, short_name
from brrr_course.experiments.rnn.steps import cudnn, gains, gains_everywhere, place, slope, slopes
from brrr_course.experiments.rnn.work import MAKERS, TOLERANCES, LayerInputs, gradients, make_module
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Evidence
from brrr_course.sources.claimed import claimed_points
from brrr_course.sources.plan import steps as planned
from brrr_course.sources.timers import measure_point

RNN = experiment("rnn")
AXES = [axis.name for axis in RNN.axes]
SMALL: Point = {"batch": 3, "hidden": 24, "steps": 5, "cell": "rnn_tanh", "dtype": "float32"}
"""Off the grid: a workload may be made anywhere."""


def at(batch: int, hidden: int, steps: int, cell: str = "rnn_tanh", dtype: str = "float32") -> dict[str, Value]:
    return dict(zip(AXES, (batch, hidden, steps, cell, dtype), strict=True))


# ---- the grid, the plan, the costs ----


def test_the_recording_stays_small() -> None:
    found = planned([RNN], "cuda")
    assert sum(len(step.variants) for step in found) <= 1000
    assert len([step for step in found if step.phase in ("anchor", "claim")]) <= 90
    plans = {tuple(step.point[name] for name in ("cell", "dtype", "hidden", "batch"))
             for step in found if "persistent" in step.variants}  # fmt: skip
    assert len(plans) <= 115, "each compiles and tries several kernels"
    assert sum(len(step.variants) for step in planned([RNN], "cpu")) <= 40


def test_every_point_that_a_claim_asks_for_is_measured() -> None:
    asked = [dict(zip(AXES, key, strict=True)) for key in claimed_points(RNN)]
    for cell, dtype in TABLE:
        assert all(at(batch, 1024, steps, cell, dtype) in asked for batch in BATCHES for steps in (64, 256))
    assert at(1, 32, 64) in asked and at(4, 1152, 256) in asked
    assert [point for point in asked if not any(RNN.has(each.name, point) for each in RNN.variants)] == []


def test_a_step_can_be_had_wherever_ours_is_measured() -> None:
    points = [point for point in RNN.points() if RNN.has("persistent", point)]
    assert all(RNN.has(name, {**point, "steps": steps}) for point in points for steps in (64, 256)
               for name in ("persistent", "cudnn"))  # fmt: skip
    assert {point["cell"] for point in points} == set(CELLS) and {point["dtype"] for point in points} == set(DTYPES)
    assert {point["hidden"] for point in points} == set(HIDDEN)
    for hidden, batch in ((768, 64), (1280, 1), (1024, 3), (1024, 24), (1024, 96)):
        assert RNN.has("persistent", at(batch, hidden, 64, "lstm", "float16"))
    assert all(RNN.has("persistent", at(batch, 1152, 64)) for batch in (1, 3, 4, 24, 64, 96))


def test_a_batch_is_padded_only_where_that_changes_it() -> None:
    half = [point for point in RNN.points() if point["dtype"] != "float32" and RNN.has("cudnn", point)]
    for name, whole in (("cudnn-pad8", 8), ("cudnn-pad16", 16)):
        assert {int(p["batch"]) % whole == 0 for p in half if RNN.has(name, p)} == {False}
        assert not any(RNN.has(name, p) for p in RNN.points() if p["dtype"] == "float32")
    assert RNN.has("cudnn-pad16", at(8, 1024, 64, dtype="float16"))


def test_costs_by_hand() -> None:
    point = at(3, 2, 5, "lstm", "float16")
    assert recurrent_flop(point) == 2 * (4 * 2 * 2) * 3 * 5
    cost, trained = RNN.cost_at("persistent", point), RNN.cost_at("train-cudnn", point)
    assert cost is not None and trained is not None
    assert cost.flop == 2 * recurrent_flop(point) and trained.flop == 3 * cost.flop
    assert cost.bytes == 2 * (2 * 2 * 3 * 5 + 2 * 4 * 2 * 2)


# ---- workloads ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("name", ["cudnn", "cudnn-tf32", "cudnn-pad8", "cudnn-pad16"])
def test_every_way_gives_the_layer_and_a_wrong_one_is_refused(name: str, cell: str, dtype: str) -> None:
    given = LayerInputs(cell, 24, 3, 6, dtype, "cpu")
    right, allowed = MAKERS[name](given)(), TOLERANCES[getattr(torch, dtype)]
    wide = make_module(cell, 24, "cpu", torch.float64)
    wide.load_state_dict(given.module.state_dict())
    torch.testing.assert_close(right.double(), wide(given.x.double())[0].detach(), rtol=3e-2, atol=3e-2)
    assert given.error(right) <= allowed
    assert given.error(right * (1 + 3 * allowed)) > allowed
    assert math.isnan(given.error(right[:-1])) and math.isnan(given.error(right.double()))
    assert math.isnan(given.error((right, right)))
    assert not given.error(torch.full_like(right, math.nan)) <= allowed


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_are_those_of_float64(cell: str) -> None:
    given = LayerInputs(cell, 16, 3, 6, "float32", "cpu")
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
    given = LayerInputs("lstm", 24, 3, 6, "float32", "cpu")
    right = MAKERS["cudnn"](given)()
    assert given.error(right * (1 + 3e-4)) > TOLERANCES[torch.float32]
    assert relative(right, right.double(), torch.float32) == 0


def test_the_ways_of_a_point_share_their_numbers() -> None:
    given = LayerInputs.of("lstm", 8, 2, 4, "float32", "cpu")
    assert LayerInputs.of("lstm", 8, 2, 4, "float32", "cpu") is given
    assert torch.equal(MAKERS["cudnn"](given)(), MAKERS["cpu"](given)())


def test_the_cpu_is_measured_and_the_gpu_says_why_not() -> None:
    found = measure_point(RNN, ["cpu"], SMALL, budget_s=0.01)["cpu"]
    assert not isinstance(found, BrrrError) and 0 < found.error <= TOLERANCES[torch.float32]
    if not torch.cuda.is_available():
        missing = measure_point(RNN, ["cudnn", "cudnn-pad8"], SMALL, budget_s=0.01)
        assert all(isinstance(each, BrrrError) for each in missing.values())


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DeviceMemoryError, match="a layer of 4194304, 64 steps of 2 samples"):
        RNN.workload("cpu", at(2, 2**22, 64))


# ---- claims on made-up machines ----

POINTS = list(RNN.points())
KEYS = {each.name: [tuple(p.values()) for p in POINTS if RNN.has(each.name, p)] for each in RNN.variants}


@dataclass
class Layers(Made):
    """A call's time by formulas of a step's, wherever the grid has the variant; what happens once a call takes 1 ms."""

    once_s: float = 1e-3
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)
    largest: int = 10**6

    def known(self, described: Experiment, variant: str) -> dict[tuple[Value, ...], Measurement]:
        formula: Any = self.times.get(variant)
        keys: Any = [key for key in KEYS[variant] if formula and int(key[1]) <= self.largest]
        return {(b, h, s, cell, dtype): self._one(variant, formula(b, h, cell, dtype), b, s)
                for b, h, s, cell, dtype in keys}  # fmt: skip

    def _one(self, variant: str, step_s: float, batch: int, steps: int) -> Measurement:
        time = self._estimate((0.0 if variant.startswith("train") else self.once_s) + step_s * steps)
        usual = ("period_s",) if variant.startswith("train") else ("span_s",)
        times: Any = dict.fromkeys(self.fields.get(variant, usual), time)
        peak = int(self.memory.get(variant, 1e6) * batch) if variant.startswith("train") else None
        return Measurement(**times, error=self.errors.get(variant, 1e-7), peak_bytes=peak)


Formula = Callable[[int, int, str, str], float]
GAIN = {1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0, 8: 9.0, 16: 8.0, 24: 6.0, 32: 5.0, 64: 4.0, 96: 3.0, 128: 2.0}


def ours(b: int, h: int, cell: str, dtype: str) -> float:
    return 0.35e-6 * max(1.0, b / 8) * (0.9 if h == 32 else 1.0)


def theirs(b: int, h: int, cell: str, dtype: str) -> float:
    return ours(b, h, cell, dtype) * GAIN[b]


def times(formula: Formula, factor: float, where: Callable[..., bool] = lambda *_: True) -> Formula:
    return lambda *key: formula(*key) * (factor if where(*key) else 1.0)


GOOD: dict[str, Any] = {
    "persistent": ours, "cudnn": theirs, "cudnn-tf32": times(ours, 2), "cudnn-pad8": times(theirs, 1.5),
    "cudnn-pad16": times(theirs, 1.5), "cudnn-graph": theirs, "graph": times(ours, 30),
    "train-persistent": times(ours, 3), "train-cudnn": times(theirs, 3),
}  # fmt: skip
OTHERWISE: dict[str, dict[str, Any]] = {
    "doubles": {"graph": times(ours, 2)},
    "registers-largest": {"device": "Tesla V100-SXM2-16GB"},
}
"""Of two claims that contradict each other, on another machine."""


def made(spread: float = 1e-5, device: str = "NVIDIA H200", **changed: Any) -> Any:
    of_source = {name: changed.pop(name) for name in ("fields", "errors", "memory", "largest") if name in changed}
    given = {name: formula for name, formula in {**GOOD, **changed}.items() if formula is not None}
    return Layers(given, (), spread=spread, device=device, **of_source)


def verdict(claim: str, **changed: Any) -> str:
    named = {name.replace("_", "-") if name.replace("_", "-") in GOOD else name: way for name, way in changed.items()}
    return next(each for each in RNN.claims if each.name == claim).verdict(Evidence(RNN, made(**named))).status


@pytest.fixture(autouse=True)
def planned_and_floored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that holds two thirds of the weights in registers, and a floor of 0.8 of our step."""
    monkeypatch.setitem(__import__("sys").modules, "brrr.kernels.recurrent.plan", SimpleNamespace(plan=plan_of(2 / 3)))
    monkeypatch.setattr("brrr_course.experiments.rnn.claims.floor_of", floor_of(0.8))


def plan_of(share: float) -> Any:
    def plan(cell: str, hidden: int, batch: int, dtype: str) -> Any:
        gates = 4 if cell == "lstm" else 1
        registers = gates * hidden**2 * (1 if dtype == "float32" else 0.5) * share / 128 / 256
        return SimpleNamespace(flop=2 * gates * hidden**2 * batch, weight_registers=registers, threads=256,
                               group_blocks=128)  # fmt: skip

    return plan


def floor_of(share: float) -> Any:
    return lambda evidence, at: Step({"exchange": share * slope(evidence, "persistent", at).median})


JUDGED = [each.name for each in RNN.claims if each.judge]


@pytest.mark.parametrize("claim", JUDGED)
def test_every_claim_holds_on_a_machine_like_the_sources_and_is_silent_on_none(claim: str) -> None:
    assert verdict(claim, **OTHERWISE.get(claim, {})) == "holds"
    if claim not in ("registers-largest", "off-chip-slower"):
        assert verdict(claim, **dict.fromkeys(GOOD)) == "not measured"


def test_what_nothing_here_can_judge() -> None:
    assert [each.name for each in RNN.claims if each.entry.not_here] == ["restarts"]


def only(**wanted: Any) -> Callable[..., bool]:
    """Where batch, hidden size, cell and type are these."""
    names = ("b", "h", "cell", "dtype")
    return lambda *key: all(dict(zip(names, key, strict=True))[name] == value for name, value in wanted.items())


def slower(name: str, factor: float, **where: Any) -> dict[str, Any]:
    return {name: times(GOOD[name], factor, only(**where))}


def at_gain(cell: str, dtype: str, batch: int, gain: float) -> dict[str, Any]:
    """A machine where the best of cuDNN is so many times as slow as ours at a place."""
    where = only(cell=cell, dtype=dtype, b=batch)
    return {name: lambda *key, old=GOOD[name]: ours(*key) * gain if where(*key) else old(*key)
            for name in ("cudnn", "cudnn-pad8", "cudnn-pad16")}  # fmt: skip


OTHER: list[tuple[str, dict[str, Any], str]] = [
    ("low-batch", at_gain("lstm", "float32", 8, 1.98), "fails"),
    ("low-batch", at_gain("lstm", "float16", 8, 1.98), "holds"),
    ("low-batch", {**at_gain("lstm", "float32", 3, 2.0), "spread": 0.01}, "undecided"),
    ("doubles", {"graph": times(ours, 1.5)}, "fails"),
    ("doubles", {"graph": times(ours, 2.5)}, "fails"),
    ("doubles", {"graph": times(ours, 2.4), "spread": 0.01}, "undecided"),
    ("registers-largest", {}, "fails"),
    ("high-throughput", slower("persistent", 6.0), "fails"),
    ("high-throughput", slower("persistent", 6.0, b=16), "holds"),
    ("saves-memory", slower("train-persistent", 2.1, b=4), "fails"),
    ("saves-memory", {"memory": {"train-persistent": 17e6}}, "fails"),
    ("saves-memory", {"memory": {"train-persistent": 15e6}}, "holds"),
    ("sustains", slower("persistent", 11.0, h=1152), "fails"),
    ("of-the-peak", slower("persistent", 1.4, h=1152), "fails"),
    ("of-the-peak", slower("persistent", 0.8, h=1152), "fails"),
    ("thirty-times", slower("graph", 1.25), "fails"),
    ("thirty-times", slower("graph", 0.75), "fails"),
    ("graph-three-times", slower("graph", 0.099, b=2, cell="lstm", dtype="float16"), "fails"),
    ("graph-three-times", slower("graph", 0.099, b=8), "holds"),
    ("never-slower", {**at_gain("lstm", "bfloat16", 64, 0.98)}, "fails"),
    ("never-slower", {"cudnn-pad8": times(ours, 0.98, only(b=1, h=768))}, "fails"),
    ("never-slower", {"cudnn-graph": times(ours, 0.5)}, "holds"),
    ("beats-tf32", slower("cudnn-tf32", 0.49, b=3), "fails"),
    ("gain-shrinks", at_gain("lstm", "float32", 128, 5.1), "fails"),
    ("gain-shrinks", {**at_gain("lstm", "float32", 128, 5.0), "spread": 0.01}, "undecided"),
    ("exchange-dominates", slower("persistent", 0.5, h=32, cell="lstm"), "fails"),
    ("long-sequences", {"fields": {"persistent": ("host_s",)}}, "not measured"),
    ("cudnn-graph-little", slower("cudnn-graph", 0.8, b=16), "fails"),
    ("cudnn-graph-little", slower("cudnn-graph", 1.25, b=16), "fails"),
    ("relu-as-tanh", slower("persistent", 1.12, cell="rnn_relu", b=64), "fails"),
    ("bfloat16-as-float16", slower("persistent", 0.88, dtype="bfloat16", cell="lstm", b=16), "fails"),
    ("training-faster", slower("train-cudnn", 0.24, b=64, cell="lstm"), "fails"),
    ("training-memory", {"memory": {"train-persistent": 1.2e6}}, "fails"),
    ("training-memory", {"memory": {"train-persistent": 1.1e6}}, "holds"),
    ("as-accurate", {"errors": {"persistent": 2.1e-7}}, "fails"),
    ("fits", {"largest": 2048}, "fails"),
    *((f"{short_name(cell, dtype)}-batch-{batch}{far}", at_gain(cell, dtype, batch, share * bound), status)
      for (cell, dtype), bounds in TABLE.items() for far, row in zip(("", "-far"), bounds, strict=True)
      for batch, bound in zip(BATCHES, row, strict=True) for share, status in ((0.99, "fails"), (1.01, "holds"))),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "changed", "status"), OTHER)
def test_both_sides_of_each_bound(claim: str, changed: dict[str, Any], status: str) -> None:
    assert verdict(claim, **changed) == status


def test_a_long_sequence_whose_steps_slow_down_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    source = made()
    known = source.known

    def slowed(described: Experiment, variant: str) -> dict[tuple[Value, ...], Measurement]:
        found: Any = known(described, variant)
        late = {key: Measurement(span_s=m.span_s * 1.2) for key, m in found.items() if key[2] == 1024}
        return {**found, **late}

    monkeypatch.setattr(source, "known", slowed)
    claim = next(each for each in RNN.claims if each.name == "long-sequences")
    assert claim.verdict(Evidence(RNN, source)).status == "fails"


@pytest.mark.parametrize(("share", "status"), [(0.49, "fails"), (0.51, "holds"), (1.06, "fails")])
def test_a_floor_explains_half_of_a_step_and_no_more_than_all(
    share: float, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brrr_course.experiments.rnn.claims.floor_of", floor_of(share))
    assert verdict("floor-explains") == status


@pytest.mark.parametrize(("share", "status"), [(0.49, "fails"), (0.51, "holds")])
def test_the_weights_are_mostly_in_registers(share: float, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "brrr.kernels.recurrent.plan", SimpleNamespace(plan=plan_of(share)))
    assert verdict("cached-in-registers") == status


def test_every_judge_with_a_bound_is_tried_on_both_sides() -> None:
    tried = {claim for claim, _, status in OTHER if status == "fails"}
    apart = {"floor-explains", "cached-in-registers", "long-sequences", "off-chip-slower"}
    assert tried | apart == set(JUDGED)


# ---- a step's time ----


def test_a_step_is_a_slope_without_what_happens_once() -> None:
    evidence = Evidence(RNN, made(spread=0))
    assert slope(evidence, "persistent", place()).median == pytest.approx(0.35e-6)
    assert slopes(evidence, "persistent")[1, 1024, "rnn_tanh", "float32"].median == pytest.approx(0.35e-6)


def test_a_loops_time_stands_in_where_the_queue_overflows() -> None:
    evidence = Evidence(RNN, made(spread=0, fields={"cudnn": ("period_s",)}))
    assert slope(evidence, "cudnn", place()).median == pytest.approx(3.5e-6)
    assert slopes(evidence, "cudnn")[1, 1024, "rnn_tanh", "float32"].median == pytest.approx(3.5e-6)
    with pytest.raises(NotRecordedError, match="cudnn loop at"):
        slope(Evidence(RNN, made(fields={"cudnn": ("host_s",)})), "cudnn", place())


def test_the_best_of_cudnn_may_be_padded() -> None:
    half = place("lstm", "float16", 4)
    source = made(**{"cudnn-pad16": times(ours, 2)})
    line, step = cudnn(Evidence(RNN, source), half)
    assert (line, step.median) == ("cudnn pad16", pytest.approx(0.7e-6))
    assert gains(Evidence(RNN, source), [half])[0][1].median == pytest.approx(2.0, rel=1e-3)
    everywhere = {tuple(at.values()): gain.median for at, gain in gains_everywhere(Evidence(RNN, source))}
    assert everywhere[4, 1024, "lstm", "float16"] == pytest.approx(2.0, rel=1e-3)
    assert everywhere[4, 1024, "lstm", "float32"] == pytest.approx(10.0, rel=1e-3)


@pytest.mark.parametrize("cell", ["rnn_tanh", "lstm"])
def test_the_loop_that_is_captured_gives_the_layer(cell: str) -> None:
    from brrr.networks.recurrent import rung

    given = LayerInputs(cell, 24, 3, 6, "float32", "cpu")
    with torch.no_grad():
        assert given.error(rung("naive", given.module, given.x)()) <= TOLERANCES[torch.float32]
