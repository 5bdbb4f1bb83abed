"""Traces of other versions of torch, accelerators and tools; boards, copies and operators of other kinds."""

import codecs
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from traces import LARGE, Maker, gains, plain, predicted_us

from brrr.diagnosis.diagnosing import diagnose_trace
from brrr.diagnosis.report import Diagnosis
from brrr.tracing.events import Sort, work_sort
from brrr.tracing.trace_file import read_trace

Event = dict[str, Any]
H200: Event = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132}]}
SMALL = plain(64)


def loop(mark: bool = True) -> Maker:
    """Four steps that load, copy, and launch small kernels: the host is the limit."""
    made = Maker()
    for number in range(4):
        began = made.now
        made.host(5)
        made.span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", began)
        made.work("aten::copy_", SMALL, SMALL, us=3, category="gpu_memcpy", kernel="Memcpy HtoD (Pinned -> Device)")
        made.work("aten::zero_", SMALL, us=1, category="gpu_memset", kernel="Memset (Device)")
        for _ in range(9):
            made.work("aten::relu", SMALL, us=1.5, host_us=12)
        if mark:
            made.span(f"ProfilerStep#{number}", began)
    return made


def diagnosed(folder: Path, events: list[Event], head: Event = H200) -> Diagnosis:
    path = folder / "trace.json"
    path.write_text(json.dumps({**head, "traceEvents": events}), encoding="utf-8")
    return diagnose_trace(path)


OLD = {"cpu_op": "Operator", "user_annotation": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel",
       "gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}  # fmt: skip


@pytest.mark.parametrize(
    "named",
    [OLD, {"cuda_runtime": "xpu_runtime"}, {"cuda_runtime": "hpu_op"},
     {"kernel": "mtia_ccp_events", "cuda_runtime": "privateuse1_driver"},
     {"cuda_runtime": "gcu_runtime", "gpu_memcpy": "GCU_MEMCPY", "gpu_memset": "GCU_MEMSET"},
     {"cuda_runtime": "runtime", "gpu_memcpy": "memcpy"}],
)  # fmt: skip
def test_categories_of_other_versions_and_accelerators_are_read(named: dict[str, str], tmp_path: Path) -> None:
    made = loop().events
    whole = diagnosed(tmp_path, made)
    found = diagnosed(tmp_path, [{**each, "cat": named.get(each["cat"], each["cat"])} for each in made])
    assert whole.regime == "overhead" and whole.steps == 4 and whole.parts == found.parts and found.remedies
    assert (found.problems, found.steps, found.shares, found.remedies) == ((), 4, whole.shares, whole.remedies)


@pytest.mark.parametrize(
    "name",
    ["cudaLaunchCooperativeKernel", "cuLaunchKernelEx", "hipExtModuleLaunchKernel", "cudaMemcpy2DAsync",
     "hipGraphLaunch", "cudaMemcpyPeerAsync", "hipMemcpyWithStream", "urEnqueueKernelLaunch",
     "cudaMemcpy", "vendorEnqueue"],
)  # fmt: skip
def test_launches_by_other_names(name: str, tmp_path: Path) -> None:
    made = loop().events
    whole, events = diagnosed(tmp_path, made), [{**each} for each in made]
    for each in events:
        each["name"] = name if each["cat"] == "cuda_runtime" else each["name"]
    found = diagnosed(tmp_path, events)
    assert (found.problems, found.parts, found.remedies) == ((), whole.parts, whole.remedies)
    lost = diagnosed(tmp_path, [each for each in events if each["cat"] not in ("kernel", "gpu_memcpy")])
    assert name == "vendorEnqueue" or "the profiler lost some of it" in lost.problems[0]


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([{"cat": "hpu_op"}], "hpu_op"),
        ([{"cat": "mtia_runtime", "name": "mtiaEnqueue"}], "mtia_runtime"),
        ([{"cat": "npu_task", "args": {"Stream Id": 3}}], "npu_task"),
        ([{"args": {"Device Id": 0}}], "without a category"),
    ],
)
def test_an_accelerator_that_cannot_be_read_is_named(events: list[Event], said: str, tmp_path: Path) -> None:
    made = [{"ph": "X", "name": "k", "ts": 1e6, "dur": 5, "pid": 1, "tid": 1, **each} for each in events]
    host = [each for each in loop().events if each["cat"] == "cpu_op"]
    found = diagnosed(tmp_path, host + made, {})
    assert found.regime == "unknown" and "not read here: " + said in found.problems[0]
    assert f"a device whose work cannot be read ({said})" in found.details()
    assert "a CPU" not in found.details() and diagnose_trace(tmp_path / "trace.json", "h200").device == found.device
    alone = diagnosed(tmp_path, [*host, {**made[0], "cat": "cuda_sync"}], {})
    assert "RECORDED · a CPU" in str(alone) and alone.timeline.badge.kind == "RECORDED" and not alone.problems


@pytest.mark.parametrize(
    "wrong",
    [{"dur": 7.4e15}, {"dur": 8.6e10}, {"dur": 5e6}, {"dur": -5}, {"dur": float("nan")}, {"dur": float("inf")},
     {"dur": 1e300}, {"ts": 9e15}, {"ts": 3e11}, {"ts": -1e13}, {"ts": 1e300}, {"ts": "NaN"}, {"ts": [1]},
     {"ts": None}],
)  # fmt: skip
def test_times_that_none_can_have_are_left_out_and_told(wrong: Event, tmp_path: Path) -> None:
    made = loop(mark=False).events
    kernel = [each for each in made if each["cat"] == "kernel"][20]
    found = diagnosed(tmp_path, [7, None, *({**each, **wrong} if each is kernel else each for each in made)])
    assert found.problems and f"1 of its {len(made)} events" in found.problems[0] and found.step_s < 1e-3


def test_work_that_the_host_waits_for_may_take_long(tmp_path: Path) -> None:
    made = Maker()
    for us in [2.0] * 40 + [2e7]:
        made.work("aten::relu", SMALL, us=us)
    made.wait()
    found = diagnosed(tmp_path, made.events)
    assert not found.problems and found.step_s == pytest.approx(20, rel=0.01)


RANKS = list(range(1_200_000))


def text(events: list[Event], **behind: Any) -> str:
    return json.dumps({"traceEvents": events, **behind})


@pytest.mark.parametrize(
    "written",
    [
        lambda events: codecs.BOM_UTF8 + text(events, **H200).encode(),
        lambda events: text(events, about={"x": [1]}, **H200).encode(),
        lambda events: text(events, about="x" * (3 << 20), **H200).encode("utf-16"),
        lambda events: codecs.BOM_UTF16_BE + json.dumps({**H200, "traceEvents": events}).encode("utf-16-be"),
        lambda events: gzip.compress(json.dumps({**H200, "ranks": RANKS, "traceEvents": events}).encode()),
        lambda events: gzip.compress(codecs.BOM_UTF8 + text(events, **H200).encode()),
        lambda events: text(events, **H200).replace("}]}", "}], ,,damaged").encode(),
    ],
)
def test_forms_of_files(written: Callable[[list[Event]], bytes], tmp_path: Path) -> None:
    events, path = loop().events, tmp_path / "trace.json"
    path.write_bytes(written(events))
    found = diagnose_trace(path)
    assert (found.device, found.steps, found.regime, found.problems) == ("NVIDIA H200", 4, "overhead", ())
    path.write_text("\ufeff" + json.dumps(events), encoding="utf-8")
    events, boards = read_trace(path).events, read_trace(path).devices
    path.write_bytes(written(loop().events))
    assert read_trace(path).events == events and not boards


def test_times_since_1970_keep_their_nanoseconds(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "a::b", "ts": 1_700_000_000_000_123, "dur": 1.5, "tid": 1}
    (tmp_path / "t.json").write_text(text([event]), encoding="utf-8")
    (found,) = read_trace(tmp_path / "t.json").events
    assert found.interval == (1_700_000_000_000_123_000, 1_700_000_000_000_124_500)


def test_of_several_kinds_of_gpu_the_busiest_decides(tmp_path: Path) -> None:
    made = loop().events
    for place, each in enumerate(each for each in made if each["cat"] == "kernel"):
        each["args"]["device"] = 1 if place % 9 else 0
    boards = [{"id": 0, "name": "Tesla T4"}, {"id": 1, "name": "NVIDIA H200"}]
    found = diagnosed(tmp_path, made, {"deviceProperties": boards})
    assert found.device == "NVIDIA H200" and "NVIDIA H200" in found.notes[0]
    assert any("device 1 counts" in each and "(NVIDIA H200)" in each for each in found.notes)
    assert diagnosed(tmp_path, made, {"deviceProperties": boards[:1] * 2}).device == "Tesla T4"


GIB = 2**30


@pytest.mark.parametrize(
    ("board", "figures", "said"),
    [
        ({"name": "NVIDIA H100", "totalGlobalMem": 95 * GIB, "numSms": 132}, False, "95 GiB of memory (not 80)"),
        ({"name": "NVIDIA H100", "numSms": 114}, False, "114 multiprocessors (not 132)"),
        (
            {"name": "Tesla V100-SXM2-32GB", "totalGlobalMem": 32 * GIB, "numSms": 80},
            True,
            "32 GiB of memory (not 16), unlike",
        ),
        ({"name": "NVIDIA H200", "totalGlobalMem": 139.8 * GIB, "numSms": 132}, True, ""),
        ({"name": "NVIDIA H100"}, True, ""),
    ],
)
def test_a_board_that_only_resembles_a_known_one(board: Event, figures: bool, said: str, tmp_path: Path) -> None:
    found = diagnosed(tmp_path, loop().events, {"deviceProperties": [{"id": 0, **board}]})
    assert (found.peaks is not None) == figures
    assert any(said in each for each in found.notes) if said else not any("this " in each for each in found.notes)
    assert diagnose_trace(tmp_path / "trace.json", "h200").peaks is not None


COPIES: dict[str, Sort] = {
    "Memcpy HtoD (Pinned -> Device)": "copy in", "Memcpy HtoA": "copy in", "CopyHostToDevice": "copy in",
    "Memcpy M2D(HOST -> DEVICE)": "copy in", "Memcpy DtoH (Device -> Pageable)": "copy out", "memcpy_DtoH": "copy out",
    "Memcpy D2M": "copy out", "Memcpy PtoP (Device -> Device)": "peer copy", "CopyPeer": "peer copy",
    "Memcpy DtoD (Device -> Device)": "copy", "Memcpy HtoH": "copy", "CopyDeviceToDevice": "copy", "Unknown": "copy",
    "Memcpy HOST_TO_DEVICE": "copy in", "Memcpy DEVICE_TO_HOST": "copy out",
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_copies_by_their_names(name: str) -> None:
    assert work_sort(name, "gpu_memcpy") == COPIES[name]
    assert work_sort(name, "gpu_memset") == "memset" and work_sort("memcpy_kernel") == "kernel"


@pytest.mark.parametrize(("sort", "regime"), [("HtoD", "overhead"), ("PtoP", "overhead"), ("DtoD", "memory")])
def test_copies_have_no_arithmetic(sort: str, regime: str, tmp_path: Path) -> None:
    """Those over a link, to the host or to another GPU, are transfers; that between two places of a GPU is memory."""
    made, x = Maker(), plain(1000, 1000)
    for _ in range(20):
        made.work("aten::copy_", x, x, us=80, category="gpu_memcpy", kernel=f"Memcpy {sort} (Pinned -> Device)",
                  nbytes=4_000_000)  # fmt: skip
    found = diagnosed(tmp_path, made.events)
    assert found.regime == regime and (regime == "memory" or found.remedies == ())
    assert found.shares.overhead_s.get("transfer", 0) > 0.9 * found.step_s or regime == "memory"


def test_the_profilers_closing_wait_is_no_steps(tmp_path: Path) -> None:
    """It begins behind all launches, and behind all marks; one that an operator makes, or a step, is the program's."""
    for made in (loop(mark=False), loop()):
        made.events = [each for each in made.events if each["name"] not in [f"ProfilerStep#{n}" for n in (0, 1, 2)]]
        made.wait()
        assert "no synchronisation" not in gains(diagnosed(tmp_path, made.events))
        made._add("cpu_op", "aten::item", made.now - 5, 10)
        made._add("cuda_runtime", "cudaStreamSynchronize", made.now - 4, 3, correlation=0)
        made._add("user_annotation", "ProfilerStep#3", made.now - 500, 600)
        made.events = [each for each in made.events if each["ts"] < made.now - 5 or each["cat"] != "user_annotation"]
    made, began = loop(mark=False), 1e6
    made.wait("cudaStreamSynchronize")
    made.span("ProfilerStep#0", began)
    found = diagnosed(tmp_path, made.events)
    assert "no synchronisation" in [each.name for each in (*found.remedies, *found.dropped)]


@pytest.mark.parametrize(
    ("name", "way", "waits"),
    [("hipMemcpyWithStream", "DtoH", True), ("cudaMemcpy", "DtoH", True), ("cudaMemcpyAsync", "DtoH", False),
     ("hipMemcpyWithStream", "HtoD", False), ("hipMemcpyWithStream", "DtoD", False)],
)  # fmt: skip
def test_a_copy_to_the_host_that_blocks_is_a_wait(name: str, way: str, waits: bool, tmp_path: Path) -> None:
    made = loop()
    for each in made.events:
        each["name"] = each["name"].replace("HtoD (Pinned", f"{way} (Pinned")
        copies = each["cat"] == "cuda_runtime" and each["args"]["correlation"] % 11 == 1
        each["name"] = name if copies else each["name"]
    assert ("no synchronisation" in gains(diagnosed(tmp_path, made.events))) == waits


def adam(made: Maker, count: int = 200) -> None:
    for _ in range(count):
        made.work("aten::add_", SMALL, SMALL, numbers=("", "", "1"), us=1.2, host_us=30.0, blocks=1)


@pytest.mark.parametrize(("calls", "closure"), [(200, False), (3, False), (3, True), (40, True)])
def test_a_long_call_of_the_optimiser_is_not_its_calls(calls: int, closure: bool, tmp_path: Path) -> None:
    """A closure that computes the gradients, or a call that waits, is in its span; only its calls can be fused."""
    made, own_us = Maker(), 30 * calls
    for number in range(5):
        began = step = made.now
        if closure:
            adam(made, 100)
            made.gradient("MulBackward0", SMALL, us=2)
        adam(made, calls // 2)
        made.host(0 if closure else 20_000)
        adam(made, calls - calls // 2)
        made.span("Optimizer.step#LBFGS.step", began)
        made.span(f"ProfilerStep#{number}", step)
    found = diagnosed(tmp_path, made.events)
    gain = gains(found).get("fused optimiser", 1.0)
    assert gain <= found.step_s / (found.step_s - own_us / 1e6) and (gain > 1.1) == (calls > 16)


SIZES = {"Input Dims": [[512, 512]] * 2, "Input type": ["float"] * 2}


@pytest.mark.parametrize(
    ("name", "regime"),
    [
        *((each, "unknown") for each in (
            "mkldnn::_linear_pointwise", "quantized::linear_dynamic", "mylib::attention", "aten::_sparse_mm",
            "Torch-Compiled Region: 0/0", "aten::mkldnn_rnn_layer")),
        *((each, "overhead") for each in ("aten::select", "aten::empty", "AddmmBackward0", "aten::linear")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shapes", [True, False])
def test_on_a_cpu_what_nobody_can_price_is_unknown(name: str, regime: str, shapes: bool, tmp_path: Path) -> None:
    """What only looks at a tensor, or calls others, is overhead."""
    events = []
    for place in range(10):
        now, args = 1e6 + 1000 * place, SIZES if shapes else {}
        inner = [("aten::relu", now + 700, 100)] if regime == "overhead" else []
        for each, start, took in ((name, now, 900), *inner):
            when = {"ts": start, "dur": took, "pid": 1, "tid": 1}
            events.append({"ph": "X", "cat": "cpu_op", "name": each, **when, "args": args})
    found = diagnosed(tmp_path, events, {})
    assert found.device == "a CPU" and found.regime == regime
    assert found.parts.get("overhead", 0) > 0.6 * found.step_s or regime == "unknown"


def test_gathers_and_scatters_are_memory(tmp_path: Path) -> None:
    """The profiler tells no sizes of the list of indices; and what adds from anywhere is slower than its bytes."""
    made, index = Maker(), plain(10_000)
    for _ in range(10):
        made.work("aten::index", LARGE, numbers=("", ""), us=400)
        us = round(50 * predicted_us("aten::relu", plain(640_000)))  # a trace has whole nanoseconds
        made.work("aten::index_add_", plain(640_000), plain(0), index, index, numbers=("", "0", "", "", "1"), us=us)
    found = diagnosed(tmp_path, made.events)
    assert found.regime == "memory" and "unknown" not in found.parts
