"""Sentences of lessons 00 to 04 that compare and have no claim behind them: the recording beside them says so."""

from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from lesson_text import said

from brrr.drawing.roofline import GROUPS, ridge
from brrr.gpu.datasheet import datasheets, hardware
from brrr_course.experiments import experiment
from brrr_course.nouns.source import Evidence
from brrr_course.sources.recorded import Recorded
from brrr_course.view.predictions import Predictions

ROOT = Path(__file__).parents[3]
SOURCE = Recorded("h200", ROOT / "data" / "recordings")
OPERATORS = ("copy", "relu", "gelu", "tanh", "cos")


def line(about: str, name: str, axis: str, **at: Any) -> dict[Any, float]:
    """A line's medians by an axis."""
    found = Evidence(experiment(about), SOURCE).curve(name, axis, **at)
    return {value: time.median for value, time in found.items()}


def field(about: str, variant: str, name: str, **at: Any) -> float:
    found = getattr(SOURCE.measure(experiment(about), variant, at), name)
    assert found is not None
    return float(found.median)


def timer(name: str, function: str = "relu-64x1024") -> float:
    return line("timers", name, "function", cache="hot")[function]


def matmul(name: str) -> dict[Any, float]:
    return line("matmul", name, "size")


def gpu_without_copies_wins_from_256() -> bool:
    cpu, gpu = matmul("cpu"), matmul("synchronized")
    return all((cpu[size] > gpu[size]) == (size >= 256) for size in cpu)


def little_ahead_from_1000_and_ever_more_from_4096() -> bool:
    cpu, gpu = matmul("cpu"), matmul("transfers")
    ahead = {size: cpu[size] / gpu[size] for size in cpu}
    large = [ahead[size] for size in ahead if size >= 4096]
    near = all(1.4 < ahead[size] < 1.6 for size in (1000, 1024, 2048)) and 0.9 < ahead[3000] < 1
    return near and large == sorted(large) and large[0] > 1


def graph_reads_the_gap_too() -> bool:
    graph, kernel = timer("do_bench_cudagraph"), timer("measure")
    return 1.35 < graph / kernel < 1.45


def an_event_pair_sees_more_than_launch_and_kernel() -> bool:
    parts = [field("timers", "measure", name, function="relu-64x1024", cache="hot") for name in ("host_s", "kernel_s")]
    return timer("event pair each call") > 1.5 * sum(parts)


def pinning_saves_three_quarters() -> bool:
    pageable, pinned = (line("transfers", f"up {memory}", "nbytes")[2**26] for memory in ("pageable", "pinned"))
    return 0.74 < 1 - pinned / pageable < 0.78


def prediction_of_repeat() -> bool:
    """In the flat part, and at the bend."""
    described = experiment("repeat")
    predictions, found = Predictions(described, SOURCE, on=True), []
    for way in ("cuda mul", "triton mul", "compile mul"):
        times = line("repeat", way, "repeat", elements=2**26, dtype="float32")
        of = {
            n: predictions.time_s(described.line(way), {"repeat": n, "elements": 2**26, "dtype": "float32"})
            for n in times
        }
        found += [(n, time / (of[n] or 0.0)) for n, time in times.items()]
    return all(0.96 < over < 1.01 for n, over in found if n <= 32) and all(over > 1.2 for n, over in found if n == 64)


def first_calls_alike() -> bool:
    first = matmul("first call").values()
    return max(first) < 1.2 * min(first)


def softmax_is_close_to_its_kernel() -> bool:
    at = {"function": "softmax-4096x4096", "cache": "hot"}
    kernel, *others = (field("timers", "measure", name, **at) for name in ("kernel_s", "period_s", "latency_s"))
    others.append(timer("event pair each call", "softmax-4096x4096"))
    return (
        all(kernel <= other < 1.2 * kernel for other in others) and field("timers", "measure", "host_s", **at) < kernel
    )


def small_relu_loop_is_near_the_longer_one() -> bool:
    at = {"function": "relu-64x1024", "cache": "hot"}
    host, period = field("timers", "measure", "host_s", **at), field("timers", "measure", "period_s", **at)
    return abs(period / host - 1) < 0.05


def waiting_timers_are_right_on_large_work() -> bool:
    kernel = timer("measure", "gemm-4096")
    near = all(abs(timer(name, "gemm-4096") / kernel - 1) < 0.01 for name in ("sync each call", "event pair each call"))
    return near and timer("no sync", "gemm-4096") < 0.1 * kernel


def small_copies_cost_the_same() -> bool:
    pinned = [line("transfers", name, "nbytes") for name in ("up pinned once", "down pinned once")]
    small = all(each[n] < 4 / 3 * each[1024] for each in pinned for n in each if n <= 2**17)
    return small and all(each[n] >= 2 * each[1024] for each in pinned for n in each if n >= 2**19)


def cpu_point_is_an_outlier() -> bool:
    cpu = line("nested_sine", "cpu", "elements")
    sizes = list(cpu)
    place = sizes.index(65536)
    return all(500 < cpu[65536] / cpu[sizes[place + step]] < 2000 for step in (-1, 1))


def loop_waits_up_to_2_20() -> bool:
    loop = line("run_ahead", "period", "elements")
    flat = [time for size, time in loop.items() if size <= 2**20]
    return max(flat) < 1.1 * min(flat) and all(loop[size] > 1.2 * max(flat) for size in loop if size >= 2**22)


def graph_launches_as_fast_as_an_operator() -> bool:
    sizes = line("run_ahead", "host", "elements")
    return all(field("run_ahead", "graph", "host_s", elements=size) <= host / 20 for size, host in sizes.items())


def cpu_line_lies_above_the_loop_in_the_middle() -> bool:
    host, loop = line("run_ahead", "host", "elements"), line("run_ahead", "period", "elements")
    return all(host[size] > 1.2 * loop[size] for size in (2**18, 2**20))


def halved(name: str) -> float:
    half, full = (line("unary", name, "elements", dtype=dtype)[2**26] for dtype in ("bfloat16", "float32"))
    return half / full


def half_the_bytes() -> bool:
    plain = all(0.49 < halved(name) < 0.52 for name in ("copy", "relu"))
    return plain and 0.52 < halved("tanh") < 0.56 and all(halved(name) > 0.6 for name in ("cos", "gelu"))


def small_arrays_fit_the_cache() -> bool:
    bandwidth = hardware("h200").memory_bytes_per_s
    assert bandwidth
    times = [line("unary", name, "elements", dtype="float32") for name in OPERATORS]
    above = all(8 * 2**22 / each[2**22] > bandwidth for each in times)
    return above and all(8 * 2**26 / each[2**26] < bandwidth for each in times)


def ridge_points_over_the_years() -> bool:
    of = {
        (group, dtype): [found for key in keys if (found := ridge(datasheets()[key], dtype, unit))]
        for (group, keys), (dtype, unit) in product(GROUPS.items(), (("fp32", "cuda cores"), ("fp16", "tensor cores")))
    }
    grown, stacked = of["graphics (GDDR)", "fp32"], of["stacked (HBM)", "fp32"]
    steps = {later > earlier for earlier, later in pairwise(stacked)}
    moved = min(of["stacked (HBM)", "fp16"]) > 5 * max(stacked)
    return grown == sorted(grown) and steps == {True, False} and moved


SAID: list[tuple[str, str, Callable[[], bool]]] = [
    ("00", "Up to size 128 the CPU is faster, from 256 on the GPU.", gpu_without_copies_wins_from_256),
    ("01", "It is close to the longer of the two above.", small_relu_loop_is_near_the_longer_one),
    ("01", "All times but `host_s` are close to `kernel_s`.", softmax_is_close_to_its_kernel),
    ("01", "*Sync each call* and *event pair* come within a hundredth.", waiting_timers_are_right_on_large_work),
    ("01", "Without copies the GPU is ahead from 256 on.", gpu_without_copies_wins_from_256),
    ("01", "about one and a half times as fast from 1000 to 2048, and no faster at 3000; from 4096 on it stays ahead",
     little_ahead_from_1000_and_ever_more_from_4096),
    ("01", "timed at 1 and 1024 only, takes about as long at both", first_calls_alike),
    ("01", "graph reads about two fifths more", graph_reads_the_gap_too),
    ("01", "more than launch plus kernel", an_event_pair_sees_more_than_launch_and_kernel),
    ("02", "here three quarters of its time", pinning_saves_three_quarters),
    ("04", "the measured times come within a few percent of the predicted ones. At the bend",
     prediction_of_repeat),
    ("01", "On the ReLU it would say about five times too much",
     lambda: 4.5 < timer("torch.utils.benchmark") / timer("measure") < 5.5),
    ("02", "at most a third longer than the smallest one", small_copies_cost_the_same),
    ("02", "From 2^19 bytes on it takes twice as long and more.", small_copies_cost_the_same),
    ("02", "its neighbours take about a thousandth of that time", cpu_point_is_an_outlier),
    ("03", "Up to 2^20 elements the loop takes the same time", loop_waits_up_to_2_20),
    ("03", "which takes no longer than that of a single operator", graph_launches_as_fast_as_an_operator),
    ("03", "in the middle it lies above the loop", cpu_line_lies_above_the_loop_in_the_middle),
    ("03", "that makes 26 million elements", lambda: round(10 * 5e-6 * 4.2e12 / 8 / 1e6) == 26),
    ("04", "*copy* and *relu* do, and *tanh* nearly. *cos* and *gelu* take clearly more", half_the_bytes),
    ("04", "Around 2^22 elements the rates lie above the memory's bandwidth", small_arrays_fit_the_cache),
    ("04", "In float32 it has grown on graphics cards. With stacked memory it goes up and down",
     ridge_points_over_the_years),
]  # fmt: skip


@pytest.mark.parametrize(("lesson", "sentence", "holds"), SAID, ids=[f"{one[0]}: {one[1]}" for one in SAID])
def test_a_sentence_that_compares_agrees_with_the_recording(
    lesson: str, sentence: str, holds: Callable[[], bool]
) -> None:
    assert sentence in said(lesson), "the sentence changed: change it here as well"
    assert holds()
