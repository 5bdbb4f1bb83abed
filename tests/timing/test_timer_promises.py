"""What docs/timer.md, and what `measure` says of itself, promise in numbers: found again in what is done."""

from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from played_clock import Clock
from played_gpu import Gpu
from promises import promised

from brrr.core.measurement import Estimate, is_host_bound
from brrr.timing import gate, interleave, measure
from brrr.timing.host_times import HostTimes
from brrr.timing.sampler import Sampler

TIMER, MEASURE, MEASUREMENT = "docs/timer.md", "brrr/timing/__init__.py", "brrr/core/measurement.py"


def edge(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where what holds at `low` no longer holds, up to `high`."""
    assert holds(low) and not holds(high)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def test_so_many_calls_are_issued_between_two_synchronisations(clock: Clock) -> None:
    events: list[str] = []
    times = HostTimes(lambda: (events.append("call"), clock.go_on(1e-5))[1], lambda: events.append("wait"))
    times.latency = [1e-5]
    times._sample_host(0.01)
    bursts = [len([*group]) for kind, group in groupby(events) if kind == "call"]
    timed = promised(TIMER, r"single calls, (\w+) between two synchronisations")
    assert set(bursts[:-1]) == {timed + promised(TIMER, r"behind up to (\w+) that are not timed")}


def test_the_ends_of_a_loop_weigh_so_little(clock: Clock) -> None:
    times = HostTimes(lambda: clock.go_on(1e-5), lambda: clock.go_on(1e-4))
    for _ in range(3):
        times.round(0.04)
    weight = 1e-4 / (times.loops[2] * 1e-5)
    assert weight == pytest.approx(promised(TIMER, r"the two ends weigh at most ([\d.]+) %") / 100, rel=0.02)


def test_a_run_up_is_repeated_so_often_and_its_budget_is_spent_in_so_many_slices(clock: Clock) -> None:
    run = Sampler(lambda: clock.go_on(1e-3), "cpu", "hot", 0.8, settle_s=0.01)
    run._clock_is_steady = lambda: False  # type: ignore[method-assign]
    run.settle()
    assert clock.now_ns == pytest.approx(promised(TIMER, r"repeated, at most (\w+) times") * 0.01e9)
    asked: list[float] = []
    run.host.round = asked.append  # type: ignore[method-assign]
    run.round()
    run.settle_s = 0.0
    run.round()
    long, short = (round(0.8 / each) for each in asked)
    assert long == promised(TIMER, r"spent in (\w+) long slices")
    assert short == promised(TIMER, r"long slices instead of (\w+) short ones")


def test_a_clock_is_its_own_again_within_so_much(gpu: Gpu) -> None:
    run = Sampler(lambda: gpu.kernel(1e-6), "cuda", "hot", 0.2)

    def steady(moved: float) -> bool:
        gpu.clock_hz = 1e9
        run._clock_is_steady()
        gpu.clock_hz *= 1 + moved
        return run._clock_is_steady()

    assert edge(steady, 0.0, 1.0) == pytest.approx(
        promised(TIMER, r"until the clock is within (\w+) %") / 100, rel=1e-3
    )


def test_the_l2_is_written_and_read_so_often(gpu: Gpu) -> None:
    gate.eviction_of(0)()
    sizes = {name: args[-2] * 16 / 50_000 for name, _, _, args in gpu.launched if name.startswith("brrr_evict")}
    assert sizes["brrr_evict_write"] == promised(TIMER, r"(\w+) the size of the L2 was written")
    assert sizes["brrr_evict_read"] == promised(TIMER, r"then (\w+) its size of clean memory read")


def test_a_call_of_more_than_so_many_budgets_is_made_once(clock: Clock) -> None:
    def several(budgets: float) -> bool:
        return "single-call" not in measure(lambda: clock.go_on(budgets * 0.01), device="cpu", budget_s=0.01).flags

    assert edge(several, 1.0, 20.0) == pytest.approx(promised(TIMER, r"takes longer than (\w+) budgets"), rel=1e-3)


def test_a_measurement_ends_early_where_intervals_are_so_narrow(gpu: Gpu) -> None:
    run = Sampler(lambda: None, "cuda", "hot", 1.0)
    run.rounds = 2

    def done(half_width: float) -> bool:
        run.host.period = [1 - half_width, 1.0, 1 + half_width] * 2
        return run.done

    assert edge(done, 0.0, 1.0) == pytest.approx(
        promised(MEASURE, r"all intervals are within ([\d.]+) % earlier") / 100
    )


def test_a_call_is_host_bound_by_the_formula_that_is_told() -> None:
    period, host = (
        promised(MEASUREMENT, rf"Notes ----- A call is \*host-bound\* if ``period_s >= {text}")
        for text in (r"([\d.]+) \* span_s", r"[\d.]+ \* span_s`` and ``host_s >= ([\d.]+) \* period_s")
    )
    of = lambda seconds: Estimate(seconds, seconds, seconds, 9)  # noqa: E731
    assert edge(lambda span: bool(is_host_bound(of(2.0), of(span), of(2.0))), 0.1, 2.0) == pytest.approx(2.0 / period)
    assert edge(lambda less: bool(is_host_bound(of(2 - less), of(1.0), of(2.0))), 0.0, 2.0) == pytest.approx(
        2 - 2 * host
    )


@pytest.mark.parametrize(
    ("flag", "cause"),
    [
        ("host-bound", {"issue_s": 1e-4}), ("syncs", {"waits": True}), ("thermal", {"reasons": {"thermal"}}),
        ("power-capped", {"reasons": {"power-cap"}}), ("shared-gpu", {"processes": 2}),
        ("no-profiler", {"profiles": False}), ("queue-full", {"depth": 900, "kernels": 901}), ("nan", {"nan": True}),
        ("single-call", {"kernel_s": 1.0}), ("busy-cpu", {"idle": 0.0, "others": 1.0}), ("unstable", {"drifts": True}),
    ],
)  # fmt: skip
def test_each_flag_that_is_told_is_raised_by_its_cause_and_by_no_other(
    gpu: Gpu, clock: Clock, flag: str, cause: dict[str, Any]
) -> None:
    given = {"kernels": 1, "kernel_s": 5e-5, "waits": False, "nan": False, "drifts": False, **cause}
    for name, value in cause.items():
        setattr(clock if hasattr(clock, name) else gpu, name, value)
    if "reasons" in cause:
        gpu.clock_hz *= 0.9
    pace = [1.0]

    def call() -> float:
        pace[0] = 1.3 ** (clock.now_ns * 1e-9 / 0.05) if given["drifts"] else 1.0
        for _ in range(given["kernels"]):
            gpu.kernel(given["kernel_s"] * pace[0])
        if given["waits"]:
            gpu.synchronize()
        return float("nan") if given["nan"] else 0.0

    (found,) = interleave([Sampler(call, "cuda", "hot", 0.05)])
    assert found.flags == (flag,)
    assert f'"{flag}"' in measure.__doc__.partition("Raises")[0]  # type: ignore[union-attr]
