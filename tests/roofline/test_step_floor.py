"""The floor of a recurrent step: each part by hand, the longest of three, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from brrr.core.errors import ArgumentError
from brrr.roofline.recurrent import StepFloor, step_floor

GIVEN: dict[str, Any] = {
    "exchange_s": 1e-6, "state_bytes": 6e6, "l2_bytes_per_s": 6e12, "flop": 60e6, "flop_per_s": 60e12,
}  # fmt: skip


def test_each_part_by_hand() -> None:
    floor = step_floor(**GIVEN, input_flop=100e6, input_flop_per_s=50e12)
    assert (floor.exchange_s, floor.input_s) == (1e-6, pytest.approx(2e-6))
    assert (floor.state_s, floor.arithmetic_s) == (pytest.approx(1e-6), pytest.approx(1e-6))
    assert floor.floor_s == pytest.approx(3e-6)


@pytest.mark.parametrize(
    ("changed", "limit", "floor_s"),
    [
        ({"exchange_s": 2e-6}, "exchange", 2e-6),
        ({"state_bytes": 18e6}, "state", 3e-6),
        ({"l2_bytes_per_s": 2e12}, "state", 3e-6),
        ({"flop": 240e6}, "arithmetic", 4e-6),
        ({"flop_per_s": 15e12}, "arithmetic", 4e-6),
        ({"flop": 240e6, "input_flop": 60e6}, "arithmetic", 5e-6),
    ],
)
def test_the_longest_sets_the_pace_and_the_inputs_product_is_added(
    changed: dict[str, Any], limit: str, floor_s: float
) -> None:
    floor = step_floor(**{**GIVEN, **changed})
    assert floor.limit == limit and floor.floor_s == pytest.approx(floor_s)


def test_the_inputs_product_is_never_the_limit_of_what_overlaps() -> None:
    assert StepFloor(1e-6, 0.0, 0.0, input_s=9e-6).limit == "exchange"
    assert set(StepFloor(1.0, 2.0, 3.0, 4.0).parts) == {"exchange", "state", "arithmetic"}


@pytest.mark.parametrize("name", ["l2_bytes_per_s", "flop_per_s", "input_flop_per_s"])
@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_is_none_is_refused(name: str, rate: float) -> None:
    with pytest.raises(ArgumentError, match=name):
        step_floor(**{**GIVEN, name: rate})
