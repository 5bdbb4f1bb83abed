"""Latency and bandwidth fitted to exchanges, against lines that are known."""

import numpy as np
import pytest
from refusals import refused

from brrr.core.measurement import Estimate
from brrr.counting.cost import Cost
from brrr.roofline.communication import BUS, Link, exchange_s, fitted, overlapped_s
from brrr.roofline.predicting import predict

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


@pytest.mark.parametrize(("sizes", "student"), [
    (3, 12.706), (4, 4.303), (5, 3.182), (6, 2.776), (7, 2.571), (8, 2.447), (9, 2.365), (10, 2.306), (11, 2.262),
    (12, 2.228), (13, 2.201), (30, 2.048),
])  # fmt: skip
def test_an_interval_is_student_s_of_what_the_line_leaves_free(sizes: int, student: float) -> None:
    """Against numpy's least squares, and tables of Student's t for 95 %: how many standard errors an interval takes."""
    draw = np.random.default_rng(sizes)
    nbytes = 10.0 ** np.linspace(3, 9, sizes)
    times = (2e-5 + nbytes / 3e11) * draw.uniform(0.99, 1.01, sizes)
    rows = np.stack([1 / times, nbytes / times], axis=1)
    (alpha, slope), (left,), *_ = np.linalg.lstsq(rows, np.ones(sizes), rcond=None)
    errors = np.sqrt(np.diag(np.linalg.inv(rows.T @ rows)) * left / (sizes - 2))
    found = fitted(dict(zip(nbytes.tolist(), times.tolist(), strict=True)))
    assert found.alpha_s.median == pytest.approx(alpha) and found.beta_bytes_per_s.median == pytest.approx(1 / slope)
    assert found.alpha_s.n == found.beta_bytes_per_s.n == sizes
    widths = (found.alpha_s.high - alpha) / errors[0], (1 / found.beta_bytes_per_s.low - slope) / errors[1]
    assert widths == pytest.approx((student, student), rel=0.015 if sizes > 12 else 1e-3)


def test_what_is_no_line_is_refused() -> None:
    with refused("times"):
        fitted({8: 1e-5, 1e6: 2e-5})
    with refused("times"):
        fitted({8: 3e-5, 1e6: 2e-5, 1e8: 1e-5})


@pytest.mark.parametrize(("name", "two", "eight"), [("all-reduce", 1, 1.75), ("all-gather", 0.5, 0.875),
                                                    ("reduce-scatter", 0.5, 0.875), ("send", 1, 1)])  # fmt: skip
def test_what_crosses_a_link(name: str, two: float, eight: float) -> None:
    assert (BUS[name](2), BUS[name](8)) == (two, eight)


LINK = Link(Estimate(2e-5, 2e-5, 2e-5, 9), Estimate(2e11, 2e11, 2e11, 9))


def test_an_operation_by_hand() -> None:
    assert exchange_s("all-reduce", 8e6, LINK) == pytest.approx(60e-6)  # 20 and 8e6 / 2e11
    assert exchange_s("all-reduce", 8e6, LINK, ranks=8) == pytest.approx(90e-6)  # 14e6 bytes of each cross
    assert exchange_s("reduce-scatter", 8e6, LINK) == pytest.approx(40e-6)
    with refused("operation", "reduce"):
        exchange_s("reduce", 8, LINK)
    with refused("ranks", 1):
        exchange_s("send", 8, LINK, ranks=1)


def test_a_training_step_by_hand() -> None:
    """A backward pass of 800 µs, 64 MB of gradients in four buckets of 100 µs each: only the last is exposed."""
    exchange = 4 * exchange_s("all-reduce", 16e6, LINK)
    assert exchange == pytest.approx(400e-6) and overlapped_s(800e-6, exchange, 4) == pytest.approx(900e-6)
    assert overlapped_s(800e-6, exchange) == pytest.approx(1200e-6)
    assert overlapped_s(200e-6, exchange, 4) == pytest.approx(450e-6)  # the first bucket's work, then the link is full
    with refused("pieces", 0):
        overlapped_s(1.0, 1.0, 0)


def test_a_split_pair_by_hand() -> None:
    """Half of 1.07 GB of weights and an all-reduce of 16 kB: what `predict` says of the half, and one latency more."""
    half = predict(Cost(2**29, 2**29), device="datasheet:h200", dtype="bfloat16").period_s
    assert overlapped_s(half, exchange_s("all-reduce", 2**14, LINK)) == pytest.approx(half + 20e-6 + 2**14 / 2e11)
