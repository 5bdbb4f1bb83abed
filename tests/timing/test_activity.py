"""Sums over a profiler's record: overlap, markers, and the function's own waits."""

import json
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from played_gpu import played_event

from brrr.timing.activity import (
    Activity,
    busy_union_s,
    detaching_cupti,
    kernel_sum_s,
    launch_text,
    record_activity,
    split_by_marker,
)
from brrr.timing.device_times import DeviceTimes

INTERVALS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 50)), min_size=1, max_size=12)


@given(INTERVALS)
def test_the_union_is_what_counting_nanoseconds_gives(intervals: list[tuple[int, int]]) -> None:
    activities = [Activity("k", start, start + length, 7) for start, length in intervals]
    covered = {ns for start, length in intervals for ns in range(start, start + length)}
    assert round(busy_union_s(activities) * 1e9) == len(covered)
    assert busy_union_s(activities) <= kernel_sum_s(activities) + 1e-15
    span_ns = max(a.end_ns for a in activities) - min(a.start_ns for a in activities)
    assert busy_union_s(activities) <= span_ns * 1e-9 + 1e-15


def test_calls_are_told_apart_by_the_marker() -> None:
    """What opens the gate and empties the cache is in none; a kernel of ours that the function launches is."""
    names = ["stray", "brrr_gate", "brrr_marker", "a", "brrr_spin", "brrr_evict_write", "brrr_evict_read",
             "brrr_marker", "c"]  # fmt: skip
    activities = [Activity(name, i, i + 1, 7) for i, name in enumerate(names)]
    assert [[a.name for a in call] for call in split_by_marker(activities)] == [["a", "brrr_spin"], ["c"]]


def test_the_callers_setting_is_put_back() -> None:
    os.environ.pop("TEARDOWN_CUPTI", None)
    with detaching_cupti():
        assert os.environ["TEARDOWN_CUPTI"] == "1"
    assert "TEARDOWN_CUPTI" not in os.environ
    os.environ["TEARDOWN_CUPTI"] = "0"
    with detaching_cupti():
        pass
    assert os.environ.pop("TEARDOWN_CUPTI") == "0"


# ---- which kernels, and how they were launched ----

GEMVX = (
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float, float, float, false, true, "
    "true, false, 7, false, cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<float const>, float> >"
    "(cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<float const>, float>)"
)
NAMES = [
    (("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>"
     "(cutlass_80_simt_sgemm_256x128_8x4_nn_align1::Params)"), "cutlass_80_simt_sgemm_256x128_8x4_nn_align1"),
    ("nvjet_sm90_tst_64x24_64x16_1x4_h_bz_NNT", "nvjet_sm90_tst_64x24_64x16_1x4_h_bz_NNT"),
    (GEMVX, "internal::gemvx::kernel"),
    (("void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, true, false, false>"
     "(cublasLt::cublasSplitKParams<float>, float const*)"), "cublasLt::splitKreduce_kernel"),
    ("void at::native::(anonymous namespace)::CatArrayBatch<float, 4>(float*)", "at::native::CatArrayBatch"),
    ("brrr_pad", "brrr_pad"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "short"), NAMES, ids=[short[:30] for _, short in NAMES])
def test_a_kernels_short_name_its_grid_and_its_threads(name: str, short: str) -> None:
    found = launch_text(name, {"grid": [16, 8, 2], "block": [32, 4, 2]})
    assert found == f"{short} 16x8x2 of 256"
    assert ";" not in found and len(found.split()) == 4, "a recording keeps several in a cell, claims read the grid"


def traced(start: float, correlation: int, name: str, grid: tuple[int, int, int], kind: str = "kernel") -> Any:
    args = {"correlation": correlation, "grid": list(grid), "block": [128, 1, 1]}
    return {"ph": "X", "cat": kind, "name": name, "ts": start, "args": args}


class Results:
    """What the profiler found, played: it saves a trace, and tells the same as events."""

    def __init__(self, *events: Any) -> None:
        self.traced = events

    def save(self, path: str) -> None:
        other = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0.5, "args": {}}
        Path(path).write_text(json.dumps({"traceEvents": [other, {"ph": "M", "name": "process"}, *self.traced]}))


def test_a_session_gives_each_activity_its_own_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    results: Any = Results(
        traced(7.0, 4, "gemm", (3, 1, 1)), traced(5.0, 4, "gemm", (1, 1, 1)), traced(6.0, 4, "reduce", (2, 1, 1))
    )
    results.events = lambda: (
        [
            played_event("CUDA", name, start, start + 10, 4)
            for name, start in (("gemm", 7000), ("gemm", 5000), ("reduce", 6000), ("Memset (Device)", 6500))
        ]
        + [played_event("CPU", "cudaGraphLaunch", 1000, 1010)]
    )
    session = SimpleNamespace(profiler=SimpleNamespace(kineto_results=results))
    monkeypatch.setattr(torch._C._autograd, "DeviceType", SimpleNamespace(CUDA="CUDA"))
    monkeypatch.setattr(torch.profiler, "profile", lambda **_: nullcontext(session))
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: None)
    activities, calls = record_activity(lambda: None, launches=True)
    told = [(each.name, each.start_ns, each.end_ns, each.launch) for each in activities]
    assert told == [
        ("gemm", 5000, 5010, "gemm 1x1x1 of 128"), ("reduce", 6000, 6010, "reduce 2x1x1 of 128"),
        ("Memset (Device)", 6500, 6510, ""), ("gemm", 7000, 7010, "gemm 3x1x1 of 128"),
    ]  # fmt: skip
    assert calls == ["cudaGraphLaunch"]
    untold, _ = record_activity(lambda: None)
    assert [each.launch for each in untold] == [""] * 4


def test_a_measurement_names_the_kernels_of_its_last_call() -> None:
    taken: Any = SimpleNamespace(per_call=[])
    of: Any = DeviceTimes.launched.fget  # type: ignore[attr-defined]
    assert of(taken) == ()
    launch = [
        Activity("a", 0, 1, 7, "a 1x1x1 of 32"),
        Activity("Memset", 1, 2, 7),
        Activity("b", 2, 3, 7, "b 2x1x1 of 8"),
    ]
    taken.per_call = [[Activity("old", 0, 1, 7, "old 1x1x1 of 1")], launch]
    assert of(taken) == ("a 1x1x1 of 32", "b 2x1x1 of 8")
