"""The timer on a real GPU, against truths that are built in; no assertion on how fast anything is."""

import threading
import time
from dataclasses import replace

import pytest
import torch

import brrr
from brrr.core.errors import DeviceMemoryError
from brrr.timing import interleave, measure, measure_together
from brrr.timing.calibration import pairs_s
from brrr.timing.device_times import EVENT_TICK_S
from brrr.timing.gate import Gate, sm_clock_hz, spin
from brrr.timing.graph_times import graph_share
from brrr.timing.plan import Plan
from brrr.timing.sampler import Sampler
from brrr_course.experiments import experiment
from brrr_course.sources.timers import measure_variant

pytestmark = pytest.mark.timing  # other tests beside these would be in the times


@pytest.fixture
def stamps() -> torch.Tensor:
    return torch.zeros(3, dtype=torch.int64, device="cuda")


def test_the_clock_of_the_gpu_is_plausible() -> None:
    assert 2e8 <= sm_clock_hz() <= 4e9


@pytest.mark.parametrize("microseconds", [5, 50, 1000])
def test_kernel_s_follows_a_kernel_of_known_length(microseconds: int, stamps: torch.Tensor) -> None:
    def kernel(seconds: float) -> float:
        m = measure(lambda: spin(seconds, stamps), device="cuda", budget_s=0.1)
        assert m.kernel_s is not None and m.kernels == 1 and m.kernel_times_from == "cupti"
        return m.kernel_s.median

    start, end, _ = (spin(microseconds * 1e-6, stamps), stamps.tolist())[1]
    elapsed = (end - start) * 1e-9
    near = max(0.01 * elapsed, 3 * EVENT_TICK_S)
    assert kernel(microseconds * 1e-6) - kernel(0.0) == pytest.approx(elapsed, abs=near)


def test_span_and_kernels_of_a_chain(stamps: torch.Tensor) -> None:
    rows = list(torch.zeros(20, 3, dtype=torch.int64, device="cuda"))

    def chain() -> None:
        for row in rows:
            spin(5e-6, row)

    m = measure(chain, device="cuda", budget_s=0.2)
    assert m.span_s is not None and m.kernel_s is not None and m.busy_s is not None and m.kernels == 20
    assert pairs_s(chain, 1, 0.1) is not None
    first, last = rows[0].tolist(), rows[-1].tolist()
    truth = (last[1] - first[0]) * 1e-9
    assert m.span_s.median == pytest.approx(truth, rel=0.04)
    assert m.busy_s.median <= m.span_s.median and m.kernel_s.median <= m.span_s.median


@pytest.mark.parametrize(("host_us", "device_us"), [(1000, 20), (20, 2000)])
def test_the_host_bound_flag(host_us: float, device_us: float, stamps: torch.Tensor) -> None:
    def call() -> None:
        until = time.perf_counter() + host_us * 1e-6
        while time.perf_counter() < until:
            pass
        spin(device_us * 1e-6, stamps)

    m = measure(call, device="cuda", budget_s=0.2)
    assert m.period_s is not None
    assert m.period_s.median > 0.9 * max(host_us, device_us) * 1e-6, "a call takes no less than what is in it"
    assert ("host-bound" in m.flags) is (host_us > device_us)


def test_two_streams_overlap_in_busy_but_not_in_kernel_time(stamps: torch.Tensor) -> None:
    side, other = torch.cuda.Stream(), stamps.clone()

    def both() -> None:
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        spin(200e-6, stamps)
        with torch.cuda.stream(side):
            spin(200e-6, other)
        main.wait_stream(side)

    m = measure(both, device="cuda", budget_s=0.2)
    assert m.kernel_s is not None and m.busy_s is not None and m.span_s is not None
    assert m.kernel_s.median > 390e-6 > 300e-6 > m.busy_s.median
    assert m.busy_s.median <= m.span_s.median * 1.02


def test_a_function_that_waits_is_found_out_and_still_timed() -> None:
    x = torch.randn(64, 1024, device="cuda")
    m = measure(lambda: torch.relu(x).sum().item(), device="cuda", budget_s=0.2)
    assert "syncs" in m.flags and m.span_s is None
    assert m.kernel_s is not None and m.latency_s is not None and m.period_s is not None
    again = measure(lambda: torch.relu(x), device="cuda", budget_s=0.1)
    assert "syncs" not in again.flags and again.span_s is not None


def test_more_launches_than_the_queue_holds() -> None:
    x = torch.zeros(8, device="cuda")

    def many() -> None:
        for _ in range(2000):
            x.add_(1)

    m = measure(many, device="cuda", budget_s=0.2)
    assert "queue-full" in m.flags and m.span_s is None and m.kernels == 2000


def test_the_gate_holds_and_gives_up() -> None:
    gate, x = Gate(), torch.zeros(8, device="cuda")
    assert gate.run(lambda: x.add_(1), 0.5)
    assert not gate.run(torch.cuda.synchronize, 0.02)
    assert gate.run(lambda: x.add_(1), 0.5)
    assert float(x[0]) == 2


def test_an_error_behind_the_gate_opens_it() -> None:
    x = torch.zeros(8, device="cuda")
    calls = [0]

    def breaks_later() -> None:
        calls[0] += 1
        x.add_(1)
        if calls[0] == 20:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        measure(breaks_later, device="cuda", budget_s=0.2)
    assert measure(lambda: x.add_(1), device="cuda", budget_s=0.05).span_s is not None


def test_cold_defines_three_times_and_costs_more() -> None:
    x = torch.randn(2048, 2048, device="cuda")
    hot = measure(lambda: torch.relu(x), device="cuda", budget_s=0.1)
    cold = measure(lambda: torch.relu(x), device="cuda", cache="cold", budget_s=0.1)
    assert cold.host_s is None and cold.period_s is None and cold.latency_s is None
    assert cold.kernel_s is not None and hot.kernel_s is not None and cold.kernels == 1
    assert cold.kernel_s.median > hot.kernel_s.median


def test_without_a_profiler_the_kernel_time_is_still_near() -> None:
    x = torch.randn(4096, 4096, device="cuda")
    plan = Plan(lambda: torch.relu(x), "cuda", "hot", 0.1)
    a, b = interleave([Sampler(plan), Sampler(replace(plan, profiler=False))])
    assert a.kernel_s is not None and b.kernel_s is not None
    assert b.kernel_times_from.startswith("fallback") and b.kernels == 1
    assert a.kernel_s.median / 2 < b.kernel_s.median < 2 * a.kernel_s.median


def test_what_cannot_be_captured_leaves_torch_usable() -> None:
    x = torch.randn(64, device="cuda")
    assert graph_share(lambda: x.sum().item(), 1e-5) is None
    torch.randn(8, device="cuda")
    found = graph_share(lambda: torch.relu(x), 1e-6)
    assert found is not None and found.kernels == 1 and found.copies == 0


def test_out_of_memory_is_an_error_and_the_process_lives() -> None:
    with pytest.raises(DeviceMemoryError, match="needs"):
        measure_variant(experiment("matmul"), "gpu", {"size": 2**19})
    kept: list[torch.Tensor] = []
    with pytest.raises((DeviceMemoryError, torch.OutOfMemoryError)):
        measure(lambda: kept.append(torch.empty(2**30, device="cuda")), device="cuda", budget_s=5.0)
    kept.clear()
    torch.cuda.empty_cache()
    assert measure(lambda: torch.zeros(8, device="cuda"), device="cuda", budget_s=0.05).kernels == 1


def test_interleaved_functions_on_the_gpu() -> None:
    x = torch.randn(512, 512, device="cuda")
    a, b = measure_together([lambda: x @ x, lambda: torch.relu(x)], device="cuda", budget_s=0.1)
    assert a.kernel_s is not None and b.kernel_s is not None and a.kernel_s.median > b.kernel_s.median
    assert a.sm_clock_hz is not None and a.device == torch.cuda.get_device_name()


def test_measuring_in_a_thread_while_another_waits() -> None:
    """An explorer measures on a worker thread: CUDA's context must be current there too."""
    found: list[object] = []
    x = torch.randn(64, 1024, device="cuda")
    worker = threading.Thread(target=lambda: found.append(measure(lambda: torch.relu(x), device="cuda", budget_s=0.05)))
    worker.start()
    worker.join(60)
    assert found and isinstance(found[0], brrr.Measurement) and found[0].kernel_s is not None
