"""Estimates: their intervals by the binomial distribution itself, their arithmetic, and what a measurement says."""

from fractions import Fraction
from itertools import accumulate
from math import comb, inf
from operator import mul, sub, truediv
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brrr.core import measurement
from brrr.core.measurement import Badge, Estimate, Measurement, is_host_bound, median_interval

NUMBERS = st.floats(min_value=1e-9, max_value=1e3)
SAMPLES = st.lists(NUMBERS, min_size=1, max_size=40)


def exact_rank(n: int) -> int:
    """From the k-th smallest to the k-th largest misses the median with twice the chance of fewer than k heads."""
    chances = list(accumulate(Fraction(comb(n, heads), 2**n) for heads in range(n + 1)))
    return max([k for k in range(1, n // 2 + 1) if 2 * chances[k - 1] <= Fraction(1, 20)], default=1) - 1


@pytest.mark.parametrize("n", [*range(1, 40), 64, 65, 100, 999, 1000])
def test_an_interval_s_ends_are_those_of_the_sign_test(n: int) -> None:
    values = [float(place) for place in range(n)]
    Random(n).shuffle(values)
    found, low, high = median_interval(values)
    assert (found, low, high) == ((n - 1) / 2, exact_rank(n), n - 1 - exact_rank(n))
    assert (exact_rank(n) > 0) is (n >= 9), "with so few no narrower pair reaches 95 %"


@pytest.mark.parametrize("n", [1001, 1002, 1500, 2000])
def test_of_many_samples_an_interval_is_as_wide_or_wider_by_few(n: int) -> None:
    _, low, high = median_interval([float(place) for place in range(n)])
    assert exact_rank(n) - 2 <= low <= exact_rank(n) + 1 and low + high == n - 1


@given(SAMPLES, st.floats(min_value=0, max_value=1.0))
def test_a_median_lies_in_its_interval_which_is_no_narrower_than_the_clock_s_step(
    values: list[float], tick: float
) -> None:
    found, low, high = median_interval(values, tick)
    assert low <= found <= high and high - low >= tick * (1 - 1e-9) - 1e-12
    assert sum(each < found for each in values) <= len(values) / 2 >= sum(each > found for each in values)
    assert low <= found - tick / 2 and found + tick / 2 <= high
    assert Estimate.of(values, tick) == Estimate(found, low, high, len(values))


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    low, middle, high = sorted(draw(st.floats(-10, 10).filter(lambda value: abs(value) > 1e-3)) for _ in range(3))
    return Estimate(middle, low, high, draw(st.integers(2, 50)))


@given(estimates(), estimates())
def test_what_is_computed_reaches_as_far_as_its_parts_allow(a: Estimate, b: Estimate) -> None:
    """Its ends are those of the four pairs of ends, of either sign, but for a divisor that may be zero."""
    for of in (sub, mul, truediv):
        found, ends = of(a, b), [of(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        assert (found.median, found.n) == (of(a.median, b.median), min(a.n, b.n))
        if of is not truediv or b.low * b.high > 0:
            assert (found.low, found.high) == pytest.approx((min(ends), max(ends)))
    assert (a < b) is (a.median < b.median) or a.median == b.median


def test_a_number_is_known_exactly() -> None:
    two = Estimate(2.0, 1.0, 4.0, 7)
    assert two / 2 == Estimate(1.0, 0.5, 2.0, 7) and 2 / two == Estimate(1.0, 0.5, 2.0, 7, power=-1)
    assert two * 3 == 3 * two == Estimate(6.0, 3.0, 12.0, 7)
    assert two - 1 == Estimate(1.0, 0.0, 3.0, 7) and 1 - two == Estimate(-1.0, -3.0, 0.0, 7)
    assert (1 / Estimate(2.0, 0.0, 4.0, 7)).high == inf
    assert two.shifted(-1.5) == Estimate(0.5, 0.0, 2.5, 7) and two.shifted(-9) == Estimate(0.0, 0.0, 0.0, 7)
    assert two.shifted(1) == Estimate(3.0, 2.0, 5.0, 7)
    assert two.relative_half_width == 0.75 and Estimate(0.0, 0.0, 1.0, 7).relative_half_width == inf


def test_an_estimate_is_written_as_a_time_a_ratio_or_a_share() -> None:
    found = Estimate(0.5, 0.25, 0.755, 7)
    assert str(found) == f"{found}" == "500 ms (250 to 755 ms, n=7)"
    assert f"{found:>40}" == str(found).rjust(40)
    assert (f"{found:x}", f"{found:%}") == ("0.5x (0.25x to 0.755x)", "50 % (25 % to 76 %)")


def same(seconds: float) -> Estimate:
    return Estimate(seconds, seconds, seconds, 9)


def test_host_bound_holds_at_its_very_thresholds() -> None:
    assert is_host_bound(same(0.9), same(1 / 1.1), same(1.0))
    assert is_host_bound(same(9.9), same(10.0), same(11.0)) is True
    for host_s, period_s in ((9.0, 11.0), (9.8, 11.0), (10.0, 10.9)):
        assert is_host_bound(same(host_s), same(10.0), same(period_s)) is False
    for missing in range(3):
        assert is_host_bound(*[None if place == missing else same(1.0) for place in range(3)]) is None
    assert (measurement.HOST_BOUND_PERIOD, measurement.HOST_BOUND_HOST) == (1.1, 0.9)


def test_the_idle_share_is_what_the_device_does_not_work_of_a_loop() -> None:
    assert Measurement(busy_s=same(1.0), period_s=same(4.0)).idle_share == 0.75
    assert Measurement(busy_s=same(5.0), period_s=same(4.0)).idle_share == 0.0
    for m in (Measurement(period_s=same(1.0)), Measurement(busy_s=same(1.0)),
              Measurement(busy_s=same(1.0), period_s=same(0.0))):  # fmt: skip
        assert m.idle_share is None


def test_a_measurement_says_what_a_call_costs_and_its_flags() -> None:
    host, device, end, loop = same(1e-6), same(2e-6), same(3e-6), same(4e-6)
    for m, text in {
        Measurement(host_s=host, span_s=device, latency_s=end, period_s=loop): "1 µs on the host, 2 µs of GPU work",
        Measurement(host_s=host, kernel_s=device, span_s=loop): "1 µs on the host, 2 µs of GPU work",
        Measurement(host_s=host, latency_s=end, period_s=loop): "1 µs on the host, 3 µs until the result is there",
        Measurement(period_s=loop): "4 µs a call in a loop",
        Measurement(latency_s=end, flags=("syncs",)): "3 µs until the result is there: syncs",
        Measurement(): "nothing measured",
        Measurement(host_s=loop, span_s=host, period_s=loop, flags=("nan", "host-bound", "thermal")):
            "4 µs on the host, 1 µs of GPU work: host-bound, nan, thermal",
    }.items():  # fmt: skip
        assert str(m) == text
    with pytest.raises(KeyError, match="wall_s"):
        Measurement().get("wall_s")
    assert Measurement(span_s=device).get("span_s") is device and Measurement().get("span_s") is None


def test_details_tell_the_clock_the_kernels_and_the_memory() -> None:
    full = Measurement(
        sm_clock_hz=1e9, kernels=3, peak_bytes=2_000_000, flags=("nan", "syncs"), notes=("so it is",), cache="cold",
        busy_s=same(1e-6), period_s=same(4e-6),
    ).details()  # fmt: skip
    assert "cold cache, SM clock 1 GHz, kernels 3\nmemory 2 MB at most" in full
    assert "flags: nan, syncs\nnote: so it is" in full and "GPU busy 25 %, GPU idle 75 %" in full
    for name, said in (("busy_s", "1 µs"), ("period_s", "4 µs")):
        (line,) = (each for each in full.splitlines() if each.endswith(name))
        assert line.startswith(said), line
    assert (
        "span_s" not in full
        and "memory" not in Measurement().details()
        and "GPU" not in Measurement(device="mine").details()
    )


def test_a_badge_says_how_many_gpus_there_were_and_leaves_out_what_is_empty() -> None:
    assert str(Badge("LIVE", "an H200", "", "torch 2.13", frozenset("ab"))) == "LIVE · an H200 · torch 2.13 · 2 GPUs"
    assert str(Badge("RECORDED", "a CPU", "2026-01-01", "")) == "RECORDED · a CPU · 2026-01-01"
