"""Timelines on a real GPU: the idle share against the timer's, arrows, streams, and what a profiler may refuse."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from brrr import measure
from brrr.core.errors import ArgumentError
from brrr.tracing.tracer import trace

pytestmark = pytest.mark.timing  # other tests beside these would be in the times

POINTS = 0.05
"""How far the idle share may be from the timer's `1 - busy_s / period_s`."""


def small_relu() -> Callable[[], Any]:
    x = torch.randn(64, 1024, device="cuda")
    return lambda: torch.relu(x)


def big_product() -> Callable[[], Any]:
    a, b = (torch.randn(4096, 4096, device="cuda") for _ in range(2))
    return lambda: a @ b


def mixed() -> Callable[[], Any]:
    """Many small operators, then a product: the device waits for a part of the time."""
    x, a = torch.randn(64, 1024, device="cuda"), torch.randn(1536, 1536, device="cuda")

    def run() -> torch.Tensor:
        y = x
        for _ in range(12):
            y = torch.relu(y)
        return a @ a

    return run


@pytest.mark.parametrize("make", [small_relu, big_product, mixed])
def test_the_idle_share_agrees_with_the_timer(make: Callable[[], Callable[[], Any]]) -> None:
    run = make()
    tried = []
    for _ in range(3):  # the clock of a machine that others use may change between the two
        measured, traced = measure(run, device="cuda", budget_s=0.2), trace(run, device="cuda")
        assert measured.busy_s is not None and measured.period_s is not None and traced.idle_share is not None
        by_timer = max(0.0, 1 - measured.busy_s.median / measured.period_s.median)
        tried.append((by_timer, traced.idle_share))
        print(f"{make.__name__}: timer {by_timer:.3f}, timeline {traced.idle_share:.3f}, pictured "
              f"{traced.profiled_idle_share:.3f}, inflation {traced.inflation:.2f}, {traced.calls} calls")  # fmt: skip
        if abs(by_timer - traced.idle_share) <= POINTS:
            return
    pytest.fail(f"{make.__name__}: timer and timeline differ by more than {POINTS:.0%}: {tried}")


def test_lanes_and_arrows_of_a_small_operator() -> None:
    found = trace(small_relu(), device="cuda", calls=6)
    assert found.lanes == ("python", "operator", "launch", "stream 1") and found.calls == 6
    kernels = [span for span in found.spans if span.on_device]
    assert len(kernels) == 6 and [span.call for span in kernels] == list(range(6))
    assert [span.name for span in found.spans if span.kind == "operator"] == ["relu"] * 6
    assert len(found.arrows) == 6
    for launch, kernel in found.arrows:
        assert launch.lane == "launch" and "aunch" in launch.name and launch.call == kernel.call
        assert launch.start_ns <= kernel.start_ns + 2000, "the kernel begins before its launch"
    waits = [span for span in found.spans if span.kind == "wait"]
    assert [span.call for span in waits] == [-1], "one wait, at the loop's end"
    assert found.profiled_idle_share is not None and found.idle_share is not None and found.inflation > 0.8
    print(found)


def test_the_host_runs_ahead_of_a_big_product_and_not_of_a_small_operator() -> None:
    assert trace(big_product(), device="cuda", calls=8).calls_ahead >= 5
    assert trace(small_relu(), device="cuda", calls=8).calls_ahead <= 3


def test_a_call_that_waits_is_noticed() -> None:
    x = torch.randn(64, 1024, device="cuda")
    found = trace(lambda: torch.relu(x).sum().item(), device="cuda", calls=4)
    assert found.waits_in_calls and "Each call waits for the GPU" in found.text
    assert any(span.kind == "copy out" for span in found.spans)


def test_transfers_are_told_from_kernels() -> None:
    host = torch.randn(1 << 22)
    found = trace(lambda: torch.relu(host.cuda()).cpu(), device="cuda", calls=3)
    kinds = [span.kind for span in found.spans if span.on_device]
    assert kinds.count("copy in") >= 3 and kinds.count("copy out") >= 3 and kinds.count("kernel") == 3
    assert found.transfer_share > 0.5 and found.overlap_share < 0.05
    assert len(found.arrows) == sum(span.on_device for span in found.spans)


def test_streams_have_lanes_and_overlap() -> None:
    host = torch.randn(1 << 24).pin_memory()
    there = torch.empty_like(host, device="cuda")
    x = torch.randn(4096, 4096, device="cuda")
    aside = torch.cuda.Stream()

    def run() -> torch.Tensor:
        with torch.cuda.stream(aside):
            there.copy_(host, non_blocking=True)
        return x @ x

    found = trace(run, device="cuda", calls=5)
    assert len(found.streams) == 2 and found.overlap_share > 0.1
    print(f"overlap {found.overlap_share:.2f}, transfers {found.transfer_share:.2f}")


def test_kernels_of_a_graph_come_from_its_launch() -> None:
    x = torch.randn(64, 1024, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.relu(x)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = x
        for _ in range(5):
            y = torch.relu(y)
    found = trace(graph.replay, device="cuda", calls=4)
    assert sum(span.kind == "kernel" for span in found.spans) == 20
    assert {launch.name for launch, _ in found.arrows} == {"cudaGraphLaunch"}


def test_a_backward_pass_belongs_to_its_call() -> None:
    layer, x = torch.nn.Linear(256, 256, device="cuda"), torch.randn(64, 256, device="cuda")
    found = trace(lambda: layer(x).sum().backward(), device="cuda", calls=3)
    kernels = [span for span in found.spans if span.kind == "kernel"]
    assert {span.call for span in kernels} == {0, 1, 2} and all(span.cause >= 0 for span in kernels)


def test_a_function_of_the_cpu_is_refused() -> None:
    x = torch.randn(64, 64)
    with pytest.raises(ArgumentError, match=r"launches work on the GPU.*nothing ran there"):
        trace(lambda: x @ x, device="cuda", calls=3)
    assert trace(small_relu(), device="cuda", calls=2).streams


def test_timelines_in_quick_succession_all_hold_the_calls() -> None:
    run = small_relu()
    for _ in range(5):  # each detaches CUPTI on a thread of its own, which the next may meet
        assert sum(span.on_device for span in trace(run, device="cuda", calls=4).spans) == 4
