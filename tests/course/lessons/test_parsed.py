"""What a reader types is read as a number in its unit, or is no number."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brrr.core import units
from brrr_course.lessons.answers import parsed


@given(st.floats(min_value=1e-12, max_value=1e9))
def test_time_survives_within_its_rounding(value_s: float) -> None:
    assert parsed(units.seconds(value_s), "s") == pytest.approx(value_s, rel=0.5e-2)


@given(st.floats(min_value=1e-9, max_value=999.0), st.sampled_from(["ns", "us", "µs", "μs", "ms", "s"]))
def test_every_spelling_is_read(value: float, unit: str) -> None:
    scale = {"ns": 1e-9, "ms": 1e-3, "s": 1.0}.get(unit, 1e-6)
    assert parsed(f"{value!r} {unit}", "s") == pytest.approx(value * scale, rel=1e-12)
    assert parsed(f"{value!r}{unit}", "s") == pytest.approx(value * scale, rel=1e-12)


@pytest.mark.parametrize("text", [
    "", " ", "abc", "5 minutes", "nan", "inf", "1,500 ms", "1 2 ms", "µs", "1e999 s", "1e999999999 s", "٣ s", [1],
])  # fmt: skip
def test_junk_is_no_number(text: object) -> None:
    assert not math.isfinite(parsed(text, "s"))


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("2 ms", "us", 2000.0), ("2000 µs", "ms", 2.0), ("7", "us", 7.0), ("1e3", "", 1000.0), ("+2,5 s", "s", 2.5),
        (".5 s", "s", 0.5), ("5. S", "s", 5.0), ("3X", "x", 3.0), (3, "x", 3.0), ("-3", "s", -3.0), (2.5, "us", 2.5),
        ("0,125", "", 0.125), ("12,34", "", 12.34), ("25 µs", "s", 25e-6), ("3ms", "s", 3e-3), (0.0, "s", 0.0),
    ],
)  # fmt: skip
def test_what_is_written_is_read_in_its_unit(text: object, unit: str, value: float) -> None:
    assert parsed(text, unit) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "unit"),
    [("1,000", ""), ("12,345 ms", "s"), ("3 s", "x"), ("3 ms", ""), ("3 x", "s"), (True, ""), (None, ""), ("x", "x")],
)
def test_what_may_be_a_thousand_or_is_of_another_unit_is_not_guessed(text: object, unit: str) -> None:
    assert math.isnan(parsed(text, unit))
