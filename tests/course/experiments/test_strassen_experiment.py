"""The experiments on Strassen's algorithm: grid and plan, workloads, errors, what claims call, frontier, table."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Any

import pytest
import strassen_made_up
import torch
from formulas import Fake
from matplotlib.transforms import Bbox

from brrr.core.errors import BrrrError, NotRecordedError
from brrr.core.measurement import Estimate, Measurement, Value
from brrr.core.recordings import own_root
from brrr.strassen.implementations import Implementation
from brrr_course.experiments import experiment
from brrr_course.experiments import strassen as claims
from brrr_course.experiments.strassen import (
    MEASURED,
    ON_CPU,
    SIZES,
    Place,
    buffers,
    chosen,
    sizes,
    split_products,
    way_of,
    workspace_bytes,
)
from brrr_course.lessons.drawings.strassen_frontier import free, frontier, judged, short, text
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Evidence
from brrr_course.sources.live import Live
from brrr_course.sources.plan import DurationEstimator, steps
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.recording import Recording
from brrr_course.sources.rows import Row, columns, from_cells, to_cells
from brrr_course.sources.timers import measure_point

STRASSEN = experiment("strassen")
ERRORS = experiment("strassen_errors")
CPU = [v.name for v in STRASSEN.variants if v.device == "cpu"]
GPU = [v.name for v in STRASSEN.variants if v.device == "cuda"]


# ---- the grid, the plan, the counts ----


RUN_MINUTES = 8  # of `brrr record`, where no other limit is given


@pytest.mark.parametrize("described", [STRASSEN, ERRORS], ids=["strassen", "errors"])
def test_a_recording_fits_into_four_runs_and_every_step_into_one(described: Experiment) -> None:
    """As the recorder plans it once the anchor is measured: with the rates of the ways, not with assumed ones."""
    found, pace = steps([described], "cuda"), DurationEstimator(16)
    pace.learn_rows(
        described, [row for row in Recording.read(own_root() / "h200", described).rows if row.point[0] == 4096]
    )
    assert sum(pace.seconds(step) for step in found) < 4 * 60 * RUN_MINUTES
    assert max(pace.seconds(step) for step in found) < 60 * RUN_MINUTES


def test_buffers_are_those_of_the_blocks() -> None:
    left, right, products = buffers(Implementation("sgemm", 1, "strassen"), 100)
    assert (left, right, products) == (4 * 7 * 50 * 56, 4 * 7 * 56 * 56, 4 * 7 * 50 * 56), "columns are rounded up"
    assert buffers(Implementation("fp16x3"), 100)[2] == 0
    assert workspace_bytes(Implementation("sgemm", 3, "strassen"), max(SIZES)) < 20e9


def test_predictions_have_the_kernels_of_a_way() -> None:
    kernels = {}
    for name in ("sgemm", "sgemm-strassen-1", "sgemm-strassen-1-prepared", "bf16-strassen-1", "fp16x3"):
        predicted = STRASSEN.predicted_run(name, {"size": 1024})
        assert predicted is not None
        kernels[name] = len(predicted.cost.operators)
    assert kernels == {"sgemm": 1, "sgemm-strassen-1": 4, "sgemm-strassen-1-prepared": 3, "bf16-strassen-1": 4,
                       "fp16x3": 3}  # fmt: skip
    levels = STRASSEN.predicted_run("sgemm-strassen-1", {"size": 1024})
    assert levels is not None and levels.cost.matmuls[0].batch == 7 and levels.cost.matmuls[0].m == 512
    assert levels.cost.flop == pytest.approx(2 * 1024**3 * 7 / 8)
    assert STRASSEN.predicted_run("tf32", {"size": 1024}) is None is STRASSEN.predicted_run("auto-fp32", {"size": 1024})


def test_names_lines_and_labels_are_distinct() -> None:
    assert len({line.name for line in STRASSEN.lines}) == len(STRASSEN.lines) == len(STRASSEN.variants)
    for prepared in (False, True):
        seen = [short(way.name) for way in MEASURED if way.prepared == prepared]
        assert len(set(seen)) == len(seen)
    assert way_of("cpu-sgemm-strassen-2") in ON_CPU and way_of("torch-fp16x3") is None


# ---- workloads ----


def test_ways_of_a_size_share_operands_and_workspace_and_still_do_their_own_product() -> None:
    works = {name: STRASSEN.workload(name, {"size": 96}) for name in CPU}
    for _ in range(2):  # again, after the others have used the workspace
        assert all(work.check() < 1e-5 for work in works.values())
    one, two = (claims.SquareInputs.of(96, "cpu") for _ in range(2))
    assert one is two
    first = one.operands["float32"][0].clone()
    del works, one, two
    assert not torch.equal(claims.SquareInputs.of(96, "cpu").operands["float32"][0], first), "drawn anew"


@pytest.mark.parametrize("variant", GPU)
def test_no_way_may_be_as_wrong_as_a_shorter_type(variant: str) -> None:
    """TF32's error is about 3e-4, bfloat16's 2e-3."""
    way = way_of(variant)
    allowed = claims.tolerance(STRASSEN.variant(variant), 4096)
    accurate = way is None and "f32" not in variant and "bf16" not in variant
    if accurate or (way is not None and way.inner in ("sgemm", "fp16x3")):
        assert allowed < 2.9e-4
    assert 0 < allowed < 1


@pytest.mark.parametrize("chunk", [0, 32])
def test_torchs_split_product_is_as_accurate_as_float32(chunk: int) -> None:
    a, b = torch.randn(40, 100), torch.randn(100, 24)
    expected = a.double() @ b.double()
    found = split_products(a, b, torch.full((40, 24), math.nan), chunk=chunk)
    assert torch.linalg.norm(found - expected) < 1e-6 * torch.linalg.norm(expected)
    assert torch.linalg.norm(a.half().float() @ b.half().float() - expected) > 1e-5 * torch.linalg.norm(expected)


def test_an_error_is_kept_live_and_in_a_recording() -> None:
    live = Live("cpu", budget_s=0.01)
    measured = live.measure(STRASSEN, "cpu-sgemm-strassen-1", {"size": 64})
    assert measured.error is not None and 0 < measured.error < 1e-5
    live.measure_together(STRASSEN, ["cpu-sgemm", "cpu-sgemm-strassen-2"], {"size": 64})
    assert live.known(STRASSEN, "cpu-sgemm-strassen-2")[64,].error
    ran = measure_point(STRASSEN, ["cpu-sgemm"], {"size": 64}, budget_s=0.01)["cpu-sgemm"]
    assert not isinstance(ran, BrrrError)
    row = Row.of({"size": 64}, "cpu-sgemm", ran, "run", "a CPU")
    again = from_cells(to_cells(row, STRASSEN), STRASSEN, "a CPU")
    assert list(to_cells(row, STRASSEN)) == [each.name for each in columns(STRASSEN)]
    assert again.measurement.error == row.measurement.error == ran.error


def test_what_is_gone_stays_in_the_recording_and_is_shown_nowhere() -> None:
    recorded = Recorded("h200")
    gone = {row.variant for row in Recording.read(own_root() / "h200", STRASSEN).rows} - {*GPU, *CPU}
    assert "ffma-strassen-2-prepared" in gone and gone.isdisjoint(recorded.variants(STRASSEN))
    assert {row.variant for row in recorded.recording(STRASSEN).rows} == {*recorded.variants(STRASSEN)}


# ---- what claims call, on made-up machines ----


@dataclass
class Machine(Fake):
    """Times and errors by variant and size; `changed` multiplies a variant's time, `worse` its error."""

    changed: Mapping[str, float] = field(default_factory=dict)
    worse: Mapping[str, float] = field(default_factory=dict)
    only: Callable[[str], bool] = lambda variant: True
    device: str = "NVIDIA H200"
    spread: float = 0.002
    clocks: Mapping[str, float] = field(default_factory=dict)

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        return tuple(v.name for v in experiment.variants if v.device == "cuda" and self.only(v.name))

    def known(self, described: Experiment, variant: str) -> dict[tuple[Value, ...], Measurement]:
        if variant not in self.variants(described):
            return {}
        points = [int(p["size"]) for p in STRASSEN.points() if STRASSEN.has(variant, p)]
        return {(n,): self._measured(variant, n) for n in points}

    def _measured(self, variant: str, n: int) -> Measurement:
        seconds, error = time_and_error(variant, n)
        time = seconds * self.changed.get(variant, 1.0)
        estimate = Estimate(time, (1 - self.spread) * time, (1 + self.spread) * time, 30)
        error *= self.worse.get(variant, 1.0)
        return Measurement(span_s=estimate, error=error, sm_clock_hz=self.clocks.get(variant, 1.5e9))


SPLITS = ("fp16x3", "fp16x3-strassen-1", "fp16x3-strassen-2")
STANDS_FOR = {"auto-fp32": SPLITS, "auto-1e-5": SPLITS, "auto-tf32": ("tf32",), "auto-bf16": ("bf16",)}
"""What is taken for these: the fastest of several."""


def time_and_error(variant: str, n: int) -> tuple[float, float]:
    """Made-up seconds and a relative error: of what chooses, those of the fastest that it stands for, and a little."""
    among = [name for name in STANDS_FOR.get(variant, (variant,)) if STRASSEN.has(name, {"size": n})]
    seconds, error = min(strassen_made_up.time_and_error(name, n) for name in among)
    exact = 0.1 if among[0] in SPLITS else 1.0  # as exact with their levels as cuBLAS without
    return seconds * (1.01 if variant in STANDS_FOR else 1.0), error * exact


SLOW_CLOCK = {"sgemm": 1.05e9}
"""cuBLAS behind a neighbour that drew all the power: at 0.7 of the others' clock."""


def evidence(**changed: Any) -> Evidence:
    source: Any = Machine(**changed)
    return Evidence(STRASSEN, source)


def slower(*inners: str, by: float) -> dict[str, float]:
    """The ways with levels of some inner products."""
    return {way.name: by for way in MEASURED if way.inner in inners and way.level}


def test_the_fastest_way_is_one_that_may_be_taken() -> None:
    assert claims.quickest(evidence(), "sgemm", size=8192, prepared=True) == "sgemm-strassen-3-prepared"
    assert claims.quickest(evidence(), "sgemm", size=8192, prepared=False) == "sgemm-strassen-3"
    _, limit = time_and_error("sgemm", 8192)
    assert claims.quickest(evidence(), "fp16x3", size=8192, prepared=False, fewest=0, error=limit).startswith("fp16x3")
    wrong = evidence(worse={"fp16x3": 50.0, **slower("fp16x3", by=50.0)})
    none = claims.quickest(wrong, "fp16x3", size=8192, prepared=False, fewest=0, error=limit)
    assert none == "", "none is as accurate"
    one_left = evidence(worse={"fp16x3": 50.0})
    assert "strassen" in claims.quickest(one_left, "fp16x3", size=8192, prepared=False, fewest=0, error=limit)
    with pytest.raises(NotRecordedError, match="no way of sgemm with its levels was measured at size 100"):
        claims.quickest(evidence(), "sgemm", size=100)


def test_where_clocks_are_apart_a_ratio_is_that_in_cycles_too() -> None:
    alike, apart = (claims.compared(evidence(clocks=clocks), "sgemm", "bf16", size=8192) for clocks in ({}, SLOW_CLOCK))
    (slow, _), (fast, _) = time_and_error("sgemm", 8192), time_and_error("bf16", 8192)
    assert apart.median == alike.median == pytest.approx(slow / fast)
    assert (apart.low, apart.high) == (pytest.approx(0.7 * alike.low), alike.high), "a gain of clocks is no gain"
    odd = claims.compared(evidence(), "sgemm", "sgemm", size=4097, other_size=4096)
    assert odd.median == pytest.approx((4097 / 4096) ** 3)
    assert claims.compared(evidence(), "sgemm", "", size=8192).high == 0
    with pytest.raises(NotRecordedError, match="sgemm at size 100 was not measured"):
        claims.compared(evidence(), "sgemm", "bf16", size=100)


def test_errors_grow_from_cublas_as_wrong_as_it_is() -> None:
    found, halved = (claims.growth(evidence(worse={"sgemm": by}), "strassen").values for by in (1.0, 0.5))
    assert list(found.values()) == pytest.approx([1.45] * len(found)) and len({name for name, _ in found}) == 6
    assert max(halved.values()) == pytest.approx(2.9)
    with pytest.raises(NotRecordedError, match="no errors of strassen's form"):
        claims.growth(evidence(only=lambda variant: variant == "sgemm"), "strassen")


def test_what_matmul_chooses() -> None:
    assert claims.multiplied(evidence(), "sgemm-strassen-2") == (7 / 8) ** 2
    ratios = claims.choices(evidence(changed={"auto-bf16": 1.2})).values
    assert {round(ratio.median, 2) for (name, _), ratio in ratios.items() if name == "auto-fp32"} == {1.01}
    assert max(ratios.values()).median == pytest.approx(1.21, abs=0.01)
    nothing = evidence(only=lambda variant: False)
    with pytest.raises(NotRecordedError):
        claims.choices(nothing)


def test_pictures_say_that_clocks_differ() -> None:
    def words(machine: Any) -> str:
        return text(frontier(machine, 4096))

    assert "SM clocks of 1.05 GHz to 1.5 GHz" in words(Machine(clocks=SLOW_CLOCK)) and "clock" not in words(Machine())


# ---- the frontier ----


def test_a_way_is_dominated_by_one_that_is_no_worse_in_both() -> None:
    places = [Place("a", 1.0, 1e-3), Place("b", 2.0, 1e-3), Place("c", 2.0, 1e-6), Place("d", 9.0, 1e-5)]
    assert {place.variant: place.dominated_by for place in judged(places)} == {"a": "", "b": "a", "c": "", "d": "c"}
    twins = judged([Place("a", 1.0, 1.0), Place("b", 1.0, 1.0)])
    assert [place.dominated_by for place in twins] == ["", ""], "twins do not beat each other"


def test_the_frontier_has_every_way_and_prepared_ones_apart() -> None:
    source: Any = Machine()
    plain, ready = (frontier(source, 8192, prepared=prepared) for prepared in (False, True))
    names = [place.variant for place in plain]
    assert not any("prepared" in name or name.startswith("auto") for name in names)
    assert {"sgemm", "sgemm-strassen-3", "torch-fp16x3", "bf16-strassen-1"} <= set(names)
    assert "sgemm-strassen-1" not in {place.variant for place in ready}, "its prepared twin stands for it"
    assert {"sgemm", "sgemm-strassen-1-prepared"} <= {place.variant for place in ready}
    best = [place for place in plain if not place.dominated_by]
    assert [p.time_s for p in best] == sorted(p.time_s for p in best)
    assert [p.error for p in best] == sorted((p.error for p in best), reverse=True)
    assert next(place for place in plain if place.variant == "sgemm").dominated_by
    assert {place.variant for place in chosen(source, 8192)} == {"auto-fp32", "auto-1e-5", "auto-tf32", "auto-bf16"}


def test_nothing_measured_has_no_sizes() -> None:
    nothing: Any = Machine(only=lambda variant: False)
    assert sizes(nothing) == []


@pytest.mark.parametrize("seed", range(6))
def test_names_lie_on_no_other_name_and_inside_the_axes(seed: int) -> None:
    draw, frame, full = Random(seed), Bbox([[160, 140], [1480, 840]]), list[Bbox]()
    crowd = [(draw.gauss(1000, 80), draw.gauss(300, 40)) for _ in range(14)]
    alone = [(draw.uniform(200, 1440), draw.uniform(180, 800)) for _ in range(12)]
    line = [Bbox.from_bounds(160, 300, 840, 4)]
    for x, y in crowd + alone:
        wide = draw.uniform(60, 180)
        free(Bbox.from_bounds(x - wide / 2, y - 12, wide, 24), full, line, frame)
    assert not any(one.overlaps(other) for one, other in combinations(full, 2))
    assert all(frame.x0 <= b.x0 and b.x1 <= frame.x1 and frame.y0 <= b.y0 and b.y1 <= frame.y1 for b in full)
    assert not any(box.count_overlaps(line) for box in full)


# ---- errors by level ----

CPU_ERRORS = [v.name for v in ERRORS.variants if v.device == "cpu"]


@pytest.mark.parametrize("inputs", ["normal", "uniform", "integer", "badly scaled rows", "badly scaled inside"])
def test_errors_are_measured_on_every_kind_of_inputs(inputs: str) -> None:
    found: dict[int, dict[str, float]] = {}
    for level in (0, 2):
        point: dict[str, Value] = {"level": level, "inputs": inputs, "size": 64}
        names = [name for name in CPU_ERRORS if ERRORS.has(name, point)]
        runs = measure_point(ERRORS, names, point, budget_s=0.01)
        assert {name: run for name, run in runs.items() if isinstance(run, BrrrError)} == {}
        found[level] = {name: run.error for name, run in runs.items() if not isinstance(run, BrrrError)}
    plain, levels = found[0]["cpu-strassen"], found[2]["cpu-strassen"]
    if inputs == "integer":
        assert plain == levels == 0
    elif inputs.startswith("badly"):
        assert levels > 100 * plain
    else:
        assert plain < levels < 10 * plain
