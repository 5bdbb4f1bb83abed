"""Every timer on the same functions: how far is each one off?

Some are made for it: kernels that spin for a set time, which they check by the GPU's own clock, and functions whose
host and device work is put there on purpose.
"""

from brrr.core.measurement import Field, Point
from brrr.gpu import is_queue
from brrr_course.nouns.experiment import Axis, Experiment, Variant

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


def supports(variant: Variant, point: Point) -> bool:
    """Which timer is asked about which function in which cache state."""
    function, cold = str(point["function"]), point["cache"] == "cold"
    if is_queue(variant.device) != (function in QUEUE_FUNCTIONS):
        return False
    if is_queue(variant.device):
        return not cold
    if function in CONSTRUCTED:
        return variant.timer == "measure" and not cold
    if cold:  # what do_bench times is a cold cache: it overwrites the L2 before each call
        return variant.timer in ("measure", "do-bench")
    if variant.timer == "do-bench-cudagraph":
        return function != "syncs"  # which no graph can hold
    if variant.timer == "transfers-included":
        return function in (*OPERATORS, "chain-20") and function not in ("copy-1GB", "gemm-8192")
    return variant.timer != "do-bench"


def _timer(timer: str, label: str, field: Field, *, line: str = "") -> Variant:
    return Variant(timer, label, "cuda", timer=timer, work="function", field=field, line=line)


def _queued(timer: str, label: str, field: Field, line: str) -> Variant:
    return Variant(f"queue-{timer}", label, "cpu-queue", timer=timer, field=field, stands_in_for=line)


EXPERIMENT = Experiment(
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
        Variant("measure", "measure(): kernels alone", "cuda", work="function", field="kernel_s"),
        _timer("do-bench", "triton do_bench (cold cache)", "span_s", line="do_bench"),
        _timer("do-bench-cudagraph", "triton do_bench_cudagraph", "span_s", line="do_bench_cudagraph"),
        _timer("torch-benchmark", "torch.utils.benchmark", "period_s", line="torch.utils.benchmark"),
        _timer("no-sync", "no synchronize()", "host_s"),
        Variant("no-warm-up", "first call, no warm-up", "cuda", timer="no-warm-up", line="no warm-up"),
        _timer("sync-each-call", "synchronize() each call", "latency_s"),
        _timer("event-pair", "event pair each call", "span_s", line="event pair each call"),
        _timer("transfers-included", "transfers included", "latency_s"),
        Variant("queue-measure", "measure(): kernels alone", "cpu-queue", field="kernel_s", stands_in_for="measure"),
        _queued("no-sync", "no synchronize()", "host_s", "no sync"),
        _queued("no-warm-up", "first call, no warm-up", "latency_s", "no warm-up"),
        _queued("sync-each-call", "synchronize() each call", "latency_s", "sync each call"),
    ),
    field="latency_s",
    package=__name__,
    anchors=({"function": "relu-64x1024", "cache": "hot"}, {"function": "gemm-1024", "cache": "hot"}),
)
