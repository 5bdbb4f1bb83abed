"""Launches on a GPU: the shortest kernel, the gap behind a kernel in a stream and in a graph, a graph's replay."""

from __future__ import annotations

from dataclasses import replace

import torch

from brrr.graphs import capture
from brrr.kernels.nvrtc import kernel
from brrr.measurement import Estimate
from brrr.peaks import checks
from brrr.peaks.gpu_times import own_times
from brrr.peaks.host_cost import waiting
from brrr.peaks.parts import Findings
from brrr.peaks.peak import Curve, Peak
from brrr.peaks.sampling import issue_estimate, loop_estimate
from brrr.timing.calibration import ASSUMED_OWN_S, calibration, graph_gap_s, stream_gaps_s

CHAIN = 200
"""Kernels in the chain whose gaps are measured."""
REPEATS = 7
NODES = (1, 4, 16, 64, 256)
BUSY_ELEMENTS = 2**22
"""Of float32: about 8 µs on an H200, twice what replaying costs the host."""
LONGEST_GAP_S = 10e-6


def measure_floor(found: Findings) -> None:
    """`kernel.floor`, an empty kernel's own time, and `kernel.pointwise`, that of torch's operator on one element."""
    nothing = kernel("stream.cu", "brrr_nothing", torch.cuda.current_device())
    x = torch.rand(1, device="cuda")
    checks.close(torch.relu(x), x, 1e-6, "relu")
    calls = (lambda: nothing((1, 1, 1), (32, 1, 1))), (lambda: torch.relu(x))
    times = own_times(calls) or own_times(calls)
    if times is None:
        what = "the own time that a small elementwise kernel had on an H200"
        found.assumed["kernel.floor"] = Peak.stated(ASSUMED_OWN_S["hot"], "s", "assumed", what=what)
        found.note("kernel.floor: assumed, since there is no profiler to measure it")
        return
    for name, by, time in zip(("floor", "pointwise"), ("brrr_nothing", "torch.relu(x), 1 element"), times, strict=True):
        found.measured[f"kernel.{name}"] = Peak.time(time, by=by, times_from="cupti")


def measure_gaps(found: Findings) -> None:
    """`gap.stream` and `gap.graph`: from the end of a kernel to the start of the next, none waiting for the host."""
    index = torch.cuda.current_device()
    calibrated = calibration(index)
    stream = [stream_gaps_s(calibrated, CHAIN) / (CHAIN - 1) for _ in range(REPEATS)]
    graph = [graph_gap_s(index, calibrated) for _ in range(REPEATS)]
    by = "a chain of small elementwise kernels, less their own times"
    for name, samples in (("gap.stream", stream), ("gap.graph", graph)):
        conditions = {"by": by, "own_times_from": calibrated.own_from}
        if calibrated.own_from == "cupti":
            found.measured[name] = Peak.time(Estimate.of(samples), **conditions)
        else:
            gap_s = max(Estimate.of(samples).median, 1e-10)
            found.assumed[name] = Peak.stated(gap_s, "s", "assumed", **conditions)
            found.note(f"{name}: assumed in part, since there is no profiler that tells the kernels' own times")


def measure_replay(found: Findings) -> None:
    """`host.graph-replay`, what issuing a graph of one kernel costs, and the curve `graph-replay` by kernels."""
    points = []
    seconds = min(0.2, found.left_s / 3 / len(NODES))
    for nodes in NODES:
        x = torch.rand(64, device="cuda")
        graph = capture(lambda given, nodes=nodes: _relus(given, nodes), x)
        graph.output.fill_(torch.nan)
        checks.close(graph.replay(), x, 1e-6, "a replayed chain of relu")
        issued = issue_estimate(graph.replay, waiting("cuda"), seconds)
        points.append((float(nodes), Peak.time(issued, kernels=nodes)))
    found.curves["graph-replay"] = Curve("kernels", tuple(points), {"by": "torch.cuda.CUDAGraph.replay, relu of 64"})
    found.measured["host.graph-replay"] = replace(
        points[0][1], conditions={"operator": "replay of a graph of one relu"}
    )


def measure_between_replays(found: Findings) -> None:
    """`gap.replay`: from the end of a graph to the start of the next, by graphs of one kernel that lasts a while.

    The host is through long before; what a loop takes beyond the kernel's own time lies between two graphs.
    """
    x = torch.rand(BUSY_ELEMENTS, device="cuda")
    graph = capture(torch.relu, x)
    graph.output.fill_(torch.nan)
    checks.same(graph.replay(), lambda first, last: x[first:last], "a replayed relu")
    own = own_times([graph.replay]) or own_times([graph.replay])
    if own is None:
        found.note("gap.replay: not measured, since there is no profiler that tells the kernel's own time")
        return
    period = loop_estimate(graph.replay, min(0.2, found.left_s / 4), waiting("cuda"))
    gap_s = period.median - own[0].median
    if not 0 < gap_s < LONGEST_GAP_S:
        found.note(f"gap.replay: left out: it came out as {gap_s:.3g} s")
        return
    by = f"replays of a graph of one relu of {BUSY_ELEMENTS} elements, less its own time"
    spread = period.high - period.low + own[0].high - own[0].low
    gap = Estimate(gap_s, max(0.0, gap_s - spread / 2), gap_s + spread / 2, period.n)
    found.measured["gap.replay"] = Peak.time(gap, by=by, own_times_from="cupti")


def _relus(x: torch.Tensor, count: int) -> torch.Tensor:
    for _ in range(count):
        x = torch.relu(x)
    return x
