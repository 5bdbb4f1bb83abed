"""The textbook network: grid and plan, predictions, workloads, the table."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from formulas import Made, time_of

from brrr.core.errors import ArgumentError, BrrrError, NotRecordedError, UnavailableError
from brrr.core.measurement import Measurement, Point, Value
from brrr.counting.tracing import cost as counted
from brrr.networks import IMPLEMENTATIONS
from brrr.networks.implementations import NetworkImplementation
from brrr_course.experiments import experiment
from brrr_course.experiments.mlp import BATCHES, LARGE, STRASSEN, TRAINING, workload
from brrr_course.lessons.speedup_table import SLOWER, published_gains, shade, speedup_table
from brrr_course.lessons.waiting import Comparison
from brrr_course.nouns.experiment import Experiment
from brrr_course.sources.plan import prioritized

MLP = experiment("mlp")
SMALL: dict[str, Value] = {"layers": 3, "batch": 5, "hidden": 33}
"""Off the grid: a workload may be made anywhere."""


# ---- the grid, the plan, the costs ----


def test_the_grid_is_the_sources() -> None:
    assert {tuple(point.values()) for point in MLP.points()} == {*published_gains("fusion")}


def test_sentences_on_the_whole_grid_name_no_point() -> None:
    named = [tuple(point.values()) for point, phase in prioritized(MLP) if phase == "claim"]
    assert sum((batch, hidden) not in LARGE for _, batch, hidden in named) <= 4
    assert {(batch, hidden) for _, batch, hidden in named} >= set(LARGE), "points beyond the grid are named"


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
    assert all(runs[name] is None for name in ("pycuda", "megakernel", "best"))
    hows = {name: run.how for name, run in runs.items() if run is not None}
    assert hows["module"] == "eager" and hows["graph"] == hows["megakernel-graph"] == "graph"
    kernels = {n: len([o for o in r.cost.operators if o.kind != "view"]) for n, r in runs.items() if r is not None}
    assert (kernels["graph"], kernels["triton-graph"], kernels["megakernel-graph"]) == (16, 8, 1)
    triton = runs["triton"]
    assert triton is not None and triton.cost.eager_bytes < runs["graph"].cost.eager_bytes  # type: ignore[union-attr]


# ---- workloads ----


def test_every_way_of_the_gpu_is_one_of_the_networks() -> None:
    ways = {v.implementation for v in MLP.variants if v.device == "cuda"}
    launched = {
        name for name in IMPLEMENTATIONS if name.startswith("strassen")
    }  # `best` has them; here StrassenMLP stands for them
    assert ways == {*IMPLEMENTATIONS, "best", *STRASSEN, *TRAINING} - (launched - {*STRASSEN})
    on_cpu = {v.implementation for v in MLP.variants if v.device == "cpu"} - {"numpy", "best"}
    assert on_cpu == {name for name, way in IMPLEMENTATIONS.items() if "cpu" in way.devices}


@pytest.mark.parametrize("way", TRAINING)
def test_a_step_of_training_has_all_gradients_and_a_wrong_one_is_refused(way: str) -> None:
    work = workload(replace(MLP.variant("cpu-module"), implementation=way), SMALL)
    found = work.run()
    assert [each.shape for each in found] == [(5, 33), *[(33, 33), (33,)] * 3]
    work.verified(found)
    for place in (0, 5):
        wrong = [each * (1.02 if number == place else 1) for number, each in enumerate(found)]
        with pytest.raises(BrrrError, match="relative error"):
            work.verified(tuple(wrong))


def test_a_way_that_is_missing_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NetworkImplementation, "why_not", lambda *_: "it needs a moon")
    with pytest.raises(UnavailableError, match="it needs a moon"):
        MLP.workload("cpu-module", SMALL)


# ---- the table ----

Formula = Callable[[int, int, int], float]


@dataclass
class Grid(Made):
    """Times in a loop by formulas of layers, batch and hidden."""

    def known(self, described: Experiment, variant: str) -> dict[tuple[Value, ...], Measurement]:
        made: Any = self.times.get(variant)
        points = [tuple(p.values()) for p in MLP.points() if made and MLP.has(variant, p)]
        return {p: Measurement(period_s=time_of(made(*p), self.spread)) for p in points}


def eager(layers: int, batch: int, hidden: int) -> float:
    """The host's time of a layer, or the GPU's, whichever is longer."""
    work = 1e-6 * layers * (hidden / 512) ** 2
    return max(layers * 12e-6, layers * 1.6e-6 + work) + 1e-6


def as_published(variant: str) -> Formula:
    return lambda n, b, h: eager(n, b, h) / published_gains(variant)[n, b, h]


def of(base: Formula, factor: float) -> Formula:
    return lambda n, b, h: base(n, b, h) / factor


GOOD: dict[str, Any] = {
    "module": eager,
    "pycuda": as_published("overhead"),
    "pycuda-fused": as_published("fusion"),
    "graph": of(eager, 2.0),
    "megakernel": of(eager, 10.0),
    "best": of(eager, 6.0),
}


def grid_source(**changed: Any) -> Any:
    return Grid({**GOOD, **changed}, ())


def tables(source: Any, name: str = "mlp", **kept: Any) -> list[Comparison]:
    first = speedup_table(name, source=source, **kept)
    return [first, *first.beside]


def test_the_table_stands_beside_the_sources_own() -> None:
    published, same, ours = tables(grid_source())
    assert published.badge.startswith("PUBLISHED · NVIDIA GTX 1070") and same.badge.startswith("RECORDED")
    assert len(published.rows) == 28
    assert published.rows[0][:2] == ("8", "128") and published.rows[-1][:2] == ("1", "2")
    assert published.groups == same.groups and ("one kernel", 6) in ours.groups
    assert all({int(row[1]) for row in each.rows} <= set(BATCHES) for each in (published, same, ours))
    at = next(row for row in same.rows if row[:2] == ("8", "2"))
    assert at[2] == "1.82" and next(row for row in ours.rows if row[:2] == ("8", "2"))[8] == "10.0"


def test_the_table_of_strassens_networks_stands_beside_the_sources_own() -> None:
    fused, one = of(eager, 1.25), of(eager, 2.0)
    ways: dict[str, Any] = {"module": eager, "pycuda-fused": fused, "strassen-one": one, "strassen": of(eager, 2.5)}
    published, same, ours = tables(Grid(ways, ()), "strassen", layers=8)
    assert published.badge.startswith("PUBLISHED") and same.badge.startswith("RECORDED")
    theirs, here = (next(row for row in each.rows if row[1] == "32") for each in (published, same))
    assert (theirs[7], here[7], here[13]) == ("0.24", "2.00", "1.60"), "at hidden size 4096"
    assert [title for title, _ in ours.groups] == ["", "StrassenMLP, no tensor cores"]


def test_the_table_shows_its_numbers_as_text_and_coloured() -> None:
    table = speedup_table("mlp", layers=8, source=grid_source())
    text, page = str(table), table._repr_html_()
    assert "     8      2  1.82  1.81  1.78  1.53  1.11  1.03" in text and text.startswith("PUBLISHED")
    assert all(page.count(f"<{tag}>") == page.count(f"</{tag}>") for tag in ("tr", "thead", "tbody"))
    assert page.count("<table") == 3 and page.count("NVIDIA GTX 1070") == 1
    assert ">1.82</td>" in page and f"background:{shade(1.82)}" in page
    assert {row[0] for each in (table, *table.beside) for row in each.rows} == {"8"}
    assert shade(0.5).startswith(f"rgba({SLOWER}") and shade(100.0).endswith("0.65)")


def test_the_cpus_own_ways_are_shown_where_there_is_no_gpu_and_only_there() -> None:
    cpu: dict[str, Any] = {"cpu-module": eager, "cpu-numpy": of(eager, 2.0)}
    assert not any("NumPy" in dict(each.groups) for each in tables(grid_source(**cpu)))
    _, own = tables(Grid(cpu, ()))
    assert own.groups[1:] == (("NumPy", 5),) and own.rows[-1][2] == "2.00"


@pytest.mark.parametrize("name", ["mlp", "strassen"])
def test_the_table_says_what_is_missing(name: str) -> None:
    source: Any = Grid({}, ())
    with pytest.raises(NotRecordedError, match="brrr record mlp"):
        speedup_table(name, source=source)
    for wrong in ({"name": name, "layers": 3}, {"name": "rnn"}):
        with pytest.raises(ArgumentError, match=r"layers is 3|name is 'rnn'"):
            speedup_table(**wrong)  # type: ignore[arg-type]
    source.live = True
    assert len(tables(source, name)) == 1, "live, the published part stands alone at first"
