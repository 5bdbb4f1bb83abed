"""What lesson 10 is made of: its tables, and its exercises, which take right answers and refuse known wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from brrr.core.errors import ArgumentError
from brrr_course import compare, guess
from brrr_course.experiments.mystery import regime_of
from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises.lesson_10 import CASES, PEAK, PRODUCTS_S, STEP_S, flop
from brrr_course.sources import source

RIGHT = {"flop": flop(), "share": flop() / STEP_S / PEAK, "at_most": STEP_S / PRODUCTS_S}


def test_the_table_of_classes_adds_up() -> None:
    g = guess("The products reach ... times as many", unit="x", answer="10x")
    found = compare(g, "block", of="classes", source=source("recorded:h200"))
    assert [row[0] for row in found.rows] == ["products", "attention", "norms", "pointwise", "other"]
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


def test_the_share_of_the_peak_is_taken() -> None:
    mark = check("10-peak", **RIGHT)
    assert mark.right and "29.7 %" in mark.text


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"flop": flop() / 3}, "forward alone"), ({"flop": flop() / 2}, "two FLOP"),
     ({"flop": flop() / 6}, "multiplications"), ({"flop": 1.0}, "`flop` is 1"), ({"share": 29.7}, "percent"),
     ({"share": flop() / PRODUCTS_S / PEAK}, "products run"), ({"share": 0.9}, "`share` is 0.9"),
     ({"at_most": 0.395}, "a share"), ({"at_most": 5.0}, "`at_most` is 5"), ({"at_most": -1.0}, "`at_most` is -1"),
     ({"share": "much"}, "`share` is 'much'")],
)  # fmt: skip
def test_wrong_shares_get_a_hint(changed: dict[str, Any], said: str) -> None:
    mark = check("10-peak", **{**RIGHT, **changed})
    assert mark.status == "wrong" and said in mark.text


def test_the_rule_is_taken() -> None:
    mark = check("10-regime", regime=regime_of)
    assert mark.right and str(len(CASES)) in mark.text


@pytest.mark.parametrize(
    ("regime", "said"),
    [(lambda e, g, h, d: "memory", "returns 'memory'"), (lambda e, g, h, d: "fast", "returns 'fast'"),
     (lambda e, g, h, d: 1 / 0, "ZeroDivisionError"), (None, "`regime` is None"),
     (lambda e, g, h, d: "memory" if g >= 1.3 * h else "overhead" if e >= 1.3 * g else "compute", "too")],
)  # fmt: skip
def test_wrong_rules_are_refused(regime: Callable[..., Any] | None, said: str) -> None:
    mark = check("10-regime", regime=regime)
    assert mark.status == "wrong" and said in mark.text
