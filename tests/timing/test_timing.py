"""`measure` on a CPU and on the CPU queue: what it returns, what it refuses, and what it flags."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count, cycle, pairwise, repeat
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from brrr.core.errors import DeviceMemoryError, UnavailableError
from brrr.core.measurement import FIELDS, Estimate, Measurement, is_host_bound
from brrr.gpu import probe
from brrr.timing import interleave, measure, measure_together, sampler
from brrr.timing.cpu_queue import CpuQueue
from brrr.timing.host_times import HostTimes
from brrr.timing.sampler import SETTLE_MOST, TURNS_NOTE, Sampler, _steady
from tests.refusals import refused, values

SLEEP_S = 0.002

pytestmark = pytest.mark.timing


@pytest.fixture
def queue() -> Iterator[CpuQueue]:
    with CpuQueue() as made:
        yield made


def sleeper() -> None:
    time.sleep(SLEEP_S)


@pytest.mark.parametrize(("idle", "others", "said"), [(0.05, 0.9, True), (0.5, 0.9, False), (0.05, 0.05, False)])
def test_a_cpu_that_other_programs_keep_busy_is_told(
    idle: float, others: float, said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second reading is a second later; then the cores were idle and ran others for so long."""
    readings = chain([(0.0, 0.0, 0.0)], repeat((1.0, idle, others)))
    monkeypatch.setattr("brrr.timing.sampler.cpu_seconds", lambda: next(readings))
    found = measure(lambda: sorted(range(9)), device="cpu", budget_s=0.01)
    assert ("busy-cpu" in found.flags) == ("busy-cpu" in str(found)) == said


def test_the_seconds_of_the_cpu_pass_and_idle_ones_are_no_more_than_the_clock_s() -> None:
    before = sampler.cpu_seconds()
    time.sleep(0.3)
    passed, idle, others = (now - then for now, then in zip(sampler.cpu_seconds(), before, strict=True))
    assert passed >= 0.3 and -0.05 <= idle <= passed + 0.05 and others >= -0.05


def test_a_cpu_has_three_of_the_six_times() -> None:
    m = measure(sleeper, device="cpu", budget_s=0.1)
    assert [name for name in FIELDS if m.get(name) is not None] == ["host_s", "period_s", "latency_s"]
    for name in ("host_s", "period_s", "latency_s"):
        found = m.get(name)
        assert found is not None and SLEEP_S <= found.low <= found.median <= found.high
    assert m.kernels is None and m.kernel_times_from == "" and m.device


def test_the_queue_is_asynchronous_and_measure_sees_it(queue: CpuQueue) -> None:
    m = measure(lambda: queue.submit(sleeper), device=queue, budget_s=0.2)
    assert m.host_s is not None and m.latency_s is not None and m.period_s is not None
    assert m.host_s.median < SLEEP_S / 4 < SLEEP_S <= m.latency_s.median
    assert m.period_s.median >= SLEEP_S
    assert m.kernel_s is not None and m.kernels == 1
    assert m.kernel_s.median >= SLEEP_S and m.kernel_s.low <= m.latency_s.high  # medians of two rounds may cross
    assert m.device.startswith("CPU queue on ")


def test_a_short_call_is_not_lost_in_the_clock() -> None:
    m = measure(lambda: None, device="cpu", budget_s=0.05)
    assert m.latency_s is not None and 0 < m.latency_s.median < 2e-6


def test_one_slow_call_is_enough() -> None:
    calls: list[int] = []

    def slow() -> None:
        calls.append(1)
        time.sleep(0.06)

    m = measure(slow, device="cpu", budget_s=0.01)
    assert "single-call" in m.flags and len(calls) == 1
    assert m.latency_s is not None and m.latency_s.n == 1 and m.latency_s.median >= 0.06


def test_a_single_slow_call_on_a_queue_still_tells_issuing_from_waiting(queue: CpuQueue) -> None:
    m = measure(lambda: queue.submit(time.sleep, 0.06), device=queue, budget_s=0.01)
    assert "single-call" in m.flags and m.host_s is not None and m.latency_s is not None
    assert m.host_s.median < 0.02 < 0.06 <= m.latency_s.median


def test_a_first_call_that_compiles_is_no_slow_call(queue: CpuQueue) -> None:
    first = [0.06, 0.06]

    def compiles() -> None:
        queue.submit(time.sleep, first.pop() if first else 0.0)

    m = measure(compiles, device=queue, budget_s=0.01)
    assert "single-call" in m.flags, "the second call was slow, too"
    first[:] = [0.06]
    run = Sampler(compiles, queue, "hot", 0.01)
    assert run.checked(lambda _: 0.0) == 0
    again = interleave([run])[0]
    assert "single-call" not in again.flags and again.latency_s is not None and again.latency_s.n > 1


def test_a_check_already_made_is_not_made_again_for_a_slow_call() -> None:
    from brrr.counting.cost import Cost
    from brrr_course.nouns.experiment import Workload

    calls: list[int] = []

    def slow() -> int:
        calls.append(1)
        time.sleep(0.06)
        return 7

    run = Sampler(slow, "cpu", "hot", 0.01)
    assert run.checked(Workload(slow, Cost(1, 1), lambda result: abs(result - 7), 0.0).verified) == 0
    assert "single-call" in interleave([run])[0].flags
    assert len(calls) == 1


@pytest.fixture
def played_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that stands still but for the seconds that it is told to go on."""
    now = [0]
    clock = SimpleNamespace(
        perf_counter=lambda: now[0] * 1e-9, perf_counter_ns=lambda: now[0], get_clock_info=time.get_clock_info
    )
    monkeypatch.setattr("brrr.timing.host_times.time", clock)
    monkeypatch.setattr("brrr.timing.sampler.time", clock)
    monkeypatch.setattr("brrr.timing.host_times.clock_cost_s", lambda: 0.0)

    def go_on(seconds: float) -> None:
        now[0] += round(seconds * 1e9)

    return go_on


@pytest.mark.parametrize("budget_s", [0.1, 0.2, 1.0])
@pytest.mark.parametrize("turn", [(10, 10, 120), (10, 120), (120, 120, 10), (20, 50, 50, 50), (30, 10, 30, 10, 10)])
def test_calls_that_take_turns_at_being_long_take_their_mean_in_a_loop(
    turn: Sequence[int], budget_s: float, played_clock: Callable[[float], None]
) -> None:
    turns = cycle(turn)
    m = measure(lambda: played_clock(next(turns) * 1e-3), device="cpu", budget_s=budget_s)
    assert m.period_s is not None and m.period_s.low <= sum(turn) / len(turn) * 1e-3 <= m.period_s.high
    assert m.period_s.median == pytest.approx(sum(turn) / len(turn) * 1e-3, rel=0.15 if budget_s > 0.1 else 0.25)
    assert m.notes == (TURNS_NOTE,) or budget_s < sum(turn) * 1e-3, "a turn takes longer than the budget"


@pytest.mark.parametrize("call_s", [0.02, 0.001, 1e-5])
def test_a_call_that_is_disturbed_now_and_then_takes_its_median(
    call_s: float, played_clock: Callable[[float], None]
) -> None:
    draw, calls = Random(3), count()
    m = measure(lambda: played_clock(call_s * (draw.uniform(3, 30) if next(calls) % 17 == 9 else 1)), device="cpu")
    assert m.latency_s is not None and m.latency_s.median == pytest.approx(call_s) and not m.notes


def test_interleaved_functions_take_turns() -> None:
    order: list[str] = []
    functions = [lambda: (order.append("a"), sleeper()), lambda: (order.append("b"), sleeper())]
    first, second = measure_together(functions, device="cpu", budget_s=0.1)
    switches = sum(x != y for x, y in pairwise(order))
    assert switches >= 5, "all of one function's samples came before the other's"
    assert first.period_s is not None and second.period_s is not None


def test_a_function_runs_unmeasured_before_its_own_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    settle, round_of = Sampler.settle, HostTimes.round

    def run_up(run: Sampler) -> None:
        order.append(f"settle {run.fn()}")
        settle(run)

    def sample(times: HostTimes, slice_s: float) -> None:
        order.append(f"sample {times.call()}")
        round_of(times, slice_s)

    monkeypatch.setattr(Sampler, "settle", run_up)
    monkeypatch.setattr(HostTimes, "round", sample)
    runs = [Sampler(lambda: "a", "cpu", "hot", 0.02, 0.005), Sampler(lambda: "b", "cpu", "hot", 0.02, 0.005)]
    interleave(runs)
    assert order[:4] == ["settle a", "sample a", "settle b", "sample b"]
    assert all(order[i + 1] == order[i].replace("settle", "sample") for i in range(0, len(order), 2))


def test_a_run_up_lasts_until_the_clock_is_its_own_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []
    run = Sampler(lambda: calls.append(time.perf_counter()), "cpu", "hot", 0.05, 0.01)
    start = time.perf_counter()
    run.settle()
    assert time.perf_counter() - start >= 0.01 and calls
    assert not run.host.period and not run.host.latency, "they are no samples"
    asked: list[int] = []
    monkeypatch.setattr(Sampler, "_clock_is_steady", lambda run: asked.append(1) or len(asked) == 3)
    run.settle()
    assert len(asked) == 3
    monkeypatch.setattr(Sampler, "_clock_is_steady", lambda run: asked.append(1) or False)
    run.settle()
    assert len(asked) == 3 + SETTLE_MOST, "a clock that never settles is not waited for"
    still: list[int] = []
    Sampler(lambda: still.append(1), "cpu", "hot", 0.05).settle()
    assert not still, "without a run-up nothing runs"


def test_power_and_kernels_names_are_noted_behind_a_run_up_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brrr.timing.device_times.finish_on_device", lambda *_, **__: (1, "cupti", 1.9e9))
    monkeypatch.setattr(probe, "power_w", lambda: 612.5)
    monkeypatch.setattr(Sampler, "settle", lambda run: None)

    def finished(settle_s: float, device_times: Any) -> Measurement:
        run = Sampler(lambda: None, "cpu", "hot", 0.01, settle_s)
        run.device_times = device_times
        return run.finish()

    there = SimpleNamespace(launched=("gemm 2x1x1 of 32",), span=[], samples={})
    assert (finished(1.0, there).power_w, finished(1.0, there).launched) == (612.5, ("gemm 2x1x1 of 32",))
    assert finished(0.9, there).power_w is None, "the mean of a second would be another call's, too"
    assert (finished(1.0, None).power_w, finished(1.0, None).launched) == (None, ())


@pytest.mark.parametrize(("argument", "value"), values({
    "fn": [3, lambda x: x], "budget_s": [0, -1, math.inf, math.nan, "fast", True], "cache": ["warm", "cold"],
    "device": ["tpu"],
}))  # fmt: skip
def test_arguments_that_cannot_be_used(argument: str, value: Any) -> None:
    call: dict[str, Any] = {"fn": sleeper, "device": "cpu", "budget_s": 0.01, argument: value}
    with refused(argument):
        measure(call.pop("fn"), **call)


def test_a_gpu_that_is_not_there_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from brrr.gpu import device

    monkeypatch.setattr(device, "cuda_problem", lambda: "the driver is on holiday")
    with pytest.raises(UnavailableError, match=r"^measure: device is 'cuda', .*the driver is on holiday"):
        measure(sleeper, device="cuda")


def test_what_the_function_raises_passes_through_and_nothing_hangs(queue: CpuQueue) -> None:
    def broken() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        measure(broken, device="cpu", budget_s=0.01)
    with pytest.raises(KeyError, match="mine"):
        measure(lambda: queue.submit(broken), device=queue, budget_s=0.01)
    assert measure(lambda: queue.submit(sleeper), device=queue, budget_s=0.02).latency_s is not None


@pytest.mark.parametrize("bad", [lambda: float("nan"), lambda: np.array([1.0, np.nan])])
def test_nan_is_flagged(bad: Callable[[], Any]) -> None:
    assert "nan" in measure(bad, device="cpu", budget_s=0.01).flags
    assert "nan" not in measure(lambda: np.ones(3), device="cpu", budget_s=0.01).flags


def test_a_function_that_keeps_memory_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    from brrr.timing import sampler

    kept: list[bytearray] = []
    monkeypatch.setattr(sampler, "free_bytes", lambda place: 50_000_000)
    monkeypatch.setattr(sampler, "used_bytes", lambda place: sum(map(len, kept)))  # a process's own size may lag
    with pytest.raises(DeviceMemoryError, match=r"keeps .*MB more at each call"):
        measure(lambda: kept.append(bytearray(b"x" * 4_000_000)), device="cpu", budget_s=0.5)
    assert len(kept) < 20, "it must be found out after a few calls"


def test_warming_up_ends_when_three_calls_take_as_long_as_the_three_before() -> None:
    assert _steady([9.0, 1.0, 1.0, 1.0, 1.015, 1.015, 1.015])
    assert not _steady([1.0] * 3 + [1.025] * 3) and not _steady([1.025] * 3 + [1.0] * 3)


def test_a_drift_is_measured_again_then_flagged() -> None:
    run = Sampler(sleeper, "cpu", "hot", 0.05)
    for early, late in ((1.0, 2.0), (2.0, 1.0)):  # a clock may fall, or rise
        run.host.period = [early] * 10 + [late] * 10
        assert run.drifted
    run.host.period = [1.0, 1.01] * 10
    assert not run.drifted
    for few, found in (([1.0] * 3 + [1.2] * 3, True), ([1.2] * 4 + [1.0] * 4, True), ([1.0] * 3 + [1.05] * 3, False)):
        run.host.period = few
        assert run.drifted is found
    run.host.period = [1.0, 1.0, 1.3, 1.2, 1.2, 1.2]  # the halves overlap
    assert not run.drifted
    run.host.period = [1.0, 2.0]
    assert not run.drifted
    run.host.period = [1.0] * 10 + [2.0] * 10
    assert run.start_again() and not run.drifted and run.rounds == 0


def test_details_tell_what_there_is_and_no_more() -> None:
    plain = Measurement(device="a CPU").details()
    assert (
        "a CPU\n" in plain and (plain + "\n").endswith("\nhot cache\n") and "flags" not in plain and "None" not in plain
    )
    full = Measurement(device="a GPU", kernels=2, sm_clock_hz=1.98e9, flags=("host-bound",)).details()
    assert "hot cache, SM clock 1.98 GHz, kernels 2" in full and "flags: host-bound" in full


@pytest.mark.parametrize(
    ("host", "span", "period", "bound"),
    [(11, 1, 11, True), (2, 10, 10, False), (10, 10, 10.9, False), (9.8, 10, 11, False), (9.95, 10, 11, True)],
)
def test_host_bound_is_the_formula(host: float, span: float, period: float, bound: bool) -> None:
    at = [Estimate(x, x, x, 9) for x in (host, span, period)]
    assert is_host_bound(*at) is bound
    m = Measurement(host_s=at[0], span_s=at[1], period_s=at[2])
    assert m.host_bound is bound and ("host-bound" in str(m)) is bound
    assert is_host_bound(at[0], None, at[2]) is None
