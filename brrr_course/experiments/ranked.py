"""A measurement over several ranks: what one `Measurement` says of calls that all of them make together.

`period_s`: all ranks meet, each makes N calls without waiting and waits once at the end; over N, of the slowest rank.
`latency_s`: the same of one call. `host_s` (GPU): until the loop's last call returned, over N, of the slowest rank: a
call that comes right after the ranks met is launched slower than those of a loop. `kernel_s`, `busy_s`
and `kernels` (GPU): rank 0's alone, under the profiler while the others run as they are; a NCCL kernel's time holds its
waiting for the other rank, and `kernel_s - busy_s` is how long kernels of two streams ran at once. The ways of a point
take turns, so that no ratio of one run crosses two moments. A result is checked on every rank; the worst error counts.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Estimate, Measurement, Point, Value, median
from brrr.gpu import is_gpu
from brrr.gpu.precision import float32_products, float32_recurrence
from brrr.timing import activity
from brrr.timing.cpu_queue import name_of
from brrr.timing.host_times import clock_tick_s
from brrr.tracing.events import Event
from brrr.tracing.kineto import LoopTimes, settled, spans_of
from brrr.tracing.recording import recorded_loop
from brrr.tracing.spans import Span
from brrr.tracing.timeline import Timeline
from brrr_course.experiments.checked import PointInputs, worst
from brrr_course.experiments.lazily import dist, torch
from brrr_course.experiments.ranks import Rank, Ranks, ranks_on
from brrr_course.nouns.experiment import Experiment, Variant, Workload

ROUNDS, SLICE_S, MOST_CALLS, PROFILED = {True: 20, False: 8}, 0.02, 500, 15
"""Rounds, on GPUs and on a CPU, of a loop of about so many seconds, of so many calls at most; calls under the profiler.

Few samples make wide intervals where a GPU's host is shared, and takes twice as long in one round as in the next.
"""
TRACED, LONG = 3, 5
"""Calls of a timeline, and how many times as many its period is measured with."""


class RankCall(NamedTuple):
    """What a rank calls, and the relative error of its result on this rank; 0 on a rank that has nothing to do.

    reset: what puts its buffers back before the call that is checked, where each call works on the last one's result.
    """

    run: Callable[[], Any]
    error: Callable[[Any], float]
    reset: Callable[[], object] = lambda: None


IDLE = RankCall(lambda: None, lambda found: 0.0)
"""What a rank does while another works alone."""
Prepare = Callable[[Rank, Point], Mapping[str, RankCall]]


class Together(PointInputs):
    """What the variants of a point share: the ranks with its ways prepared, and the ways' times, taken in turns."""

    def __init__(self, ranks: Ranks, prepare: Prepare, names: tuple[str, ...], *at: tuple[str, Value]) -> None:
        self.ranks, self.names, self.gpu = ranks, names, is_gpu(ranks.processor)
        self._prepared, self._token = (prepare, dict(at)), object()
        self._found: dict[str, Measurement] = {}

    def call(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """`Ranks.call`, once the ranks hold this point's ways: in between they may have got another's."""
        if self.ranks.holds is not self._token:
            self.ranks.call(_prepare, *self._prepared)
            self.ranks.holds = self._token
        return self.ranks.call(function, *args)

    def measured(self, way: str) -> Measurement:
        """The measurement of a way; all of the point's are measured when the first is asked for."""
        if not self._found:
            calls: dict[str, int] = {}
            for name in self.names:
                self._slowest(name, 2)  # loads, connects, and lets DDP choose its buckets
                calls[name] = max(1, min(MOST_CALLS, round(SLICE_S / self._slowest(name, 2)[1])))
            taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in self.names}
            for name in self.names * ROUNDS[self.gpu]:
                taken[name].append((self._slowest(name, 1)[1], *self._slowest(name, calls[name])))
            self._found = {name: self._measurement(name, taken[name]) for name in self.names}
        return self._found[way]

    def _slowest(self, name: str, calls: int) -> list[float]:
        """Seconds per call until the last has returned, and until its end: of the slowest rank."""
        return [max(each) for each in zip(*self.call(_timed, name, calls), strict=True)]

    def traced(self, way: str) -> Timeline:
        """A few calls of a way: what the first rank's host does, and each GPU's kernels, those of exchange apart."""
        if not self.gpu:
            raise UnavailableError("trace: processes on a CPU have no lanes of a device")
        loop, one = (
            median([self._slowest(way, calls)[1] for _ in range(ROUNDS[True])]) for calls in (LONG * TRACED, TRACED)
        )
        for _ in range(activity.ATTEMPTS):  # a session may record nothing
            events, seconds = zip(*self.call(_traced, way), strict=True)
            if all(any(event.on_device for event in of_rank) for of_rank in events):
                break
        else:
            raise UnavailableError("trace: the profiler recorded nothing on one of the GPUs; trace again")
        name = f"{len(events)} x {name_of('cuda')}"
        return Timeline(in_lanes(events), "cuda", name, date.today().isoformat(), torch.__version__, TRACED,
                        loop, one, max(seconds) / TRACED)  # fmt: skip

    def _measurement(self, name: str, taken: list[tuple[float, ...]]) -> Measurement:
        samples = dict(zip(("latency_s", "host_s", "period_s"), zip(*taken, strict=True), strict=True))
        kernels: list[tuple[float, ...]] = []
        for _ in range(activity.ATTEMPTS if self.gpu else 0):  # a session may record nothing
            kernels = kernels or self.call(_profiled, name)[0]
        counts, *sums = zip(*kernels, strict=True) if kernels else ((),)
        samples |= dict(zip(("kernel_s", "busy_s"), sums, strict=False))
        if not self.gpu:
            del samples["host_s"]
        fields: dict[str, Any] = {field: Estimate.of(each, clock_tick_s()) for field, each in samples.items()}
        return Measurement(**fields, kernels=round(median(counts)) if counts else None, samples=samples)


def ranked(experiment: Experiment, variant: Variant, point: Point, prepare: Prepare, tolerance: float) -> Workload:
    """The workload of a variant whose calls all ranks make: `prepare` makes their ways in each rank, by name."""
    alike = [each for each in experiment.variants if each.device == variant.device]
    names = tuple(each.implementation for each in alike if experiment.has(each.name, point))
    given = Together.of(ranks_on(variant.processor), prepare, names, *point.items())
    cost = experiment.cost(variant, point) if experiment.cost else None
    assert cost is not None
    return Workload(lambda: given.call(_checked, variant.implementation), cost, worst, tolerance,
                    others={"measured": lambda: given.measured(variant.implementation),
                            "traced": lambda: given.traced(variant.implementation)})  # fmt: skip


def in_lanes(recorded: Sequence[Sequence[Event]]) -> tuple[Span, ...]:
    """What the ranks' profilers recorded, in one time: all of the first rank's, of the others what their GPUs did."""
    made, start_ns = list[Span](), LoopTimes.of(recorded[0]).start_ns
    for rank, events in enumerate(recorded):
        spans = spans_of(events)
        begun = next(span.start_ns for span in spans if span.kind == "call")
        by = LoopTimes.of(events).starts_ns[0] - begun  # spans begin with their own loop
        for span in spans:
            if span.on_device or rank == 0:
                does = "exchange" if span.name.startswith("nccl") else "compute"
                lane = f"GPU {rank} {does}" if span.on_device else span.lane
                made.append(Span(lane, span.kind, span.name, span.start_ns + by, span.end_ns + by, span.call,
                                 -1 if rank else span.cause))  # fmt: skip
    return settled(made, start_ns)


# ---- what runs in each rank ----


def _prepare(rank: Rank, prepare: Prepare, point: Point) -> None:
    rank.held = None
    gc.collect()  # DDP is in cycles with its module
    torch.cuda.empty_cache()  # the last point's memory is this one's, and NCCL's, which asks the driver for it
    rank.held = prepare(rank, point)


@float32_products()  # whatever type the reference has
@float32_recurrence()
def _checked(rank: Rank, name: str) -> float:
    way: RankCall = rank.held[name]
    way.reset()
    found = way.run()
    rank.done()
    return way.error(found)


def _meet(rank: Rank) -> None:
    dist.barrier()
    rank.done()


def _timed(rank: Rank, name: str, calls: int) -> tuple[float, float]:
    run = rank.held[name].run
    _meet(rank)
    start = time.perf_counter()
    for _ in range(calls):
        run()
    returned = time.perf_counter()
    rank.done()
    return (returned - start) / calls, (time.perf_counter() - start) / calls


def _profiled(rank: Rank, name: str) -> list[tuple[int, float, float]]:
    from brrr.timing.gate import marker_kernel

    def run() -> None:
        for _ in range(PROFILED):
            marker_kernel()
            rank.held[name].run()

    marker_kernel()  # loads in each rank before they meet, or rank 0's kernels wait for the others' loading
    _meet(rank)
    if rank.number:  # unobserved, it is ahead of rank 0, whose kernels then seldom wait for it
        run()
        return []
    calls = activity.split_by_marker(activity.record_activity(run, attempts=1)[0])
    return [(len(each), activity.kernel_sum_s(each), activity.busy_union_s(each)) for each in calls if each]


def _traced(rank: Rank, name: str) -> tuple[list[Event], float]:
    _meet(rank)
    return recorded_loop(rank.held[name].run, rank.done, TRACED, gpu=is_gpu(rank.processor))
