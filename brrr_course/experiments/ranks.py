"""Several processes of this host, a device each, that make the same calls at the same time.

A process is a *rank*: its number tells which device is its own. The ranks find each other through a file in a temporary
folder, and talk by NCCL between GPUs, by gloo on a CPU, whose threads they share. Who started them sends each the same
function, and waits for all answers. Where one dies, does not answer in time, or the caller is interrupted, all end.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

from brrr.core.errors import BrrrError, UnavailableError
from brrr.core.measurement import Estimate, Measurement, Point, Processor, Value, median
from brrr.core.private import end_with
from brrr.gpu import is_gpu, synchronize
from brrr.gpu.precision import float32_products, float32_recurrence
from brrr.gpu.probe import cpu_count
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
from brrr_course.nouns.experiment import Experiment, Variant, Workload

RANKS = 2
"""A measurement has so many."""
TIMEOUT_S = 120.0
"""No call of a measurement takes as long; starting takes seconds, the first call of NCCL some more."""
SETTINGS = {"NCCL_NVLS_ENABLE": "0"}
"""Multicast through NVLink's switches is off: a virtual machine may not have it, and two GPUs gain little by it."""
LOOPBACK = {"linux": {"GLOO_SOCKET_IFNAME": "lo"}, "darwin": {"GLOO_SOCKET_IFNAME": "lo0"}}
"""The interface that gloo takes between processes of one host; without it a host's name must resolve."""


@dataclass
class Rank:
    """One of `count` processes, as the functions that it is sent see it; they keep in `held` what a later one needs.

    >>> Rank(1, 2, "cuda").device, Rank(1, 2, "cpu").device
    ('cuda:1', 'cpu')
    """

    number: int
    count: int
    processor: Processor
    held: Any = None

    @property
    def device(self) -> str:
        """Its own device, as torch names it."""
        return f"{self.processor}:{self.number}" if is_gpu(self.processor) else self.processor

    def done(self) -> None:
        """Wait for what the device does."""
        if is_gpu(self.processor):
            synchronize()


class Ranks:
    """The processes: `call` runs a function of some module in all of them, each with its `Rank`."""

    def __init__(self, count: int, processor: Processor, timeout_s: float = TIMEOUT_S) -> None:
        """UnavailableError where there are fewer GPUs than `count`, or the ranks cannot meet."""
        require_devices(count, processor)
        self.processor, self.timeout_s, self.over, self.holds = processor, timeout_s, "", object()
        self._folder = tempfile.TemporaryDirectory(prefix="brrr-ranks-", ignore_cleanup_errors=True)
        self._pipes, self._processes, context = list[Connection](), [], get_context("spawn")
        try:
            for number in range(count):
                ours, theirs = context.Pipe()
                self._pipes.append(ours)
                told = theirs, Rank(number, count, processor), os.getpid()
                self._processes.append(context.Process(target=_serve, args=told, daemon=True))
                with bare_main():
                    self._processes[-1].start()
                theirs.close()  # that end is the process's alone: it closes when that dies
        except BaseException as error:
            self.end(f"{type(error).__name__}: {error}")
            raise
        self.call(_join, f"{self._folder.name}/store", timeout_s)

    def call(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """`function(rank, *args)` in all ranks at once; their results in order.

        What one raises is raised here. Then, as for a rank that died (UnavailableError with its exit code), for no
        answer within `timeout_s`, and for Ctrl-C, all processes end: the others may wait for it for ever.
        """
        if self.over:
            raise UnavailableError(f"the processes have ended: {self.over}")
        found, count = dict[int, Any](), len(self._pipes)
        try:
            for pipe in self._pipes:
                with suppress(OSError):  # of a process that is dead, which its answer tells
                    pipe.send((function, args))
            while left := [number for number in range(count) if number not in found]:
                ready = wait([self._pipes[number] for number in left], self.timeout_s)
                if not ready:
                    raise UnavailableError(f"no answer within {self.timeout_s:g} s from rank {left} of {count}")
                found |= {number: self._answer(number) for number in left if self._pipes[number] in ready}
        except BaseException as error:
            self.end(f"{type(error).__name__}: {error}")
            raise
        return [found[number] for number in sorted(found)]

    def _answer(self, number: int) -> Any:
        try:
            answer = self._pipes[number].recv()
        except (EOFError, OSError):
            answer = UnavailableError(f"rank {number} of {len(self._pipes)} is gone")
        if not isinstance(answer, Exception):
            return answer
        for each, process in enumerate(self._processes):  # where one died, the others only say that they lost it
            process.join(0.2)
            if process.exitcode is not None:
                raise UnavailableError(f"rank {each} of {len(self._pipes)} died with exit code {process.exitcode}")
        raise answer

    def end(self, why: str = "end() was called") -> None:
        """Kill the processes, whatever they are at; they hold nothing that anybody misses."""
        self.over = self.over or why.rstrip(": ")  # as Ctrl-C says nothing more
        for pipe, process in zip(self._pipes, self._processes, strict=False):
            if process.pid is not None:
                process.kill()
                process.join()
            pipe.close()
        self._folder.cleanup()


@contextmanager
def bare_main() -> Iterator[None]:
    """A process that is spawned runs the caller's script once more, and ranks need nothing of it."""
    kept, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        with patch.dict(os.environ, PYTHONSAFEPATH="1"):  # nothing from the current folder
            yield
    finally:
        sys.modules["__main__"] = kept


_here: dict[Processor, Ranks] = {}


def ranks_on(processor: Processor) -> Ranks:
    """RANKS of them on a kind of device, for this session: started once, and again where they have ended."""
    if processor not in _here or _here[processor].over:
        _here[processor] = Ranks(RANKS, processor)
    return _here[processor]


def end_ranks() -> None:
    """End those of this session, so that they hold no memory while something else is measured."""
    while _here:
        _here.popitem()[1].end()


def require_devices(count: int, processor: Processor) -> None:
    """UnavailableError where this host has fewer GPUs, or torch no NCCL for them."""
    here = torch.cuda.device_count()
    if is_gpu(processor) and here < count:
        raise UnavailableError(
            f"it takes {count} GPUs of one host, and this one has {here}. Recordings show it, and processes on the CPU"
        )
    if is_gpu(processor) and not torch.distributed.is_nccl_available():
        raise UnavailableError("this build of torch has no NCCL, by which GPUs exchange; recordings show it")


def _join(rank: Rank, store: str, timeout_s: float) -> None:
    """Take the rank's device and its share of the CPU, and meet the others."""
    os.environ |= SETTINGS | LOOPBACK.get(sys.platform, {})
    from torch._C._distributed_c10d import FileStore

    torch.set_num_threads(max(1, cpu_count() // rank.count))
    how, device = "gloo", None
    if is_gpu(rank.processor):
        how, device = "nccl", torch.device(rank.device)
        torch.cuda.set_device(device)
    dist.init_process_group(how, None, timedelta(seconds=timeout_s), rank.count, rank.number,
                            FileStore(store, rank.count), device_id=device)  # fmt: skip
    dist.barrier()


def _serve(pipe: Connection, rank: Rank, parent: int) -> None:
    """Answer each function that is sent, until whoever sends them is gone; Ctrl-C is the sender's."""
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError):
        while True:
            function, args = pipe.recv()
            try:
                answer = function(rank, *args)
            except Exception as error:
                known = isinstance(error, BrrrError) or type(error).__name__ == "OutOfMemoryError"
                answer = error if known else RuntimeError(f"rank {rank.number}: {type(error).__name__}: {error}")
            pipe.send(answer)


# ---------------------------------------------------------------------------------------------------------------------
# A measurement over several ranks: what one `Measurement` says of calls that all of them make together.
#
# `period_s`: all ranks meet, each makes N calls without waiting and waits once at the end; over N, of the slowest
# rank. `latency_s`: the same of one call. `host_s` (GPU): until the loop's last call returned, over N, of the slowest
# rank: a call that comes right after the ranks met is launched slower than those of a loop. `kernel_s`, `busy_s` and
# `kernels` (GPU): rank 0's alone, under the profiler while the others run as they are; a NCCL kernel's time holds its
# waiting for the other rank, and `kernel_s - busy_s` is how long kernels of two streams ran at once. The variants of a
# point take turns, so that no ratio of one run crosses two moments. A result is checked on every rank; the worst error
# counts.

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


def variants_of(labels: Mapping[str, str]) -> tuple[Variant, ...]:
    """The variants of ways that ranks run: on GPUs, and by processes on the CPU, which stand in for them."""
    told: dict[str, Any] = {"timer": "own", "prepare_s": 0.4}
    gpu = (Variant(way, label, **told) for way, label in labels.items())
    cpu = (Variant.twin(way, "cpu", f"on the CPU: {label}", **told) for way, label in labels.items())
    return (*gpu, *cpu)


def ranked(experiment: Experiment, variant: Variant, point: Point, prepare: Prepare, tolerance: float) -> Workload:
    """The workload of a variant whose calls all ranks make: `prepare` makes their ways in each rank, by name."""
    alike = [each for each in experiment.variants if each.device == variant.device]
    names = tuple(each.implementation for each in alike if experiment.has(each.name, point))
    given = Together.of(ranks_on(variant.processor), prepare, names, *point.items())
    return Workload(lambda: given.call(_checked, variant.implementation), worst, tolerance,
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
    return recorded_loop(rank.held[name].run, rank.done, TRACED, kind=rank.processor)
