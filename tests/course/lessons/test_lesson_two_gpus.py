"""Lesson 14: its drawing and its timelines say what was measured."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Measurement
from brrr_course import Recorded
from brrr_course.experiments import experiment
from brrr_course.experiments.data_parallel import DEFAULT, MLP
from brrr_course.lessons.drawings.exchange_line import drawing as made_of
from brrr_course.lessons.drawings.exchange_line import line_of, text

# ---- exercises ----


# ---- the drawing ----


def on_a_line(alpha_s: float, beta: float) -> dict[int, Measurement]:
    return {2**power: Measurement(period_s=Estimate.of([alpha_s + 2**power / beta])) for power in range(3, 31)}


def test_the_line_is_that_of_the_times() -> None:
    times = on_a_line(2e-5, 1e11)
    link = line_of("all-reduce", times)
    assert link.alpha_s.median == pytest.approx(2e-5) and link.beta_bytes_per_s.median == pytest.approx(1e11)
    said = text("all-reduce", 2**20, times, link)
    assert "takes 30.5 µs; the line says 30.5 µs" in said and "a fixed time of 20 µs" in said and "100 GB/s" in said
    assert "was not measured" in text("all-reduce", 2**21 + 1, times, link)
    assert line_of("all-gather", times).beta_bytes_per_s.median == pytest.approx(5e10), "half of it crosses the link"


def test_a_kernel_that_takes_longer_than_a_call_has_waited() -> None:
    times = on_a_line(2e-5, 1e11)
    for kernel_s, told in ((1e-5, "its kernel 10 µs;"), (9e-5, "its kernel 90 µs under the profiler, where it waited")):
        times[8] = replace(times[8], kernel_s=Estimate.of([kernel_s]))
        assert told in text("send", 8, times, line_of("send", times))


def test_too_few_sizes_are_no_line() -> None:
    none = Measurement(latency_s=Estimate.of([1e-5]))
    few = SimpleNamespace(
        name="toy", variants=lambda _: ("cpu-send",), known=lambda *_: {(n,): none for n in (8, 16, 32)}
    )
    with pytest.raises(NotRecordedError, match="toy has no line of exchanges: measure small and large"):
        made_of(few)  # type: ignore[arg-type]


def test_a_gpus_times_go_before_those_of_its_cpu() -> None:
    gpu, cpu = on_a_line(2e-5, 1e11), on_a_line(2e-3, 1e9)
    known = {"all-reduce": gpu, "cpu-all-reduce": cpu, "cpu-send": cpu, "send": {}}
    both = SimpleNamespace(name="toy", kind="cuda", variants=lambda _: tuple(known), badge=lambda _: "LIVE",
                           known=lambda _, name: {(n,): each for n, each in known[name].items()})  # fmt: skip
    (_, operations), draw, _ = made_of(both)  # type: ignore[arg-type]
    assert operations.values == ("all-reduce", "send")
    assert "takes 20 µs" in draw({"nbytes": 8, "operation": "all-reduce"}).alt
    assert "takes 2 ms" in draw({"nbytes": 8, "operation": "send"}).alt


# ---- the text ----


def test_the_timelines_show_what_the_text_says() -> None:
    """All buckets but the last run beside compute; after the backward pass none does."""
    source, at = Recorded("h200"), {"network": MLP, "batch": 8192, "bucket": DEFAULT}
    for way, beside in (("buckets", True), ("after", False)):
        spans = [each for each in source.timeline(experiment("data_parallel"), way, at).spans if each.call == 0]
        compute = [each for each in spans if each.lane == "GPU 0 compute" and each.kind == "kernel"]
        exchanges = [each for each in spans if each.lane == "GPU 0 exchange"]
        with_compute = [any(c.start_ns < x.end_ns and x.start_ns < c.end_ns for c in compute) for x in exchanges]
        assert len(exchanges) > 5 and with_compute == [beside] * (len(exchanges) - 1) + [False]


def test_beside_the_exchange_matmuls_take_longer_by_nearly_as_much_as_is_hidden() -> None:
    source, at = Recorded("h200"), {"network": MLP, "batch": 8192, "bucket": DEFAULT}

    def busy_s(way: str, gpu: int, lane: str, kernel: str = "") -> float:
        spans = source.timeline(experiment("data_parallel"), way, at).spans
        found = [each for each in spans if each.call == 0 and each.lane == f"GPU {gpu} {lane}" and kernel in each.name]
        return sum(each.end_ns - each.start_ns for each in found) / 1e9

    hidden = busy_s("after", 1, "exchange")  # which GPU 1 begins last, so that it waits little
    for gpu in (0, 1):
        longer = busy_s("buckets", gpu, "compute", "nvjet") - busy_s("alone", gpu, "compute", "nvjet")
        assert 0.7 < longer / hidden < 1.1
