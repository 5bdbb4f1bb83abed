"""Every timer on the same functions, against truths that are known by construction: how far is each one off?

The truths use no profiler: kernels that spin for a set time and write down the GPU's own clock at their start and end,
and functions whose host and device work is put there on purpose.
"""

from __future__ import annotations

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Field, Measurement, Point
from brrr.gpu import is_queue
from brrr_course.nouns.claim import Judge, Verdict
from brrr_course.nouns.experiment import Axis, Experiment, Variant
from brrr_course.nouns.source import Evidence

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

OWN_TIMERS = ("measure", "truth")


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
        return variant.timer in ("measure", "do-bench")
    if variant.timer == "transfers-included":
        return function in (*OPERATORS, "chain-20") and function not in ("copy-1GB", "gemm-8192")
    return variant.timer != "do-bench"


# ---- the claims: what the package's own timer must show ----


def _measured(evidence: Evidence, variant: str, function: str, cache: str = "hot") -> Measurement | None:
    return evidence.source.known(evidence.experiment, variant).get((function, cache))


def _need(evidence: Evidence, variant: str, function: str, field: str, cache: str = "hot") -> Estimate:
    found = _measured(evidence, variant, function, cache)
    estimate = found.get(field) if found else None
    if estimate is None:
        raise NotRecordedError(f"{variant} {field} of {function} ({cache}) was not measured")
    return estimate


def _all_within(rows: list[tuple[str, float, float]], what: str) -> Verdict:
    """Rows of (name, deviation, allowed): holds if all are within; the text names the worst and those that are not."""
    if not rows:
        raise NotRecordedError(f"nothing to judge {what} by was measured")
    worst = max(rows, key=lambda row: row[1] / row[2])
    outside = [row for row in rows if row[1] > row[2]]
    text = f"{what}: {len(rows) - len(outside)} of {len(rows)} within; worst {_deviation(worst)}"
    if outside:
        text += "; outside: " + ", ".join(_deviation(row) for row in outside)
    return Verdict("fails" if outside else "holds", text)


def _deviation(row: tuple[str, float, float]) -> str:
    return f"{row[0]} off by {units.seconds(row[1])} (allowed {units.seconds(row[2])})"


def _spin_slope(evidence: Evidence) -> Verdict:
    """`kernel_s(T) - kernel_s(0)` against the global timer's elapsed time: within max(1 %, 2 ticks)."""
    zero = _need(evidence, "measure", "spin-0us", "kernel_s")
    base = _need(evidence, "truth", "spin-0us", "kernel_s")
    rows = []
    for name in SPIN_NAMES[1:]:
        truth = _need(evidence, "truth", name, "kernel_s").median - base.median
        found = _need(evidence, "measure", name, "kernel_s").median - zero.median
        rows.append((name, abs(found - truth), max(0.01 * truth, 2 * TICK_S)))
    verdict = _all_within(rows, "kernel_s of spin kernels")
    return Verdict(verdict.status, f"{verdict.measured}; intercept at T = 0: {units.seconds(zero.median)}")


def _span_of_chains(evidence: Evidence) -> Verdict:
    """Span of a 20-kernel chain against time stamps taken in the stream: within max(3 %, 0.5 µs)."""
    rows = []
    for name in SPIN_CHAIN_NAMES:
        truth = _need(evidence, "truth", name, "span_s").median
        found = _need(evidence, "measure", name, "span_s").median
        rows.append((name, abs(found - truth), max(0.03 * truth, 0.5e-6)))
    return _all_within(rows, "span_s of 20-kernel chains")


TICK_S = 32e-9
"""The step of an H200's global timer, as `timer_tick_s` measures it; elsewhere it is coarser, and the bound strict."""


def _injected(evidence: Evidence) -> Verdict:
    """`period_s` within 5 % of the larger of host and device work, and the host-bound flag where the host is larger."""
    rows = []
    wrong_flags = []
    for name, (host_us, device_us) in zip(INJECTED_NAMES, INJECTED_US, strict=True):
        truth = _need(evidence, "truth", name, "period_s").median
        found = _measured(evidence, "measure", name)
        if found is None or found.period_s is None:
            raise NotRecordedError(f"{name} was not measured")
        rows.append((name, abs(found.period_s.median - truth), 0.05 * truth))
        if ("host-bound" in found.flags) != (host_us > device_us):
            wrong_flags.append(name)
    verdict = _all_within(rows, "period_s of injected work")
    flags = f"flag wrong on {', '.join(wrong_flags)}" if wrong_flags else "the host-bound flag is right on all"
    return Verdict("fails" if wrong_flags else verdict.status, f"{verdict.measured}; {flags}")


def _no_sync_lies(evidence: Evidence) -> Verdict:
    """The largest product timed without synchronising, against its kernel time: at most a tenth of it."""
    lie = _need(evidence, "no-sync", "gemm-8192", "host_s")
    truth = _need(evidence, "measure", "gemm-8192", "kernel_s")
    text = f"without synchronising {units.seconds(lie.median)}, the kernel takes {units.seconds(truth.median)}"
    return Verdict("holds" if lie.high < 0.1 * truth.low else "fails", text)


def _common_timers_off(evidence: Evidence) -> Verdict:
    """do_bench (cold) and event pairs (hot) on a small relu, over its kernel time in the same cache state."""
    parts, ratios = [], []
    for timer, cache in (("do-bench", "cold"), ("event-pair", "hot")):
        reading = _need(evidence, timer, "relu-64x1024", "span_s", cache)
        truth = _need(evidence, "measure", "relu-64x1024", "kernel_s", cache)
        ratios.append(reading.median / truth.median)
        parts.append(f"{timer} reads {units.ratio(ratios[-1])} the kernel time ({cache})")
    return Verdict("holds" if min(ratios) >= 2 else "fails", ", ".join(parts))


JUDGES: dict[str, Judge] = {
    "spin-kernels": _spin_slope,
    "chain-span": _span_of_chains,
    "injected-work": _injected,
    "no-sync-lies": _no_sync_lies,
    "common-timers": _common_timers_off,
}


def _timer(timer: str, label: str, field: Field, *, line: str = "", shown: bool = True) -> Variant:
    return Variant(timer, label, "cuda", timer=timer, work="function", field=field, line=line, shown=shown)


def _queued(timer: str, label: str, field: Field, line: str) -> Variant:
    return Variant(f"queue-{timer}", label, "cpu-queue", timer=timer, field=field, stands_in_for=line)


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
        Variant("measure", "measure(): kernel_s", "cuda", work="function", field="kernel_s"),
        _timer("truth", "known by construction", "kernel_s", shown=False),
        _timer("do-bench", "triton do_bench (cold cache)", "span_s", line="do_bench"),
        _timer("no-sync", "no synchronize()", "host_s"),
        Variant("no-warm-up", "first call, no warm-up", "cuda", timer="no-warm-up", line="no warm-up"),
        _timer("sync-each-call", "synchronize() each call", "latency_s"),
        _timer("event-pair", "event pair each call", "span_s", line="event pair each call"),
        _timer("transfers-included", "transfers included", "latency_s"),
        Variant("queue-measure", "measure(): kernel_s", "cpu-queue", field="kernel_s", stands_in_for="measure"),
        _queued("no-sync", "no synchronize()", "host_s", "no sync"),
        _queued("no-warm-up", "first call, no warm-up", "latency_s", "no warm-up"),
        _queued("sync-each-call", "synchronize() each call", "latency_s", "sync each call"),
    ),
    field="latency_s",
    package=__name__,
    supports=supports,
    judges=JUDGES,
    anchors=({"function": "relu-64x1024", "cache": "hot"}, {"function": "gemm-1024", "cache": "hot"}),
)
