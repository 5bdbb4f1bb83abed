"""What lessons say of timelines, floors, kernels' names and clocks: no condition behind a sentence reads these."""

import re
from typing import Any

import pytest
import torch

from brrr.gpu.datasheet import hardware
from brrr_course import drawing, timeline
from brrr_course.experiments import experiment
from brrr_course.experiments.data_parallel import LARGE, MLP, NETWORKS, RNN
from brrr_course.experiments.memory_swap import CALLS, cost_of, regime
from brrr_course.experiments.rnn import floor_of, place
from brrr_course.lessons.calculations import tables
from brrr_course.lessons.drawings.exchange_line import line_of
from brrr_course.nouns.source import Evidence
from brrr_course.sources import source

H200 = source("recorded:h200")


def tanh_floor(batch: int) -> Any:
    return floor_of(Evidence(experiment("rnn"), H200), place("rnn_tanh", "float32", batch))


def test_the_timelines_of_06_have_a_faster_host_and_both_of_08_are_short() -> None:
    at = {"layers": 8, "batch": 16, "hidden": 128}
    told = str(timeline("mlp", variants=["module"], at=at, source=H200))
    traced_s = 1e-6 * float(re.findall(r"([\d.]+) µs a call without the profiler", told)[0])
    assert traced_s < 0.8 * Evidence(experiment("mlp"), H200).get("module", **at).median
    assert timeline("rnn_ladder", variants=["graph"], source=H200).selection.point["steps"] == 16


def test_from_16_samples_on_the_floor_of_a_step_is_the_inputs_matmul() -> None:
    for batch in (8, 16, 32, 64, 128):
        assert (tanh_floor(batch).serial_s > max(tanh_floor(batch).parts.values())) == (batch >= 16)


def test_the_kernels_of_07_are_of_this_gpu_and_of_one_two_generations_older() -> None:
    known = H200.known(experiment("gemm"), "nn")
    new, old = (known[n, 2048, "bfloat16"].launched[0] for n in (1024, 1025))
    assert new.startswith("nvjet_sm90") and old.startswith("cutlass_75")


def test_no_product_of_10b_gains_from_the_memory() -> None:
    """And two norms stay below the bandwidth of either GPU."""
    told = {each.split(":")[0].removeprefix("At call "): each for each, _ in drawing("memory-swap").everywhere()}
    gains = {call: float(re.findall(r"([\d.]+)x as fast", said)[0]) for call, said in told.items()}
    assert [call for call in CALLS["compute"] if gains[call] > 1.1] == []
    assert cost_of("softmax 16608x6299 bfloat16").bytes > 1e8
    used = {}
    for call in ("rms_norm 50024x4096 bfloat16", "layer_norm 15351x984 float32", "rms_norm 342484x47 float32"):
        times = [float(x) * {"µ": 1e-6, "m": 1e-3}[unit] for x, unit in re.findall(r"([\d.]+) ([µm])s", told[call])]
        used[call] = [cost_of(call).bytes / time / peak for time, peak in zip(times, (3.35e12, 4.8e12), strict=True)]
    (here, there), *low = used.values()
    assert here < 0.9 * there and max(max(each) for each in low) < 0.7
    bounds = {1.11: "something else", 1.115: "a mix", 1.245: "a mix", 1.255: "memory"}
    assert {gain: regime(gain, 4.8 / 3.35) for gain in bounds} == bounds


def test_the_fitted_line_of_14_lies_too_high_where_it_bends() -> None:
    times = {key[0]: m for key, m in H200.known(experiment("collective"), "all-reduce").items()}
    line = line_of("all-reduce", times)
    assert max(times[2**power].period_s.median / line.seconds(2.0**power) for power in (22, 23, 24)) < 0.95
    assert LARGE[NETWORKS[1]].steps == 512 and LARGE[RNN].weights(RNN) < LARGE[MLP].weights(MLP) / 10


def test_the_range_of_fp8_in_13() -> None:
    e4m3 = torch.finfo(torch.float8_e4m3fn)
    assert e4m3.max == 448 and e4m3.smallest_normal / 8 == pytest.approx(0.002, rel=0.03)


def test_the_exercises_start_from_what_is_drawn_beside_them() -> None:
    """The bandwidths are the datasheets' and the drawing's, and the floor of a step is as it is drawn at 24 samples."""
    given = {name: str(table["given"]) for name, table in tables().items() if "given" in table}
    assert hardware("gtx-1070").memory_bytes_per_s == 256e9 and "256e9" in given["06-divide"]
    assert hardware("h200").memory_bytes_per_s == 4.8e12 and "4.8e12" in given["08-floor"]
    drawn = tanh_floor(24)
    assert drawn.limit == "exchange" and drawn.parts["exchange"] == pytest.approx(0.49e-6, rel=0.02)
    assert drawn.parts["state"] == pytest.approx(3 * 32 * 8 * 1024 * 4 / 13.8e12, rel=0.02)
    assert drawn.parts["arithmetic"] == pytest.approx(2 * 24 * 1024**2 / 122e12, rel=0.02)
    wider = tanh_floor(32).parts
    assert wider["arithmetic"] > wider["exchange"], "28 samples hide: the lines cross between 24 and 32"
