"""Every timer on the same functions, against truths that are known by construction: how far is each one off?

The truths use no profiler: kernels that spin for a set time and write down the GPU's own clock at their start and end,
and functions whose host and device work is put there on purpose.
"""

from __future__ import annotations

from brrr.core.measurement import Point
from brrr.gpu import is_queue
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant, stand_in

SPINS_US = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
INJECTED_US = ((100, 20), (200, 50), (50, 10), (20, 100), (50, 200), (10, 50))
CHAINS = (2, 5, 10, 20, 50)
SPIN_CHAINS = ((20, 1), (20, 2), (20, 5))

SPIN_NAMES = tuple(f"spin-{us}us" for us in SPINS_US)
SPIN_CHAIN_NAMES = tuple(f"spins-{count}x{us}us" for count, us in SPIN_CHAINS)
INJECTED_NAMES = tuple(f"host-{host}us-device-{device}us" for host, device in INJECTED_US)
COPIES = ("copy-1KB", "copy-32KB", "copy-1MB", "copy-32MB", "copy-1GB")
GEMMS = tuple(f"gemm-{n}" for n in (128, 256, 500, 512, 1024, 2048, 4096, 8192))
OPERATORS = ("relu-64x1024", *COPIES, *GEMMS, "softmax-64x1024", "softmax-4096x4096")
CHAIN_NAMES = (*(f"chain-{count}" for count in CHAINS), "mixed-20")
FUNCTIONS = (*OPERATORS, *CHAIN_NAMES, "syncs")
CONSTRUCTED = (*SPIN_NAMES, *SPIN_CHAIN_NAMES, *INJECTED_NAMES)
QUEUE_FUNCTIONS = ("product-128", "product-512", "product-1000")

OWN_TIMERS = ("measure", "measure-no-profiler", "truth")


def supports(variant: Variant, point: Point) -> bool:
    """Which timer is asked about which function in which cache state."""
    function, cold = str(point["function"]), point["cache"] == "cold"
    if is_queue(variant.device) != (function in QUEUE_FUNCTIONS):
        return False
    if is_queue(variant.device):
        return not cold
    if variant.timer == "truth":
        return function in CONSTRUCTED and not cold
    if function in CONSTRUCTED:
        return variant.timer in OWN_TIMERS and not cold
    if cold:  # what do_bench times is a cold cache: it overwrites the L2 before each call
        no_fallback = function == "syncs"  # without a gate and without a profiler nothing is left to go by
        return variant.timer in ("measure", "do-bench") or (variant.timer == "measure-no-profiler" and not no_fallback)
    if variant.timer == "do-bench-cudagraph":
        return function != "syncs"
    if variant.timer == "transfers-included":
        return function in (*OPERATORS, "chain-20") and function not in ("copy-1GB", "gemm-8192")
    return variant.timer != "do-bench"


EXPERIMENT = Experiment(
    name="timers",
    title="Timers",
    question="Which timer tells the truth?",
    axes=(
        Axis(
            "function",
            (*FUNCTIONS, *CONSTRUCTED, *QUEUE_FUNCTIONS),
            label="what is timed",
            scale="category",
            quick=("relu-64x1024", "gemm-512", "product-128", "product-512"),
        ),
        Axis("cache", ("hot", "cold"), label="cache", scale="category", quick=("hot",)),
    ),
    variants=(
        Variant("no-warm-up", "first call, no warm-up", "cuda", timer="no-warm-up"),
        Variant("measure", "measure()", "cuda", work="function"),
        Variant("truth", "known by construction", "cuda", timer="truth", work="function"),
        Variant("measure-no-profiler", "measure(), no profiler", "cuda", timer="measure-no-profiler", work="function"),
        Variant("no-sync", "host clock, no synchronize()", "cuda", timer="no-sync", work="function"),
        Variant(
            "sync-each-call", "host clock, synchronize() each call", "cuda", timer="sync-each-call", work="function"
        ),
        Variant(
            "loop-then-sync", "host clock, a loop, one synchronize()", "cuda", timer="loop-then-sync", work="function"
        ),
        Variant("event-pair", "event pair each call", "cuda", timer="event-pair", work="function"),
        Variant("transfers-included", "transfers included", "cuda", timer="transfers-included", work="function"),
        Variant("do-bench", "triton do_bench", "cuda", timer="do-bench", work="function"),
        Variant("do-bench-cudagraph", "triton do_bench_cudagraph", "cuda", timer="do-bench-cudagraph", work="function"),
        Variant("torch-benchmark", "torch.utils.benchmark", "cuda", timer="torch-benchmark", work="function"),
        Variant("queue-no-warm-up", "first call, no warm-up", "cpu-queue", timer="no-warm-up"),
        Variant("queue-measure", "measure()", "cpu-queue"),
        Variant("queue-no-sync", "host clock, no synchronize()", "cpu-queue", timer="no-sync"),
        Variant("queue-sync-each-call", "host clock, synchronize() each call", "cpu-queue", timer="sync-each-call"),
        Variant("queue-loop-then-sync", "host clock, a loop, one synchronize()", "cpu-queue", timer="loop-then-sync"),
    ),
    lines=(
        Line("measure", "measure", "kernel_s", "measure(): kernel_s"),
        Line("no profiler", "measure-no-profiler", "kernel_s", "measure() without a profiler: kernel_s"),
        Line("truth", "truth", "kernel_s", "known by construction", shown=False),
        Line("no sync", "no-sync", "host_s", "no synchronize()"),
        Line("no warm-up", "no-warm-up", "latency_s", "first call, no warm-up"),
        Line("sync each call", "sync-each-call", "latency_s", "synchronize() each call"),
        Line("loop then sync", "loop-then-sync", "period_s", "a loop, one synchronize()"),
        Line("event pair each call", "event-pair", "span_s", "event pair each call"),
        Line("transfers included", "transfers-included", "latency_s", "transfers included"),
        Line("do_bench", "do-bench", "span_s", "triton do_bench (cold cache)"),
        Line("do_bench_cudagraph", "do-bench-cudagraph", "span_s", "triton do_bench_cudagraph"),
        Line("torch.utils.benchmark", "torch-benchmark", "period_s", "torch.utils.benchmark"),
        stand_in("measure", "queue-measure", "kernel_s", "measure(): kernel_s"),
        stand_in("no sync", "queue-no-sync", "host_s", "no synchronize()"),
        stand_in("no warm-up", "queue-no-warm-up", "latency_s", "first call, no warm-up"),
        stand_in("sync each call", "queue-sync-each-call", "latency_s", "synchronize() each call"),
        stand_in("loop then sync", "queue-loop-then-sync", "period_s", "a loop, one synchronize()"),
    ),
    package=__name__,
    supports=supports,
    anchors=({"function": "relu-64x1024", "cache": "hot"}, {"function": "gemm-1024", "cache": "hot"}),
)
