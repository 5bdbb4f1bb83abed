"""What lesson 10 is made of: its tables, and what its text says of its figures."""

import pytest

from brrr.core.errors import ArgumentError
from brrr_course import compare, guess
from brrr_course.sources import source


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
    chosen = guess("Program A here is", options=["under-filled", "memory"], answer="under-filled")
    found = compare(chosen, "mystery", of="regime", model="A", source=source("recorded:cpu"))
    assert "it takes a GPU" in found.text


@pytest.mark.parametrize(("model", "regime"), [("A", "under-filled"), ("B", "memory"), ("C", "overhead")])
def test_a_guessed_regime_is_held_against_four_measurements(model: str, regime: str) -> None:
    wrong = guess(f"{model} is", options=["overhead", "memory", "under-filled", "compute"], answer="compute")
    found = compare(wrong, "mystery", of="regime", model=model, source=source("recorded:h200"))
    assert f"you said compute, but it is {regime}" in found.text and len(found.rows) == 3
