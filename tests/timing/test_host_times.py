"""The host's three times on a clock that is played: how many calls a loop has, and what is taken off."""

from itertools import pairwise
from random import Random

import pytest
from played_clock import Clock, PlayedQueue, play

from brrr.core.measurement import median
from brrr.timing import host_times, naive
from brrr.timing.host_times import HostTimes, clock_tick_s


def of_queue(queue: PlayedQueue, work_s: float) -> HostTimes:
    return HostTimes(lambda: queue.submit(work_s), queue.synchronize)


def test_one_call_is_timed_from_an_idle_device_to_its_end(queue: PlayedQueue) -> None:
    times = HostTimes(lambda: queue.submit(1e-3) or 7, queue.synchronize)
    queue.submit(0.5)
    result, host_s, call_s = times.one()
    assert result == 7 and (host_s, call_s) == (pytest.approx(1e-5), pytest.approx(1.01e-3))
    assert (times.host, times.latency, times.period) == ([], [], [])


def test_issuing_is_seen_behind_another_call(clock: Clock) -> None:
    queue, costs = PlayedQueue(clock), [0.3, 1e-5]

    def call() -> None:
        clock.go_on(costs.pop(0))  # after a long wait the first issue is slow
        queue.submit(2.0)

    assert HostTimes(call, queue.synchronize).issuing_s() == pytest.approx(1e-5)
    assert clock.now_ns >= 4e9, "it waited for both calls"


def test_a_round_takes_at_least_one_sample_of_each_and_the_first_loop_is_short(clock: Clock) -> None:
    """Before there is a loop, a call in it is taken for the dearer of its issuing and a quarter of its latency."""
    times, plain = of_queue(PlayedQueue(clock, 1e-5), 1.0), HostTimes(lambda: clock.go_on(1.0))
    for each in (times, plain):
        each.round(1e-6)
    assert [len(each) for each in (times.host, times.latency, times.period, times.loops)] == [1, 1, 1, 1]
    assert plain.host == plain.latency == plain.period == [pytest.approx(1.0)] and plain.loops == [1]
    hosts = of_queue(PlayedQueue(clock, 1e-3), 1e-5)
    hosts.round(0.08)
    assert hosts.loops == [10]


def test_a_slice_is_dealt_out_to_the_three_times(queue: PlayedQueue, clock: Clock) -> None:
    """A quarter for single calls, at most fifty of them, a quarter for issuing, half at most for the loop."""
    times, events = of_queue(queue, 1e-3), [0]
    for sample in ("_sample_latency", "_sample_host", "_sample_period"):
        took = getattr(times, sample)
        setattr(times, sample, lambda slice_s, took=took: (took(slice_s), events.append(clock.now_ns))[0])
    times.round(0.12)
    latency_s, host_s, period_s = (1e-9 * (after - before) for before, after in pairwise(events))
    assert latency_s == pytest.approx(0.03, abs=1.1e-3) and host_s == pytest.approx(0.03, abs=9e-3)
    times.round(0.12)
    period_s = 1e-9 * (events[-1] - events[-2])
    assert 0.014 <= period_s <= 0.06
    times.forget()
    times.round(1.0)
    assert len(times.latency) == 50
    times.forget()
    assert (times.host, times.period, times.latency, times.loops) == ([], [], [], [])
    clock.now_ns = 0
    full = HostTimes(lambda: clock.go_on(1e-3))
    full.round(0.04)
    assert len(full.latency) == 10, "a quarter of 40 ms is full"


def test_a_loop_has_an_odd_and_an_even_number_of_calls_in_turn(queue: PlayedQueue) -> None:
    times = of_queue(queue, 1e-4)
    for _ in range(6):
        times.round(0.02)
    assert [n - times.loops[0] for n in times.loops[2::2]] == [times.loops[2] - times.loops[0]] * 2
    assert all(b - a == 1 for a, b in zip(times.loops[2::2], times.loops[3::2], strict=True))
    kinds = [n % 2 for n in times.loops]
    assert kinds[0::2] != kinds[1::2] and len({*kinds[2::2]}) == 1


@pytest.mark.parametrize(("ends_s", "call_s"), [(1e-5, 1e-6), (3e-4, 1e-4), (2e-3, 1.7e-4)])
def test_a_loop_s_ends_weigh_little_and_no_more_calls_are_made_for_it(
    clock: Clock, ends_s: float, call_s: float
) -> None:
    """Ends of a loop: the wait costs `ends_s` whatever it waits for."""
    times = HostTimes(lambda: clock.go_on(call_s), lambda: clock.go_on(ends_s))
    for _ in range(3):
        times.round(400 * ends_s)
    weight = ends_s / (times.loops[2] * call_s)
    assert weight == pytest.approx(0.005, rel=0.02), (times.loops, times.period)


def test_a_loop_grows_no_longer_than_its_slice_nor_shorter_than_a_quarter_of_it(clock: Clock) -> None:
    times = HostTimes(lambda: clock.go_on(1e-4), lambda: clock.go_on(1e-2))
    times.round(0.1)
    times.round(0.1)
    assert times.loops[1] * 1e-4 <= 0.05 + 1e-4, "its ends would take more calls than the slice has room for"
    free = HostTimes(lambda: clock.go_on(1e-4))
    free.round(0.1)
    assert free.loops == [125], "a quarter of its half"
    short = HostTimes(lambda: clock.go_on(1e-9))
    short.round(0.1)
    assert short.loops == [20000], "at most"
    one = HostTimes(lambda: clock.go_on(0.1))
    one.round(0.3)
    assert one.loops == [1], "one call takes most of its half"
    quick = HostTimes(lambda: clock.go_on(0.011))
    quick.round(0.1)
    assert quick.loops == [3], "three where they fit"


def test_what_reading_the_clock_costs_is_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = play(Clock(reading_s=1e-7), monkeypatch)
    assert host_times.clock_cost_s() == pytest.approx(1e-7)
    for call_s in (3e-7, 1.9e-6, 5e-6):
        times = HostTimes(lambda: clock.go_on(call_s))  # noqa: B023
        for _ in range(2):
            times.round(0.01)
        assert times.latency[-1] == pytest.approx(call_s) and times.period[-1] == pytest.approx(call_s)
        queue = PlayedQueue(clock, call_s)
        behind = of_queue(queue, 1e-6)
        behind.round(0.01)
        assert behind.host[-1] == pytest.approx(call_s)
    nothing = HostTimes(lambda: None)
    nothing.round(0.001)
    assert nothing.latency[-1] == 0.0, "never less than nothing"


@pytest.mark.parametrize(("call_s", "at_once"), [(1e-7, 200), (1.9e-6, 11), (2.1e-6, 1), (1e-3, 1)])
def test_short_calls_are_timed_several_at_once(clock: Clock, call_s: float, at_once: int) -> None:
    calls = [0]

    def call() -> None:
        calls[0] += 1
        clock.go_on(call_s)

    times = HostTimes(call)
    times._sample_latency(0.001)
    before = calls[0]
    assert times._one_latency() > 0
    assert calls[0] - before == at_once
    queued = HostTimes(call, lambda: None)
    queued._sample_latency(0.0)
    before = calls[0]
    queued._one_latency()
    assert calls[0] - before == 1, "on a device one call alone is what a single caller waits for"


def test_an_interval_is_no_narrower_than_the_clock_s_step(clock: Clock) -> None:
    times = HostTimes(lambda: clock.go_on(1e-3))
    times.round(0.1)
    found = times.estimate(times.latency)
    assert found is not None and found.high - found.low == pytest.approx(max(1e-9, clock_tick_s()))
    assert times.estimate([]) is None


# -- calls that take turns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("warm", "loops", "uneven"),
    [
        ([1, 1, 2, 2], [2, 3], True),
        ([1, 1, 2], [2, 3], False),  # too few to tell
        ([1, 1, 1, 2], [2, 3], False),  # met once: another program's doing
        ([1, 1, 1.49, 1.49], [2, 3], False),
        ([1, 1, 1.51, 1.51], [2, 3], True),
        ([1, 1, 2, 2, 2.9, 2.9], [2, 3], True),
        ([1, 1, 2, 2, 3.1, 3.1], [2, 3], False),  # three kinds
        ([1, 1, 2, 2, 3, 3], [2, 3], False),
        ([1, 1, 1.8, 2.9, 2.9, 1.8], [2, 3], False),  # they go up and up
        ([1, 1, 2, 2], [15, 3], True),
        ([1, 1, 2, 2], [16, 3], False),  # a loop of so many evens it out
        ([1] * 18 + [2] * 2, [2], True),
        ([1] * 19 + [2] * 2, [2], False),  # rarer than a tenth
        ([0, 0, 2, 2], [2], False),
        ([], [], False),
    ],
)
def test_calls_take_turns_where_both_kinds_are_met_again(warm: list[float], loops: list[int], uneven: bool) -> None:
    times = HostTimes(lambda: None)
    times.warm, times.loops = [1.0 * each for each in warm], loops
    assert times.uneven is uneven
    times.latency, times.warm = times.warm[1:], times.warm[:1]
    assert times.uneven is uneven, "warm-up calls tell as much as others"


@pytest.mark.parametrize(
    ("latency", "loops", "wanted"),
    [([1.0, 1.6], [2], True), ([1.0, 1.4], [2], False), ([1.0, 1.6], [21], True), ([1.0, 1.6], [22], False),
     ([], [], False)],
)  # fmt: skip
def test_few_calls_that_differ_want_more(latency: list[float], loops: list[int], wanted: bool) -> None:
    times = HostTimes(lambda: None)
    times.latency, times.loops = latency, loops
    assert times.calls_wanted is wanted


def test_the_mean_of_calls_that_take_turns_has_the_interval_of_their_scatter() -> None:
    draw = Random(6)
    for waits in (None, lambda: None):
        times = HostTimes(lambda: None, waits)
        times.latency = [1.0, 3.0] * 3
        times.loops = [draw.randint(1, 9) for _ in range(8)]
        times.period = [draw.uniform(1.5, 2.5) for _ in times.loops]
        found = times.period_estimate()
        calls = [each for each, n in zip(times.period, times.loops, strict=True) for _ in range(n)]
        calls += times.latency * (waits is None)
        mean = sum(calls) / len(calls)
        spread = sum((each - mean) ** 2 for each in calls) / len(calls)
        off = 2 * (spread / (len(times.loops) + 6 * (waits is None))) ** 0.5
        assert found is not None and found.n == len(calls)
        assert (found.median, found.low, found.high) == pytest.approx((mean, mean - off, mean + off))
    times.loops, times.period = [1, 1], [1.99, 2.0]
    close = times.period_estimate()
    assert close is not None and 1.99 <= close.low <= close.high <= 2.0, "no call was outside"


# -- timers that are wrong in one way each -----------------------------------------------------------------------------


def test_naive_timers_are_wrong_in_the_way_that_their_names_say(clock: Clock) -> None:
    queue = PlayedQueue(clock, 1e-5)
    first = [0.5]

    def call() -> None:
        clock.go_on(first.pop() if first else 0.0)
        queue.submit(1e-3)

    def timed(timer: str, compiled: bool = False) -> tuple[int, float]:
        queue.synchronize()
        first[:] = [] if compiled else [0.5]
        found = getattr(naive, timer)(call, queue.synchronize)
        return len(found), median(found)

    assert timed("no_sync") == (20, pytest.approx(1e-5))
    assert timed("no_warm_up") == (1, pytest.approx(0.50101))
    assert timed("sync_each_call") == (20, pytest.approx(1.01e-3))
