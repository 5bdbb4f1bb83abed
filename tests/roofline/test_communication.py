"""Latency and bandwidth fitted to exchanges, against lines that are known."""

import pytest
from refusals import refused

from brrr.roofline.communication import BUS, fitted

SIZES = [2.0**power for power in range(3, 31)]


def line(alpha_s: float, beta: float) -> dict[float, float]:
    return {size: alpha_s + size / beta for size in SIZES}


@pytest.mark.parametrize(("alpha_s", "beta"), [(2e-5, 3e11), (1e-3, 1e9)])
def test_a_line_is_found_again(alpha_s: float, beta: float) -> None:
    found = fitted(line(alpha_s, beta))
    assert found.alpha_s.median == pytest.approx(alpha_s) and found.beta_bytes_per_s.median == pytest.approx(beta)
    assert found.alpha_s.relative_half_width < 1e-6 and found.seconds(6e8) == pytest.approx(alpha_s + 6e8 / beta)


def test_scatter_widens_the_intervals_and_they_hold_the_truth() -> None:
    times = {size: time * (1.1 if place % 2 else 0.9) for place, (size, time) in enumerate(line(2e-5, 3e11).items())}
    found = fitted(times)
    assert found.alpha_s.low < 2e-5 < found.alpha_s.high and 0.01 < found.alpha_s.relative_half_width < 0.1
    assert found.beta_bytes_per_s.low < 3e11 < found.beta_bytes_per_s.high
    halves = {size: times[size] * 4 if size < 1e6 else times[size] for size in times}
    assert fitted(halves).alpha_s.relative_half_width > found.alpha_s.relative_half_width


def test_small_and_large_sizes_weigh_alike() -> None:
    times = line(2e-5, 3e11)
    times[SIZES[-1]] *= 1.2  # milliseconds, beside which all small times are nothing
    assert fitted(times).alpha_s.median == pytest.approx(2e-5, rel=0.05)


def test_what_is_no_line_is_refused() -> None:
    with refused("times"):
        fitted({8: 1e-5, 1e6: 2e-5})
    with refused("times"):
        fitted({8: 3e-5, 1e6: 2e-5, 1e8: 1e-5})


@pytest.mark.parametrize(("name", "two", "eight"), [("all-reduce", 1, 1.75), ("all-gather", 0.5, 0.875),
                                                    ("reduce-scatter", 0.5, 0.875), ("send", 1, 1)])  # fmt: skip
def test_what_crosses_a_link(name: str, two: float, eight: float) -> None:
    assert (BUS[name](2), BUS[name](8)) == (two, eight)
