"""The parts of a GPU's calibration without a GPU: the kernels are emulated on the CPU, the clocks made up.

What is tested is what surrounds the kernels: arguments, working sets, launch shapes, checks, and what is kept of it.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from brrr.core.errors import WrongResultError
from brrr.core.measurement import Estimate
from brrr.roofline.calibrate import gpu, gpu_bandwidth, gpu_times, part
from brrr.roofline.calibrate.part import Findings, run_parts
from brrr.roofline.device_model import model_of
from brrr.roofline.peaks import Peaks
from brrr.timing.activity import Activity

SET_BYTES = 2**20
Emulated = Callable[..., None]


def memory(address: int, count: int, kind: type = np.uint32) -> np.ndarray[Any, Any]:
    words = (ctypes.c_uint8 * (count * np.dtype(kind).itemsize)).from_address(address)
    return np.frombuffer(words, kind)


def copy(threads: int, source: int, out: int, count: int, total: int) -> None:
    memory(out, 4 * count)[:] = memory(source, 4 * count)


def read(threads: int, source: int, sums: int, count: int, total: int) -> None:
    found = memory(sums, threads // 32)
    found[:] = 0
    found[-1] = int(memory(source, 4 * count).sum(dtype=np.uint64)) * (total // count) % 2**32


def write(threads: int, out: int, first: int, count: int, total: int) -> None:
    memory(out, 4 * count)[:] = (np.arange(4 * count, dtype=np.uint64) + first) % 2**32


def triad(threads: int, b: int, c: int, a: int, scale: float, count: int, total: int) -> None:
    x, y = (memory(address, 4 * count, np.float32).astype(np.float64) for address in (b, c))
    memory(a, 4 * count, np.float32)[:] = x + scale * y


def chain(kind: type, addition: bool) -> Emulated:
    def run(threads: int, ends: int, factor: float, addend: float, rounds: int) -> None:
        x = 0.5 + np.arange(8 * threads) % 1024 / 2048
        shrunk = factor ** (32 * rounds)
        memory(ends, 8 * threads, kind)[:] = x * shrunk + (addend * (1 - shrunk) / (1 - factor) if addition else 0.0)

    return run


KERNELS: dict[str, Emulated] = {
    "brrr_nothing": lambda threads: None,
    **{f"brrr_stream_{each.__name__}": each for each in (copy, read, write, triad)},
    **{f"brrr_{kind}_{name}": chain({"fp32": np.float32, "fp64": np.float64}[kind], name != "mul")
       for kind in ("fp32", "fp64") for name in ("fma", "mul_add", "mul")},
}  # fmt: skip


def launcher(source: str, name: str, device: int) -> Any:
    def launch(grid: tuple[int, int, int], block: tuple[int, int, int], *args: tuple[Any, Any]) -> None:
        assert grid[1:] == block[1:] == (1, 1) and 0 < grid[0] < 2**31 and block[0] <= 1024
        KERNELS[name](grid[0] * block[0], *(kind(value).value for value, kind in args))

    return launch


def made_up_times(calls: Sequence[Callable[[], Any]]) -> list[Estimate]:
    """A microsecond, and a hundredth more for each call, so that the best shape is the first."""
    for call in calls:
        call()
    return [Estimate(s := 1e-6 * (1 + k / 100), s, s, 12) for k in range(len(calls))]


def made_up_gated(call: Callable[[], Any], **options: int) -> Estimate:
    call()
    return Estimate(1e-3, 0.9e-3, 1.1e-3, 16)


@pytest.fixture
def emulated(emulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(multi_processor_count=2, L2_cache_size=SET_BYTES)
    fakes = {
        "current_device": lambda: 0,
        "get_device_properties": lambda index=0: properties,
        "get_device_capability": lambda: (9, 0),
        "mem_get_info": lambda: (4 * SET_BYTES, 8 * SET_BYTES),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    for name in ("synchronize", "current_device_index"):
        monkeypatch.setattr(torch.accelerator, name, lambda *_: None)
    monkeypatch.setattr(gpu_bandwidth, "kernel", launcher)
    monkeypatch.setattr(gpu, "gated", made_up_gated)
    for module in (gpu, gpu_bandwidth, gpu_times):
        monkeypatch.setattr(module, "clock_conditions", lambda: {"sm_clock_hz": 1.98e9})
    monkeypatch.setattr(gpu_bandwidth, "times_of", lambda calls: (made_up_times(calls), "cupti"))
    monkeypatch.setattr(gpu, "profiled", made_up_times)
    monkeypatch.setattr(gpu, "capture", lambda run: SimpleNamespace(replay=run))
    monkeypatch.setattr(gpu, "WARM_UP_S", 0.01)
    monkeypatch.setattr(gpu, "SIZES", (64, 128))
    monkeypatch.setattr(gpu_bandwidth, "GOES_OVER", 4 * SET_BYTES)


def test_all_parts_but_those_that_need_graphs_and_a_compiler(emulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        gpu.host_cost, "issue_estimates", lambda calls, wait, seconds: [made_up_gated(call) for call in calls]
    )
    found, told = Findings(until_s=1e18), []
    elsewhere = ("gaps", "graph-replay", "host.compiled", "sweep of products", "sweep of operators")
    run_parts([part for part in gpu.PARTS if part.name not in elsewhere], found, told.append)
    only_on_a_gpu = [note for note in found.notes if "_thnn_fused" in note]
    assert found.notes == only_on_a_gpu and told[0] == "warm-up"
    kinds = [f"{kind}{once}" for kind in ("copy", "read", "write", "triad") for once in ("", "-once")]
    for kind in [*kinds, "torch-copy", "torch-pointwise"]:
        places = [place for place, _ in found.curves[kind].points]
        assert places[0] >= 0.95 * 2**16 and 0.95 * SET_BYTES <= places[-1] <= SET_BYTES
        assert found.curves[kind].conditions["times_from"] == "cupti"
    for dtype in ("fp32", "tf32", "bf16", "fp16", "fp8", "fp64", "int8"):
        assert found.curves[f"matmul.{dtype}"].best.value == pytest.approx(2 * 128**3 / 1e-3)
    flop = 2 * 4 * 256 * 8 * 8192
    assert found.measured["arithmetic.fp32.mul"].value == pytest.approx(flop / 1e-3)
    for name in ("fp32.fma", "fp32.mul_add", "fp64.fma"):
        assert found.measured[f"arithmetic.{name}"].value == pytest.approx(2 * flop / 1e-3)
    assert found.measured["kernel.floor"].value == pytest.approx(1e-6) and not found.assumed


def test_gaps_are_what_the_kernels_of_a_longer_chain_add_to_their_own_times(
    emulated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued: list[torch.Tensor] = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        issued.append(x)
        return x

    def timed(call: Callable[[], Any], **options: int) -> Estimate:
        issued.clear()
        call()
        return Estimate(s := 5e-6 + 2e-6 * len(issued), s, s, 2)

    monkeypatch.setattr(gpu, "CHAIN", (kernel,) * 4)
    monkeypatch.setattr(gpu, "gated", timed)
    gpu.measure_gaps(found := Findings(until_s=1e18))
    own_s = sum(each.median for each in made_up_times([lambda: None] * 4)) / 4
    for name in ("gap.stream", "gap.graph"):
        assert found.measured[name].value == pytest.approx(2e-6 - own_s)


def test_a_sustained_kernel_goes_over_its_set_again_and_the_best_shape_is_kept(emulated: None) -> None:
    streams = gpu_bandwidth.Streams(SET_BYTES)
    sustained = list(streams.of("copy", 2**16, once=False))
    once = list(streams.of("copy", 2**16, once=True))
    assert {stream.moved_bytes for stream in sustained} == {4 * SET_BYTES} and len(sustained) == 4
    assert {stream.moved_bytes for stream in once} == {2**16}
    assert [stream.blocks for stream in sustained] == [8, 16, 64, 256] and [stream.blocks for stream in once] == [4]
    found = Findings(until_s=1e18)
    gpu_bandwidth._measure_kind(streams, "copy", [2**16], False, found)
    ((place, peak),) = found.curves["copy"].points
    assert place == 2**16 and peak.conditions["blocks"] == 8 and peak.value == pytest.approx(4 * SET_BYTES / 1e-6)


@pytest.mark.parametrize("kind", gpu_bandwidth.KINDS)
def test_a_kernel_that_misses_a_word_is_found(kind: str, emulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    right = KERNELS[f"brrr_stream_{kind}"]

    def misses_the_last(threads: int, *args: Any) -> None:
        *others, count, total = args
        right(threads, *others, count - 1, total // count * (count - 1))

    stream = next(gpu_bandwidth.Streams(SET_BYTES).of(kind, 2**16, once=True))
    stream.check()
    monkeypatch.setitem(KERNELS, f"brrr_stream_{kind}", misses_the_last)
    with pytest.raises(WrongResultError, match=f"brrr_stream_{kind}"):
        stream.check()


def test_a_chain_that_is_too_short_is_found(emulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    right = KERNELS["brrr_fp32_fma"]
    monkeypatch.setitem(
        KERNELS, "brrr_fp32_fma", lambda threads, ends, a, b, rounds: right(threads, ends, a, b, rounds - 1)
    )
    with pytest.raises(WrongResultError, match="brrr_fp32_fma"):
        gpu.measure_arithmetic(Findings(until_s=1e18))


def test_working_sets_reach_around_the_cache_in_whole_pages(emulated: None) -> None:
    sizes = gpu_bandwidth.working_sets(quick=False)
    assert sizes[0] == 2**16 and sizes[-1] == SET_BYTES and all(size % 4096 == 0 for size in sizes)
    assert len(sizes) > len(gpu_bandwidth.working_sets(quick=True))


def test_kernels_that_run_side_by_side_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a grouped convolution, say: 2 µs in which four kernels of 2 µs run, and 1 µs of another one."""
    one = [Activity("brrr_marker", 0, 1, 7), *(Activity("group", 10, 2010, stream) for stream in range(4))]
    both = [*one, Activity("bias", 2100, 3100, 7)]
    recorded = [
        replace(each, start_ns=each.start_ns + at, end_ns=each.end_ns + at) for at in (0, 9999) for each in both
    ]
    monkeypatch.setattr(gpu_times, "record_activity", lambda run: (recorded, []))
    (found,) = gpu_times.own_times([lambda: None], warm=1, timed=1) or []
    assert found.median == pytest.approx(3e-6)
    (found,) = gpu_times.own_times([lambda: None], warm=1, timed=1, gap_s=3e-7) or []
    assert found.median == pytest.approx(3.3e-6), "of the two intervals"


def test_without_a_profiler_small_sets_and_the_floor_are_not_measured(
    emulated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_times, "own_times", lambda calls: None)
    monkeypatch.setattr(gpu_times, "gated", lambda call: Estimate(s := next(lengths), s, s, 9))
    lengths = iter([1e-6, 1e-3])
    estimates, origin = gpu_times.times_of([lambda: None, lambda: None])
    assert estimates[0] is None and estimates[1] is not None and origin.startswith("event pairs")
    monkeypatch.setattr(gpu, "profiled", gpu_times.profiled)
    found = Findings(until_s=1e18)
    part.run_parts([each for each in gpu.PARTS if each.name in ("kernel floor", "gaps")], found, lambda name: None)
    assert not found.measured and len(found.notes) == 2 and "kernel floor: not measured" in found.notes[0]
    assumed = model_of(Peaks("Some GPU", "cuda", "2026-01-01", reference="h200")).figures
    assert {assumed[name].kind for name in ("kernel.floor", "gap.stream", "gap.graph")} == {"assumed"}


def test_what_a_gpu_lacks_is_a_note(emulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))

    def lacking(dtype: str, size: int, device: str) -> part.ReadyProduct:
        if dtype == "int8":
            raise RuntimeError("no such kernel\nand more")
        return product(dtype, size, device)

    product = part.product
    monkeypatch.setattr(part, "product", lacking)
    found = Findings(until_s=1e18)
    part.run_parts([each for each in gpu.PARTS if each.name.startswith("matmul")], found, lambda name: None)
    assert "matmul.bf16: this GPU's tensor cores do not have it" in found.notes
    assert "matmul.int8: not measured: RuntimeError: no such kernel" in found.notes
    assert set(found.curves) == {"matmul.fp32", "matmul.fp64", "matmul.fp16"}
