"""The experiments of lesson 10: a block taken apart, three programs, what the driver reports; and their verdicts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from brrr.core.measurement import Badge, Estimate, Measurement, Value
from brrr_course.experiments import block, experiment, mystery
from brrr_course.experiments.block import work
from brrr_course.experiments.mystery import work as programs
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Evidence
from brrr_course.sources.recorded import Recorded

BLOCK, MYSTERY, UTILISATION = (experiment(name) for name in ("block", "mystery", "utilisation"))


class Made:
    """Measurements by a function of variant and point."""

    name, live = "made up", False

    def __init__(self, times: Any) -> None:
        self.times = times

    def badge(self, described: Experiment, shown: object = None) -> Badge:
        return Badge("RECORDED", "NVIDIA H200", "2000-01-01", "")

    def known(self, described: Experiment, variant: str) -> dict[tuple[Value, ...], Measurement]:
        found: dict[tuple[Value, ...], Measurement] = {}
        for point in described.points():
            seconds = self.times(variant, point)
            if seconds is not None and described.has(variant, point):
                time = Estimate(seconds, seconds, seconds, 9)
                found[tuple(point.values())] = Measurement(busy_s=time, period_s=time)
        return found


def verdict(described: Experiment, name: str, times: Any) -> str:
    return str(described.judges[name](Evidence(described, Made(times))).status)  # type: ignore[arg-type]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences of 32 tokens."""
    for module in (block, work):
        monkeypatch.setattr(module, "LENGTH", 32)
    monkeypatch.setattr(work, "BUDGET_S", 0.02)
    work.taken.cache_clear()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("step", [block.FORWARD, block.TRAINING])
def test_the_flop_that_are_said_are_those_that_are_counted(step: str) -> None:
    found, point = work.taken(128, 2, step, "cpu"), {"step": step, "width": 128, "batch": 2}
    for name in block.CLASSES:
        assert found.costs[name].flop == pytest.approx(block.flop(name, point), rel=0.02), name
    assert found.error < work.TOLERANCE and found.steps >= 3
    assert sum(found.limits.values()) < found.step_s and sum(found.classes.values()) <= found.step_s * 1.05


def test_the_recording_counts_as_the_formulas_do() -> None:
    recorded = Recorded("h200")
    for name in block.CLASSES:
        rows = recorded.rows(BLOCK, name)
        assert len(rows) == 70
        for values, row in rows.items():
            point = dict(zip(("step", "width", "batch"), values, strict=True))
            assert row.cost.flop == pytest.approx(block.flop(name, point), rel=0.02), (name, point)


def test_lines_add_up_from_compute_to_the_whole_step() -> None:
    evidence = Evidence(BLOCK, Recorded("h200"))
    for point in BLOCK.points():
        parts = [block.part(evidence, name, point).median for name in (*block.LIMITS, "overhead")]
        assert min(parts) >= -1e-9 and sum(parts) == pytest.approx(1.0)


def classes(norms: float, pointwise: float) -> Any:
    def times(variant: str, point: dict[str, Value]) -> float | None:
        rate = {"products": 1.0, "norms": 1 / norms, "pointwise": 1 / pointwise, "attention": 0.5, "other": 0.01}
        return block.flop(variant, point) / rate[variant] / 1e12 if variant in rate else None

    return times


@pytest.mark.parametrize(
    ("name", "told", "off"),
    [("norms-slower", (250.0, 700.0), (350.0, 700.0)), ("pointwise-slower", (250.0, 700.0), (250.0, 100.0))],
)
def test_how_much_slower_is_judged(name: str, told: tuple[float, float], off: tuple[float, float]) -> None:
    assert verdict(BLOCK, name, classes(*told)) == "holds" and verdict(BLOCK, name, classes(*off)) == "fails"


def test_the_rest_of_the_time_is_judged() -> None:
    assert verdict(BLOCK, "rest-is-much-time", classes(500.0, 400.0)) == "holds"
    assert verdict(BLOCK, "rest-is-much-time", classes(100.0, 100.0)) == "fails"
    assert verdict(BLOCK, "rest-is-little-work", classes(250.0, 700.0)) == "fails"


def parts(small: tuple[float, ...], large: tuple[float, ...]) -> Any:
    """The shares of compute, memory, latency and overhead in small steps, and in large ones."""

    def times(variant: str, point: dict[str, Value]) -> float | None:
        shares = large if int(point["width"]) > 1000 else small
        order = ("to-compute", "to-memory", "to-latency", "step")
        return sum(shares[: order.index(variant) + 1]) if variant in order else None

    return times


def test_passing_from_overhead_to_compute_is_judged() -> None:
    assert verdict(BLOCK, "overhead-to-compute", parts((0.1, 0.1, 0.1, 0.7), (0.8, 0.1, 0.0, 0.1))) == "holds"
    assert verdict(BLOCK, "overhead-to-compute", parts((0.3, 0.1, 0.2, 0.4), (0.8, 0.1, 0.0, 0.1))) == "fails"
    assert verdict(BLOCK, "latency-in-a-graph", parts((0.1, 0.1, 0.6, 0.2), (1.0, 0.0, 0.0, 0.0))) == "holds"
    assert verdict(BLOCK, "latency-in-a-graph", parts((0.1, 0.1, 0.3, 0.5), (1.0, 0.0, 0.0, 0.0))) == "fails"


def test_utilisation_is_judged_by_driver_and_peak() -> None:
    def times(driver: float, peak: float) -> Any:
        return lambda variant, point: {"driver": driver, "busy": driver, "peak": peak}[variant]

    assert verdict(UTILISATION, "full-in-a-graph", times(0.98, 0.01)) == "holds"
    assert verdict(UTILISATION, "full-in-a-graph", times(0.5, 0.01)) == "fails"
    assert verdict(UTILISATION, "full-at-tiny-work", times(0.98, 0.5)) == "fails"


@pytest.mark.parametrize("model", mystery.MODELS)
@pytest.mark.parametrize(("times", "half"), [(1, False), (1, True), (2, False)])
def test_programs_are_right(model: str, times: int, half: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "SCAN", (2, 2**16))
    monkeypatch.setattr(programs, "NORM", (64, 128))
    program, x, expected = programs.made(model, times, half, "cpu")
    result = program(x)
    assert result.dtype == x.dtype and x.element_size() == (2 if half else 4)
    error = float((result.double() - expected).norm() / expected.norm())
    assert error <= programs.TOLERANCES.get(x.dtype, 0.0)
    assert x.shape[0] == times * {"A": 2, "B": 64, "C": mystery.LAYERS[1]}[model]
    assert torch.isfinite(result.double()).all()


def test_three_regimes_are_judged() -> None:
    times = {
        "A": {"eager": 2.0, "graph": 2.0, "half": 1.9, "double": 2.1},
        "B": {"eager": 2.0, "graph": 2.0, "half": 1.0, "double": 4.0},
        "C": {"eager": 9.0, "graph": 2.0, "half": 2.0, "double": 2.0},
    }
    assert verdict(MYSTERY, "three-regimes", lambda variant, point: times[str(point["model"])][variant]) == "holds"
    times["A"]["double"] = 4.0
    assert verdict(MYSTERY, "three-regimes", lambda variant, point: times[str(point["model"])][variant]) == "fails"
