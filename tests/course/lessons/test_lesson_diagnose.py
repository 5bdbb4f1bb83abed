"""What lesson 10 is made of: its tables, and what its text says of its figures."""

from typing import Any

import pytest

from brrr.core.errors import ArgumentError
from brrr_course import compare, guess
from brrr_course.experiments import experiment
from brrr_course.experiments.utilisation import EAGER, GRAPH
from brrr_course.nouns.source import Evidence
from brrr_course.sources import source
from brrr_course.sources.recorded import recorded


def test_the_table_of_classes_adds_up() -> None:
    g = guess("The products reach ... times as many", unit="x", answer="10x")
    found = compare(g, "block", of="classes", source=source("recorded:h200"))
    assert [row[0] for row in found.rows] == ["matmuls", "attention", "norms", "pointwise", "other"]
    for column in (1, 2):
        assert sum(float(row[column].removesuffix(" %")) for row in found.rows) == pytest.approx(100, abs=1.5)
    assert "you said 10x" in found.text.lower() and "of the FLOP that the datasheet allows" in found.text
    with pytest.raises(ArgumentError, match="factor"):
        compare(guess("which?", options=["a", "b"], answer="a"), "block", of="classes")


def test_without_a_gpu_nothing_is_compared() -> None:
    asked = guess("And here?", unit="x", answer="10x")
    assert "it takes a GPU" in compare(asked, "block", of="classes", source=source("recorded:cpu")).text
    chosen = guess("Program A here is", options=["latency", "memory"], answer="latency")
    found = compare(chosen, "mystery", of="regime", model="A", source=source("recorded:cpu"))
    assert "it takes a GPU" in found.text


@pytest.mark.parametrize(("model", "regime"), [("A", "latency"), ("B", "memory"), ("C", "overhead")])
def test_a_guessed_regime_is_held_against_four_measurements(model: str, regime: str) -> None:
    wrong = guess(f"{model} is", options=["overhead", "memory", "latency", "compute"], answer="compute")
    found = compare(wrong, "mystery", of="regime", model=model, source=source("recorded:h200"))
    assert f"you said compute, but it is {regime}" in found.text and len(found.rows) == 3


def test_the_text_compares_as_the_figures_do() -> None:
    told = Evidence(experiment("block"), recorded("h200"))

    def parts(step: str, width: int, batch: int) -> dict[str, float]:
        at: dict[str, Any] = {"step": step, "width": width, "batch": batch}
        ends = [told.get(line, **at).median for line in ("compute", "memory", "latency", "step")]
        names = ("compute", "memory", "latency", "overhead")
        return {name: end - start for name, start, end in zip(names, [0.0, *ends], ends, strict=False)}

    largest = {at: max(found, key=lambda name: found[name]) for at in (("forward", 256, 1), ("forward", 1024, 64),
               ("forward, as a graph", 256, 1)) for found in (parts(*at),)}  # fmt: skip
    assert list(largest.values()) == ["overhead", "compute", "latency"]
    both = parts("forward", 256, 64)
    assert both["memory"] == pytest.approx(both["compute"], rel=0.1) and both["overhead"] < 0.1 * both["memory"]


def test_the_driver_sees_the_gaps_and_nothing_else() -> None:
    told = Evidence(experiment("utilisation"), recorded("h200"))
    seen = {how: [told.get("driver", how=how, size=size).median for size in (64, 256, 1024)] for how in (EAGER, GRAPH)}
    assert max(seen[EAGER]) < 0.6 and min(seen[GRAPH]) > 0.97
    busy = [told.get("busy", how=GRAPH, size=2**power).median for power in range(6, 14)]
    assert 0.8 < min(busy) < 0.9 < max(busy), "more than four fifths of the time at every size"
    assert all(told.get("peak", how=GRAPH, size=size).median < 0.02 for size in (64, 128, 256))
