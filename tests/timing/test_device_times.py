"""`measure` on a GPU that is played: what its gate, events, profiler and graphs make of times that are known."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from played_clock import Clock, middle
from played_gpu import Gpu, forget

from brrr.core.errors import BrrrError
from brrr.core.measurement import Estimate, median
from brrr.timing import activity, calibration, device_times, gate, graph_times, interleave, measure, naive
from brrr.timing.activity import record_activity, waits
from brrr.timing.calibration import Calibration, pairs_s
from brrr.timing.device_times import DeviceTimes, contradicted, reconciled
from brrr.timing.gate import Gate, sm_clock_hz
from brrr.timing.graph_times import GraphShare, graph_share
from brrr.timing.plan import Plan
from brrr.timing.sampler import Sampler

TICK_S = 40e-9


def chain(gpu: Gpu, kernels: Sequence[float]) -> Callable[[], None]:
    def run() -> None:
        for seconds in kernels:
            gpu.kernel(seconds)

    return run


def times_of(call: Callable[[], Any], host_s: float) -> DeviceTimes:
    return DeviceTimes(Plan(call, "cuda", "hot", 0.2), host_s)


CHAINS = [(5e-6,), (2e-3,), (3e-6,) * 7, (1e-6, 40e-6, 2e-6), (2e-6,) * 50]


@pytest.mark.parametrize(
    ("kernels", "issue_s"), [*((each, 2e-6) for each in CHAINS), ((20e-6,), 40e-6), ((20e-6,), 2e-6)]
)
def test_the_six_times_are_what_they_say(gpu: Gpu, kernels: tuple[float, ...], issue_s: float) -> None:
    gpu.issue_s = issue_s
    m = measure(chain(gpu, kernels), device="cuda")
    n, work_s = len(kernels), sum(kernels)
    span_s = work_s + (n - 1) * gpu.gap_s
    assert m.kernels == n and m.kernel_times_from == "cupti" and m.sm_clock_hz == pytest.approx(gpu.clock_hz)
    assert middle(m, "host_s") == pytest.approx(n * gpu.issue_s)
    assert middle(m, "kernel_s") == pytest.approx(work_s, abs=TICK_S * n)
    assert middle(m, "busy_s") == pytest.approx(work_s, abs=TICK_S * n)
    assert middle(m, "span_s") == pytest.approx(span_s, abs=TICK_S)
    loop_s = max(n * gpu.issue_s, work_s + n * gpu.gap_s)
    assert 0.995 * loop_s <= middle(m, "period_s") <= 1.01 * loop_s
    assert middle(m, "latency_s") >= max(n * gpu.issue_s, span_s)
    host_bound = loop_s >= 1.1 * span_s and n * gpu.issue_s >= 0.9 * loop_s
    assert m.flags == ("host-bound",) * host_bound and m.device == "a played GPU" and m.cache == "hot"
    assert set(m.samples) == {"host_s", "period_s", "latency_s", "pair_s", "kernel_s", "busy_s"}
    assert m.peak_bytes is m.power_w is m.estimated_s is None and m.notes == m.launched == ()


def test_the_budget_is_shared_by_the_host_and_the_device(gpu: Gpu, clock: Clock) -> None:
    """Of a slice three fifths are the host's times', two fifths the span's; it ends early where all agree."""
    run = Sampler(Plan(chain(gpu, [1e-3]), "cuda", "hot", 0.8))
    run.warm_up()
    asked: list[tuple[str, float]] = []
    run.readings.host.round = lambda slice_s: asked.append(("host", slice_s))  # type: ignore[method-assign]
    run.readings.device.round = lambda slice_s, call_s: asked.append(("span", slice_s))
    run.round()
    assert asked == [("host", pytest.approx(0.06)), ("span", pytest.approx(0.04))]
    before_ns = clock.now_ns
    measure(chain(gpu, [1e-3]), device="cuda", budget_s=0.8)
    assert (clock.now_ns - before_ns) * 1e-9 < 2 * 0.8


def test_event_pairs_fit_into_their_slice_and_into_the_queue(gpu: Gpu) -> None:
    taken: list[int] = []
    for call_s, pairs in ((1e-6, 16), (1e-3, 10), (1.0, 1)):
        times = times_of(chain(gpu, [call_s]), 1e-6)
        times.round(0.01, call_s)
        taken.append(len(times.span))
        assert len(times.span) == pairs
    many = times_of(chain(gpu, [1e-6] * 200), 400e-6)
    many.round(0.1, 1e-4)
    assert many.held and len(many.span) == 4, "16 times 200 kernels overfill the queue, 4 times do not"
    many.round(0.1, 1e-4)
    assert len(many.span) == 8
    full = times_of(chain(gpu, [1e-6] * 1100), 2e-3)
    full.round(1.0, 1e-4)
    assert not full.held and not full.span
    full.round(1.0, 1e-4)
    assert not full.span, "it is not tried again"


def test_a_function_that_waits_has_no_span_and_is_told(gpu: Gpu) -> None:
    m = measure(lambda: (gpu.kernel(5e-6), gpu.synchronize()), device="cuda")
    assert m.flags == ("syncs",) and m.span_s is None and m.kernels == 1
    assert middle(m, "kernel_s") == pytest.approx(5e-6, abs=TICK_S)
    waited = "the function waits for the device (cudaStreamSynchronize), so the gate opened by itself"
    assert m.notes == (f"no span: {waited}",)
    gpu.profiles = False
    again = measure(lambda: (gpu.kernel(5e-6), gpu.synchronize()), device="cuda")
    assert set(again.flags) == {"syncs", "no-profiler"} and again.kernel_s is None and again.kernels is None
    assert any("a wait that CUPTI does not name" in note for note in again.notes)


def test_a_wait_is_the_function_s_only_where_each_call_has_one(gpu: Gpu) -> None:
    assert waits(["cudaLaunchKernel", "cudaStreamSynchronize"]) == ["cudaStreamSynchronize"]
    left = [3]

    def sometimes() -> None:
        gpu.kernel(5e-6)
        left[0] -= 1
        if left[0] % 2:
            gpu.synchronize()

    times = times_of(sometimes, 1e-6)
    times.held = False
    times.profile(1e-5, 1.0)
    assert times.host_waits == [] and times.kernels == 1
    waiting = times_of(lambda: (gpu.kernel(5e-6), gpu.synchronize()), 1e-6)
    waiting.held = False
    waiting.profile(1e-5, 1.0)
    assert waiting.host_waits == ["cudaStreamSynchronize"] and len(waiting.per_call) == 25
    few = times_of(chain(gpu, [1.0]), 1e-6)
    few.profile(1.0, 0.1)
    assert len(few.per_call) == 3
    some = times_of(chain(gpu, [1e-3]), 1e-6)
    some.profile(1e-3, 0.0101)
    assert len(some.per_call) == 10


@pytest.mark.parametrize("kernels", [901, 1100])
@pytest.mark.parametrize("profiles", [True, False])
def test_more_launches_than_the_queue_holds_is_no_wait(gpu: Gpu, kernels: int, profiles: bool) -> None:
    gpu.depth, gpu.profiles = 900, profiles
    m = measure(chain(gpu, [1e-6] * kernels), device="cuda", budget_s=0.01)
    assert "queue-full" in m.flags and "syncs" not in m.flags and m.kernels == kernels and m.span_s is None
    assert any(f"a call launches {kernels} kernels" in note for note in m.notes)


def test_a_gate_holds_what_is_issued_and_gives_up_on_what_waits(gpu: Gpu, clock: Clock) -> None:
    held = Gate()
    assert held.run(chain(gpu, [1e-6]), 0.5) and not held.gave_up
    assert not held.run(gpu.synchronize, 0.02) and held.gave_up
    assert held.run(chain(gpu, [1e-6]), 0.5), "the next one holds again"
    before_ns = clock.now_ns
    with pytest.raises(KeyError):
        held.run(lambda: {}["mine"], 100.0)
    assert clock.now_ns - before_ns < 1e9, "an error opens it"
    assert not held.run(lambda: clock.go_on(0.03), 0.02) and held.run(lambda: clock.go_on(0.03), 0.04)
    assert [args[3] for name, _, _, args in gpu.launched if name == "brrr_gate"][:2] == [5 * 10**8, 2 * 10**7]
    assert gate.gate_of(0) is gate.gate_of(0)


def test_a_gate_waits_ten_times_as_long_as_issuing_takes_and_at_least_a_fiftieth_of_a_second(gpu: Gpu) -> None:
    for host_s, timeout_s in ((1e-6, 0.02), (0.01, 1.6)):
        times_of(chain(gpu, [1e-6]), host_s).round(1.0, 1e-6)
        assert [args[3] for name, _, _, args in gpu.launched if name == "brrr_gate"][-1] == round(timeout_s * 1e9)


def test_the_clock_is_the_cycles_over_the_time_of_a_spin(gpu: Gpu) -> None:
    gpu.clock_hz = 1.41e9
    assert sm_clock_hz() == pytest.approx(1.41e9)
    spins = [args[0] for name, _, _, args in gpu.launched if name == "brrr_spin"]
    assert spins == [50_000]


@pytest.mark.parametrize(("moved", "steady"), [(1.019, True), (1.021, False), (0.981, True), (0.979, False)])
def test_a_gpu_s_clock_is_steady_within_two_percent(gpu: Gpu, moved: float, steady: bool) -> None:
    run = Sampler(Plan(chain(gpu, [1e-6]), "cuda", "hot", 0.2))
    assert not run._clock_is_steady(), "it was never asked before"
    assert run._clock_is_steady()
    gpu.clock_hz *= moved
    assert run._clock_is_steady() is steady
    assert Sampler(Plan(lambda: None, "cpu", "hot", 0.2))._clock_is_steady()


# -- behind an emptied cache -------------------------------------------------------------------------------------------


def test_cold_is_behind_an_emptied_cache_and_has_the_device_s_times_alone(gpu: Gpu) -> None:
    """Twice the size of the L2 is written, and as much clean memory read."""
    m = measure(chain(gpu, [10e-6]), device="cuda", cache="cold")
    assert (m.host_s, m.period_s, m.latency_s, m.cache) == (None, None, None, "cold") and m.kernels == 1
    assert middle(m, "kernel_s") == middle(m, "busy_s") == pytest.approx(15e-6, abs=TICK_S)
    assert middle(m, "span_s") == pytest.approx(15e-6, abs=TICK_S)
    assert set(m.samples) == {"pair_s", "kernel_s", "busy_s"}
    words = {name: args[-2] for name, _, _, args in gpu.launched if name.startswith("brrr_evict")}
    assert words == {"brrr_evict_write": 2 * 50_000 // 16, "brrr_evict_read": 2 * 50_000 // 16}
    grids = {(grid, block) for name, grid, block, _ in gpu.launched if name.startswith("brrr_evict")}
    assert grids == {((4 * 132, 1, 1), (512, 1, 1))}
    evict = gate.eviction_of(0)
    assert evict._dirty.nbytes == evict._clean.nbytes == 16 * evict.words
    assert {args[0] for name, _, _, args in gpu.launched if name == "brrr_evict_write"} == {evict._dirty.data_ptr()}
    assert {args[0] for name, _, _, args in gpu.launched if name == "brrr_evict_read"} == {evict._clean.data_ptr()}


def test_a_chain_behind_an_emptied_cache_misses_at_its_head(gpu: Gpu) -> None:
    m = measure(chain(gpu, [10e-6] * 3), device="cuda", cache="cold")
    assert middle(m, "kernel_s") == pytest.approx(35e-6, abs=TICK_S)
    assert middle(m, "span_s") == pytest.approx(35e-6 + 2 * gpu.gap_s, abs=TICK_S)


# -- the calibration ---------------------------------------------------------------------------------------------------


def test_the_surplus_is_what_an_event_pair_shows_beyond_the_yardstick(gpu: Gpu) -> None:
    found = calibration.calibration(0)
    assert found.own_from == "cupti" and found is calibration.calibration(0)
    assert found.own_s == pytest.approx(gpu.yardstick_s, abs=1e-9)
    assert found.cold_own_s == pytest.approx(gpu.cold_yardstick_s, abs=1e-9)
    assert found.surplus_s("hot") == pytest.approx(gpu.lead_s + gpu.drain_s, abs=2e-9)
    assert found.surplus_s("cold") == pytest.approx(gpu.lead_s + gpu.cold_lead_s + gpu.drain_s, abs=2e-9)
    yardsticks = {(grid, block, args[2]) for name, grid, block, args in gpu.launched if name == "brrr_yardstick"}
    assert yardsticks == {((128, 1, 1), (128, 1, 1), 128 * 128)}, "a thread a word of 16 bytes: 256 KiB"


def test_without_a_profiler_the_yardstick_s_own_time_is_the_h200_s(gpu: Gpu) -> None:
    gpu.yardstick_s = 3e-6
    for found in (calibration.calibration(0, profiler=False),):
        assert (found.own_s, found.cold_own_s, found.own_from) == (0.99e-6, 1.485e-6, "assumed")
    gpu.profiles = False
    assert calibration.calibration(0).own_from == "assumed"
    forget()
    gpu.profiles, gpu.empty_sessions = True, 4
    assert calibration.calibration(0).own_from == "assumed"


def test_gaps_are_measured_on_chains_of_yardsticks(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    found = calibration.calibration(0)
    for kernels in (2, 10, 40):
        gaps_s = calibration.stream_gaps_s(found, kernels)
        assert gaps_s == pytest.approx((kernels - 1) * gpu.gap_s, abs=5e-9)
        penalty_s = calibration.cold_penalty_s(0, found, kernels)
        assert penalty_s == pytest.approx(gpu.cold_lead_s, abs=5e-9)
    monkeypatch.setattr(calibration, "QUEUE_DEPTH", 90)
    capped = calibration.stream_gaps_s(found, 5000)
    assert capped == pytest.approx(89 * gpu.gap_s, abs=5e-9), "no more than fit into the queue"
    assert calibration.cold_penalty_s(0, found, 5000) == pytest.approx(gpu.cold_lead_s, abs=5e-9)


@pytest.mark.parametrize("first", [0, 5, 8])
def test_the_gap_in_a_graph_is_that_of_settled_graphs(gpu: Gpu, first: int) -> None:
    """A process's first graphs run with smaller gaps than all later ones."""
    gpu.first_graphs = first
    assert calibration.graph_gap_s(0, calibration.calibration(0)) == pytest.approx(gpu.graph_gap_s, abs=1e-9)
    made = gpu.graphs
    calibration.graph_gap_s(0, calibration.calibration(0))
    assert gpu.graphs - made == 2 * 3, "settled once for the process; two shares of three graphs each"


def test_graphs_that_never_settle_are_not_waited_for(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[int] = []
    never = lambda *_: shares.append(1) or GraphShare(1e-6 * len(shares), 1, 0)  # noqa: E731
    monkeypatch.setattr(calibration, "graph_share", never)
    calibration._settled_yardstick(0)
    assert len(shares) == 10
    monkeypatch.setattr(calibration, "graph_share", lambda *_: None)
    forget()
    assert calibration.graph_gap_s(0, Calibration(1, 1, 1, 1, "")) == 0.0, "none where there are no graphs"


def test_a_gate_that_never_holds_is_an_error(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gate, "run", lambda *_: False)
    assert pairs_s(chain(gpu, [1e-6]), 3, 0.1) is None
    with pytest.raises(BrrrError, match="the gate never held"):
        calibration.calibration(0)
    assert calibration._middle_mean([1, 100, 5, 6, 7, 8, 200, 0]) == 26 / 4, "finer than the median"
    assert calibration._middle_mean([3]) == 3 and calibration._middle_mean([4, 1, 3, 2, 9]) == 3


# -- without a profiler ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", ["hot", "cold"])
@pytest.mark.parametrize("kernels", [(20e-6,), (3e-6,) * 7, (1e-6, 40e-6, 2e-6)], ids=len)
def test_without_a_profiler_the_kernels_time_is_the_graph_s_less_its_gaps(
    gpu: Gpu, kernels: tuple[float, ...], cache: Any
) -> None:
    gpu.profiles = False
    m = measure(chain(gpu, kernels), device="cuda", cache=cache)
    truth_s = sum(kernels) + (kernels[0] / 2 if cache == "cold" else 0.0)
    assert middle(m, "kernel_s") == pytest.approx(truth_s, abs=0.1e-6) and m.busy_s is None
    assert middle(m, "span_s") == pytest.approx(truth_s + (len(kernels) - 1) * gpu.gap_s, abs=0.1e-6)
    assert "no-profiler" in m.flags and m.kernels == len(kernels)
    assert m.kernel_times_from == "fallback (yardstick's own time assumed)"
    how = "its share of a graph less the graph's gaps" + ", raised by what the emptied cache added" * (cache == "cold")
    assert m.notes == ("the profiler failed: CUPTI is forbidden here", f"no profiler: kernel_s is {how}")
    assert gpu.alive == 0, "a graph was left behind"


@pytest.mark.parametrize("copies", [1, 3])
def test_copies_go_by_the_span_less_the_stream_s_gaps(gpu: Gpu, copies: int) -> None:
    gpu.profiles = False

    def call() -> None:
        for _ in range(copies):
            gpu.copy(20e-6)

    m = measure(call, device="cuda")
    assert middle(m, "kernel_s") == pytest.approx(copies * 20e-6, abs=0.1e-6) and m.kernels == copies
    assert m.notes[-1] == "no profiler: kernel_s is the span less the stream's gaps"


def test_a_profiler_that_is_not_wanted_is_not_asked(gpu: Gpu) -> None:
    (m,) = interleave([Sampler(Plan(chain(gpu, [9e-6]), "cuda", "hot", 0.1, profiler=False))])
    assert "no-profiler" in m.flags and len(m.notes) == 1 and middle(m, "kernel_s") == pytest.approx(9e-6, abs=1e-7)


def test_a_gate_that_held_at_first_and_gave_up_later_leaves_no_kernel_time(gpu: Gpu) -> None:
    """A function that begins to wait: what was seen before may not be its work any more."""
    waits: list[int] = []
    times = times_of(lambda: (gpu.kernel(1e-6), waits and gpu.synchronize())[0], 1e-6)
    calibrated = calibration.calibration(0)
    times.round(0.01, 1e-5)
    assert times.held and times.fallback_estimate(calibrated)[0] is not None
    waits.append(1)
    times.round(0.01, 1e-5)
    found, why = times.fallback_estimate(calibrated)
    assert times.span and not times.held and found is None and why.startswith("missing, since no gate held")


def test_a_graph_s_share_counts_kernels_and_copies(gpu: Gpu) -> None:
    found = graph_share(lambda: (gpu.kernel(4e-6), gpu.copy(2e-6), gpu.kernel(1e-6)), 1e-5)
    assert found is not None and (found.kernels, found.copies) == (2, 1)
    assert found.seconds == pytest.approx(7e-6 + 3 * gpu.graph_gap_s, abs=1e-9)
    assert graph_share(lambda: None, 1e-5) is None, "nothing is in it"
    assert graph_times.launches(lambda: (gpu.kernel(1e-6), gpu.copy(1e-6))) == 2
    assert graph_times.launches(lambda: (gpu.kernel(1e-6), gpu.synchronize())) is None
    assert graph_share(lambda: (gpu.kernel(1e-6), gpu.synchronize()), 1e-5) is None
    memory = graph_share(lambda: (gpu.kernel(1e-6), gpu.kernel(0, kind="MEM_ALLOC"), gpu.kernel(0, kind="MEM_FREE")), 1)
    assert memory is not None and (memory.kernels, memory.copies) == (1, 0)
    assert gpu.alive == 0 and gpu.capturing is None


@pytest.mark.parametrize(
    ("call_s", "kernels", "calls"),
    [(1e-4, 1, 1), (7e-6, 1, 9), (1.1e-6, 1, 55), (1e-9, 1, 61), (1e-6, 20, 25), (1e-6, 700, 1)],
)
def test_a_graph_is_long_enough_to_tell_and_small_enough_to_make(
    gpu: Gpu, call_s: float, kernels: int, calls: int
) -> None:
    """R calls of 60 µs in all, and of at most 1000 nodes in the longer graph."""
    sizes: list[int] = []
    made = gpu.instantiate
    bindings: Any = sys.modules["cuda.bindings"]
    bindings.driver.cuGraphInstantiate = lambda works, flags: (sizes.append(len(works)), made(works, flags))[1]
    graph_share(chain(gpu, [1e-6] * kernels), call_s)
    assert sizes == [kernels, calls * kernels, 2 * calls * kernels]


# -- what goes together ------------------------------------------------------------------------------------------------


def of(seconds: float, off: float = 0.0) -> Estimate:
    return Estimate(seconds, seconds - off, seconds + off, 9)


@pytest.mark.parametrize(
    ("span", "busy", "found"),
    [
        (10.0, 9.0, 10.0), (10.0, 10.0, 10.0), (10.0, 10.29, 10.29), (10.0, 10.6, 10.6), (10.0, 10.7, 10.0),
        (1.0, 1.29, 1.29), (1.0, 1.31, 1.0),
    ],
)  # fmt: skip
def test_a_span_just_below_the_busy_time_is_raised_to_it(span: float, busy: float, found: float) -> None:
    """In microseconds: by 0.3 at most, or 6 %."""
    at = reconciled(of(span * 1e-6, 1e-7), of(busy * 1e-6, 1e-7))
    assert at is not None and at.median == pytest.approx(found * 1e-6)
    if found != span:
        assert (at.low, at.high) == (pytest.approx((span - 0.1) * 1e-6), pytest.approx((busy + 0.1) * 1e-6))
        assert not contradicted(of(busy * 1e-6), at)
    else:
        assert contradicted(of(busy * 1e-6), at) is (busy > span)
    assert reconciled(None, of(1.0)) is None and reconciled(of(1.0), None) == of(1.0)
    assert not contradicted(None, of(1.0)) and not contradicted(of(1.0), None) and not contradicted(of(1.0), of(1.0))


def test_a_busy_time_that_the_span_contradicts_is_left_out(gpu: Gpu) -> None:
    gpu.gap_s = 0.0
    for profiled, left_out in ((1.05, False), (1.07, True)):
        gpu.profiled = profiled
        m = measure(chain(gpu, [50e-6] * 4), device="cuda")
        assert (m.busy_s is None) is left_out is any("busy_s is left out" in note for note in m.notes)
        assert middle(m, "span_s") == pytest.approx(200e-6 * (1 if left_out else 1.05), abs=0.2e-6)


def test_of_one_kernel_the_span_is_its_own_time_by_the_profiler(gpu: Gpu) -> None:
    gpu.lead_s = 2e-6
    gpu.yardstick_s, gpu.cold_yardstick_s = 1e-6, 1.5e-6
    calibrated = Calibration(4e-6, 1e-6, 4e-6, 1e-6, "cupti")
    times = times_of(chain(gpu, [10e-6]), 1e-6)
    assert times.span_estimate(calibrated) is None and times.kernel_estimate(activity.kernel_sum_s) is None
    times.round(0.01, 1e-5)
    alone = times.span_estimate(calibrated)
    times.profile(1e-5, 0.01)
    told = times.span_estimate(calibrated)
    assert alone is not None and alone.median == pytest.approx(9.4e-6, abs=TICK_S), "less the surplus"
    assert told is not None and told.median == pytest.approx(10e-6, abs=TICK_S)


# -- flags that only the device can raise ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "reasons", "flags"),
    [
        (0.96, {"power-cap"}, {"power-capped"}), (0.96, {"power-brake", "idle"}, {"power-capped"}),
        (0.96, {"thermal"}, {"thermal"}), (0.96, {"hardware-slowdown"}, {"thermal"}),
        (0.5, {"thermal", "power-cap"}, {"power-capped", "thermal"}), (0.98, {"power-cap", "thermal"}, set()),
        (0.5, {"idle", "application-clocks"}, set()),
    ],
)  # fmt: skip
def test_a_clock_below_97_percent_is_told_with_its_reason(gpu: Gpu, share: float, reasons: Any, flags: Any) -> None:
    gpu.clock_hz, gpu.reasons = share * 1.98e9, frozenset(reasons)
    assert set(measure(chain(gpu, [1e-4]), device="cuda").flags) == flags
    gpu.highest_hz = None
    assert measure(chain(gpu, [1e-4]), device="cuda").flags == ()


@pytest.mark.parametrize(("processes", "shared"), [(None, False), (0, False), (1, False), (2, True)])
def test_another_program_on_the_gpu_is_told(gpu: Gpu, processes: int | None, shared: bool) -> None:
    gpu.processes = processes
    assert measure(chain(gpu, [1e-4]), device="cuda").flags == ("shared-gpu",) * shared


@pytest.mark.parametrize(("settle_s", "known"), [(0.9, False), (1.0, True)])
def test_power_is_noted_behind_a_run_up_of_a_second(gpu: Gpu, settle_s: float, known: bool) -> None:
    run = Sampler(Plan(chain(gpu, [0.05]), "cuda", "hot", 0.1, settle_s))
    (m,) = interleave([run])
    assert m.power_w == (500.0 if known else None)


def test_one_long_call_is_sampled_once_on_the_device_too(gpu: Gpu) -> None:
    m = measure(chain(gpu, [2.0]), device="cuda")
    assert m.flags == ("single-call",) and m.span_s is not None and (m.span_s.n, m.kernel_s and m.kernel_s.n) == (1, 3)
    for name in ("period_s", "latency_s", "span_s", "kernel_s", "busy_s"):
        assert middle(m, name) == pytest.approx(2.0, rel=1e-5)


def test_a_drift_of_the_spans_is_measured_again_then_flagged(gpu: Gpu, clock: Clock) -> None:
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        gpu.kernel(1e-4 * 1.3 ** (clock.now_ns * 1e-9 / 0.05))

    m = measure(call, device="cuda", budget_s=0.1)
    assert "unstable" in m.flags and clock.now_ns > 0.2e9


# -- the profiler ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", [0, 3, 4])
def test_a_session_that_finds_nothing_is_tried_again_once_the_profiler_had_time_to_leave(
    gpu: Gpu, clock: Clock, empty: int
) -> None:
    gpu.empty_sessions, before_ns = empty, clock.now_ns
    activities, _ = record_activity(chain(gpu, [1e-6, 2e-6]))
    assert empty or 5e6 <= clock.now_ns - before_ns < 6e6
    assert len(activities) == (2 if empty < 4 else 0)
    assert activities == sorted(activities, key=lambda each: each.start_ns)


def test_events_around_each_call_have_the_launching_in_them(gpu: Gpu) -> None:
    gpu.issue_s = 7e-6
    found = naive.event_pair_each_call(chain(gpu, [1e-6]), gpu.synchronize)
    assert len(found) == 20 and median(found) == pytest.approx(7e-6 + 0.8e-6 + 1e-6 + 0.4e-6, abs=1e-9)
    assert torch.cuda.current_device() == 0 and device_times.QUEUE_DEPTH == calibration.QUEUE_DEPTH
