"""Kernel times without a profiler: replay the call as a CUDA graph, where the gaps between kernels are small and even.

In a full stream the gap between two kernels depends on the kernels (0.8 to 1.4 µs on an H200); inside a graph it is
about 0.26 µs, for most operators give or take 0.03. So the time that a call adds to a graph, less a calibrated gap for
each of its kernels, is the sum of the kernels' own times. The stream is captured directly rather than by
`torch.cuda.graph`, whose state a refused capture leaves unusable.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from brrr.core.measurement import median
from brrr.gpu import synchronize
from brrr.gpu.nvrtc import check
from brrr.timing.gate import gate_of

LONG_S = 60e-6
MAX_NODES = 1000
SAMPLES = 24


@dataclass(frozen=True, slots=True)
class GraphShare:
    """What one more call adds to a graph, in seconds, and how many kernels and copies a call is."""

    seconds: float
    kernels: int
    copies: int


@lru_cache(maxsize=8)
def side_stream(device_index: int) -> Any:
    """One stream of a GPU for all captures: on each new one cuBLAS would take a workspace of its own, and keep it."""
    import torch

    return torch.cuda.Stream(device_index)


@contextmanager
def raw_capture(stream: Any) -> Iterator[list[Any]]:
    """Capture a stream through the driver alone; the list gets the graph at the end, and whoever asked destroys it.

    What is raised inside ends the capture and passes through; UnavailableError where CUDA refuses it.
    """
    from cuda.bindings import driver

    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    check(driver.cuStreamBeginCapture(stream.cuda_stream, relaxed), "the capture of a graph")
    ended: list[Any] = []
    try:
        yield ended
    finally:
        status, graph = driver.cuStreamEndCapture(stream.cuda_stream)
    ended.append(check((status, graph), "the capture of a graph"))


@contextmanager
def captured(call: Callable[[], Any], calls: int) -> Iterator[tuple[Any, list[str]]]:
    """A graph of so many calls, ready to launch, and the kinds of its nodes.

    Raises what the call raises when it meets the capture, or UnavailableError where CUDA refuses it.
    """
    import torch
    from cuda.bindings import driver

    stream = side_stream(torch.cuda.current_device())
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()  # makes what the call needs on this stream: memory, a cuBLAS handle and its workspace
        stream.synchronize()
        with raw_capture(stream) as ended:
            for _ in range(calls):
                call()
    (graph,) = ended
    try:
        _, count = check(driver.cuGraphGetNodes(graph, 0), "a graph's nodes")
        nodes, _ = check(driver.cuGraphGetNodes(graph, count), "a graph's nodes")
        kinds = [check(driver.cuGraphNodeGetType(node), "a node's kind").name for node in nodes[:count]]
        executable = check(driver.cuGraphInstantiate(graph, 0), "making a graph")
        try:
            yield executable, kinds
        finally:
            synchronize()
            driver.cuGraphExecDestroy(executable)
    finally:
        driver.cuGraphDestroy(graph)


def launches(call: Callable[[], Any]) -> int | None:
    """How many kernels and copies a call launches, counted in a graph of it; None where it cannot be captured."""
    try:
        with captured(call, 1) as (_, kinds):
            return len(kinds)
    except RuntimeError:  # what the call raises, or UnavailableError, which is one
        return None


def graph_share(call: Callable[[], Any], call_s: float) -> GraphShare | None:
    """What one call adds to a graph, from graphs of R and of 2 R calls; None where the call cannot be captured."""
    repeats = max(1, math.ceil(LONG_S / max(call_s, 1e-6)))
    try:
        with captured(call, 1) as (_, kinds):
            kernel_nodes = sum("KERNEL" in kind for kind in kinds)
            copies = sum("MEM" in kind and "ALLOC" not in kind and "FREE" not in kind for kind in kinds)
        if not kernel_nodes + copies:
            return None
        repeats = max(1, min(repeats, MAX_NODES // (2 * len(kinds)), 64))
        with captured(call, repeats) as (short, _), captured(call, 2 * repeats) as (long, _):
            seconds = _replay_s(long, short) / repeats
    except RuntimeError:  # a call that waits, or makes memory, cannot be captured
        return None
    return GraphShare(seconds, kernel_nodes, copies)


def _replay_s(long: Any, short: Any) -> float:
    """How much longer one graph takes than the other: medians of replays in turn, each behind the gate."""
    longer, shorter = [], []
    for _ in range(SAMPLES):
        longer.append(_one_replay_s(long))
        shorter.append(_one_replay_s(short))
    return median(longer) - median(shorter)


def _one_replay_s(graph: Any) -> float:
    import torch
    from cuda.bindings import driver

    stream = torch.cuda.current_stream()
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def issue() -> None:
        first.record()
        check(driver.cuGraphLaunch(graph, stream.cuda_stream), "a graph's launch")
        last.record()

    gate_of(torch.cuda.current_device()).run(issue, 0.1)
    return float(first.elapsed_time(last)) * 1e-3
