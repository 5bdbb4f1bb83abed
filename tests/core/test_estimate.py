"""Arithmetic of estimates: its unit, its interval, and what has none."""

import math
import sys

import pytest

from brrr.core.measurement import Estimate, Rounds

TIME, OTHER = Estimate(2.89e-6, 2.8e-6, 3.1e-6, 9), Estimate(1e-6, 0.9e-6, 1.2e-6, 20)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (TIME / TIME, "1x (0.903x to 1.11x, n=9)"),
        (2 * TIME, "5.78 µs (5.6 to 6.2 µs, n=9)"),
        (TIME - OTHER, "1.89 µs (1.6 to 2.2 µs, n=9)"),
        (1e-6 - OTHER, "0 s (-200 to 100 ns, n=20)"),
        (1 / TIME, "3.46e+05 s^-1 (3.23e+05 s^-1 to 3.57e+05 s^-1, n=9)"),
        (TIME * TIME, "8.35e-12 s^2 (7.84e-12 s^2 to 9.61e-12 s^2, n=9)"),
        (TIME * OTHER / OTHER / TIME, "1x (0.677x to 1.48x, n=9)"),
        (1 - OTHER / TIME, "0.654x (0.571x to 0.71x, n=9)"),
        (TIME.shifted(1e-6), "3.89 µs (3.8 to 4.1 µs, n=9)"),
    ],
)  # fmt: skip
def test_what_is_computed_knows_its_unit(found: Estimate, said: str) -> None:
    assert str(found) == said


ONE = Estimate(3e-6, 3e-6, 3e-6, 1)


@pytest.mark.parametrize("found", [ONE, 2 * ONE, ONE - OTHER, ONE / OTHER, OTHER / ONE, ONE * OTHER, ONE.shifted(1e-6)])
def test_one_sample_has_no_range(found: Estimate) -> None:
    assert not found.has_interval
    for text in (str(found), f"{found:x}", f"{found:%}"):
        assert text.endswith("(n=1, no interval)") and " to " not in text, text


def test_a_number_is_exact() -> None:
    number = 1 / Estimate(2.0, 2.0, 2.0, sys.maxsize, power=0)
    assert str(number) == "0.5x (0.5x to 0.5x)" and number.has_interval


@pytest.mark.parametrize("low", [-50e-6, -1e-12])
def test_a_quotient_has_no_interval_where_its_divisor_may_be_negative_or_zero(low: float) -> None:
    paid = Estimate(3.0, 2.9, 3.1, 9) / Estimate(56e-6, low, 170e-6, 9)
    assert (paid.low, paid.high, paid.has_interval) == (-math.inf, math.inf, False)
    assert f"{paid:x}".endswith("(no interval)")
    tick = Estimate(3e-6, 2e-6, 4e-6, 9) / Estimate(1e-9, 0.0, 2e-9, 9)  # a clock's tick reaches down to zero
    assert tick.low == pytest.approx(1000) and tick.high == math.inf


def test_times_of_the_same_rounds_are_compared_in_pairs() -> None:
    together = object()
    shared = [1.0, 3.0, 1.5, 2.0, 9.0, 1.0, 1.2]  # a machine that other programs slow down, both alike
    slow, fast = (
        Estimate(*times, rounds=Rounds(together, tuple(pace * each for each in shared)))
        for pace, times in ((1.1, (1.65, 1.1, 9.9, 70)), (1.0, (1.5, 1.0, 9.0, 90)))
    )
    ratio = slow / fast
    assert (ratio.median, ratio.low, ratio.high) == pytest.approx((1.1, 1.1, 1.1))
    assert (ratio.n, ratio.power) == (len(shared), 0)
    apart = slow / Estimate(1.5, 1.0, 9.0, 90, rounds=Rounds(object(), fast.rounds.values if fast.rounds else ()))
    assert (apart.low, apart.high) == pytest.approx((1.1 / 9, 9.9)), "they did not take turns"


def test_pairs_are_those_rounds_that_both_took() -> None:
    together = object()
    first, short = (Estimate(1.0, 1.0, 1.0, 9, rounds=Rounds(together, of)) for of in ((2.0, 4.0, 5.0), (1.0, 2.0)))
    assert (first / short).n == 2 and (first / short).median == 2.0
    alone = first / Estimate(1.0, 1.0, 1.0, 9, rounds=Rounds(together, (1.0,)))
    assert not alone.has_interval


def test_rounds_do_not_tell_equal_estimates_apart() -> None:
    assert Estimate(*(1.0,) * 3, 9, rounds=Rounds(object(), (1.0,))) == Estimate(*(1.0,) * 3, 9)
