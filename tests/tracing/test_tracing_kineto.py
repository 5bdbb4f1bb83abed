"""From the profiler's events to spans: events as torch writes them, made by hand."""

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.tracing import events, recording
from brrr.tracing.kineto import CALL, LOOP, short_name, spans_of
from brrr.tracing.spans import Span
from brrr.tracing.trace_file import read_trace

US = 1000
ZERO_US = 1_700_000_000_000_000


def event(
    name: str, start: int, end: int, *, gpu: bool = False, stream: int = 7, correlation: int = 0, linked: int = 0,
    category: str = "", thread: int = 1,
) -> dict[str, Any]:  # fmt: skip
    """An event as torch writes it, by its name where no category is given."""
    runtime = name.startswith("cu")
    category = category or ("kernel" if gpu else "cuda_runtime" if runtime else "cpu_op")
    args = {"correlation": correlation, "External id": linked, "device": 0, "stream": stream}
    return {"ph": "X", "cat": category, "name": name, "ts": ZERO_US + start, "dur": end - start, "tid": thread,
            "args": args}  # fmt: skip


def found(*those: dict[str, Any]) -> list[events.Event]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(json.dumps({"traceEvents": those}), encoding="utf-8")
        return list(read_trace(path).events)


RECORDED = (
    event("cudaLaunchKernel", 1, 2, correlation=1),
    event("fill", 3, 4, gpu=True, correlation=1),
    event(LOOP, 10, 60, linked=2),
    event(CALL, 10, 20, linked=3),
    event("aten::relu", 11, 19, linked=4),
    event("aten::clamp_min", 12, 18, linked=5),
    event("cudaLaunchKernel", 13, 15, correlation=90, linked=5),
    event("void at::native::relu_kernel<4>(int)", 16, 26, gpu=True, correlation=90, linked=5),
    event("mine", 10, 20, gpu=True, category="gpu_user_annotation"),
    event(CALL, 22, 40, linked=6),
    event("mine", 22, 40, linked=7, category="user_annotation"),
    event("aten::copy_", 23, 39, linked=8),
    event("cudaMemcpyAsync", 24, 30, correlation=91, linked=8),
    event("Memcpy HtoD (Pinned -> Device)", 25, 45, stream=13, correlation=91, category="gpu_memcpy"),
    event("Memset (Device)", 46, 47, stream=13, correlation=555, linked=8, category="gpu_memset"),
    event("Stream Sync", 40, 50, gpu=True, category="cuda_sync"),
    event("cudaDeviceSynchronize", 41, 59, correlation=93),
    event("cudaLaunchKernel", 70, 71, correlation=94),
    event("after", 72, 73, gpu=True, correlation=94),
)
"""A kernel before the loop, two calls (a kernel; a copy on another stream), a wait, a kernel after the loop."""


def test_lanes_calls_and_causes() -> None:
    spans = spans_of(found(*RECORDED))
    shown = [(s.lane, s.kind, s.name, s.start_ns // US, s.end_ns // US, s.call) for s in spans]
    assert shown == [
        ("python", "call", "call", 0, 10, 0),
        ("operator", "operator", "relu", 1, 9, 0),
        ("launch", "launch", "cudaLaunchKernel", 3, 5, 0),
        ("stream 1", "kernel", "relu_kernel", 6, 16, 0),
        ("python", "call", "call", 12, 30, 1),
        ("operator", "operator", "copy_", 13, 29, 1),
        ("launch", "launch", "cudaMemcpyAsync", 14, 20, 1),
        ("stream 2", "copy in", "Memcpy HtoD (Pinned -> Device)", 15, 35, 1),
        ("launch", "wait", "cudaDeviceSynchronize", 31, 49, -1),
        ("stream 2", "memset", "Memset (Device)", 36, 37, 1),
    ]
    causes = {s.name: spans[s.cause].name for s in spans if s.cause >= 0}
    assert causes == {
        "relu_kernel": "cudaLaunchKernel",
        "Memcpy HtoD (Pinned -> Device)": "cudaMemcpyAsync",
        "Memset (Device)": "copy_",  # its launch was not recorded: the operator that the profiler links it with
    }


def test_a_kernel_that_seems_to_begin_before_the_loop_moves_the_start() -> None:
    """The two clocks agree to about a microsecond only."""
    those = [
        event(LOOP, 10, 60), event(CALL, 10, 20), event("cuLaunchKernelEx", 10, 12, correlation=5),
        event("triton_kernel", 9, 15, gpu=True, correlation=5),
    ]  # fmt: skip
    spans = spans_of(found(*those))
    assert [(s.kind, s.start_ns // US) for s in spans] == [("kernel", 0), ("call", 1), ("launch", 1)]
    assert spans[spans[0].cause].name == "cuLaunchKernelEx"


def test_all_kernels_of_a_graph_come_from_its_launch() -> None:
    those = [event(LOOP, 0, 60), event(CALL, 0, 9), event("cudaGraphLaunch", 1, 5, correlation=5)]
    those += [event(f"kernel {n}", 10 + n, 11 + n, gpu=True, correlation=5) for n in range(3)]
    spans = spans_of(found(*those))
    work = [s for s in spans if s.on_device]
    assert [spans[s.cause].name for s in work] == ["cudaGraphLaunch"] * 3 and {s.call for s in work} == {0}


def test_operators_of_another_thread_are_shown() -> None:
    """The backward pass runs on a thread of its own, while the call waits for it."""
    those = [event(LOOP, 0, 60), event(CALL, 0, 50), event("aten::sum", 1, 5), event("aten::mm", 3, 9, thread=2)]
    names = [s.name for s in spans_of(found(*those)) if s.kind == "operator"]
    assert names == ["sum", "mm"]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        ("void at::native::(anonymous namespace)::softmax<float>(float*)", "softmax"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64>(Params)", "cutlass_80_simt_sgemm_128x64"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("aten::add_", "add_"),
        ("(odd)", "(odd)"),
        ("k" * 200, "k" * 60),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


# ---- sessions that fail ----


@pytest.fixture
def a_gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sessions that are said to run on a GPU and record what the test puts there; returns the list of them."""
    sessions: list[list[events.Event]] = []
    monkeypatch.setattr(recording, "_require_profiler", lambda cuda: None)
    monkeypatch.setattr(recording, "recorded_loop", lambda *_, kind: (sessions.pop(0), 1e-3))
    monkeypatch.setattr(recording, "SETTLE_S", 0.0)
    return sessions


def loop(*more: Any) -> list[events.Event]:
    return found(event(LOOP, 10, 60), event(CALL, 10, 20), *more)


PROBE = (event("cudaLaunchKernel", 1, 2, correlation=1), event("fill", 3, 4, gpu=True, correlation=1))


def run() -> tuple[tuple[Span, ...], float]:
    return recording.profiled_loop(lambda: None, lambda: None, 1, kind="cuda")


def test_a_function_without_kernels_is_told_from_a_profiler_that_fails(a_gpu: list[list[events.Event]]) -> None:
    a_gpu += [loop(*PROBE)]
    with pytest.raises(ArgumentError, match=r"launches work on the GPU; in 1 calls nothing ran there.*device='cpu'"):
        run()
    a_gpu += [loop()] * recording.ATTEMPTS
    with pytest.raises(UnavailableError, match=r"not even a kernel of its own.*nsys"):
        run()


def test_a_recording_that_failed_once_is_made_again(a_gpu: list[list[events.Event]]) -> None:
    launched = (event("cudaLaunchKernel", 11, 12, correlation=9), event("gemm", 13, 19, gpu=True, correlation=9))
    a_gpu += [loop(), loop(*PROBE, *launched)]
    spans, seconds = run()
    assert [s.name for s in spans if s.on_device] == ["gemm"] and seconds == 1e-3 and not a_gpu


def test_a_torch_without_a_profiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.profiler

    monkeypatch.setattr(torch.profiler, "supported_activities", set)
    with pytest.raises(UnavailableError, match=r"has no profiler for CUDA.*pytorch.org"):
        recording.profiled_loop(lambda: None, lambda: None, 1, kind="cuda")


def test_a_session_is_one_cycle_without_a_warning_and_makes_no_object_of_each_event() -> None:
    with warnings.catch_warnings(record=True) as said, recording.session("diagnose", "cpu", record_shapes=True) as made:
        pass
    assert made.record_shapes and not [each for each in said if "clears events" in str(each.message)]
    assert made.profiler._function_events is None
