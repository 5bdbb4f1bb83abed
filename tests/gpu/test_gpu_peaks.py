"""Peaks of a real GPU: the kernels are right at odd sizes, and the figures fit each other; none has to be fast."""

import time

import pytest
import torch

from brrr.core.errors import WrongResultError
from brrr.roofline.calibrate import calibrate
from brrr.roofline.calibrate.gpu import STEPS, chains
from brrr.roofline.calibrate.gpu_bandwidth import KINDS, Streams
from brrr.roofline.calibrate.gpu_times import own_times
from brrr.roofline.calibrate.host_cost import operators
from brrr.roofline.peaks import Peaks


@pytest.fixture(scope="module")
def peaks() -> Peaks:
    start = time.perf_counter()
    found = calibrate("cuda", quick=True)
    print(f"\na quick calibration took {time.perf_counter() - start:.1f} s\n{found}")
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("set_bytes", [3072, 70_000, 123_456_789])
@pytest.mark.parametrize("once", [True, False])
def test_streams_are_right_at_any_size_in_any_shape(kind: str, set_bytes: int, once: bool) -> None:
    for stream in Streams(set_bytes).of(kind, set_bytes, once=once):
        stream.check()
        assert 0.9 * set_bytes <= stream.set_bytes + 3072 and stream.moved_bytes % stream.set_bytes == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_that_does_nothing_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(2**20)
    monkeypatch.setitem(streams._kernels, kind, lambda *arguments: None)
    with pytest.raises(WrongResultError, match=f"brrr_stream_{kind}"):
        next(streams.of(kind, 2**20, once=True)).check()


@pytest.mark.parametrize("name", ["fp32_fma", "fp32_mul_add", "fp32_mul", "fp64_fma", "fp64_mul"])
def test_chains_end_where_the_recurrence_says(name: str) -> None:
    made = chains(name)
    made.check()
    assert made.flop % STEPS == 0


def test_own_times_are_those_of_each_call() -> None:
    small, large = torch.randn(2**10, device="cuda"), torch.randn(2**26, device="cuda")
    times = own_times([lambda: torch.relu(small), lambda: torch.relu(large), lambda: torch.relu(small)])
    assert times is not None and times[1].median > 5 * times[0].median
    assert times[0].median == pytest.approx(times[2].median, rel=0.5)


def test_the_peaks_fit_each_other(peaks: Peaks) -> None:
    assert peaks.kind == "cuda" and peaks.driver and not peaks.assumed
    for kind in KINDS:
        assert peaks.bandwidth(2**24, kind) > 0
        assert peaks.bandwidth(65536, kind) > peaks.bandwidth(65536, f"{kind}-once"), "a kernel's start costs"
    assert peaks.arithmetic(fma=True).value > 1.5 * peaks.arithmetic(fma=False).value
    assert peaks.get("arithmetic.fp32.mul_add").value < 0.75 * peaks.arithmetic().value, "the compiler fused it"
    for name in ("kernel.floor", "kernel.pointwise", "gap.stream", "gap.graph", "host.graph-replay"):
        assert 1e-8 < peaks.get(name).value < 1e-3, name


def test_products_by_type(peaks: Peaks) -> None:
    assert peaks.matmul("fp32").value > 0 and "sm_clock_hz" in peaks.matmul("fp32").conditions
    if torch.cuda.get_device_capability() >= (8, 0):
        assert peaks.matmul("bf16").value > peaks.matmul("fp32").value
    if torch.cuda.get_device_capability() >= (8, 9):
        assert peaks.matmul("fp8").unit == "FLOP/s"


def test_no_measured_rate_is_far_above_the_datasheet(peaks: Peaks) -> None:
    for name, promised in peaks.datasheet.items():
        measured = peaks.measured.get(name)
        if measured is None and name in peaks.curves:
            curve = peaks.curves[name]
            measured = curve.best if curve.axis == "size" else None
        assert measured is None or measured.share_of(promised) < 1.05, name


def test_operators_give_what_they_say_on_the_gpu() -> None:
    assert all(each.expected.is_cuda and each.call().is_cuda for each in operators("cuda"))
