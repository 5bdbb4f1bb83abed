"""A recurrent network, rung by rung: grid and plan, workloads, every claim holding and failing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from formulas import Made

from brrr.core.errors import BrrrError, DeviceMemoryError, NotRecordedError
from brrr.core.measurement import Measurement, Point, Value
from brrr.networks.recurrent import RUNGS
from brrr_course.experiments import experiment
from brrr_course.experiments.checked import relative
from brrr_course.experiments.rnn_ladder import grid, product_of
from brrr_course.experiments.rnn_ladder.claims import OURS, fastest, half, place
from brrr_course.experiments.rnn_ladder.work import TOLERANCES, LadderInputs, product, way
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Evidence
from brrr_course.sources.claimed import claimed_points
from brrr_course.sources.plan import steps as planned
from brrr_course.sources.timers import measure_point

LADDER = experiment("rnn_ladder")
AXES = [axis.name for axis in LADDER.axes]
SMALL: Point = {"batch": 3, "hidden": 24, "steps": 5, "layers": 2, "cell": "lstm", "dtype": "float32"}
"""Off the grid: a workload may be made anywhere."""
POINTS = list(LADDER.points())


# ---- the grid, the plan, the costs ----


def test_the_recording_stays_small() -> None:
    found = planned([LADDER], "cuda")
    assert sum(len(step.variants) for step in found) <= 760
    assert len([step for step in found if step.phase in ("anchor", "claim")]) <= 65
    assert sum("compiled" in step.variants for step in found) <= 4
    assert not any("naive" in step.variants and step.point["steps"] == 1024 for step in found)
    assert sum(len(step.variants) for step in planned([LADDER], "cpu")) <= 50


def test_every_point_that_a_claim_asks_for_is_measured() -> None:
    asked = [dict(zip(AXES, key, strict=True)) for key in claimed_points(LADDER)]
    assert place() in asked and half("rnn_tanh", 4) in asked and place(batch=1) in asked
    assert [point for point in asked if not any(LADDER.has(each.name, point) for each in LADDER.variants)] == []


def test_every_rung_is_measured_on_the_papers_network_with_each_cell() -> None:
    assert grid.RUNGS == RUNGS
    for cell in grid.CELLS:
        here = {each.name for each in LADDER.variants if LADDER.has(each.name, place(cell))}
        left_out = {"cudnn-padded"} | ({"persistent"} if cell == "gru" else set())
        assert here == {*RUNGS, *grid.GRAPHS, "persistent"} - left_out
    for name in AXES[:4]:
        values = {point[name] for point in POINTS if LADDER.has("graph", point) and apart(point) <= {name}}
        assert len(values) >= 4, name


def apart(point: Point) -> set[str]:
    return {name for name, value in place().items() if point[name] != value}


def test_a_batch_is_padded_only_where_that_changes_it() -> None:
    line = [point for point in POINTS if LADDER.has("cudnn-padded", point)]
    assert {int(point["batch"]) for point in line} == {*range(1, 8), *range(9, 16), 17}
    assert {(point["dtype"], point["hidden"]) for point in line} == {("float16", 1024)}
    assert all(LADDER.has("cudnn", half("lstm", batch)) for batch in range(1, 18))


def test_costs_by_hand() -> None:
    point = {**SMALL, "hidden": 2}
    whole, each = LADDER.cost_at("naive", point), LADDER.cost_at("gate-product", point)
    assert whole is not None and each is not None
    assert whole.flop == 2 * (2 * 4 * 2 * 2) * 3 * 5 * 2
    assert each.flop == 2 * 3 * 2 * 2 and product_of("inputs-product", point) == (15, 8, 2)
    assert whole.bytes == 4 * (2 * 2 * 4 * 2 * 2 + 2 * 2 * 3 * 5)


def test_kernels_are_named_for_single_products_only() -> None:
    assert LADDER.names_kernels == grid.PRODUCTS


# ---- workloads ----


@pytest.mark.parametrize("dtype", grid.DTYPES)
@pytest.mark.parametrize("cell", grid.CELLS)
@pytest.mark.parametrize("name", ["naive", "inputs", "cudnn"])
def test_every_way_gives_the_network_and_a_wrong_one_is_refused(name: str, cell: str, dtype: str) -> None:
    given = LadderInputs(cell, 24, 2, 3, 6, dtype, "cpu")
    right, allowed = way(name, given)(), TOLERANCES[getattr(torch, dtype)]
    assert given.error(right) <= allowed < given.error(right * (1 + 3 * allowed))
    assert math.isnan(given.error(right[:-1])) and math.isnan(given.error(right.double()))
    assert not given.error(torch.full_like(right, math.nan)) <= allowed


@pytest.mark.parametrize("name", grid.PRODUCTS)
def test_products_are_those_of_the_first_layer(name: str) -> None:
    given = LadderInputs("lstm", 8, 1, 3, 5, "float32", "cpu")
    run, error = product(name, given)
    found = run().clone()
    assert found.shape == product_of(name, {"cell": "lstm", "hidden": 8, "batch": 3, "steps": 5})[:2]
    assert error(found) <= 1e-6 < error(found * 1.001)
    if name == "inputs-product":
        torch.testing.assert_close(found[:3], torch.nn.functional.linear(
            given.x[0], given.module.weight_ih_l0, given.module.bias_ih_l0).detach())  # fmt: skip


def test_tf32_would_be_found_out_among_float32() -> None:
    given = LadderInputs("lstm", 24, 2, 3, 6, "float32", "cpu")
    right = way("cudnn", given)()
    assert given.error(right * (1 + 3e-4)) > TOLERANCES[torch.float32]
    assert relative(right, right.double(), torch.float32) == 0


def test_the_ways_of_a_point_share_their_numbers() -> None:
    given = LadderInputs.of("lstm", 8, 2, 2, 4, "float32", "cpu")
    assert LadderInputs.of("lstm", 8, 2, 2, 4, "float32", "cpu") is given


def test_the_cpu_is_measured_and_the_gpu_says_why_not() -> None:
    ways = [f"cpu-{name}" for name in grid.ON_CPU]
    for found in measure_point(LADDER, ways, SMALL, budget_s=0.01).values():
        assert not isinstance(found, BrrrError) and 0 < found.error <= TOLERANCES[torch.float32]
    if not torch.cuda.is_available():
        missing = measure_point(LADDER, ["streamed", "graph", "cudnn"], SMALL, budget_s=0.01)
        assert all(isinstance(each, BrrrError) for each in missing.values())


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DeviceMemoryError, match="a network of 2 x 4194304, 5 steps of 3 samples"):
        LADDER.workload("cpu-naive", {**SMALL, "hidden": 2**22})


# ---- claims on made-up machines ----

Formula = Callable[[Mapping[str, Any]], float]
KEYS = {each.name: [tuple(p.values()) for p in POINTS if LADDER.has(each.name, p)] for each in LADDER.variants}


@dataclass
class Rungs(Made):
    """A call's time by formulas of a step's of a layer, wherever the grid has the variant."""

    blocks: Mapping[str, int] = field(default_factory=dict)

    def known(self, described: Experiment, variant: str) -> dict[tuple[Value, ...], Measurement]:
        formula: Any = self.times.get(variant)
        return {key: self._one(variant, formula, dict(zip(AXES, key, strict=True)))
                for key in KEYS[variant] if formula}  # fmt: skip

    def _one(self, variant: str, formula: Formula, at: Mapping[str, Any]) -> Measurement:
        calls = 1 if variant in grid.PRODUCTS else at["steps"] * at["layers"]
        time = self._estimate(1e-6 * formula(at) * calls)
        count = self.blocks.get(variant)
        launched = (f"sgemm_64x32 {count}x1x1 of 128",) if count else ()
        return Measurement(period_s=time, span_s=time, launched=launched)


def flat(step_us: float) -> Formula:
    return lambda at: step_us


def times(formula: Formula, factor: float, **where: Any) -> Formula:
    return lambda at: formula(at) * (factor if all(at[name] == value for name, value in where.items()) else 1.0)


def cudnn_like(at: Mapping[str, Any]) -> float:
    return 3.0 if at["dtype"] == "float32" or not grid.padded(at) else 10.0


GOOD: dict[str, Any] = {
    "naive": flat(60), "combined": flat(40), "streamed": flat(30), "fused": flat(20), "transposed": flat(15),
    "inputs2": flat(10), "inputs": times(flat(16), 0.5, batch=32), "wavefront": flat(8), "graph": flat(3.9),
    "compiled": flat(3.5), "cudnn": cudnn_like, "cudnn-padded": flat(3.3), "persistent": flat(2),
    "gate-product": flat(1.5), "state-product": flat(3), "inputs-product": flat(30),
}  # fmt: skip
GOOD |= {f"{name}-graph": times(GOOD[name], 0.49) for name in grid.LOOPS[:-1]}
BLOCKS = {"gate-product": 16, "state-product": 64, "inputs-product": 2048}


def made(spread: float = 1e-5, blocks: Mapping[str, int] = BLOCKS, **changed: Any) -> Any:
    given = {name: formula for name, formula in {**GOOD, **changed}.items() if formula is not None}
    return Rungs(given, (), spread=spread, blocks=blocks)


def verdict(claim: str, **changed: Any) -> str:
    return next(each for each in LADDER.claims if each.name == claim).verdict(Evidence(LADDER, made(**changed))).status


JUDGED = [each.name for each in LADDER.claims]


@pytest.mark.parametrize("claim", JUDGED)
def test_every_claim_holds_on_a_machine_like_the_sources_and_is_silent_on_none(claim: str) -> None:
    assert verdict(claim) == "holds"
    if claim != "activations":
        assert verdict(claim, **dict.fromkeys(GOOD)) == "not measured"


def slower(name: str, factor: float, **where: Any) -> dict[str, Any]:
    return {name: times(GOOD[name], factor, **where)}


OTHER: list[tuple[str, dict[str, Any], str]] = [
    ("combining-helps", slower("combined-graph", 1.51), "fails"),
    ("streams-help", slower("streamed-graph", 1.34), "fails"),
    ("streams-help", {**slower("streamed-graph", 1.33), "spread": 0.01}, "undecided"),
    ("fusing-helps", slower("fused-graph", 1.51), "fails"),
    ("transposing-helps", slower("transposed-graph", 1.22), "fails"),
    ("transposing-helps", slower("transposed-graph", 1.21), "holds"),
    ("two-steps-best", slower("inputs2-graph", 1.51), "fails"),
    ("two-steps-best", slower("inputs-graph", 0.62), "fails"),
    ("two-steps-best", slower("inputs-graph", 0.62, layers=1), "holds"),
    ("all-inputs-detrimental", slower("inputs-graph", 0.5), "fails"),
    ("all-inputs-detrimental", slower("inputs-graph", 0.5, cell="gru"), "holds"),
    ("all-inputs-detrimental", {"inputs-graph": times(times(GOOD["inputs-graph"], 0.5, cell="gru"), 0.5, cell="lstm")},
     "holds"),
    ("best-depends", {"inputs-graph": flat(7.84)}, "fails"),
    ("combined-parallel", {"blocks": {**BLOCKS, "inputs-product": 64}}, "fails"),
    ("combined-parallel", {"blocks": {**BLOCKS, "inputs-product": 65}}, "holds"),
    ("wavefront-helps", slower("graph", 1.29), "fails"),
    ("wavefront-helps", slower("inputs-graph", 0.48), "fails"),
    ("exposed-parallelism", slower("naive-graph", 0.25), "fails"),
    ("exposed-parallelism", slower("naive-graph", 0.27), "holds"),
    ("lacks-parallelism", {"blocks": {**BLOCKS, "gate-product": 132}}, "fails"),
    ("lacks-parallelism", {"blocks": {**BLOCKS, "gate-product": 131}}, "holds"),
    ("recurrent-bottleneck", slower("state-product", 0.64, hidden=2048), "fails"),
    ("recurrent-bottleneck", slower("state-product", 0.66, hidden=2048), "holds"),
    ("products-dominate", slower("state-product", 0.48, cell="gru"), "fails"),
    ("products-dominate", slower("state-product", 0.5, cell="gru"), "holds"),
    ("loads-once", slower("graph", 1.11, batch=64), "fails"),
    ("loads-once", slower("graph", 1.11, batch=128), "holds"),
    ("ahead-of-cudnn", {**slower("persistent", 2), **slower("cudnn", 1.1)}, "fails"),
    ("ahead-of-cudnn", {**slower("persistent", 2), **slower("cudnn", 1.2)}, "holds"),
    ("graph-gains", slower("graph", 1.03), "fails"),
    ("host-bound", slower("transposed-graph", 1.03), "fails"),
    ("host-bound", slower("transposed-graph", 1.01), "holds"),
    ("cudnn-cliff", slower("cudnn", 0.29, batch=4, cell="lstm"), "fails"),
    ("padding-gains", slower("cudnn-padded", 3.1, batch=15), "fails"),
    ("padding-gains", slower("cudnn-padded", 3.0, batch=15), "holds"),
    ("persistent-ahead", slower("persistent", 2, batch=4), "fails"),
    ("persistent-ahead", slower("persistent", 2, batch=8), "holds"),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "changed", "status"), OTHER)
def test_both_sides_of_each_bound(claim: str, changed: dict[str, Any], status: str) -> None:
    assert verdict(claim, **changed) == status


def test_every_judge_of_measurements_is_tried_on_both_sides() -> None:
    assert {claim for claim, _, status in OTHER if status == "fails"} | {"activations"} == set(JUDGED)


def test_activations_outweigh_the_weights_only_in_long_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "LENGTHS", (16, 64))
    assert verdict("activations") == "fails"


def test_the_fastest_of_what_was_measured() -> None:
    evidence = Evidence(LADDER, made(compiled=None))
    assert fastest(evidence, OURS, place())[0] == "persistent"
    assert fastest(evidence, OURS, place("gru"))[0] == "graph"
    with pytest.raises(NotRecordedError, match="no loop was measured at gru in float16, batch 1"):
        fastest(evidence, OURS, half("gru", 1))
