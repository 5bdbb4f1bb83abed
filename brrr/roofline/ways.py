"""The ways of running the same kernels: issued one by one, replayed as a CUDA Graph, or called in compiled form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from brrr.counting.cost import OperatorCost
from brrr.roofline.basis import Basis
from brrr.roofline.host import Step, behind_transpose_s, period_s, span_s
from brrr.roofline.prediction import How
from brrr.roofline.terms import OperatorTime, operator_time


class Clocks(NamedTuple):
    """The times of a whole chain, in seconds; no span on a CPU."""

    host_s: float
    period_s: float
    latency_s: float
    span_s: float | None


def operator_times(
    kernels: Sequence[OperatorCost], basis: Basis, how: How, working_set: float, tf32: bool
) -> tuple[OperatorTime, ...]:
    """Every kernel's times. In a graph the host issues none of them; a compiled form's call is paid with its first."""
    costs = _host_costs(kernels, basis, how)
    return tuple(
        operator_time(each, basis, working_set, tf32=tf32, host_s=host_s)
        for each, host_s in zip(kernels, costs, strict=True)
    )


def _host_costs(kernels: Sequence[OperatorCost], basis: Basis, how: How) -> Iterator[float | None]:
    """What replaces the host cost of each kernel's class."""
    for place, each in enumerate(kernels):
        if how == "graph":
            yield 0.0
        elif how == "compiled" and place == 0:
            yield basis.value("host.compiled")
        elif how == "compiled" and not each.matmuls and basis.has("host.compiled-kernel"):
            yield basis.value("host.compiled-kernel")
        else:
            yield behind_transpose_s(each, kernels[place - 1].name if place else "", basis)


def run_clocks(times: Sequence[OperatorTime], basis: Basis, how: How, calls: int) -> Clocks:
    """Host and device through the chain, in a loop of so many calls and once alone."""
    steps = [each.step for each in times]
    if not basis.is_gpu:
        total = sum(each.device_s or 0.0 for each in times)
        return Clocks(sum(each.host_s for each in times), total, total, None)
    between = basis.value("gap.stream") if calls > 1 or len(steps) > 1 else 0.0
    if how == "graph":
        inside = span_s(steps, basis.value("gap.graph") if len(steps) > 1 else 0.0)
        steps = [Step(replay_s(times, basis), inside or None)]
        between = replay_gap_s(basis) if calls > 1 else 0.0
    span = span_s(steps, between)
    host = sum(step.host_s for step in steps)
    return Clocks(host, period_s(steps, calls, between), period_s(steps, 1, between), span)


def replay_gap_s(basis: Basis) -> float:
    """From the end of one replay to the start of the next; as in a stream where it was not measured."""
    return basis.value("gap.replay" if basis.has("gap.replay") else "gap.stream")


def replay_s(times: Sequence[OperatorTime], basis: Basis) -> float:
    """What issuing the graph costs the host: by its number of kernels where that was measured."""
    kernels = max(1, sum(each.device_s is not None for each in times))
    if "graph-replay" not in basis.curves:
        return basis.value("host.graph-replay")
    curve = basis.curves["graph-replay"]
    return basis.use("graph-replay", curve.at(kernels), curve.points[0][1])


def as_graph_s(times: Sequence[OperatorTime], basis: Basis) -> float | None:
    """The period of the same kernels in a CUDA Graph, replayed again and again; None where there are no graphs.

    What was not measured of graphs counts as it does in a stream, or nothing: the figure only tells whether the host
    is what limits.
    """
    if not basis.is_gpu:
        return None
    gap = basis.value("gap.graph") if basis.has("gap.graph") else basis.value("gap.stream")
    replayed = basis.has("graph-replay") or basis.has("host.graph-replay")
    inside = span_s([each.step for each in times], gap)
    between = replay_gap_s(basis) if basis.has("gap.replay") else gap
    return max(inside + between, replay_s(times, basis) if replayed else 0.0)
