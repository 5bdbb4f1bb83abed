"""Eight ways to win a benchmark without being faster, as a naive benchmark sees them, and as a careful one does.

In four of them the kernel cheats: what it returns is right where the benchmark looks, and the work is done at another
time, by somebody else, or not at all. In the other four the kernel is its own rival, and the benchmark favours one of
the two. What the benchmarks say stands as `latency_s`, in pairs: of the honest rival, and of the winner.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial
from statistics import fmean, median
from typing import Any, NamedTuple

from brrr.core.errors import WrongResultError
from brrr.core.measurement import Estimate, Measurement, Point, Processor
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import is_gpu, synchronize
from brrr.timing.cpu_queue import CpuQueue
from brrr_course.experiments.checked import must_fit, one_thread, relative, sampled
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import unpredicted
from brrr_course.nouns.experiment import Axis, Experiment, Variant, Workload

KERNELS = CACHED, SKIPPED, ASIDE, LAZY = ("cached output", "skipped work", "side stream", "lazy result")
BENCHMARKS = WARM, FIRST, BEST, RESTED = ("warm cache", "no warm-up", "best of many", "rested clock")
SIZES = {True: {WARM: (4096, 2048), BEST: (256, 256), RESTED: (8192, 8192), "": (2048, 2048)},
         False: {WARM: (32, 960), "": (128, 128)}}  # fmt: skip
"""Rows and columns of the input, on a GPU and on one core of a CPU."""


def supports(variant: Variant, point: Point) -> bool:
    """A CPU's clock is not the course's to rest."""
    return variant.on_gpu or point["trick"] != RESTED


def shape(gpu: bool, trick: str) -> tuple[int, int]:
    """Rows and columns of the input."""
    return SIZES[gpu].get(trick, SIZES[gpu][""])


def cost(variant: Variant, point: Point) -> Cost:
    """The honest work: a product with square weights, or the sum of each row."""
    rows, columns = shape(variant.on_gpu, str(point["trick"]))
    if point["trick"] == WARM:
        return Cost(float(rows * (columns - 1)), 4.0 * rows * (columns + 1))
    return matmul_cost(rows, columns, columns, 2 if point["trick"] == RESTED else 4)


EXPERIMENT = Experiment(
    title="Cheating benchmarks",
    question="How does code win a benchmark without being faster?",
    axes=(Axis("trick", (*KERNELS, *BENCHMARKS), label="what wins", scale="category", noun=" "),),
    variants=tuple(
        make(f"{how}{side}", label=f"{label}{told}", timer="own", prepare_s=1.5, implementation=side, operation=how)
        for make in (Variant, partial(Variant.twin, device="cpu"))
        for how, told in (("", ""), ("careful-", ", timed carefully"))
        for side, label in (("honest", "rival"), ("cheat", "winner"))
    ),
    field="latency_s",
    package=__name__,
    needs="CUDA",
    predicts=unpredicted,
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `cheats` experiment runs: a benchmark of one side of a pair, several times.

BENCHMARKED, ROUNDS, GLANCE = 11, 7, 16
"""How often each benchmark is run, with how many rounds of calls, and the rows that the naive one looks at."""
RUN_UP_S, HEATED_S, RESTED_S = 0.1, 0.5, 0.4
"""How long a GPU works before the careful benchmark, and before each call of a rival whose clock is to be low; the rest
that the winner takes instead."""
FLUSHED = 2**25, 2**22
"""Numbers that go through a GPU's or a CPU's caches to empty them: 128 MB through a GPU's."""

Call = Callable[[Any], Any]


class Side(NamedTuple):
    """One side of a benchmark: what is called, what happens before each call, how often, which time counts.

    Who is called once is called without warm-up.
    """

    call: Call
    before: Callable[[], object] = lambda: None
    rounds: int = ROUNDS
    tell: Callable[[list[float]], float] = median


class BothBenchmarks:
    """A device with an input, the honest work on it, and the two benchmarks; `queue` is a CPU's other stream."""

    def __init__(self, device: Processor, trick: str, queue: CpuQueue | None = None) -> None:
        self.gpu, self.sums, half = is_gpu(device), trick == WARM, trick == RESTED
        (rows, columns), flushed = shape(self.gpu, trick), FLUSHED[not self.gpu]
        must_fit(4 * (5 * rows * columns + 3 * columns**2 + flushed), device, f"cheats {trick}")
        self.tolerance, dtype = (2e-2, torch.bfloat16) if half else (1e-4, torch.float32)
        self.x, self.w = (torch.randn(n, columns, device=device, dtype=dtype) for n in (rows, columns))
        self.out, self.places = torch.full_like(self.x, float("nan")), sampled(rows, GLANCE - 2).to(device)
        self.other, self.queue = torch.zeros(flushed, device=device), None if self.gpu else queue
        self.wait = self.queue.synchronize if self.queue else synchronize

    def work(self, x: torch.Tensor, w: torch.Tensor | None = None) -> torch.Tensor:
        """The honest work."""
        return x.sum(1) if self.sums else x @ (self.w if w is None else w)

    def error(self, y: Any, rows: Any) -> float:
        """Of these rows, against float64; NaN for another shape or type."""
        x = self.x[rows].double()
        return relative(y[rows], x.sum(1) if self.sums else x @ self.w.double(), self.x.dtype)

    def flush(self) -> None:
        """Empty the cache; what lies in it then need not be written back."""
        self.other.add_(1).sum()

    def busy(self, seconds: float) -> None:
        """The GPU works meanwhile, a call after the other."""
        until = time.perf_counter() + seconds * self.gpu
        while time.perf_counter() < until:
            for _ in range(16):
                self.work(self.x)
            self.wait()

    def until_all_is_done(self, call: Call) -> tuple[Any, float]:
        """What a call returns, each number of it looked at, and its seconds."""
        self.wait()
        start = time.perf_counter()
        y = call(self.x)[...]
        self.wait()
        return y, time.perf_counter() - start

    def between_events(self, call: Call) -> tuple[Any, float]:
        """What a call returns, and the seconds that its stream, or on a CPU its thread, has seen."""
        self.wait()
        if not self.gpu:
            start = time.perf_counter()
            return call(self.x), time.perf_counter() - start
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        y = call(self.x)
        last.record()
        last.synchronize()
        return y, first.elapsed_time(last) * 1e-3

    def naive(self, side: Side) -> float:
        """As many are written: one input, events on the current stream, a look at the first rows."""
        y, times = side.call(self.x) if side.rounds > 1 else None, []
        for _ in range(side.rounds):
            side.before()
            y, taken_s = self.between_events(side.call)
            times.append(taken_s)
        self.wait()
        if not self.error(y, slice(GLANCE)) <= self.tolerance:
            raise WrongResultError("cheats: the naive benchmark has found a wrong result")
        return side.tell(times)

    def careful(self, side: Side) -> float:
        """Warm, in a steady clock, other numbers in each round, an empty cache, all streams waited for, all rows there.

        Rows all over the result are checked; where one is wrong, the work is still to be done, and is.
        """
        times = []
        side.call(self.x)
        self.busy(RUN_UP_S)
        for _ in range(ROUNDS):
            self.x.normal_()
            self.flush()
            y, taken_s = self.until_all_is_done(side.call)
            if not self.error(y, self.places) <= self.tolerance:
                self.flush()
                taken_s += self.until_all_is_done(self.work)[1]
            times.append(taken_s)
        return median(times)


def workload(variant: Variant, point: Point) -> Workload:
    """A benchmark of the honest rival or of the winner."""
    trick, device = str(point["trick"]), variant.processor
    bench, own = BothBenchmarks(device, trick), variant.implementation == "cheat"
    return Workload(lambda: bench.work(bench.x), lambda y: bench.error(y, bench.places), bench.tolerance, others={
        "measured": lambda: Measurement(latency_s=in_turns(device, trick, bool(variant.operation))[own],
                                        device=variant.device)})  # fmt: skip


@lru_cache(maxsize=2)
@one_thread()
def in_turns(device: Processor, trick: str, careful: bool) -> list[Estimate]:
    """What a benchmark says of the honest rival and of the winner, several times."""
    with CpuQueue() as queue:
        bench = BothBenchmarks(device, trick, queue)
        timed = bench.careful if careful else bench.naive
        told = [[timed(side) for side in SIDES[trick](bench)] for _ in range(BENCHMARKED)]
    return [Estimate.of(each) for each in zip(*told, strict=True)]


# ---- the cheats: the honest rival, and who wins over it ----


def _cached(bench: BothBenchmarks) -> Call:
    kept = dict[int, Any]()

    def call(x: torch.Tensor) -> Any:
        """Look the input's address up."""
        if x.data_ptr() not in kept:
            kept[x.data_ptr()] = bench.work(x)
        return kept[x.data_ptr()]

    return call


def _skipped(bench: BothBenchmarks, x: torch.Tensor) -> Any:
    """The rows that somebody looks at."""
    bench.out[:GLANCE] = bench.work(x[:GLANCE])
    return bench.out


def _aside(bench: BothBenchmarks) -> Call:
    """Where the clock's stream does not see it; on a CPU, in another thread."""
    stream = torch.cuda.Stream() if bench.gpu else None
    if bench.queue:
        bench.queue.submit(torch.set_num_threads, 1)  # a thread has its own number

    def call(x: torch.Tensor) -> Any:
        if bench.queue:
            bench.queue.submit(lambda: bench.out.copy_(bench.work(x)))
            return bench.out
        with torch.cuda.stream(stream):
            return bench.out.copy_(bench.work(x))

    return call


class Later:
    """A result that is computed when somebody looks at it."""

    def __init__(self, work: Call, x: Any) -> None:
        self._work, self._x = work, x

    def __getitem__(self, key: Any) -> Any:
        return self._work(self._x)[key]


def _tuned(bench: BothBenchmarks) -> Call:
    """Tries layouts of the weights on its first call and keeps the fastest, as cuDNN's benchmark mode does."""
    ways, best = (bench.w, bench.w.t().contiguous().t()), list[Any]()

    def call(x: torch.Tensor) -> Any:
        if not best:
            took = [min(bench.until_all_is_done(partial(bench.work, w=w))[1] for _ in range(4)) for w in ways]
            best.append(ways[took.index(min(took))])
        return bench.work(x, best[0])

    return call


SIDES: dict[str, Callable[[BothBenchmarks], tuple[Side, Side]]] = {
    CACHED: lambda bench: (Side(bench.work), Side(_cached(bench))),
    SKIPPED: lambda bench: (Side(bench.work), Side(partial(_skipped, bench))),
    ASIDE: lambda bench: (Side(bench.work), Side(_aside(bench))),
    LAZY: lambda bench: (Side(bench.work), Side(partial(Later, bench.work))),
    WARM: lambda bench: (Side(bench.work, bench.flush), Side(bench.work)),
    FIRST: lambda bench: (Side(_tuned(bench), rounds=1), Side(_tuned(bench))),
    BEST: lambda bench: (Side(bench.work, tell=fmean), Side(bench.work, rounds=500, tell=min)),
    RESTED: lambda bench: (Side(bench.work, partial(bench.busy, HEATED_S), 3),
                           Side(bench.work, partial(time.sleep, RESTED_S), 3)),
}  # fmt: skip
