"""What is not advised: what data dependence refutes, what gains less than the idle time allows, what others mend."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from traces import Maker, diagnosis, gains, pick, plain, predicted_us, product, tiny

from brrr.diagnosis.diagnosing import diagnose_trace, of_run, without_profiler
from brrr.diagnosis.live import Run
from brrr.diagnosis.split import Split
from brrr.roofline.device_model import model_of
from brrr.tracing.kineto import LOOP
from brrr.tracing.trace_file import read_trace

# --- batched: only what does not wait for each other ------------------------------------------------------------------


Loop = Callable[[Maker, int], None]


def layer_by_layer(made: Maker, at: int) -> None:
    """A decoder's layers: slices of rotary embeddings between products that need each other."""
    for name in ("q", "o"):
        made.work("aten::mm", plain(8, 1024), plain(1024, 1024), us=4.0, blocks=8)
        if name == "q":
            pick(made, [8, 16, 64], at % 2, "aten::slice")
            made.work("aten::mul", plain(8, 16, 64), plain(8, 16, 64), us=3.0, blocks=8)


def weight_by_weight(made: Maker, at: int) -> None:
    pick(made, [64, 512, 512], at)
    made.work("aten::mm", plain(1, 512), plain(512, 512), us=2.0, blocks=8)


def time_by_time(made: Maker, at: int) -> None:
    pick(made, [64, 4, 512], at)
    made.work("aten::mm", plain(4, 512), plain(512, 512), us=2.0, blocks=8)
    made.work("aten::add", plain(4, 512), plain(4, 512), numbers=("", "", "1"), us=2.0, blocks=8)


def same_halves(made: Maker, at: int) -> None:
    pick(made, [2, 4, 512], at % 2)
    made.work("aten::mm", plain(4, 512), plain(512, 512), us=2.0, blocks=8)


def row_by_row(made: Maker, at: int) -> None:
    pick(made, [64, 512], at)
    made.work("aten::mm", plain(1, 512), plain(512, 512), us=2.0, blocks=8)


def head_by_head(made: Maker, at: int, sliced: int = 3) -> None:
    """Attention of slices of queries, keys and values; of two slices it may be of what the head before it made."""
    for number in range(sliced):
        if number == sliced - 1:
            made.work("aten::bmm", plain(4, 32, 16), plain(4, 16, 32), us=2.0, blocks=8)
            made.work("aten::_softmax", plain(4, 32, 32), numbers=("", "-1", "False"), us=2.0, blocks=8)
        pick(made, [4, 32, 1024], 16 * at, "aten::slice")
    made.work("aten::bmm", plain(4, 32, 32), plain(4, 32, 16), us=2.0, blocks=8)


def query_of_the_last(made: Maker, at: int) -> None:
    head_by_head(made, at, 2)


APART = (row_by_row, head_by_head)
IN_TURN = (layer_by_layer, weight_by_weight, time_by_time, same_halves, query_of_the_last)


@pytest.mark.parametrize("loop", [*IN_TURN, *APART])
def test_a_saved_trace_is_believed_where_it_leaves_no_doubt(loop: Loop, tmp_path: Path) -> None:
    found = diagnosis(tmp_path, lambda made: [loop(made, at) for at in range(64)] and None)
    assert ("batched" in gains(found)) == (loop in APART), found.details()
    assert loop in APART or "batched" in found.details().partition("Weighed and dropped: ")[2]


# --- gains: no more than the share that a remedy addresses ------------------------------------------------------------


def test_a_clock_that_falls_in_the_loop_leaves_no_idle_time() -> None:
    """Traced, kernels of 7.5 ms in 12 ms; in the loop, of 10 ms, they take 9.3."""
    traced = Split(12e-3, 7.5e-3, 0.0, {"launch": 4.5e-3}, {"launch": 12e-3})
    found = without_profiler(traced, 10e-3, 8e-3, True, 9.3e-3)
    assert found.busy_s == pytest.approx(9.3e-3) and sum(found.idle_s.values()) == pytest.approx(0.7e-3)
    assert without_profiler(traced, 10e-3, 8e-3, True, 99.0).idle_s == {"launch": 0.0}
    assert without_profiler(traced, 10e-3, 8e-3).busy_s == pytest.approx(7.5e-3)


@pytest.mark.parametrize(("span_us", "busy_us", "most"), [(0, 0, 3.5), (110, 0, 1.14), (0, 112, 1.08)])
def test_a_graph_gains_no_more_than_the_device_alone(span_us: int, busy_us: int, most: float, tmp_path: Path) -> None:
    """8 kernels in 120 µs: in the trace they take 40, behind a gate or in the loop as long as is said."""
    made = Maker()
    for _ in range(4 * 8):
        made.work("aten::relu", plain(2**20), us=5.0, host_us=15.0)
    made.wait()
    made.span(LOOP, 1e6)
    flags = {"span_s": span_us * 1e-6} if span_us else {}
    run = Run(120e-6, 119e-6, read_trace(made.write(tmp_path / "run.json")), 4, 125e-6, flags, busy_us * 1e-6)
    found = of_run(run, model_of("h200"), True)
    (gain,) = [each.gain for each in (*found.remedies, *found.dropped) if each.name == "cuda graph"]
    assert max(1.01, 0.7 * most) < gain <= most and ("cuda graph" in gains(found)) == (gain >= 1.1)


def waiting(made: Maker) -> None:
    product(made)
    made.wait("cudaStreamSynchronize")
    made.host(0.05 * predicted_us("aten::mm", *2 * [plain(8192, 8192, dtype="bfloat16")]))


def little_wait(made: Maker) -> None:
    product(made)
    made.wait("cudaStreamSynchronize")


def test_a_wait_gains_no_more_than_the_idle_time_and_a_little_one_is_not_named(tmp_path: Path) -> None:
    found = diagnosis(tmp_path, waiting)
    idle = found.parts["overhead"] / found.step_s
    assert all(each.gain <= 1 / (1 - idle) + 1e-9 for each in found.remedies if each.name != "fewer bits")
    assert "no synchronisation" in gains(found)
    little = diagnosis(tmp_path, little_wait)
    assert "no synchronisation" not in gains(little) and "no synchronisation (" in little.details()


@pytest.mark.parametrize("waits", [True, False])
def test_less_to_compute_saves_nothing_of_what_the_host_takes(waits: bool, tmp_path: Path) -> None:
    """Products of float32 that take a fifth of a step of many small operators, with a wait in it or without."""

    def step(made: Maker) -> None:
        for _ in range(8):
            sides = 2 * [plain(512, 512)]
            made.work(
                "aten::mm", *sides, us=predicted_us("aten::mm", *sides), host_us=10 * predicted_us("aten::mm", *sides)
            )
        if waits:
            made.wait("cudaStreamSynchronize")

    found = diagnosis(tmp_path, step)
    assert found.parts["overhead"] > 0.5 * found.step_s
    assert not {"tensor cores", "strassen", "fusion"} & set(gains(found)), found.details()


@pytest.mark.parametrize("optimiser", ["", "SGD", "AdamW"])
def test_what_a_graph_takes_away_no_larger_batch_shares_out(optimiser: str, tmp_path: Path) -> None:
    def step(made: Maker) -> None:
        began, some = made.now, plain(2**23)
        for _ in range(4):
            made.work("aten::relu", some, us=predicted_us("aten::relu", some), host_us=60.0)
        if optimiser:
            made.span(f"Optimizer.step#{optimiser}.step", began)

    found = diagnosis(tmp_path, step)
    assert "cuda graph" in gains(found) and "larger batch" in [each.name for each in found.dropped], found.details()
    assert (
        f"{optimiser}(..., capturable=True)" in found.details()
        if optimiser == "AdamW"
        else "capturable" not in found.details()
    )
    assert json.loads(found.to_json())["dropped"][-1]["name"] == "larger batch" and "larger batch (" in found.to_html()


def test_a_step_that_waits_has_no_graph_and_it_is_said(tmp_path: Path) -> None:
    def step(made: Maker) -> None:
        tiny(made)
        made.wait("cudaStreamSynchronize")

    assert "cuda graph (No graph can hold a step that waits" in diagnosis(tmp_path, step).details()


# --- precision: what float32 is computed in ---------------------------------------------------------------------------

NAMES = {"sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n": "tf32", "cutlass_80_tensorop_s1688gemm_128x128": "tf32",
         "ampere_sgemm_128x64_nn": "fp32", "cutlass_80_simt_sgemm_128x64": "fp32", "unheard_of": "fp32"}  # fmt: skip
CONVOLUTIONS = {"sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32": "tf32", "volta_scudnn_winograd_128x128": "fp32",
                "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32": "fp32", "unheard_of": "tf32"}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "dtype"), [*NAMES.items(), *((name, f"{dtype} conv") for name, dtype in CONVOLUTIONS.items())]
)
@pytest.mark.parametrize("device", ["NVIDIA H200", "Tesla V100-SXM2-32GB"])
def test_a_share_of_a_peak_says_of_which(name: str, dtype: str, device: str, tmp_path: Path) -> None:
    made = Maker(device)
    for _ in range(3):
        if "conv" in dtype:
            image, weight = plain(64, 64, 56, 56), plain(64, 64, 3, 3)
            rest = [((), (), "float32")] * 7
            numbers = ("", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1")
            made.work("aten::convolution", image, weight, *rest, numbers=numbers, us=500.0, kernel=name)
        else:
            made.work("aten::mm", plain(4096, 4096), plain(4096, 4096), us=900.0, kernel=name)
    found = diagnose_trace(made.write(tmp_path / "one.json"))
    dtype = dtype.split()[0] if "H200" in device else "fp32"
    assert f"in {dtype})" in found.details() and found.peak.endswith(f" in {dtype}"), found.details()
    assert (next(line for line in found.operators).products == "tf32") == (dtype == "tf32")
