"""Eight ways to win a benchmark without being faster, as a naive benchmark sees them, and as a careful one does.

In four of them the kernel cheats: what it returns is right where the benchmark looks, and the work is done at another
time, by somebody else, or not at all. In the other four the kernel is its own rival, and the benchmark favours one of
the two. What the benchmarks say stands as `latency_s`, in pairs: of the honest rival, and of the winner.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import fmean, median
from typing import Any, NamedTuple

from brrr.core.errors import WrongResultError
from brrr.core.measurement import Estimate, Measurement, Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import is_gpu, synchronize
from brrr.timing.cpu_queue import CpuQueue
from brrr_course.experiments.checked import must_fit, one_thread, relative, sampled
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import unpredicted
from brrr_course.nouns.experiment import Axis, Experiment, Variant, Workload

KERNELS = CACHED, SKIPPED, ASIDE, LAZY = ("cached output", "skipped work", "side stream", "lazy result")
BENCHMARKS = WARM, FIRST, BEST, RESTED = ("warm cache", "no warm-up", "best of many", "rested clock")
SIZES = {
    "cuda": {WARM: (4096, 2048), BEST: (256, 256), RESTED: (8192, 8192)},
    "cpu": {WARM: (32, 960), BEST: (64, 64)},
}  # fmt: skip
"""Rows and columns of the input, a square of SQUARE where nothing is said; a CPU's are for one core."""
SQUARE = {"cuda": 2048, "cpu": 128}
SIDES_OF = {"honest": "rival", "cheat": "winner"}
TOLD: dict[str, Any] = {"timer": "own", "prepare_s": 1.5}
WAYS = {
    f"{how}{side}": {"label": f"{label}{told}", "implementation": side, "operation": how, **TOLD}
    for how, told in (("", ""), ("careful-", ", timed carefully")) for side, label in SIDES_OF.items()
}  # fmt: skip
"""The variants: each side of the pair, by either benchmark."""


def supports(variant: Variant, point: Point) -> bool:
    """A CPU's clock is not the course's to rest."""
    return variant.on_gpu or point["trick"] != RESTED


def shape(variant: Variant, point: Point) -> tuple[int, int]:
    """Rows and columns of the input."""
    kind = "cuda" if variant.on_gpu else "cpu"
    return SIZES[kind].get(str(point["trick"]), (SQUARE[kind],) * 2)


def cost(variant: Variant, point: Point) -> Cost:
    """The honest work: a product with square weights, or the sum of each row."""
    rows, columns = shape(variant, point)
    if point["trick"] == WARM:
        return Cost(float(rows * (columns - 1)), 4.0 * rows * (columns + 1))
    return matmul_cost(rows, columns, columns, 2 if point["trick"] == RESTED else 4)


EXPERIMENT = Experiment(
    title="Cheating benchmarks",
    question="How does code win a benchmark without being faster?",
    axes=(Axis("trick", (*KERNELS, *BENCHMARKS), label="what wins", scale="category", noun=" "),),
    variants=(
        *(Variant(way, **told) for way, told in WAYS.items()),
        *(Variant.twin(way, "cpu", **told) for way, told in WAYS.items()),
    ),
    field="latency_s",
    package=__name__,
    needs="CUDA",
    predicts=unpredicted,
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `cheats` experiment runs: a benchmark of one side of a pair, several times.

BENCHMARKED, ROUNDS, GLANCE = 7, 5, 16
"""How often each benchmark is run, with how many rounds of calls, and the rows that the naive one looks at."""
TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2}
RUN_UP_S, HEATED_S, RESTED_S = 0.2, 0.7, 0.5
"""How long a GPU works before the careful benchmark, and before each call of a rival whose clock is to be low; the rest
that the winner takes instead."""
FLUSHED = 2**22
"""Numbers that go through a CPU's caches to empty them."""

Call = Callable[[Any], Any]


class Side(NamedTuple):
    """One side of a benchmark: what is called, what happens before each call, how often, and which time is told."""

    call: Call
    before: Callable[[], object] = lambda: None
    rounds: int = ROUNDS
    tell: Callable[[list[float]], float] = median
    warm: bool = True


class Bench:
    """A device with an input, the honest work on it, and the two benchmarks."""

    def __init__(self, variant: Variant, point: Point) -> None:
        rows, columns = shape(variant, point)
        self.device, self.gpu = variant.processor, is_gpu(variant.processor)
        must_fit(4 * (5 * rows * columns + 3 * columns**2 + FLUSHED), self.device, f"cheats {point['trick']}")
        dtype = torch.bfloat16 if point["trick"] == RESTED else torch.float32
        self.x, w = (torch.randn(n, columns, device=self.device, dtype=dtype) for n in (rows, columns))
        self.sums, self.w, self.places = point["trick"] == WARM, w, sampled(rows, GLANCE - 2).to(self.device)
        self.queue = None if self.gpu else CpuQueue()
        self.aside: Any = torch.cuda.Stream() if self.gpu else None
        self.out = torch.full_like(self.x, float("nan"))
        self.other = None if self.gpu else torch.zeros(FLUSHED)

    def work(self, x: torch.Tensor, w: torch.Tensor | None = None) -> torch.Tensor:
        """The honest work."""
        return x.sum(1) if self.sums else x @ (self.w if w is None else w)

    def error(self, y: Any, rows: Any) -> float:
        """Of these rows, against float64; NaN for another shape or type."""
        x = self.x[rows].double()
        return relative(y[rows], x.sum(1) if self.sums else x @ self.w.double(), self.x.dtype)

    def right(self, y: Any, rows: Any) -> bool:
        """Whether these rows of a result are."""
        return self.error(y, rows) <= TOLERANCE[str(self.x.dtype).removeprefix("torch.")]

    def wait(self) -> None:
        """For all streams, and for a CPU's queue."""
        synchronize() if self.queue is None else self.queue.synchronize()

    def flush(self) -> None:
        """Empty the cache."""
        if self.other is not None:
            self.other.add_(1)
            return
        from brrr.timing.gate import eviction_of

        eviction_of(torch.cuda.current_device())()

    def busy(self, seconds: float) -> None:
        """The GPU works meanwhile, a call after the other."""
        until = time.perf_counter() + seconds * self.gpu
        while time.perf_counter() < until:
            for _ in range(16):
                self.work(self.x)
            self.wait()

    def naive(self, side: Side) -> float:
        """As many are written: one input, events on the current stream (a CPU's clock), a look at the first rows."""
        y, times = side.call(self.x) if side.warm else None, []
        for _ in range(side.rounds):
            side.before()
            self.wait()
            y, taken_s = self._clocked(side.call)
            times.append(taken_s)
        self.wait()
        if not self.right(y, slice(GLANCE)):
            raise WrongResultError("cheats: the naive benchmark has found a wrong result")
        return side.tell(times)

    def _clocked(self, call: Call) -> tuple[Any, float]:
        if not self.gpu:
            start = time.perf_counter()
            return call(self.x), time.perf_counter() - start
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        y = call(self.x)
        last.record()
        last.synchronize()
        return y, first.elapsed_time(last) * 1e-3

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
            self.wait()
            start = time.perf_counter()
            y = side.call(self.x)[...]
            self.wait()
            times.append(time.perf_counter() - start)
            if not self.right(y, self.places):
                start = time.perf_counter()
                self.work(self.x)
                self.wait()
                times[-1] += time.perf_counter() - start
        return median(times)

    def close(self) -> None:
        """End a CPU's queue."""
        if self.queue is not None:
            self.queue.close()


def workload(variant: Variant, point: Point) -> Workload:
    """A benchmark of the honest rival or of the winner."""
    bench, own = Bench(variant, point), variant.implementation == "cheat"

    def measured() -> Measurement:
        timed = bench.careful if variant.operation else bench.naive
        with one_thread():
            told = [timed(SIDES[str(point["trick"])](bench)[own]) for _ in range(BENCHMARKED)]
        return Measurement(latency_s=Estimate.of(told), device=variant.device)

    tolerance = TOLERANCE[str(bench.x.dtype).removeprefix("torch.")]
    return Workload(lambda: bench.work(bench.x), lambda y: bench.error(y, bench.places), tolerance,
                    close=bench.close, others={"measured": measured})  # fmt: skip


# ---- the cheats: the honest rival, and who wins over it ----


def _cached(bench: Bench) -> tuple[Side, Side]:
    kept = dict[int, Any]()

    def call(x: torch.Tensor) -> Any:
        """Look the input's address up."""
        if x.data_ptr() not in kept:
            kept[x.data_ptr()] = bench.work(x)
        return kept[x.data_ptr()]

    return Side(bench.work), Side(call)


def _skipped(bench: Bench) -> tuple[Side, Side]:
    def call(x: torch.Tensor) -> Any:
        """The rows that somebody looks at."""
        bench.out[:GLANCE] = bench.work(x[:GLANCE])
        return bench.out

    return Side(bench.work), Side(call)


def _aside(bench: Bench) -> tuple[Side, Side]:
    def call(x: torch.Tensor) -> Any:
        """Where the clock's stream does not see it; on a CPU, in another thread."""
        if bench.queue is not None:
            bench.queue.submit(lambda: bench.out.copy_(bench.work(x)))
            return bench.out
        with torch.cuda.stream(bench.aside):
            return bench.out.copy_(bench.work(x))

    return Side(bench.work), Side(call)


class Later:
    """A result that is computed when somebody looks at it."""

    def __init__(self, job: Callable[[], Any]) -> None:
        self._job = job
        self._found: Any = None

    def __getitem__(self, key: Any) -> Any:
        if self._found is None:
            self._found = self._job()
        return self._found[key]


def _lazy(bench: Bench) -> tuple[Side, Side]:
    return Side(bench.work), Side(lambda x: Later(partial(bench.work, x)))


def _warm(bench: Bench) -> tuple[Side, Side]:
    return Side(bench.work, before=bench.flush), Side(bench.work)


class Tuned:
    """Tries layouts of the weights on its first call and keeps the fastest, as cuDNN's benchmark mode does."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._best: torch.Tensor | None = None

    def __call__(self, x: torch.Tensor) -> Any:
        if self._best is None:
            ways = (self._bench.w, self._bench.w.t().contiguous().t())
            self._best = min(ways, key=lambda way: min(self._taken_s(x, way) for _ in range(4)))
        return self._bench.work(x, self._best)

    def _taken_s(self, x: torch.Tensor, way: torch.Tensor) -> float:
        start = time.perf_counter()
        self._bench.work(x, way)
        self._bench.wait()
        return time.perf_counter() - start


def _first(bench: Bench) -> tuple[Side, Side]:
    return Side(Tuned(bench), rounds=1, warm=False), Side(Tuned(bench))


def _best(bench: Bench) -> tuple[Side, Side]:
    return Side(bench.work, rounds=5, tell=fmean), Side(bench.work, rounds=500, tell=min)


def _rested(bench: Bench) -> tuple[Side, Side]:
    return (Side(bench.work, partial(bench.busy, HEATED_S), 3),
            Side(bench.work, partial(time.sleep, RESTED_S), 3))  # fmt: skip


SIDES: dict[str, Callable[[Bench], tuple[Side, Side]]] = {
    CACHED: _cached, SKIPPED: _skipped, ASIDE: _aside, LAZY: _lazy, WARM: _warm, FIRST: _first, BEST: _best,
    RESTED: _rested,
}  # fmt: skip
