"""Units: three digits and the right prefix."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brrr.core import units
from tests.refusals import refused

PREFIX = {prefix: 10.0 ** (3 * power) for power, prefix in enumerate(("p", "n", "µ", "m", "", *"kMGTPE"), start=-4)}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.02e-6, "1.02 µs"), (999.96e-9, "1 µs"), (999.4e-9, "999 ns"), (999.5e-9, "1 µs"), (0.0, "0 s"),
        (-0.0, "0 s"), (-2.5e-6, "-2.5 µs"), (math.nan, "nan s"), (math.inf, "inf s"), (-math.inf, "-inf s"),
        (3600, "3600 s"), (1e-9, "1 ns"), (100e-6, "100 µs"),
    ],
)  # fmt: skip
def test_seconds(value: float, text: str) -> None:
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.quantity(999.6e9, "B/s"), "1 TB/s"), (units.quantity(0.125, "FLOP/B"), "0.125 FLOP/B"),
        (units.quantity(0.25, "B"), "0.25 B"), (units.quantity(12, ""), "12"),
        (units.quantity(1.23456e-6, "s", digits=5), "1.2346 µs"), (units.nbytes(537e6), "537 MB"),
        (units.quantity(67.1e6, "FLOP"), "67.1 MFLOP"), (units.ratio(2.4), "2.4x"), (units.ratio(1540.0), "1540x"),
        (units.percent(0.5), "50 %"), (units.seconds_range(0.98e-6, 1.02e-6), "0.98 to 1.02 µs"),
        (units.seconds_range(0.5, 90.0), "0.5 to 90 s"), (units.seconds_range(0.0, 0.0), "0 to 0 s"),
        (units.seconds_range(1e-6, math.inf), "1 µs to inf s"),
        (units.seconds_range(-math.inf, 1e-6), "-inf s to 1 µs"),
        (units.seconds_range(1e-9, 1.2345e-6, digits=4), "0.001 to 1.235 µs"),
        (units.quantity(0.004, "FLOP"), "0.004 FLOP"), (units.quantity(3.2e6, "FLOP/B"), "3200000 FLOP/B"),
        (units.quantity(5e3, "m"), "5 km"), (units.quantity(1e33, "B"), "1000 QB"),
        (units.quantity(1e-33, "Hz"), "0.001 qHz"), (units.ratio(0.012345, digits=2), "0.012x"),
        (units.percent(0.12345, digits=1), "10 %"), (units.nbytes(1234567, digits=2), "1.2 MB"),
        (units.seconds(1.23456e-3, digits=5), "1.2346 ms"),
    ],
)  # fmt: skip
def test_other_units(text: str, expected: str) -> None:
    assert text == expected


def test_digits_must_be_positive() -> None:
    with refused("digits", 0):
        units.quantity(1.0, "s", digits=0)


@given(st.floats(min_value=1e-12, max_value=9.9e17), st.integers(min_value=1, max_value=12))
def test_any_quantity_survives_within_its_rounding(value: float, digits: int) -> None:
    number, unit = units.quantity(value, "Hz", digits).split(" ")
    assert "e" not in number.lower()
    back = float(number) * PREFIX[unit.removesuffix("Hz")]
    assert back == pytest.approx(value, rel=0.5000001 * 10.0 ** (1 - digits))


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert units.table([["a", "", "c"], ["bbb", "x", ""]]) == ["a       c", "bbb  x"]
