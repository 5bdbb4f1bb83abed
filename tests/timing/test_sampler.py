"""The logic of `measure`, on a clock that is played: rounds, budget, drift, flags, in times that are known exactly."""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from itertools import count, cycle, pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from played_clock import Clock, PlayedQueue, middle

from brrr.core.errors import DeviceMemoryError
from brrr.core.measurement import FIELDS
from brrr.timing import interleave, measure, measure_together, sampler
from brrr.timing.host_times import HostTimes
from brrr.timing.plan import Plan
from brrr.timing.readings import TURNS_NOTE, Readings
from brrr.timing.sampler import Sampler, crowded


def takes(clock: Clock, seconds: float) -> Callable[[], None]:
    return lambda: clock.go_on(seconds)


@pytest.mark.parametrize("call_s", [3e-7, 2e-6, 1e-4, 1e-2])
def test_a_cpu_has_three_times_and_each_is_the_call_s(clock: Clock, call_s: float) -> None:
    m = measure(takes(clock, call_s), device="cpu")
    assert [name for name in FIELDS if m.get(name) is not None] == ["host_s", "period_s", "latency_s"]
    for name in ("host_s", "period_s", "latency_s"):
        assert middle(m, name) == pytest.approx(call_s)
    assert m.flags == () and m.kernels is None and m.kernel_times_from == "" and m.device and not m.notes


@pytest.mark.parametrize(("issue_s", "work_s"), [(1e-5, 1e-3), (1e-4, 1e-4), (5e-4, 2e-5)])
def test_a_queue_has_what_it_worked_too(clock: Clock, issue_s: float, work_s: float) -> None:
    queue = PlayedQueue(clock, issue_s)
    m = measure(lambda: (queue.submit(work_s / 4), queue.submit(3 * work_s / 4)), device=queue, budget_s=1)
    assert middle(m, "host_s") == pytest.approx(2 * issue_s) and middle(m, "kernel_s") == pytest.approx(work_s)
    assert m.kernels == 2 and m.device.startswith("CPU queue on ") and m.kernel_s is not None
    assert m.kernel_s.n == len(m.samples["kernel_s"]) == 11
    assert middle(m, "latency_s") == pytest.approx(max(issue_s + work_s, 2 * issue_s + 3 * work_s / 4))
    loop_s = max(2 * issue_s, work_s)
    assert loop_s <= middle(m, "period_s") <= 1.006 * loop_s, "the loop's ends weigh at most half a percent"


@pytest.mark.parametrize("budget_s", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("apart", [0.0, 0.5])
def test_the_budget_is_what_is_spent_and_less_where_all_agree(clock: Clock, budget_s: float, apart: float) -> None:
    draw = Random(1)
    m = measure(lambda: clock.go_on(1e-4 * (1 + apart * draw.random())), device="cpu", budget_s=budget_s)
    spent_s = clock.now_ns * 1e-9
    assert m.period_s is not None and m.period_s.n >= 6
    assert spent_s <= (1.3 if apart else 1.0) * budget_s, "a warm-up of 0.3 of it, and the samples"


@pytest.mark.parametrize(("half_width", "early"), [(0.04, True), (0.06, False)])
def test_five_percent_are_precise_on_a_cpu(clock: Clock, half_width: float, early: bool) -> None:
    run = Sampler(Plan(takes(clock, 1e-3), "cpu", "hot", 1.0))
    seen, host = run.readings, run.readings.host
    host.period = host.host = host.latency = [1 - half_width, 1.0, 1 + half_width] * 2
    seen.rounds = 1
    assert not run.done, "one round is not enough"
    seen.rounds = 2
    assert run.done is early
    host.period = [1.0] * 5
    assert not run.done, "fewer than six samples have no interval of 95 %"
    host.period = [1.0] * 6
    host.latency = []
    assert run.done is early, "what was not sampled is not waited for"


def test_a_gpu_is_measured_more_precisely(gpu: Any) -> None:
    there, here = (Plan(lambda: None, place, "hot", 1.0) for place in ("cuda", "cpu"))
    assert (there.enough, here.enough) == (0.005, 0.05)
    assert (replace(there, precision=0.02).enough, replace(here, precision=0.02).enough) == (0.02, 0.05)


def test_rounds_asked_for_are_taken_though_the_budget_is_spent(clock: Clock) -> None:
    draw = Random(2)
    for fewest in (1, 4, 9):
        run = Sampler(Plan(lambda: clock.go_on(1e-2 * draw.uniform(1, 1.4)), "cpu", "hot", 0.01, fewest=fewest))
        interleave([run])
        seen = run.readings
        assert seen.rounds >= fewest and (seen.rounds == fewest or seen.host.calls_wanted is False)


@pytest.mark.parametrize(("times", "single"), [(3.9, False), (4.1, True)])
def test_a_call_of_more_than_four_budgets_is_made_once(clock: Clock, times: float, single: bool) -> None:
    calls: list[int] = []
    m = measure(lambda: (calls.append(1), clock.go_on(times * 0.01))[1], device="cpu", budget_s=0.01)
    assert ("single-call" in m.flags) is single and (len(calls) == 1) is single
    for name in ("latency_s", "period_s", "host_s"):
        assert middle(m, name) == pytest.approx(times * 0.01)


@pytest.mark.parametrize(("times", "single"), [(3.9, False), (4.1, True)])
def test_on_a_queue_the_second_call_tells_whether_it_is_long(clock: Clock, times: float, single: bool) -> None:
    queue, takes_s = PlayedQueue(clock, 1e-4), [0.3]
    m = measure(lambda: queue.submit(takes_s.pop() if takes_s else times * 0.01), device=queue, budget_s=0.01)
    assert ("single-call" in m.flags) is single
    assert middle(m, "host_s") == pytest.approx(1e-4), "issuing, behind another call"
    assert middle(m, "latency_s") == pytest.approx(1e-4 + times * 0.01)
    assert (m.kernel_s is None) is single


def test_a_first_call_that_compiles_is_no_slow_call(clock: Clock) -> None:
    queue, first = PlayedQueue(clock, 1e-5), [0.06]
    run = Sampler(Plan(lambda: queue.submit(first.pop() if first else 1e-4), queue, "hot", 0.01))
    assert run.checked(lambda result: 0.25) == 0.25
    (m,) = interleave([run])
    assert "single-call" not in m.flags and m.latency_s is not None and m.latency_s.n > 1
    assert middle(m, "latency_s") == pytest.approx(1.1e-4)


def test_a_check_already_made_is_not_made_again_for_a_slow_call(clock: Clock) -> None:
    calls: list[int] = []

    def slow() -> float:
        calls.append(1)
        clock.go_on(0.06)
        return float("nan")

    run = Sampler(Plan(slow, "cpu", "hot", 0.01))
    assert run.checked(lambda result: 7.0) == 7.0
    (m,) = interleave([run])
    assert {"single-call", "nan"} <= {*m.flags} and len(calls) == 1 and middle(m, "period_s") == pytest.approx(0.06)


@pytest.mark.parametrize("budget_s", [0.1, 0.2, 1.0])
@pytest.mark.parametrize("turn", [(10, 10, 120), (10, 120), (120, 120, 10), (20, 50, 50, 50), (30, 10, 30, 10, 10)])
def test_calls_that_take_turns_at_being_long_take_their_mean_in_a_loop(
    turn: tuple[int, ...], budget_s: float, clock: Clock
) -> None:
    turns = cycle(turn)
    m = measure(lambda: clock.go_on(next(turns) * 1e-3), device="cpu", budget_s=budget_s)
    assert m.period_s is not None and m.period_s.low <= sum(turn) / len(turn) * 1e-3 <= m.period_s.high
    assert m.period_s.median == pytest.approx(sum(turn) / len(turn) * 1e-3, rel=0.15 if budget_s > 0.1 else 0.25)
    assert m.notes == (TURNS_NOTE,) or budget_s < sum(turn) * 1e-3, "a turn takes longer than the budget"


@pytest.mark.parametrize(("unit", "budgets"), [(30e-3, (4, 5)), (10e-3, (2, 4)), (1e-3, (1, 1.3))])
def test_a_few_calls_that_differ_get_up_to_four_budgets(
    clock: Clock, unit: float, budgets: tuple[float, float]
) -> None:
    """24 calls are wanted: of 60 ms on average they do not fit into four budgets, of 20 ms they do."""
    turns = cycle((1, 3))
    run = Sampler(Plan(lambda: clock.go_on(next(turns) * unit), "cpu", "hot", 0.2))
    interleave([run])
    assert budgets[0] <= run.readings.spent_s / 0.2 <= budgets[1]
    assert (len(run.readings.host.latency) + sum(run.readings.host.loops) >= 24) is (unit < 30e-3)


@pytest.mark.parametrize("call_s", [0.02, 0.001, 1e-5])
def test_a_call_that_is_disturbed_now_and_then_takes_its_median(call_s: float, clock: Clock) -> None:
    draw, calls = Random(3), count()
    m = measure(lambda: clock.go_on(call_s * (draw.uniform(3, 30) if next(calls) % 17 == 9 else 1)), device="cpu")
    assert m.latency_s is not None and m.latency_s.median == pytest.approx(call_s) and not m.notes


# -- together ----------------------------------------------------------------------------------------------------------


def test_functions_take_turns_by_the_round_and_all_are_warm_before(clock: Clock) -> None:
    order: list[str] = []
    draw = Random(4)

    def named(name: str) -> Callable[[], None]:
        return lambda: (order.append(name), clock.go_on(draw.uniform(1e-3, 1.4e-3)))[1]

    found = measure_together([named("a"), named("b"), named("c")], device="cpu", budget_s=0.1)
    turns = [order[0]] + [after for before, after in pairwise(order) if before != after]
    there_and_back = [*"abc", *"abc", *"babc", *"babc"]  # what ends a round begins the next
    assert turns[:14] == there_and_back and len(turns) >= 18, "one warm-up and eight rounds of each"
    assert all(1e-3 < middle(m, "period_s") < 1.4e-3 for m in found)


def test_no_garbage_is_collected_between_samples_and_it_is_again_behind_them(clock: Clock) -> None:
    import gc

    seen: set[bool] = set()
    assert gc.isenabled()
    measure(lambda: (seen.add(gc.isenabled()), clock.go_on(1e-3))[1], device="cpu", budget_s=0.01)
    assert seen == {False} and gc.isenabled()
    with pytest.raises(KeyError):
        measure(lambda: {}["none"], device="cpu")
    assert gc.isenabled()
    gc.disable()
    try:
        measure(takes(clock, 1e-3), device="cpu", budget_s=0.01)
        assert not gc.isenabled(), "who had it off keeps it off"
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["cpu", "queue"])
def test_what_drifted_is_measured_again_and_only_that(clock: Clock, kind: str) -> None:
    """One takes longer from round to round, but not when it is measured again; another does not notice."""
    place: Any = PlayedQueue(clock, 1e-5) if kind == "queue" else "cpu"
    run_for = place.submit if kind == "queue" else clock.go_on
    calls, again = list[int](), list[int]()

    def once() -> None:
        calls.append(1)
        run_for(1e-3)

    def drifting() -> None:
        run_for(2e-3 if again else 1e-3 * (1 + 0.1 * slower.readings.rounds))

    steady, slower = Sampler(Plan(once, place, "hot", 0.2)), Sampler(Plan(drifting, place, "hot", 0.2))
    forget = Sampler.start_again
    slower.start_again = lambda: again.append(len(calls)) or forget(slower)  # type: ignore[method-assign]
    a, b = interleave([steady, slower])
    assert len(again) == 1, "it drifted once, and was measured again once"
    assert len(calls) - again[0] == (11 if kind == "queue" else 0), "the other is not, but for its work's own times"
    assert a.flags == b.flags == ()
    assert min(b.samples["period_s"]) > 1.9e-3, "the samples from before are forgotten"


@pytest.mark.parametrize("growth", [1.3, 1 / 1.3])
def test_what_drifts_again_is_flagged(clock: Clock, growth: float) -> None:
    """Through `measure` itself, since that is the wire."""
    begun: list[int] = []
    m = measure(lambda: (begun.append(clock.now_ns), clock.go_on(1e-3 * growth ** (clock.now_ns * 1e-9 / 0.05)))[1],
                device="cpu")  # fmt: skip
    assert "unstable" in m.flags and "unstable" in str(m)
    assert m.flags.count("unstable") == 1
    spent_s = clock.now_ns * 1e-9
    assert spent_s > 0.3, "it was measured twice before it was flagged"
    steady = measure(takes(clock, 1e-3), device="cpu")
    assert "unstable" not in steady.flags


def test_flags_of_the_first_time_are_forgotten_with_its_samples(clock: Clock) -> None:
    run = Sampler(Plan(takes(clock, 1e-3), "cpu", "hot", 0.05))
    interleave([run])
    before = run.readings
    before.nan, before.single, before.worked_s = True, True, [1.0]
    clock.idle = 0.0
    clock.others = 1.0
    assert run.start_again() is True
    assert not run.readings.samples
    assert run.readings == Readings(before.host, clock.cpu_seconds(), before.first_s, before.clock_hz)


@pytest.mark.parametrize(
    ("early", "late", "drifts"),
    [
        ([1.0] * 6, [1.029] * 6, False), ([1.0] * 6, [1.031] * 6, True), ([1.031] * 6, [1.0] * 6, True),
        ([1.0] * 5, [1.09] * 5, False), ([1.0] * 5, [1.11] * 5, True), ([1.0] * 3, [1.11] * 3, True),
        ([1.0] * 2, [2.0] * 2, False), ([1.0, 1.0, 1.3], [1.2, 1.2, 1.2], False),
        ([1.0] * 3, [1.2, 1.2, 1.2, 1.2], True), ([1.0, 1.0, 1.2], [1.2, 1.5, 1.5], False),
        ([1.2, 1.5, 1.5], [1.0, 1.0, 1.2], False),
    ],
)  # fmt: skip
def test_a_drift_is_three_percent_and_of_few_samples_a_tenth(
    early: list[float], late: list[float], drifts: bool
) -> None:
    run = Sampler(Plan(lambda: None, "cpu", "hot", 0.05))
    seen = run.readings
    seen.host.period = early + late
    assert seen.drifted is drifts
    seen.host.period = []
    seen.device = type("Times", (), {"samples": {"pair_s": early + late}})()
    assert seen.drifted is drifts, "a GPU's by its spans"


# -- the warm-up -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("late", "steady"), [(1.019, True), (1.021, False), (0.981, True), (0.979, False)])
def test_warming_up_ends_when_three_calls_take_as_long_as_the_three_before(late: float, steady: bool) -> None:
    assert sampler._steady([9.0] + [1.0] * 3 + [late] * 3) is steady


def test_a_warm_up_lasts_until_calls_are_steady_or_a_third_of_the_budget_is_spent(clock: Clock) -> None:
    calls = count()
    run = Sampler(Plan(lambda: clock.go_on(1e-4 * 1.1 ** max(0, 20 - next(calls))), "cpu", "hot", 0.2))
    run.warm_up()
    assert 23 <= next(calls) <= 27 and run.readings.call_s == pytest.approx(1e-4)
    draw = Random(5)
    run = Sampler(Plan(lambda: clock.go_on(1e-4 * draw.choice((1, 3))), "cpu", "hot", 0.2))
    start_ns = clock.now_ns
    run.warm_up()
    assert (clock.now_ns - start_ns) * 1e-9 <= 0.3 * 0.2 + 3e-3
    assert not run.readings.host.latency and not run.readings.host.period, "they are no samples"


@pytest.mark.parametrize(("free_share", "stopped"), [(0.9, True), (1.1, False)])
def test_a_function_that_keeps_memory_is_stopped_if_the_calls_to_come_need_more_than_is_free(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, free_share: float, stopped: bool
) -> None:
    kept: list[int] = []
    monkeypatch.setattr(sampler, "used_bytes", lambda place: sum(kept))
    calls = 4 * 0.2 / 1e-3
    monkeypatch.setattr(sampler, "free_bytes", lambda place: free_share * calls * 1000)

    def keeps() -> None:
        kept.append(1000 + 500 * (len(kept) == 2))  # the least growth is the call's own
        clock.go_on(1e-3)

    if stopped:
        with pytest.raises(
            DeviceMemoryError, match=r"fn keeps 1 kB more at each call; about 800 calls would need 800 kB"
        ):
            measure(keeps, device="cpu")
        assert len(kept) == 5
    else:
        measure(keeps, device="cpu")


def test_a_function_that_keeps_nothing_or_is_called_once_is_not_stopped(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "free_bytes", lambda place: 0)
    used = cycle((5, 5, 9, 9))
    monkeypatch.setattr(sampler, "used_bytes", lambda place: next(used))
    measure(takes(clock, 1e-3), device="cpu", budget_s=0.01)
    grown = count()
    monkeypatch.setattr(sampler, "used_bytes", lambda place: next(grown))
    measure(takes(clock, 0.011), device="cpu", budget_s=0.01)
    with pytest.raises(DeviceMemoryError):
        measure(takes(clock, 0.009), device="cpu", budget_s=0.01)


# -- a run-up in front of each round -----------------------------------------------------------------------------------


def test_a_function_runs_unmeasured_before_its_own_samples(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    settle, round_of = Sampler.settle, HostTimes.round

    def run_up(run: Sampler) -> None:
        order.append(f"settle {run.plan.fn()}")
        settle(run)

    def sample(times: HostTimes, slice_s: float) -> None:
        order.append(f"sample {times.call()}")
        round_of(times, slice_s)

    monkeypatch.setattr(Sampler, "settle", run_up)
    monkeypatch.setattr(HostTimes, "round", sample)
    plans = [Plan(lambda name=name: (clock.go_on(1e-4), name)[1], "cpu", "hot", 0.02, 0.005) for name in ("a", "b")]
    interleave([*map(Sampler, plans)])
    assert order[:4] == ["settle a", "sample a", "settle b", "sample b"]
    assert all(order[i + 1] == order[i].replace("settle", "sample") for i in range(0, len(order), 2))


def test_a_run_up_lasts_until_the_clock_is_its_own_again(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    run = Sampler(Plan(lambda: (calls.append(1), clock.go_on(1e-3))[1], "cpu", "hot", 0.05, 0.01))
    run.settle()
    assert len(calls) == 10 and not run.readings.host.period and not run.readings.host.latency, "they are no samples"
    for steady_at, run_ups in ((3, 3), (99, 4)):
        asked, calls[:] = [], []
        monkeypatch.setattr(Sampler, "_clock_is_steady", lambda run: asked.append(1) or len(asked) == steady_at)  # noqa: B023
        run.settle()
        assert (len(asked), len(calls)) == (run_ups, 10 * run_ups), "a clock that never settles is not waited for"
    calls[:] = []
    Sampler(Plan(lambda: calls.append(1), "cpu", "hot", 0.05)).settle()
    assert not calls, "without a run-up nothing runs"


def test_samples_are_spent_in_slices_and_the_run_up_is_not_in_them(clock: Clock) -> None:
    for settle_s, slices in ((0.0, 8), (0.5, 2)):
        call = takes(clock, 0.2 / slices / 200)  # fifty are a quarter of a slice
        run = Sampler(Plan(call, "cpu", "hot", 0.2, settle_s))
        run.warm_up()
        before_ns = clock.now_ns
        run.round()
        seen = run.readings
        assert seen.rounds == 1 and seen.spent_s == pytest.approx((1 / 4 + 1 / 8) * 0.2 / slices, rel=0.03)
        assert (clock.now_ns - before_ns) * 1e-9 == pytest.approx(seen.spent_s + settle_s, rel=1e-2)


# -- flags -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("idle", "others", "said"), [(0.05, 0.9, True), (0.5, 0.9, False), (0.05, 0.05, False), (0.09, 0.11, True)]
)
def test_a_cpu_that_other_programs_keep_busy_is_told(clock: Clock, idle: float, others: float, said: bool) -> None:
    clock.idle, clock.others = idle, others
    found = measure(takes(clock, 1e-3), device="cpu", budget_s=0.01)
    assert ("busy-cpu" in found.flags) == ("busy-cpu" in str(found)) == said
    assert not crowded((0.0, 0.0, 0.0), (1.0, 0.1, 0.9)) and not crowded((0.0, 0.0, 0.0), (1.0, 0.05, 0.1))


def test_the_seconds_of_the_cpu_are_those_of_a_core_and_others_are_what_is_not_ours(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of user, nice, system, idle, waiting, interrupts (two), stolen; guests' are in the user's already."""
    monkeypatch.undo()  # the real function
    times = namedtuple("times", "user nice system idle iowait irq softirq steal guest guest_nice")
    monkeypatch.setattr("psutil.cpu_times", lambda: times(10.0, 1.0, 2.0, 30.0, 4.0, 0.5, 0.25, 0.25, 7.0, 7.0))
    monkeypatch.setattr("psutil.cpu_count", lambda: 4)
    monkeypatch.setattr("os.times", lambda: SimpleNamespace(user=3.0, system=0.5))
    assert sampler.cpu_seconds()[1:] == (8.5, 10.5)
    monkeypatch.setattr("psutil.cpu_count", lambda: None)
    assert sampler.cpu_seconds()[1] == 34.0


@pytest.mark.parametrize("when", [0, 3, 40])
def test_a_nan_is_flagged_if_a_warm_up_call_has_one(clock: Clock, when: int) -> None:
    calls = count()

    def sometimes() -> float:
        clock.go_on(1e-3 * (1 + next(calls) % 2))  # never steady: the warm-up takes its whole share
        return float("nan")

    assert measure(sometimes, device="cpu", budget_s=0.01 + when * 1e-3).flags == ("nan",)


def test_a_function_whose_call_runs_nothing_of_it_is_refused(clock: Clock) -> None:
    def later() -> Any:
        yield 1

    with pytest.raises(ValueError, match="generator"):
        measure(lambda: later(), device="cpu")
