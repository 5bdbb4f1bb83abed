"""The textbook network: grid and plan, predictions, workloads, every claim holding and failing, the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from formulas import Made

from brrr.core.errors import ArgumentError, BrrrError, NotRecordedError, UnavailableError
from brrr.core.measurement import Estimate, Measurement, Point, Value
from brrr.counting.description import array
from brrr.counting.tracing import cost as counted
from brrr.gpu.datasheet import hardware
from brrr.networks import WAYS, Implementation
from brrr_course.experiments import experiment
from brrr_course.experiments.judging import closed
from brrr_course.experiments.mlp import STRASSEN, TUNED
from brrr_course.experiments.mlp import work as mlp_work
from brrr_course.experiments.mlp.claims import divide, published_divide
from brrr_course.experiments.mlp.own_claims import LARGE
from brrr_course.experiments.mlp.theory import floor_s, network_of
from brrr_course.experiments.published import mlp_speedups
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Evidence
from brrr_course.sources.plan import DurationEstimator, prioritized, steps
from brrr_course.sources.timers import measure_point
from brrr_course.view import speedup_tables

MLP = experiment("mlp")
SMALL: dict[str, Value] = {"layers": 3, "batch": 5, "hidden": 33}
"""Off the grid: a workload may be made anywhere."""
CPU = [v.name for v in MLP.variants if v.device == "cpu" and v.name not in ("cpu-compile",)]
QUEUE = [v.name for v in MLP.variants if v.device == "cpu-queue"]


# ---- the grid, the plan, the costs ----


def test_the_grid_is_the_sources() -> None:
    theirs = {(row.layers, row.batch, row.hidden) for row in mlp_speedups()}
    assert {tuple(point.values()) for point in MLP.points()} == theirs


@pytest.mark.parametrize("name", ["module", "pycuda", "pycuda-fused", "graph", "megakernel", "best"])
def test_the_ways_that_matter_are_on_the_whole_grid(name: str) -> None:
    assert all(MLP.has(name, point) for point in MLP.points())


def test_torchs_strongest_way_is_at_every_point_of_eight_layers() -> None:
    points = [point for point in MLP.points() if MLP.has("max-autotune", point)]
    assert len(points) == 7 * 6 + len(TUNED)
    assert all(MLP.has("graph", point) and MLP.has("best", point) for point in points)
    assert MLP.variant("max-autotune").apart, "it may end its process"


def test_the_cpu_stops_before_it_takes_long() -> None:
    assert MLP.has("cpu-module", {"layers": 8, "batch": 16, "hidden": 512})
    assert not MLP.has("cpu-module", {"layers": 8, "batch": 2, "hidden": 4096})
    assert not MLP.has("queue-graph", {"layers": 8, "batch": 128, "hidden": 1024})
    assert not MLP.has("cpu-compile", {"layers": 8, "batch": 16, "hidden": 256})
    assert not MLP.has("cpu-module", {"layers": 4, "batch": 16, "hidden": 128}), "the points between only"


def test_the_whole_recording_fits_into_few_runs_and_every_step_into_one() -> None:
    found, pace = steps([MLP], "cuda"), DurationEstimator(16)
    assert sum(map(pace.seconds, found)) < 5 * 8 * 60
    assert max(map(pace.seconds, found)) < 2 * 60
    tuned = next(step for step in found if tuple(step.point.values()) == TUNED[0])
    assert pace.seconds(tuned) > 30, "a compiler's seconds are in the plan"


def test_sentences_on_the_whole_grid_name_no_point() -> None:
    named = [tuple(point.values()) for point, phase in prioritized(MLP) if phase == "claim"]
    assert sum((batch, hidden) not in LARGE for _, batch, hidden in named) <= 4
    assert {(batch, hidden) for _, batch, hidden in named} >= set(LARGE), "points beyond the grid are named"


@pytest.mark.parametrize("hidden", [128, 1024])
def test_cost_and_prediction_are_what_the_counter_finds(hidden: int) -> None:
    layers = [module for _ in range(2) for module in (torch.nn.Linear(hidden, hidden), torch.nn.ReLU(inplace=True))]
    found = counted(torch.nn.Sequential(*layers), array((16, hidden)))
    point: Point = {"layers": 2, "batch": 16, "hidden": hidden}
    work, predicted = MLP.cost_at("module", point), MLP.predicted_run("module", point)
    assert work is not None and predicted is not None
    assert (work.flop, work.bytes) == (found.flop, found.bytes)
    assert predicted.cost.eager_bytes == pytest.approx(found.eager_bytes, rel=0.01)
    assert predicted.cost.matmuls == found.matmuls
    assert predicted.cost.flop == found.flop


@pytest.mark.parametrize("way", ["module", "functional", "inference"])
@pytest.mark.parametrize("layers", [2, 8])
def test_lines_of_python_are_those_that_the_counter_finds(way: str, layers: int) -> None:
    """Nearly, since they are torch's own, which another version may have written in another way."""
    drawn = [(torch.randn(32, 32), torch.randn(32)) for _ in range(layers)]
    modules = [module for _ in drawn for module in (torch.nn.Linear(32, 32), torch.nn.ReLU(inplace=True))]
    network = torch.nn.Sequential(*modules)

    def functional(y: torch.Tensor) -> torch.Tensor:
        for w, b in drawn:
            y = torch.relu_(torch.nn.functional.linear(y, w, b))
        return y

    def inference(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            result: torch.Tensor = network(x)
        return result

    run = MLP.predicted_run(way, {"layers": layers, "batch": 4, "hidden": 32})
    found = counted({"module": network, "functional": functional, "inference": inference}[way], torch.randn(4, 32))
    assert run is not None and run.cost.lines == pytest.approx(found.lines, rel=0.25)


def test_what_is_predicted_of_which_way() -> None:
    point: Point = {"layers": 8, "batch": 16, "hidden": 512}
    runs = {v.name: MLP.predicted_run(v.name, point) for v in MLP.variants}
    assert all(runs[name] is None for name in ("pycuda", "megakernel", "best", "graph-tf32"))
    hows = {name: run.how for name, run in runs.items() if run is not None}
    assert hows["module"] == "eager" and hows["graph"] == hows["megakernel-graph"] == "graph"
    kernels = {n: len([o for o in r.cost.operators if o.kind != "view"]) for n, r in runs.items() if r is not None}
    assert (kernels["graph"], kernels["triton-graph"], kernels["megakernel-graph"]) == (16, 8, 1)
    triton = runs["triton"]
    assert triton is not None and triton.cost.eager_bytes < runs["graph"].cost.eager_bytes  # type: ignore[union-attr]


def test_the_floor_is_the_memory_or_the_arithmetic() -> None:
    h200 = hardware("h200")
    few, many = floor_s(h200, {"layers": 8, "batch": 2, "hidden": 4096}), floor_s(
        h200, {"layers": 8, "batch": 128, "hidden": 4096}
    )  # fmt: skip
    assert few is not None and many is not None
    assert few == pytest.approx(8 * 4 * 4096**2 / h200.memory_bytes_per_s, rel=0.01)
    assert many == pytest.approx(16 * 128 * 4096**2 / h200.peak("fp32"), rel=0.01)
    assert floor_s(None, SMALL) is None


# ---- workloads ----


def test_every_way_on_a_cpu_is_right_and_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # what best() finds is kept elsewhere
    found = measure_point(MLP, [*CPU, *QUEUE], SMALL, budget_s=0.01)
    assert {name: run for name, run in found.items() if isinstance(run, BrrrError)} == {}
    assert all(0 < run.error <= 1e-5 for run in found.values() if not isinstance(run, BrrrError))


def test_every_way_of_the_gpu_is_one_of_the_networks() -> None:
    ways = {v.way for v in MLP.variants if v.device == "cuda"}
    launched = {
        name for name in WAYS if name.startswith("strassen")
    }  # `best` has them; here StrassenMLP stands for them
    assert ways == {*WAYS, "best", *STRASSEN} - (launched - {*STRASSEN})
    on_cpu = {v.way for v in MLP.variants if v.device == "cpu"} - {"numpy", "best"}
    assert on_cpu == {name for name, way in WAYS.items() if "cpu" in way.devices}


def test_the_ways_of_a_point_share_their_network_and_no_other_does() -> None:
    one, other = MLP.workload("cpu-module", SMALL), MLP.workload("cpu-numpy", SMALL)
    assert torch.allclose(one.run(), torch.from_numpy(other.run()), rtol=1e-4, atol=1e-6)
    first = one.run().clone()
    del one, other
    assert not torch.allclose(MLP.workload("cpu-module", SMALL).run(), first)


@pytest.mark.parametrize("spoilt", ["a bit off", "NaN", "another shape", "no tensor", "TF32"])
def test_the_check_can_fail(spoilt: str) -> None:
    work = MLP.workload("cpu-module", SMALL)
    right = work.run()
    wrong: dict[str, Any] = {
        "a bit off": right * 1.0001, "NaN": right.clone().index_fill_(0, torch.tensor([4]), math.nan),
        "another shape": right[:4], "no tensor": "y", "TF32": right * (1 + 3e-4),
    }  # fmt: skip
    with pytest.raises(BrrrError, match="relative error"):
        work.verified(wrong[spoilt])
    work.verified(right)
    work.verified(right.numpy())


def test_a_way_that_is_missing_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Implementation, "why_not", lambda *_: "it needs a moon")
    with pytest.raises(UnavailableError, match="it needs a moon"):
        MLP.workload("cpu-module", SMALL)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there it does not fail")
def test_without_a_gpu_its_variants_say_so() -> None:
    found = measure_point(MLP, ["graph", "pycuda", "megakernel"], SMALL, budget_s=0.01)
    assert all(isinstance(run, BrrrError) for run in found.values())


def test_tf32_and_bfloat16_reach_the_network_and_float32_is_shared() -> None:
    point: Point = {"layers": 2, "batch": 4, "hidden": 64}
    plain, tf32, bf16 = (network_of(name, point) for name in ("", "tf32", "bf16"))
    assert (tf32.dtype, tf32.tf32, bf16.dtype, bf16.tf32) == ("float32", True, "bfloat16", False)
    given = mlp_work.Given.of(plain, "cpu")
    assert mlp_work.Given.of(tf32, "cpu") is given and mlp_work.Given.of(bf16, "cpu") is not given
    same = given.weights_of(tf32)
    assert same.network == tf32 and same.x is given.weights.x and same.tolerance > given.weights.tolerance
    short = mlp_work.Given.of(bf16, "cpu")
    prepared = WAYS["module"].build(bf16, short.weights_of(bf16))
    assert 1e-4 < short.error(prepared.run()) <= short.weights.tolerance


# ---- claims on made-up machines ----

Formula = Callable[[int, int, int], float]
FIELDS = ("period_s", "latency_s", "host_s", "span_s")


@dataclass
class Grid(Made):
    """Times by formulas of layers, batch and hidden; one formula a variant, or one a field; kernels by the layers."""

    launched: Mapping[str, Callable[[int], int]] = field(default_factory=dict)

    def known(self, described: Experiment, variant: str) -> dict[tuple[Value, ...], Measurement]:
        made: Any = self.times.get(variant)
        if made is None:
            return {}
        by_field = made if isinstance(made, dict) else dict.fromkeys(FIELDS, made)
        kernels = self.launched.get(variant, lambda layers: None)
        beyond: list[dict[str, Value]] = [{"layers": 8, "batch": batch, "hidden": hidden} for batch, hidden in LARGE]
        points = [tuple(p.values()) for p in [*MLP.points(), *beyond] if MLP.has(variant, p)]
        found = {p: {f: self._estimate(t(*p)) for f, t in by_field.items()} for p in points}  # type: ignore[arg-type]
        return {p: Measurement(**times, kernels=kernels(int(p[0]))) for p, times in found.items()}


def work_s(layers: int, batch: int, hidden: int) -> float:
    return 1e-6 * layers * (hidden / 512) ** 2


def loop(host_layer_s: float, kernels: int = 2) -> Formula:
    """A loop: the host's time of a layer, or the GPU's, whichever is longer."""
    return lambda n, b, h: max(n * host_layer_s, n * kernels * 0.8e-6 + work_s(n, b, h)) + 1e-6


PUBLISHED = {(row.layers, row.batch, row.hidden, row.variant): row.speedup for row in mlp_speedups()}


def as_published(variant: str) -> Formula:
    base = loop(12e-6)
    return lambda n, b, h: base(n, b, h) / PUBLISHED[n, b, h, variant]


def of(base: Formula, factor: float) -> Formula:
    return lambda n, b, h: base(n, b, h) / factor


EAGER, EAGER_ON_CPU = loop(12e-6), loop(5e-6)
GOOD: dict[str, Any] = {
    "module": EAGER,
    "functional": of(EAGER, 1.4),
    "script": of(EAGER, 1.6),
    "pycuda": as_published("overhead"),
    "pycuda-fused": as_published("fusion"),
    "graph": of(EAGER, 2.0),
    "compile": of(EAGER, 2.2),
    "max-autotune": of(EAGER, 2.4),
    "pycuda-graph": of(EAGER, 2.3),
    "megakernel": of(EAGER, 10.0),
    "megakernel-graph": of(EAGER, 9.0),
    "best": of(EAGER, 6.0),
    "strassen": lambda n, b, h: EAGER(n, b, h) / (2.4 * 1.2),
    "strassen-accurate": lambda n, b, h: EAGER(n, b, h) / (2.4 * 3.0),
    "cpu-module": EAGER_ON_CPU,
    "cpu-functional": of(EAGER_ON_CPU, 1.4),
    "cpu-numpy": of(EAGER_ON_CPU, 2.5),
}
KERNELS: Mapping[str, Callable[[int], int]] = {"strassen-one": lambda layers: 2 * layers + 1}


GOOD["strassen-one"] = lambda n, b, h: (  # beyond the source's grid it has no figures
    as_published("strassen")(n, b, h) if (n, b, h, "strassen") in PUBLISHED else EAGER(n, b, h)
)


def verdict(claim: str, kernels: Mapping[str, Callable[[int], int]] = KERNELS, **changed: Any) -> str:
    found = next(each for each in MLP.claims if each.name == claim)
    times = {name: formula for name, formula in {**GOOD, **changed}.items() if formula is not None}
    source: Any = Grid(times, (), spread=0.002, launched=kernels)
    return found.verdict(Evidence(MLP, source)).status


WIDE: dict[str, Any] = {"pycuda": lambda n, b, h: EAGER(n, b, h) / (1.8 if h < 2048 else 1.03)}
"""A rewrite that gains up to hidden 1024: the divide has moved."""


OTHERWISE: dict[str, dict[str, Any]] = {"divide-moved": WIDE, "bigger-on-a-gpu": {"cpu-numpy": None}}
"""Claims that contradict another: a CPU that gains twice (hugely) gains more than the source's GPU, 1.8x at best."""

JUDGED = [each.name for each in MLP.claims if not each.entry.not_here]


@pytest.mark.parametrize("claim", JUDGED)
def test_every_claim_holds_on_a_machine_like_the_sources_and_is_silent_on_none(claim: str) -> None:
    assert verdict(claim, **OTHERWISE.get(claim, {})) == "holds"
    assert verdict(claim, **dict.fromkeys(GOOD)) == "not measured"


def test_what_nothing_here_can_judge_is_measured_nowhere() -> None:
    unjudged = [each.name for each in MLP.claims if each.entry.not_here]
    assert unjudged == ["pytorch-0.4", "fusion-on-cpu"]
    assert {verdict(claim) for claim in unjudged} == {"not measured"}


def slower(name: str, factor: float, where: Callable[[int, int, int], bool] = lambda *_: True) -> dict[str, Any]:
    """A machine where a way takes so many times as long, in some places."""
    old = GOOD[name]
    return {name: lambda n, b, h: old(n, b, h) * (factor if where(n, b, h) else 1.0)}


def slower_by(timed: str, name: str, factor: float) -> dict[str, Any]:
    """A machine where one of a way's times is so many times as long."""
    return {name: dict.fromkeys(FIELDS, GOOD[name]) | {timed: slower(name, factor)[name]}}


FAILS: list[tuple[str, dict[str, Any]]] = [
    ("faster-in-all-cases", slower("pycuda", 1.2, lambda n, b, h: h == 4096 and b == 64)),
    ("best-case", slower("pycuda", 1.5)),
    ("best-case", slower("pycuda", 0.6)),
    ("below-the-divide", slower("pycuda", 1.4)),
    ("below-the-divide", slower("pycuda", 1.15)),
    ("above-the-divide", slower("pycuda", 0.8, lambda n, b, h: h > 1024)),
    ("divide", WIDE),
    ("divide-moved", {}),
    ("divide", {"pycuda": EAGER}),
    ("divide-moved", {"pycuda": EAGER}),
    ("fusion-at-best", slower("pycuda-fused", 0.8)),
    ("fusion-at-best", slower("pycuda-fused", 1.2, lambda n, b, h: n == 8)),
    ("fusion-below", slower("pycuda-fused", 1.2)),
    ("fusion-above", slower("pycuda-fused", 0.8, lambda n, b, h: h > 1024)),
    ("both-together", slower("pycuda-fused", 1.3)),
    ("module-to-blame", {"functional": of(EAGER, 1.05)}),
    ("module-to-blame", {"functional": of(EAGER, 1.22)}),
    ("module-to-blame", {"pycuda": of(EAGER, 0.9)}),
    ("script-closes", {"script": of(EAGER, 1.1)}),
    ("one-kernel-small", {"megakernel": of(EAGER, 7.0), "megakernel-graph": of(EAGER, 7.5)}),
    ("one-kernel-small", {**slower("megakernel", 3, lambda n, b, h: b == 64), **slower("megakernel-graph", 3)}),
    ("one-kernel-middle", {"megakernel": of(EAGER, 5.0), "megakernel-graph": None}),
    ("one-kernel-eager", {"megakernel": of(EAGER, 7.0), "megakernel-graph": of(EAGER, 7.0)}),
    ("one-kernel-over-autotune", {"max-autotune": of(EAGER, 6.0)}),
    (
        "one-kernel-one-caller",
        slower_by("latency_s", "megakernel", 2.6) | slower_by("latency_s", "megakernel-graph", 2.6),
    ),
    ("best-never-slower", slower("best", 3.5, lambda n, b, h: (n, b, h) == (2, 8, 512))),
    ("best-never-slower", {"max-autotune": of(EAGER, 6.5)}),
    ("best-half-again", slower("best", 2.2)),
    ("best-twice", slower("best", 1.6)),
    ("host-cost-of-a-layer", {"pycuda": of(EAGER, 1.2)}),
    ("strassen-at-best", slower("strassen-one", 1.5)),
    ("strassen-average", slower("strassen-one", 0.7)),
    ("strassen-only-there", slower("strassen-one", 0.5, lambda n, b, h: (b, h) == (2, 4096))),
    ("strassen-only-there", slower("strassen-one", 1.6, lambda n, b, h: (b, h) == (64, 2048))),
    ("strassen-few-rows", slower("strassen-one", 0.01, lambda n, b, h: b <= 16)),
    ("strassen-few-rows", slower("strassen-one", 0.01, lambda n, b, h: (b, h) == (16, 4096))),
    ("strassen-network", slower("strassen", 1.3, lambda n, b, h: (b, h) == (4096, 2048))),
    ("strassen-network-accurate", slower("strassen-accurate", 1.5)),
    ("strassen-never-slower", slower("strassen", 3.0, lambda n, b, h: (n, b, h) == (2, 8, 512))),
    ("strassen-never-slower", slower("strassen-accurate", 8.0, lambda n, b, h: (n, b, h) == (8, 2, 4096))),
    ("strassen-few-rows-graph", slower("graph", 5.0, lambda n, b, h: (b, h) == (16, 4096))),
    ("strassen-kernels", {"kernels": {"strassen-one": lambda layers: 3 * layers}}),
    ("strassen-mostly-faster", slower("strassen-one", 2.0)),
    ("strassen-mostly-faster", slower("strassen-one", 2.5, lambda n, b, h: h < 2048)),
    ("strassen-small-is-overhead", slower("strassen-one", 0.5, lambda n, b, h: (n, b, h) == (8, 2, 128))),
    ("best-for-one-caller", slower_by("latency_s", "best", 2.4)),
    ("cpu-small-gains", {"cpu-numpy": of(EAGER_ON_CPU, 1.9)}),
    ("bigger-on-a-gpu", {}),
    ("bigger-on-a-gpu", {"pycuda": of(EAGER, 1.3), "cpu-numpy": None}),
    ("rewrite-gains-most", {"pycuda": of(EAGER, 1.1)}),
    ("rewrite-gains-most", slower("strassen-one", 0.4)),
    ("fusion-divide", slower("pycuda-fused", 0.8, lambda n, b, h: h == 1024)),
    ("fusion-divide", {"pycuda-fused": lambda n, b, h: GOOD["pycuda"](n, b, h) / 1.2}),
]


@pytest.mark.parametrize(("claim", "changed"), FAILS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(FAILS)])
def test_every_claim_can_fail(claim: str, changed: dict[str, Any]) -> None:
    assert verdict(claim, **changed) == "fails"


def test_every_claim_has_a_machine_on_which_it_fails() -> None:
    assert {name for name, _ in FAILS} == {*JUDGED}


@pytest.mark.parametrize("claim", ["strassen-at-best", "strassen-average", "strassen-only-there"])
def test_launches_judge_no_level(claim: str) -> None:
    """A level against fusion is judged on the device: what its launches cost the host is ours."""
    assert verdict(claim, **slower_by("period_s", "strassen-one", 3.0)) == "holds"
    assert verdict(claim, **slower_by("span_s", "strassen-one", 3.0)) == "fails"


def test_what_is_counted_of_a_level() -> None:
    assert verdict("strassen-kernels", kernels={}) == "not measured"
    assert verdict("strassen-mostly-faster", **slower_by("period_s", "strassen-one", 3.0)) == "holds", "on the device"
    nowhere = slower("strassen-one", 3.0)
    assert verdict("strassen-small-is-overhead", **nowhere) == "not measured", "no gain asks for no explanation"


def test_one_caller_is_judged_by_the_latency_alone() -> None:
    assert verdict("best-for-one-caller", **slower_by("period_s", "best", 2.4)) == "holds"
    assert verdict("best-half-again", **slower_by("latency_s", "best", 2.4)) == "holds"


def test_best_is_judged_against_max_autotune_only_where_it_is_at_every_point() -> None:
    assert verdict("best-half-again", **{"max-autotune": None}) == "not measured"
    assert verdict("best-for-one-caller", **{"max-autotune": None}) == "not measured"
    assert verdict("best-twice", **{"max-autotune": None}) == "holds", "its sentence names eager and the graph"
    assert verdict("best-half-again", **{"max-autotune": of(EAGER, 4.5)}) == "fails"


def test_a_megakernel_in_a_graph_counts_where_it_is_the_faster_one() -> None:
    alone_slow = {"megakernel": of(EAGER, 5.0), "megakernel-graph": of(EAGER, 10.0)}
    assert verdict("one-kernel-small", **alone_slow) == "holds"
    assert verdict("one-kernel-eager", **alone_slow) == "holds"


def test_a_level_is_compared_with_the_fastest_way_that_has_none() -> None:
    """That a library's choice of kernel is slow is nothing that a level has gained."""
    slow = slower("graph", 5.0, lambda n, b, h: (b, h) == (16, 4096))
    assert verdict("strassen-few-rows", **slow) == "holds"
    assert verdict("strassen-few-rows-graph", **slow) == "fails", "it counts for the claim that names the graph alone"
    kernels = dict.fromkeys(("megakernel", "megakernel-graph"))
    assert verdict("strassen-few-rows", **slow, **kernels) == "holds", "PyCUDA's graph is left"
    others = dict.fromkeys(("megakernel", "megakernel-graph", "pycuda-graph", "max-autotune"))
    assert verdict("strassen-few-rows", **others) == "not measured", "a single library's choice decides nothing"
    alike = {**dict.fromkeys(others), **slower("graph", 5.0), "pycuda-graph": GOOD["strassen-one"]}
    assert verdict("strassen-few-rows", **alike) == "undecided"


def test_without_a_graph_nothing_is_said_of_pytorchs_fastest_way() -> None:
    assert verdict("best-never-slower", graph=None) == "not measured"
    assert verdict("one-kernel-small", graph=None) == "not measured"


def test_a_wide_interval_decides_nothing() -> None:
    claim = next(each for each in MLP.claims if each.name == "best-half-again")
    source: Any = Grid({**GOOD, **slower("best", 1.65)}, (), spread=0.2)
    assert claim.verdict(Evidence(MLP, source)).status == "undecided"


def test_the_divide_of_the_published_figures() -> None:
    assert published_divide() == 1024
    assert divide({128: 1.2, 256: 1.0, 512: 1.2}) is None, "no size beyond which all gain less"


def test_no_gap_is_not_closed() -> None:
    one, two = (Estimate(t, 0.99 * t, 1.01 * t, 9) for t in (1.0, 2.0))
    assert closed(one, one, two) == Estimate(0.0, 0.0, 0.0, 9)
    found = closed(two, one, one)
    assert found.low < found.median == 1.0 < found.high


# ---- the table ----


def grid_source(**changed: Any) -> Any:
    return Grid({**GOOD, **changed}, ())


def test_the_table_stands_beside_the_sources_own() -> None:
    table = speedup_tables.mlp_table(grid_source())
    published, same, ours = table.parts
    assert published.badge.startswith("PUBLISHED · NVIDIA GTX 1070") and same.badge.startswith("RECORDED")
    assert len(published.rows()) == 28 and published.rows()[0] == (8, 128) and published.rows()[-1] == (1, 2)
    assert published.ways["three kernels a layer"][8, 2, 128] == 1.82
    assert same.ways.keys() == published.ways.keys()
    assert same.ways["three kernels a layer"][8, 2, 128] == pytest.approx(1.82)
    assert ours.ways["one kernel"][8, 2, 128] == pytest.approx(10.0)


def test_the_table_shows_its_numbers_as_text_and_coloured() -> None:
    table = speedup_tables.mlp_table(grid_source(), layers=8)
    text, page = str(table), table._repr_html_()
    row = next(line for line in text.splitlines() if line.startswith("     8     2"))
    assert row.split()[2:8] == ["1.82", "1.81", "1.78", "1.53", "1.11", "1.03"]
    assert page.count("<table") == 3 and page.count("<caption") == 3
    assert ">1.82</td>" in page and speedup_tables.shade(1.82) in page
    assert {line.split()[0] for line in text.splitlines() if line.startswith("    ") and "8" in line[:7]} == {"8"}


def test_the_cpus_own_ways_are_shown_where_there_is_no_gpu_and_only_there() -> None:
    cpu: dict[str, Any] = {"cpu-module": EAGER, "cpu-numpy": of(EAGER, 2.0)}
    assert all("NumPy" not in part.ways for part in speedup_tables.mlp_table(grid_source(**cpu)).parts)
    alone: Any = Grid(cpu, ())
    _, own = speedup_tables.mlp_table(alone).parts
    assert own.ways.keys() == {"NumPy"} and own.ways["NumPy"][8, 16, 128] == pytest.approx(2.0)


def test_a_slower_way_is_shaded_otherwise() -> None:
    assert speedup_tables.shade(0.5).startswith(f"rgba({speedup_tables.SLOWER}") and speedup_tables.shade(
        100.0
    ).endswith("0.65)")


def test_the_table_says_what_is_missing() -> None:
    source: Any = Grid({}, ())
    with pytest.raises(NotRecordedError, match="brrr record mlp"):
        speedup_tables.mlp_table(source)
    with pytest.raises(ArgumentError, match="layers is 3"):
        speedup_tables.mlp_table(grid_source(), layers=3)
    source.live = True
    assert len(speedup_tables.mlp_table(source).parts) == 1, "live, the published part stands alone at first"
