"""Every timer on the same functions: how far is each one off?

Some are made for it: kernels that spin for a set time, which they check by the GPU's own clock, and functions whose
host and device work is put there on purpose.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from brrr.core.measurement import Field, Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import is_queue
from brrr_course.experiments.checked import error_against, must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.matmul import queued_product
from brrr_course.nouns.experiment import Axis, Experiment, Function, Variant, Workload, accelerator

SPINS_US = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
INJECTED_US = ((100, 20), (200, 50), (50, 10), (20, 100), (50, 200), (10, 50))
CONSTRUCTED = (*(f"spin-{us}us" for us in SPINS_US), *(f"spins-20x{us}us" for us in (1, 2, 5)),
               *(f"host-{host}us-device-{device}us" for host, device in INJECTED_US))  # fmt: skip
OPERATORS = ("relu-64x1024", *(f"copy-{size}" for size in ("1KB", "32KB", "1MB", "32MB", "1GB")),
             *(f"gemm-{n}" for n in (128, 256, 500, 512, 1024, 2048, 4096, 8192)),
             "softmax-64x1024", "softmax-4096x4096")  # fmt: skip
FUNCTIONS = (*OPERATORS, *(f"chain-{count}" for count in (2, 5, 10, 20, 50)), "mixed-20", "syncs")
QUEUE_FUNCTIONS = ("product-128", "product-512", "product-1000")


def supports(variant: Variant, point: Point) -> bool:
    """Which timer is asked about which function in which cache state."""
    function, cold = str(point["function"]), point["cache"] == "cold"
    if is_queue(variant.device) or function in QUEUE_FUNCTIONS:
        return is_queue(variant.device) and function in QUEUE_FUNCTIONS and not cold
    if function in CONSTRUCTED:
        return variant.timer == "measure" and not cold
    if cold:  # what do_bench times is a cold cache: it overwrites the L2 before each call
        return variant.timer in ("measure", "do-bench")
    if variant.timer == "do-bench-cudagraph":
        return function != "syncs"  # which no graph can hold
    if variant.timer == "transfers-included":
        return function in (*OPERATORS, "chain-20") and function not in ("copy-1GB", "gemm-8192")
    return variant.timer != "do-bench"


TIMERS: dict[str, tuple[str, Field, str]] = {
    "measure": ("measure(), kernels alone", "kernel_s", "measure"),
    "do-bench": ("triton do_bench (cold cache)", "span_s", "do_bench"),
    "do-bench-cudagraph": ("triton do_bench_cudagraph", "span_s", "do_bench_cudagraph"),
    "torch-benchmark": ("torch.utils.benchmark", "period_s", "torch.utils.benchmark"),
    "no-sync": ("without synchronize()", "host_s", "no sync"),
    "no-warm-up": ("first call, no warm-up", "latency_s", "no warm-up"),
    "sync-each-call": ("synchronize() each call", "latency_s", "sync each call"),
    "event-pair": ("event pair each call", "span_s", "event pair each call"),
    "transfers-included": ("transfers included", "latency_s", "transfers included"),
}  # fmt: skip
EXPERIMENT = Experiment(
    title="Timers",
    question="Which timer tells the truth?",
    axes=(
        Axis("function", (*FUNCTIONS, *CONSTRUCTED, *QUEUE_FUNCTIONS), label="what is timed", scale="category",
             quick=("relu-64x1024", "gemm-512", "product-128", "product-512")),
        Axis("cache", ("hot", "cold"), label="cache", scale="category", quick=("hot",), noun="cache"),
    ),
    variants=(
        *(Variant(timer, label, timer=timer, work="" if timer == "no-warm-up" else "function", field=field, line=line)
          for timer, (label, field, line) in TIMERS.items()),
        *(Variant.twin(timer, "cpu-queue", TIMERS[timer][0], timer=timer, field=TIMERS[timer][1],
                       stands_in_for=TIMERS[timer][2:])
          for timer in ("measure", "no-sync", "no-warm-up", "sync-each-call")),
    ),
    field="latency_s",
    package=__name__,
    anchors=({"function": "relu-64x1024", "cache": "hot"}, {"function": "gemm-1024", "cache": "hot"}),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `timers` experiment runs: operators of all sizes, chains, and functions that take a set time.

ROUNDED, EXACT = 1e-4, 0.0


def workload(variant: Variant, point: Point) -> Workload:
    """The function named by the point, on fresh random inputs."""
    kind, _, rest = str(point["function"]).partition("-")
    if kind == "product":
        return replace(queued_product(int(rest)), cost=matmul_cost(int(rest), int(rest), int(rest), 4))
    make: dict[str, Callable[[str], Workload]] = {
        "relu": partial(_on_random, torch.relu), "softmax": partial(_on_random, _softmax, flop=5.0, tolerance=ROUNDED),
        "chain": _chain, "mixed": _mixed, "syncs": _syncs, "copy": _copy, "gemm": _gemm,
        "spin": lambda duration: _spins(f"1x{duration}"), "spins": _spins, "host": _injected,
    }  # fmt: skip
    return make[kind](rest)


def _on_gpu(
    run: Callable[..., Any], inputs: tuple[torch.Tensor, ...], cost: Cost, error: Callable[[Any], float],
    tolerance: float = ROUNDED,
) -> Workload:  # fmt: skip
    """A workload on the GPU, with a twin that also sends its inputs there and its result back."""
    on_host, there = tuple(tensor.cpu() for tensor in inputs), accelerator()
    with_transfers = lambda: run(*(tensor.to(there) for tensor in on_host)).cpu()  # noqa: E731
    return Workload(lambda: run(*inputs), error, tolerance, cost, others={"with_transfers": with_transfers})


def _on_random(
    function: Function, shape: str = "64x1024", operators: int = 1, flop: float = 1.0, tolerance: float = EXACT
) -> Workload:
    """Operators one after the other, each on all numbers of an array and of so many FLOP for each."""
    x = torch.randn(*map(int, shape.split("x")), device=accelerator())
    cost = Cost(flop * operators * x.numel(), 2.0 * operators * x.nbytes)
    return _on_gpu(function, (x,), cost, error_against(function, (x,)), tolerance)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def _copy(size: str) -> Workload:
    scale = {"KB": 1e3, "MB": 1e6, "GB": 1e9}[size[-2:]]
    count = int(float(size[:-2]) * scale) // 4
    must_fit(count * 12, accelerator(), f"copy {size}")
    x, out = torch.randn(count, device=accelerator()), torch.full((count,), float("nan"), device=accelerator())
    return _on_gpu(out.copy_, (x,), Cost(0.0, 2.0 * x.nbytes), error_against(lambda part: part, (x,)), EXACT)


def _gemm(size: str) -> Workload:
    from brrr.roofline.calibrate.part import product_error

    n = int(size)
    a, b = torch.randn(n, n, device=accelerator()), torch.randn(n, n, device=accelerator())
    return _on_gpu(torch.mm, (a, b), matmul_cost(n, n, n, 4), product_error(a, b))


def _chain(length: str) -> Workload:
    operator, times = torch.relu, int(length)

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(times):
            x = operator(x)
        return x

    return _on_random(chain, operators=times)


def _mixed(length: str) -> Workload:
    """relu, sin, softmax, add in turn: kernels of different kinds and lengths in one chain."""
    times = int(length)

    def chain(x: torch.Tensor) -> torch.Tensor:
        t, steps = x, (torch.relu, torch.sin, _softmax, lambda t: t + x)
        for step in range(times):
            t = steps[step % 4](t)
        return t

    return _on_random(chain, operators=times, tolerance=ROUNDED)


def _syncs(_: str) -> Workload:
    """A function that waits: reading a number off the GPU makes the host stand still."""
    x = torch.randn(64, 1024, device=accelerator())
    expected, cost = float(x.double().clamp(min=0).sum()), Cost(2.0 * x.numel(), 4.0 * x.nbytes)
    return Workload(lambda: torch.relu(x).sum().item(), lambda found: abs(found - expected) / expected, 1e-5, cost)


# ---- functions that take a set time ----


def _spins(text: str) -> Workload:
    """Spin kernels, one after the other."""
    from brrr.timing.gate import spin

    count, duration = text.split("x")
    seconds = float(duration.removesuffix("us")) * 1e-6
    rows = list(torch.zeros(int(count), 3, dtype=torch.int64, device=accelerator()))

    def chain() -> None:
        for row in rows:
            spin(seconds, row)

    return _spinning(chain, rows[-1], seconds)


def _injected(text: str) -> Workload:
    """A function that keeps the host busy for a set time and then gives the GPU a spin kernel of a set time."""
    from brrr.timing.gate import spin

    host_s, device_s = (float(each.removesuffix("us")) * 1e-6 for each in text.split("-")[::2])
    out = torch.zeros(3, dtype=torch.int64, device=accelerator())

    def run() -> None:
        until = time.perf_counter() + host_s
        while time.perf_counter() < until:
            pass
        spin(device_s, out)

    return _spinning(run, out, device_s)


def _spinning(run: Callable[[], Any], out: torch.Tensor, seconds: float) -> Workload:
    """A spin kernel is right if it spun for its time, not less and not a quarter of a microsecond more."""

    def error(_: Any) -> float:
        start, end, _cycles = out.tolist()
        spun = (end - start) * 1e-9
        return 0.0 if seconds <= spun <= 1.01 * seconds + 0.3e-6 else float("nan")

    return Workload(run, error, EXACT, Cost(0.0, 24.0))
