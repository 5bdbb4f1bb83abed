"""The experiments of lesson 10: a block taken apart, three mystery, what the driver reports."""

import pytest
import torch

from brrr_course.experiments import block, experiment, mystery
from brrr_course.experiments.lazily import name_of
from brrr_course.nouns.source import Evidence
from brrr_course.sources.recorded import recorded

BLOCK = experiment("block")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences of 32 tokens."""
    monkeypatch.setattr(block, "LENGTH", 32)
    monkeypatch.setattr(block, "BUDGET_S", 0.02)
    block.taken.cache_clear()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("step", [block.FORWARD, block.TRAINING])
def test_the_flop_that_are_said_are_those_that_are_counted(step: str) -> None:
    found, point = block.taken(128, 2, step, "cpu"), {"step": step, "width": 128, "batch": 2}
    for name in block.CLASSES:
        assert found.costs[name].flop == pytest.approx(block.flop(name, point), rel=0.02), name
    assert found.error < block.TOLERANCE and found.steps >= 3
    assert sum(found.limits.values()) < found.step_s and sum(found.classes.values()) <= found.step_s * 1.05


@pytest.mark.usefixtures("short")
def test_a_part_has_its_own_flop_and_bytes() -> None:
    found, amounts = block.taken(128, 2, block.FORWARD, "cpu"), ("flop", "bytes")
    whole = block._cost("step", found)
    for amount in amounts:
        limits = [getattr(found.costs[name], amount) for name in block.LIMITS]
        assert sum(limits) == pytest.approx(getattr(whole, amount)) and max(limits) > 0
        shown = [getattr(block._cost(name, found), amount) for name in block.LIMITS]
        assert shown == pytest.approx([sum(limits[:upto]) for upto in (1, 2, 3)])
    assert block._cost("norms", found) == found.costs["norms"]
    assert not BLOCK.cost_at("to-compute", {"step": block.FORWARD, "width": 128, "batch": 2}).flop


@pytest.mark.parametrize("way", ["compute", "norms", "step"])
def test_one_diagnosis_is_one_reading(way: str) -> None:
    found = block.Taken(1e-3, dict.fromkeys(block.LIMITS, 1e-4), dict.fromkeys(block.CLASSES, 1e-4), {}, 0.0, 20)
    variant = next(each for each in BLOCK.variants if each.implementation == way or each.name == way)
    time = getattr(block._read(variant, found), variant.field or "busy_s")
    assert time.n == 1 and time.low == time.high


def test_the_recording_counts_as_the_formulas_do() -> None:
    source = recorded("h200")
    for name in block.CLASSES:
        rows = source.rows(BLOCK, name)
        assert len(rows) == 70
        for values, row in rows.items():
            point = dict(zip(("step", "width", "batch"), values, strict=True))
            assert row.cost.flop == pytest.approx(block.flop(name, point), rel=0.02), (name, point)


def test_lines_add_up_from_compute_to_the_whole_step() -> None:
    evidence = Evidence(BLOCK, recorded("h200"))
    for point in BLOCK.points():
        lines = [evidence.get(name, **point).median for name in (*block.LIMITS, "step")]
        assert lines == sorted(lines)


@pytest.mark.parametrize("model", mystery.MODELS)
@pytest.mark.parametrize(("times", "half"), [(1, False), (1, True), (2, False)])
def test_programs_are_right(model: str, times: int, half: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mystery, "SCAN", (2, 2**16))
    monkeypatch.setattr(mystery, "NORM", (64, 128))
    program, x, expected = mystery.made(model, times, half, "cpu")
    result = program(x)
    assert result.dtype == x.dtype and x.element_size() == (2 if half else 4)
    error = float((result.double() - expected).norm() / expected.norm())
    assert error <= mystery.TOLERANCES.get(name_of(x.dtype), 0.0)
    assert x.shape[0] == times * {"A": 2, "B": 64, "C": mystery.LAYERS[1]}[model]
    assert torch.isfinite(result.double()).all()
