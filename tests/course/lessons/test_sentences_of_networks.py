"""Sentences of lessons 06 to 10b that compare, each beside the rows that it was read off."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from figures import ROWS, rows
from lesson_text import said

from brrr.gpu.datasheet import hardware
from brrr_course import timeline
from brrr_course.experiments import experiment
from brrr_course.experiments.memory_swap import regime
from brrr_course.experiments.rnn.floor import floor_of
from brrr_course.experiments.rnn.steps import place
from brrr_course.lessons.calculations import tables
from brrr_course.lessons.rnn_data import step_times
from brrr_course.nouns.source import Evidence
from brrr_course.sources import source

WIDTHS, BATCHES = (128, 256, 512, 1024, 2048, 4096), (2, 4, 8, 16, 32, 64, 128)
PYTORCHS = ("module", "graph", "compile", "max-autotune")
ONE_LAYER = "layers=1 cell=lstm dtype=float16 hidden=1024 steps=64"
BLOCK, OPERATORS = "step=training width=1024 batch=16", ("products", "attention", "norms", "pointwise", "other")
THE_STUDYS = "layers=4 cell=lstm dtype=float32 hidden=512 steps=64 batch=64"


def at(field: str, way: str, where: str, about: str = "mlp") -> float:
    ((_, value),) = rows(about, field, way, where.split())
    return value


def mlp(field: str, way: str, batch: int, hidden: int) -> float:
    return at(field, way, f"layers=8 batch={batch} hidden={hidden}")


def gain(way: str, over: str, batch: int, hidden: int) -> float:
    return mlp("period_s", over, batch, hidden) / mlp("period_s", way, batch, hidden)


def pytorchs_best(batch: int, hidden: int) -> tuple[float, str]:
    """PyTorch's fastest way and its time, of those that were recorded there."""
    where = f"layers=8 batch={batch} hidden={hidden}".split()
    return min((value, way) for way in PYTORCHS for _, value in rows("mlp", "period_s", way, where))


def one_kernel_loses(batch: int, hidden: int) -> bool:
    return mlp("period_s", "megakernel", batch, hidden) > pytorchs_best(batch, hidden)[0]


def ladder(field: str, way: str) -> float:
    return at(field, way, THE_STUDYS, "rnn_ladder")


def cudnn(way: str, batch: int) -> float:
    return at("span_s", way, f"{ONE_LAYER} batch={batch}", "rnn_ladder")


def matmul(batch: int) -> float:
    where = f"layers=1 cell=lstm dtype=float32 hidden=512 steps=64 batch={batch}"
    return at("kernel_s", "state-product", where, "rnn_ladder")


def traced_period(way: str) -> float:
    """Seconds per call of a timeline of lesson 06, as its caption has them."""
    told = str(timeline("mlp", variants=[way], at={"layers": 8, "batch": 16, "hidden": 128}, source="recorded:h200"))
    return float(re.findall(r"([\d.]+) µs a call without the profiler", told)[0]) * 1e-6


def fastest_way(batch: int, hidden: int) -> str:
    ways = [*PYTORCHS, "functional", "script"]
    return min(ways, key=lambda way: mlp("period_s", way, batch, hidden))


def tanh_floor(batch: int) -> Any:
    return floor_of(Evidence(experiment("rnn"), source("recorded:h200")), place("rnn_tanh", "float32", batch))


def steps(cell: str, dtype: str) -> dict[str, dict[int, float]]:
    return step_times(cell, dtype, source=source("recorded:h200"))


def reads() -> list[float]:
    """Bytes a second of lesson 04b's sustained reads."""
    found = ROWS.rows(experiment("working_set"), "sustained-read").values()
    return [each.cost.bytes / each.measurement.busy_s.median for each in found]


LOAD_S = 4 * 4 * 512**2 / hardware("h200").memory_bytes_per_s

SENTENCES: list[tuple[str, str, Callable[[], bool]]] = [
    ("06", "its sixteen launches were recorded once",
     lambda: ROWS.rows(experiment("mlp"), "module")[8, 16, 256].measurement.kernels == 16),
    ("06", "The GPU takes longer than that, so the host runs ahead",
     lambda: mlp("host_s", "graph", 16, 128) < mlp("kernel_s", "graph", 16, 128)),
    ("06", "a replay costs the host less than a single layer of *module*",
     lambda: all(mlp("host_s", "graph", batch, width) < mlp("host_s", "module", batch, width) / 8
                 for batch in BATCHES for width in WIDTHS)),
    ("06", "The timelines are of another run, with a faster host",
     lambda: traced_period("module") < 0.8 * mlp("period_s", "module", 16, 128)),
    ("06", "at batch 16 it was the fastest up to hidden 2048, and *max-autotune* at 4096",
     lambda: [fastest_way(16, each) for each in WIDTHS] == 5 * ["graph"] + ["max-autotune"]),
    ("06", "About a fifth of the host's time: *functional*, without modules, saves that much",
     lambda: 0.17 < 1 - mlp("host_s", "functional", 2, 128) / mlp("host_s", "module", 2, 128) < 0.23),
    ("06", ("The rewrite saves two fifths; the rest is launches, which it needs as well. So `nn.Module` is about half "
           "of what the rewrite removes (batch 2, hidden 128)"),
     lambda: 0.37 < (whole := mlp("host_s", "module", 2, 128) - mlp("host_s", "pycuda", 2, 128))
     / mlp("host_s", "module", 2, 128) < 0.43
     and 0.45 < (mlp("host_s", "module", 2, 128) - mlp("host_s", "functional", 2, 128)) / whole < 0.55),
    ("06", "here each call costs the host even more than eager PyTorch",
     lambda: all(mlp("host_s", "compile", 16, each) > mlp("host_s", "module", 16, each) for each in WIDTHS)),
    ("06", ("at hidden 128 and 256 those of *compile* take many times as long as eager's (we did not find out why), "
           "those of *max-autotune* more than twice as long"),
     lambda: all(mlp("kernel_s", "compile", 16, each) > 5 * mlp("kernel_s", "module", 16, each)
                 and mlp("kernel_s", "max-autotune", 16, each) > 2 * mlp("kernel_s", "module", 16, each)
                 for each in (128, 256))),
    ("06", "The H200 has no divide at batch 16: the gain falls at 2048 and comes back at 4096",
     lambda: gain("pycuda-fused", "module", 16, 2048) < min(gain("pycuda-fused", "module", 16, 1024),
                                                            gain("pycuda-fused", "module", 16, 4096))),
    ("06", "At 4096 the rewrite gains no more than the dotted line",
     lambda: gain("pycuda-fused", "module", 16, 4096) <= gain("pycuda-graph", "graph", 16, 4096)),
    ("06", "At hidden 4096, with 8 layers, a graph gains less than a tenth at every batch",
     lambda: all(gain("graph", "module", each, 4096) < 1.1 for each in BATCHES)),
    ("06", "At batch 128 only the three lines with other kernels stay well above one",
     lambda: gain("graph", "module", 128, 4096) < 1.05
     and all(gain(way, "module", 128, 4096) > 1.5 for way in ("pycuda-graph", "compile", "max-autotune"))),
    ("06b", "the time per call is less than the time of one kernel",
     lambda: mlp("period_s", "megakernel", 16, 256) < mlp("kernel_s", "megakernel", 16, 256)),
    ("06b", "Why is a *graph* of the one kernel slower?",
     lambda: gain("megakernel-graph", "megakernel", 16, 256) < 0.8),
    ("06b", "From hidden 1024 on the kernels are long, and the two nearly equal",
     lambda: all(abs(gain("megakernel-graph", "megakernel", each, width) - 1) < 0.05
                 for each in BATCHES for width in WIDTHS[3:])),
    ("06b", ("up to batch 16 it beats every way of PyTorch at every width. With 32 or 64 rows it loses to "
            "*max-autotune* at hidden 4096, with 128 rows from 2048 on"),
     lambda: {(batch, width) for batch in BATCHES for width in WIDTHS if one_kernel_loses(batch, width)}
     == {(32, 4096), (64, 4096), (128, 2048), (128, 4096)}),
    ("06b", ("At batch 16 the gain is largest on narrow layers, where kernels are short and gaps count most; the graph "
            "comes closest. At hidden 4096 *max-autotune* does"),
     lambda: pytorchs_best(16, 256)[1] == pytorchs_best(16, 128)[1] == "graph"
     and pytorchs_best(16, 4096)[1] == "max-autotune"
     and gain("best", "graph", 16, 256) > gain("best", "graph", 16, 1024)),
    ("08", "cuDNN comes close to the best loop",
     lambda: ladder("period_s", "cudnn") < 1.25 * ladder("period_s", "graph")),
    ("08", "*streamed* and *wavefront* save no launches, and even lose",
     lambda: ladder("period_s", "streamed") > ladder("period_s", "combined")
     and ladder("period_s", "wavefront") > ladder("period_s", "inputs")),
    ("08", "On nearly every rung Python launches the kernels more slowly than the GPU runs them",
     lambda: sum(ladder("host_s", way) > 1.5 * ladder("span_s", f"{way}-graph") for way in
                 ("naive", "combined", "streamed", "fused", "transposed", "inputs2")) == 6
     and ladder("host_s", "wavefront") > 1.5 * ladder("span_s", "graph")),
    ("08", "From eight samples on, the measured matmul lies below the line *per sample*",
     lambda: matmul(4) > 4 * LOAD_S and all(matmul(each) < each * LOAD_S for each in (8, 16, 64, 128))),
    ("08", "A single sample is faster still", lambda: matmul(1) < 0.6 * matmul(2)),
    ("08", ("*combined*, *streamed*, *fused* and *wavefront* are faster on the GPU, *transposed* is slower; "
           "*inputs2* and *inputs* mostly saved launches"),
     lambda: (spans := [ladder("span_s", f"{way}-graph") for way in ("naive", "combined", "streamed", "fused")])
     == sorted(spans, reverse=True) and ladder("span_s", "graph") < 0.6 * ladder("span_s", "inputs-graph")
     and ladder("span_s", "inputs-graph") > 0.9 * ladder("span_s", "transposed-graph")
     and ladder("span_s", "transposed-graph") > 1.05 * spans[-1]
     and ladder("period_s", "inputs") < 0.5 * ladder("period_s", "transposed")),
    ("08", ("At batch 8 and 16 cuDNN has far faster kernels, and 16 samples take less time than 8. So padding pays, "
           "most from 9 to 15"),
     lambda: cudnn("cudnn", 16) < cudnn("cudnn", 8) < min(cudnn("cudnn", each) for each in (1, 7, 9, 15, 17)) / 3
     and cudnn("cudnn", 12) / cudnn("cudnn-padded", 12) > cudnn("cudnn", 5) / cudnn("cudnn-padded", 5) > 3),
    ("08b", "with few samples, cuDNN as PyTorch calls it waits for the host",
     lambda: at("period_s", "cudnn", "hidden=1024 steps=256 cell=rnn_tanh dtype=float32 batch=1", "rnn")
     > 1.5 * at("period_s", "cudnn-graph", "hidden=1024 steps=256 cell=rnn_tanh dtype=float32 batch=1", "rnn")),
    ("08b", "from 16 on the input's matmul",
     lambda: tanh_floor(8).serial_s < max(tanh_floor(8).parts.values())
     and all(tanh_floor(each).serial_s > max(tanh_floor(each).parts.values()) for each in (16, 32, 64, 128))),
    ("08b", ("shrinks from 8 samples on, to about 3 at 64 and above. (It is largest at 2, where cuDNN takes three "
            "times as long as at 1.)"),
     lambda: (gains := {each: steps("rnn_tanh", "float32")["cudnn"][each] / ours
                        for each, ours in steps("rnn_tanh", "float32")["ours"].items()})[2] == max(gains.values())
     and max(gains[each] for each in gains if each > 8) < 0.6 * gains[8]
     and all(2.6 < gains[each] < 3.6 for each in gains if each >= 64)
     and 2.8 < steps("rnn_tanh", "float32")["cudnn"][2] / steps("rnn_tanh", "float32")["cudnn"][1] < 3.2),
    ("08b", "With 64 samples the floor is half of the measured step",
     lambda: 0.47 < tanh_floor(64).total_s / steps("rnn_tanh", "float32")["ours"][64] < 0.53),
    ("08b", "at most 13.8 TB/s (the fastest of 04b's reads)",
     lambda: max(reads()) == pytest.approx(13.8e12, rel=0.01)),
    ("08b", "at batch 4 about an eighth slower than our kernel",
     lambda: 1.1 < at("period_s", "cudnn-pad16", "hidden=1024 steps=256 cell=lstm dtype=float16 batch=4", "rnn")
     / at("period_s", "persistent", "hidden=1024 steps=256 cell=lstm dtype=float16 batch=4", "rnn") < 1.15),
    ("08b", "From 16 on, our kernel and cuDNN lie close together",
     lambda: all(0.85 < step_times("lstm", "float16", source=source("recorded:h200"))["ours"][each]
                 / step_times("lstm", "float16", source=source("recorded:h200"))["cudnn"][each] < 1.15
                 for each in (16, 24, 32, 64, 96, 128))),
    ("08", "(Both are of 16 steps, the ladder of 64.)",
     lambda: timeline("rnn_ladder", variants=["graph"], source="recorded:h200").selection.point["steps"] == 16),
    ("10", "for a quarter of the step no kernel runs",
     lambda: 0.22 < 1 - sum(at("busy_s", way, BLOCK, "block") for way in OPERATORS)
     / at("period_s", "step", BLOCK, "block") < 0.28),
    ("10b", "Up to a factor of 1.11 counts as *hardly at all*, from 1.25 on as *nearly*",
     lambda: [regime(each, 4.8 / 3.35) for each in (1.11, 1.115, 1.245, 1.255)]
     == ["something else", "a mix", "a mix", "memory"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("lesson", "sentence", "holds"), SENTENCES, ids=[f"{one[0]}-{one[1][:40]}" for one in SENTENCES]
)
def test_a_sentence_stands_in_its_lesson_and_is_so(lesson: str, sentence: str, holds: Callable[[], bool]) -> None:
    assert sentence in said(lesson)
    assert holds()


def test_the_exercises_start_from_what_is_drawn_beside_them() -> None:
    """The bandwidths are the datasheets' and the drawing's, and the floor of a step is as it is drawn at 24 samples."""
    given = {name: str(table["given"]) for name, table in tables().items() if "given" in table}
    assert hardware("gtx-1070").memory_bytes_per_s == 256e9 and "256e9" in given["06-divide"]
    assert hardware("h200").memory_bytes_per_s == 4.8e12 and "4.8e12" in given["08-floor"]
    evidence = Evidence(experiment("rnn"), source("recorded:h200"))
    drawn = floor_of(evidence, place("rnn_tanh", "float32", 24))
    assert drawn.limit == "exchange" and drawn.parts["exchange"] == pytest.approx(0.49e-6, rel=0.02)
    assert drawn.parts["state"] == pytest.approx(3 * 32 * 8 * 1024 * 4 / 13.8e12, rel=0.02)
    assert drawn.parts["arithmetic"] == pytest.approx(2 * 24 * 1024**2 / 122e12, rel=0.02)
    wider = floor_of(evidence, place("rnn_tanh", "float32", 32)).parts
    assert wider["arithmetic"] > wider["exchange"], "28 samples hide: the lines cross between 24 and 32"
