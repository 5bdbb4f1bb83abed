"""Timelines: the shares and sentences of ones made by hand, and tracing on the CPU and on its queue."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import timelines
from hypothesis import given
from hypothesis import strategies as st

from brrr.core.errors import UnavailableError
from brrr.core.intervals import gaps, length, together, union
from brrr.timing.cpu_queue import CpuQueue
from brrr.tracing.spans import Span
from brrr.tracing.timeline import Timeline
from brrr.tracing.tracer import TracedLoop, trace
from tests.refusals import refused

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda x: (x[0], x[0] + x[1])), max_size=8)


# ---- intervals, against counting nanosecond by nanosecond ----


def covered(intervals: list[tuple[int, int]]) -> set[int]:
    return {at for start, end in intervals for at in range(start, end)}


@given(INTERVALS)
def test_union_and_gaps_part_the_time(intervals: list[tuple[int, int]]) -> None:
    assert length(intervals) == len(covered(intervals))
    assert covered(union(intervals)) == covered(intervals)
    assert covered(gaps(intervals, 0, 90)) == set(range(90)) - covered(intervals)
    assert covered(gaps(intervals, 10, 30)) == set(range(10, 30)) - covered(intervals)


@given(st.lists(INTERVALS, max_size=4))
def test_together_counts_where_two_groups_meet(groups: list[list[tuple[int, int]]]) -> None:
    expected = sum(1 for at in range(90) if sum(at in covered(group) for group in groups) >= 2)
    assert together(groups) == expected


# ---- shares ----


SIDE_BY_SIDE = [replace(span, kind="kernel") for span in timelines.pipeline().spans if span.on_device]


@pytest.mark.parametrize(("found", "shares"), [
    (timelines.host_bound(), {  # 1 µs of 5 µs, with the profiler of 10 µs
        "busy_s": 1e-6, "idle_share": 0.8, "profiled_idle_share": 0.9, "inflation": 10 / 5.5, "transfer_share": 0.0,
        "overlap_share": 0.0, "calls_ahead": 0, "waits_in_calls": False}),
    (timelines.host_bound(10).shortened(4), {"calls": 4, "idle_share": 0.8}),
    (timelines.device_bound(), {"calls_ahead": 9, "idle_share": 0.0}),  # the first kernel runs until 105 µs
    (timelines.pipeline(), {  # work is busy once; two streams work from 5 to 10 and from 18 to 20 µs
        "busy_s": 30e-6, "idle_share": 0.25, "transfer_s": 22e-6, "transfer_share": 22 / 30,
        "transfer_share_of_period": 22 / 40, "overlap_share": 7 / 30}),
    (timelines.timeline(SIDE_BY_SIDE, 1, 40e-6, 50e-6), {"overlap_share": 0.0}),  # kernels are no overlap
])  # fmt: skip
def test_shares(found: Timeline, shares: dict[str, float]) -> None:
    assert {name: getattr(found, name) for name in shares} == pytest.approx(shares)


@pytest.mark.parametrize("found", [timelines.host_bound(4), timelines.host_bound(10).shortened(4)])
def test_lanes_and_arrows(found: Timeline) -> None:
    assert found.lanes == ("python", "operator", "launch", "stream 1") and found.streams == ("stream 1",)
    assert [(a.kind, a.call, b.call) for a, b in found.arrows] == [("launch", call, call) for call in range(4)]


def test_shares_of_several_devices_are_means_and_never_mix_them() -> None:
    """GPU 0 copies and computes one after the other, GPU 1 the other way round: nothing overlaps on either."""
    spans = (
        Span("GPU 0 stream 1", "copy in", "copy", 0, 10_000, 0),
        Span("GPU 0 stream 1", "kernel", "k", 10_000, 20_000, 0),
        Span("GPU 1 stream 1", "kernel", "k", 0, 10_000, 0),
        Span("GPU 1 stream 1", "copy in", "copy", 10_000, 20_000, 0),
    )
    found = timelines.timeline(spans, 1, 40e-6, 50e-6)
    assert found.busy_s == pytest.approx(20e-6) and found.transfer_share == pytest.approx(0.5)
    assert found.overlap_share == 0.0 and found.lanes[-2:] == ("GPU 0 stream 1", "GPU 1 stream 1")
    assert "each GPU works 20 µs of it and is idle 50 % of the time" in found.text


def test_a_wait_in_every_call_is_noticed() -> None:
    found = timelines.host_bound(3)
    waits = [replace(s, kind="wait", name="cudaStreamSynchronize") for s in found.spans if s.kind == "operator"]
    assert timelines.timeline([*found.spans, *waits], 3, 5e-6, 1e-5).waits_in_calls
    assert not timelines.timeline([*found.spans, *waits[:2]], 3, 5e-6, 1e-5).waits_in_calls


# ---- words ----


@pytest.mark.parametrize(("found", "said", "unsaid"), [
    (timelines.host_bound(), ["10 calls, 5 µs a call", "idle 80 %", "1.8x as long, so the pauses look longer",
                              "The GPU waits for the CPU most of the time."], "Copies"),
    (timelines.device_bound(), ["The CPU runs ahead by up to 9 calls", "apart, takes only 0.91x as long"], "Copies"),
    (timelines.pipeline(), ["73 % of its busy time, 55 % of the whole time", "beside other work in 23 %"], "in a loop"),
    (replace(timelines.pipeline(), period_s=20e-6), ["busy for 30 µs, but in a loop one ends every 20 µs"], "works"),
    (replace(timelines.host_bound(), kind="cpu-queue"), ["The worker waits for the CPU most of the time."], "GPU"),
])  # fmt: skip
def test_the_text_says_who_waits_and_what_overlaps(found: Timeline, said: list[str], unsaid: str) -> None:
    text = " ".join(found.text.split())
    assert all(each in text.replace("is idle 80", "idle 80") for each in said) and unsaid not in text


# ---- tracing on this machine ----


@pytest.fixture(scope="module")
def on_cpu() -> Timeline:
    import torch

    x = torch.randn(128, 128)
    return trace(lambda: torch.relu(x @ x), device="cpu", calls=5)


def test_a_cpu_has_host_lanes_only(on_cpu: Timeline) -> None:
    assert on_cpu.lanes == ("python", "operator") and on_cpu.streams == ()
    assert on_cpu.calls == 5 and on_cpu.idle_share is None and on_cpu.busy_s is None
    assert [s.call for s in on_cpu.spans if s.kind == "call"] == list(range(5))
    names = [s.name for s in on_cpu.spans if s.kind == "operator"]
    assert names == ["matmul", "relu"] * 5  # what they call in turn (mm, clamp_min) is left out
    for call in range(5):
        python, *operators = [s for s in on_cpu.spans if s.call == call]
        assert all(python.start_ns <= s.start_ns <= s.end_ns <= python.end_ns for s in operators)
    assert on_cpu.period_s > 0 and "the CPU does each call itself" in on_cpu.text


def test_the_profiler_leaves_nothing_on_the_error_output(capfd: pytest.CaptureFixture[str]) -> None:
    trace(lambda: sorted(range(100)), device="cpu", calls=3)
    assert capfd.readouterr().err == ""


def test_a_queue_shows_submits_work_and_arrows() -> None:
    a = np.random.default_rng(0).standard_normal((200, 200))
    with CpuQueue() as queue:
        found = trace(lambda: queue.submit(np.dot, a, a), device=queue, calls=6)
    assert found.kind == "cpu-queue" and found.lanes == ("python", "launch", "worker")
    work = [span for span in found.spans if span.on_device]
    assert [span.call for span in work] == list(range(6)) and {span.name for span in work} == {"dot"}
    assert [(a.name, a.call) for a, _ in found.arrows] == [("submit", call) for call in range(6)]
    assert all(a.start_ns <= b.start_ns and b.end_ns > b.start_ns for a, b in found.arrows)
    assert all(one.end_ns <= two.start_ns for one, two in pairwise(work))
    assert found.badge.kind == "LIVE, CPU QUEUE" and found.idle_share is not None
    assert [span.name for span in found.spans if span.kind == "wait"] == ["synchronize"]


def test_the_number_of_calls_follows_their_length() -> None:
    def fitting(call_s: float) -> int:
        loop = TracedLoop(lambda: None, "cpu")
        loop.call_s = call_s
        return loop.fitting()

    assert [fitting(s) for s in (1e-6, 0.02, 0.1, 0.3)] == [20, 12, 3, 1]


def test_many_things_in_a_call_mean_fewer_calls() -> None:
    with CpuQueue() as queue:
        found = trace(lambda: [queue.submit(abs, -1) for _ in range(50)], device=queue)
    assert found.calls == 3 and sum(span.on_device for span in found.spans) == 150


def test_what_the_function_raises_passes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        trace(lambda: 1 / 0, device="cpu")
    calls: list[int] = []

    def later() -> None:
        calls.append(1)
        if len(calls) > 40:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        trace(later, device="cpu", calls=1000)
    assert trace(lambda: None, device="cpu", calls=1).calls == 1, "the profiler was left running"


def test_wrong_arguments_name_trace() -> None:
    for calls in (0, -1, 2.5, True, "3"):
        with refused("calls", calls):
            trace(lambda: None, calls=calls, device="cpu")  # type: ignore[arg-type]
    with refused("fn", 3):
        trace(3, device="cpu")  # type: ignore[arg-type]
    with refused("device", "tpu"):
        trace(lambda: None, device="tpu")  # type: ignore[arg-type]
    with refused("fn"):
        trace(lambda x: x, device="cpu")  # type: ignore[misc,arg-type]


def test_a_second_profiler_is_refused() -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]), pytest.raises(UnavailableError, match=r"another session.*Leave"):
        trace(lambda: None, device="cpu")
    assert trace(lambda: None, device="cpu", calls=2).calls == 2


def test_a_profiler_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.profiler

    def refuse(self: object) -> None:
        raise RuntimeError("CUPTI says no\nand more")

    monkeypatch.setattr(torch.profiler.profile, "start", refuse)
    with pytest.raises(UnavailableError, match=r"the profiler cannot start: CUPTI says no. Recorded timelines"):
        trace(lambda: None, device="cpu")
