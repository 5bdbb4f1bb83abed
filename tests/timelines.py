"""Timelines made by hand, with known gaps, overlaps and arrows: clearly synthetic, never written under data/."""

from collections.abc import Sequence

from brrr.tracing.kineto import settled
from brrr.tracing.spans import LAUNCH, OPERATOR, PYTHON, Span
from brrr.tracing.timeline import Timeline


def timeline(spans: Sequence[Span], calls: int, period_s: float, profiled_s: float, kind: str = "cuda") -> Timeline:
    """A timeline on a synthetic device; the short loop's period is a tenth above the long one's."""
    return Timeline(
        settled(spans, 0), kind, "synthetic device", "2000-01-01", "2.11.0", calls, period_s, period_s * 1.1,
        profiled_s, "RECORDED",
    )  # fmt: skip


def host_bound(calls: int = 10, host_ns: int = 10_000, kernel_ns: int = 1000) -> Timeline:
    """Each call issues for `host_ns`, and its kernel runs in the middle of that: the device waits."""
    spans: list[Span] = []
    for call in range(calls):
        at = call * host_ns
        spans += [
            Span(PYTHON, "call", "call", at, at + host_ns - 200, call),
            Span(OPERATOR, "operator", "relu", at + 500, at + host_ns - 700, call),
            Span(LAUNCH, "launch", "cudaLaunchKernel", at + 2000, at + 5000, call),
        ]
        spans.append(Span("stream 1", "kernel", "relu", at + 6000, at + 6000 + kernel_ns, call, len(spans) - 1))
    spans.append(Span(LAUNCH, "wait", "cudaDeviceSynchronize", calls * host_ns, calls * host_ns + 4000))
    return timeline(spans, calls, 5e-6, host_ns * 1e-9)


def device_bound(calls: int = 10, host_ns: int = 10_000, kernel_ns: int = 100_000) -> Timeline:
    """The kernels follow one another without a gap, long after their launches: the host runs ahead."""
    spans: list[Span] = []
    for call in range(calls):
        at, start = call * host_ns, 5000 + call * kernel_ns
        spans.append(Span(PYTHON, "call", "call", at, at + host_ns, call))
        spans.append(Span(LAUNCH, "launch", "cudaLaunchKernel", at + 2000, at + 5000, call))
        spans.append(Span("stream 1", "kernel", "gemm", start, start + kernel_ns, call, len(spans) - 1))
    return timeline(spans, calls, kernel_ns * 1e-9, kernel_ns * 1e-9)


def pipeline() -> Timeline:
    """One call: a copy in (0 to 10 µs), a kernel (5 to 20), a copy out (18 to 30), then idle to 40 µs."""
    spans = [
        Span(PYTHON, "call", "call", 0, 2000, 0),
        Span("stream 1", "copy in", "Memcpy HtoD", 0, 10_000, 0),
        Span("stream 2", "kernel", "sine", 5000, 20_000, 0),
        Span("stream 3", "copy out", "Memcpy DtoH", 18_000, 30_000, 0),
        Span(LAUNCH, "wait", "cudaDeviceSynchronize", 2000, 40_000),
    ]
    return timeline(spans, 1, 40e-6, 50e-6)
