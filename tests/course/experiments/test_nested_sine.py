"""The nested sine: workloads against float64, where each exists, claims on made-up machines, and its exercise."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from formulas import Formula, Made

from brrr.core.errors import DeviceMemoryError, WrongResultError
from brrr_course.experiments import experiment
from brrr_course.experiments.nested_sine import COMPILED, LARGEST, QUEUE_MAX, SLOWEST_MAX, work
from brrr_course.experiments.nested_sine.work import (
    SAMPLE,
    UNIFORM_TOLERANCE,
    nested_sine,
    sample_error,
    sampled,
    uniform_error,
)
from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises import lesson_02
from brrr_course.nouns.claim import Verdict
from brrr_course.nouns.source import Evidence
from brrr_course.sources.plan import DurationEstimator, steps
from brrr_course.sources.timers import measure_point

SINE = experiment("nested_sine")
SIZES = (1, 2**10, 2**16, 2**20, 2**24, 2**28, 2**31)
HERE = ["cpu", "queue-gpu-transfers", "queue-gpu-transfers-sync", "queue-gpu"]


@dataclass
class Trace:
    """What a claim reads of a timeline."""

    transfer_share_of_period: float = 0.93
    transfer_share: float = 0.98
    overlap_share: float = 0.0
    streams: tuple[str, ...] = ("stream 7",)


def takes(floor_s: float, element_s: float, field: str = "latency_s") -> dict[str, Formula]:
    return {field: lambda size: floor_s + size * element_s}


FUSED_BY_ALMOST_HALF = {
    "latency_s": lambda size: 16.5e-6 + size * 4.4e-12,
    "kernel_s": lambda size: 2.2e-6 + size * 4.4e-12,
}
AS_THE_SOURCE_SAW: dict[str, Any] = {
    "cpu": takes(4e-6, 1e-9),
    "gpu-transfers": takes(60e-6, 2e-9),
    "gpu-transfers-sync": takes(60e-6, 2e-9),
    "gpu-transfers-then-sync": takes(60e-6, 2e-9),
    "gpu-transfers-kept": takes(60e-6, 0.7e-9),
    "gpu-pinned": takes(50e-6, 0.3e-9),
    "gpu": {"latency_s": lambda size: 30e-6 + size * 8e-12, "kernel_s": lambda size: 4e-6 + size * 8e-12},
    "gpu-compiled": FUSED_BY_ALMOST_HALF,
    "gpu-scripted": FUSED_BY_ALMOST_HALF,
    "gpu-scripted-first": takes(300e-6, 8e-12),
    "cpu-drawing": takes(4e-6, 5e-9),
}
KERNELS = {"gpu": 4, "gpu-compiled": 1, "gpu-scripted": 1, "gpu-scripted-first": 4}
TRACES = {"gpu-transfers": Trace()}


def verdict(name: str, times: Mapping[str, Any], **options: Any) -> Verdict:
    claim = next(claim for claim in SINE.claims if claim.name == name)
    given = {"kernels": KERNELS, "timelines": TRACES, **options}
    return claim.verdict(Evidence(SINE, Made(times, SIZES, **given)))  # type: ignore[arg-type]


def changed(**variants: Any) -> dict[str, Any]:
    return {**AS_THE_SOURCE_SAW, **{name.replace("_", "-"): value for name, value in variants.items()}}


@pytest.mark.parametrize("claim", [claim.name for claim in SINE.claims])
def test_every_claim_on_a_machine_as_the_source_saw_it_and_on_none(claim: str) -> None:
    expected = "fails" if claim == "wait-is-needed" else "holds"
    assert verdict(claim, AS_THE_SOURCE_SAW).status == expected, verdict(claim, AS_THE_SOURCE_SAW)
    nothing = verdict(claim, {}, timelines={}, kernels={})
    assert nothing.status == ("holds" if claim == "eight-gigabytes" else "not measured")


FAST_LINK = changed(gpu_transfers=takes(60e-6, 0.02e-9), gpu_transfers_sync=takes(60e-6, 0.02e-9))
TIE = changed(gpu_transfers=takes(4e-6, 1e-9))
SMALL_CPU_GPU = changed(gpu=takes(1e-6, 8e-12))
SLOW_GPU = changed(gpu=takes(30e-6, 1.5e-9))
OTHER = [
    ("cpu-wins-at-scale", FAST_LINK, {}, "fails"),
    ("cpu-wins-at-scale", TIE, {}, "undecided"),
    ("cpu-wins-at-scale", AS_THE_SOURCE_SAW, {"missing": {"cpu": (2**20, 2**24, 2**28, 2**31)}}, "not measured"),
    ("compute-is-tiny", SLOW_GPU, {}, "fails"),
    ("gpu-needs-scale", SMALL_CPU_GPU, {}, "fails"),
    ("gpu-needs-scale", SLOW_GPU, {}, "fails"),
    ("transfers-dominate", SLOW_GPU, {}, "fails"),
    ("transfers-dominate", changed(gpu=takes(0.0, 1e-9)), {}, "undecided"),
    ("trace-agrees", AS_THE_SOURCE_SAW, {"timelines": {}}, "not measured"),
    ("trace-agrees", AS_THE_SOURCE_SAW, {"timelines": {"gpu-transfers": Trace(0.6)}}, "fails"),
    ("one-after-another", AS_THE_SOURCE_SAW, {"timelines": {"gpu-transfers": Trace(overlap_share=0.3)}}, "fails"),
    ("one-after-another", AS_THE_SOURCE_SAW, {"timelines": {"gpu-transfers": Trace(streams=("7", "13"))}}, "fails"),
    ("wait-is-needed", AS_THE_SOURCE_SAW, {"missing": {"gpu-transfers": (2**16,)}}, "undecided"),
    ("wait-changes-no-time", changed(gpu_transfers_sync=takes(60e-6, 3e-9)), {}, "fails"),
    ("wait-changes-no-time", changed(gpu_transfers_sync=takes(60e-6, 2.2e-9)), {}, "undecided"),
    ("wait-after", changed(gpu_transfers_then_sync=takes(60e-6, 3e-9)), {}, "fails"),
    ("wait-after", changed(gpu_transfers_then_sync=takes(60e-6, 2.2e-9)), {}, "undecided"),
    ("drawing-is-large", changed(cpu_drawing=takes(4e-6, 1e-9)), {}, "fails"),
    ("one-kernel", AS_THE_SOURCE_SAW, {"kernels": {**KERNELS, "gpu-scripted": 4}}, "fails"),
    ("scripted-first-call", AS_THE_SOURCE_SAW, {"kernels": {**KERNELS, "gpu-scripted-first": 1}}, "fails"),
    ("scripted-first-call", AS_THE_SOURCE_SAW, {"kernels": {**KERNELS, "gpu-scripted": 4}}, "fails"),
    ("fusing-saves-half-small", changed(gpu_scripted=takes(29e-6, 4e-12)), {}, "fails"),
    ("fusing-saves-half-small", changed(gpu_scripted=takes(13.5e-6, 3.6e-12)), {}, "fails"),
    ("fusing-saves-half-small", changed(gpu_scripted=takes(15e-6, 4e-12)), {}, "undecided"),
    ("fusing-saves-half-large", changed(gpu_scripted=takes(2e-6, 2e-12, "kernel_s")), {}, "fails"),
    ("fusing-saves-half-large", changed(gpu_scripted=takes(1.8e-6, 3.6e-12, "kernel_s")), {}, "fails"),
    ("fusing-saves-half-large", changed(gpu_scripted=takes(0.0, 4.8e-12, "kernel_s")), {}, "undecided"),
    ("memory-bound", changed(gpu=takes(0.0, 80e-12, "kernel_s")), {}, "fails"),
    ("memory-bound", AS_THE_SOURCE_SAW, {"device": "Some GPU"}, "not measured"),
    ("free-gpu-loses", FAST_LINK, {}, "fails"),
    ("free-gpu-loses", changed(cpu=takes(4e-6, 1.992e-9)), {}, "undecided"),
    ("new-memory-costs", changed(gpu_transfers_kept=takes(60e-6, 1.9e-9)), {}, "fails"),
    ("new-memory-costs", changed(gpu_transfers_kept=takes(60e-6, 1e-9)), {}, "undecided"),
    ("pinning-alone", changed(gpu_transfers_kept=takes(60e-6, 0.35e-9)), {}, "fails"),
    ("pinning-alone", changed(gpu_transfers_kept=takes(60e-6, 2e-9)), {}, "fails"),
    ("pinned-turns-it", changed(gpu_pinned=takes(50e-6, 3e-9)), {}, "fails"),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "times", "options", "status"), OTHER)
def test_another_machine_gets_another_verdict(
    claim: str, times: Mapping[str, Any], options: dict[str, Any], status: str
) -> None:
    assert verdict(claim, times, **options).status == status, verdict(claim, times, **options)


def test_a_claim_about_who_wins_names_the_size() -> None:
    assert "pinned wins from 2^20 on" in verdict("pinned-turns-it", AS_THE_SOURCE_SAW).measured
    assert "wins at no size" in verdict("cpu-wins-at-scale", AS_THE_SOURCE_SAW).measured
    assert "without transfers wins from 2^16 on" in verdict("gpu-needs-scale", AS_THE_SOURCE_SAW).measured


def test_the_toy_accelerator_stands_in() -> None:
    toy = {"cpu": takes(4e-6, 2e-9), "queue-gpu": takes(60e-6, 2e-9), "queue-gpu-transfers": takes(90e-6, 3e-9),
           "queue-gpu-transfers-sync": takes(120e-6, 3e-9)}  # fmt: skip
    assert verdict("cpu-wins-at-scale", toy, timelines={}).status == "holds"
    assert verdict("transfers-dominate", toy, timelines={}).status == "fails"
    assert verdict("wait-is-needed", toy, timelines={}).status == "fails"
    assert verdict("memory-bound", toy, timelines={}).status == "not measured"
    assert "on the CPU queue" in verdict("transfers-dominate", toy, timelines={}).measured
    assert "CPU queue" not in verdict("transfers-dominate", AS_THE_SOURCE_SAW).measured


# ---- the workloads ----


@pytest.mark.parametrize("elements", [1, 1000, SAMPLE, SAMPLE + 1, 100_003])
def test_results_on_this_machine_are_right(elements: int) -> None:
    for name, run in measure_point(SINE, HERE, {"elements": elements}, budget_s=0.01).items():
        assert not isinstance(run, Exception), run
        assert 0 <= run.error < 2e-6, name


@pytest.mark.parametrize("variant", HERE)
def test_three_sines_are_found_out(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = torch.sin
    monkeypatch.setattr(torch, "sin", lambda x: x)  # the reference uses the tensor's own method
    workload = SINE.workload(variant, {"elements": 5000})
    with pytest.raises(WrongResultError, match="relative error"):
        workload.check()
    workload.close()
    assert torch.equal(nested_sine(torch.ones(2)), torch.ones(2))
    monkeypatch.setattr(torch, "sin", true)


@pytest.mark.parametrize("elements", [5, 100_003])
def test_the_check_finds_a_wrong_end_a_wrong_stretch_and_nan(elements: int) -> None:
    x = torch.randn(elements)
    error, right = sample_error(x), nested_sine(x)
    assert error(right) < 1e-6
    stretch = elements // 40 + 1  # a kernel that left out one of forty blocks
    for place in (slice(0, 1), slice(-1, None), slice(elements // 2, elements // 2 + stretch)):
        wrong = right.clone()
        wrong[place] += 1
        assert error(wrong) > 1e-3, place
    assert not error(torch.full_like(x, float("nan"))) <= 1e9
    assert not error(right[:-1]) <= 1e9
    assert error(torch.full_like(x, 0.0)) > 0.9


def test_random_numbers_that_are_not_are_found_out() -> None:
    error = uniform_error(100_000)
    assert error(torch.rand(100_000)) < UNIFORM_TOLERANCE
    for wrong in (torch.rand(100_000) ** 2, torch.rand(99_999), torch.rand(100_000) * 2, torch.full((100_000,), 0.49)):
        assert not error(wrong) <= UNIFORM_TOLERANCE
    found = measure_point(SINE, ["cpu-drawing"], {"elements": 1000}, budget_s=0.01)["cpu-drawing"]
    assert not isinstance(found, Exception), found


def test_the_sample_reaches_every_part() -> None:
    places = sampled(10 * SAMPLE + 7)
    assert places[0] == 0
    assert places[-1] == 10 * SAMPLE + 6
    assert torch.equal(places[1:-1] // 10, torch.arange(SAMPLE))
    assert not torch.equal(sampled(10**6), sampled(10**6))


def test_the_variants_of_a_point_share_one_fresh_input() -> None:
    first, second = (work.Normal.of(1000, "cpu") for _ in range(2))
    assert first is second
    kept = first.x.clone()
    del first, second
    gc.collect()
    assert not torch.equal(work.Normal.of(1000, "cpu").x, kept)


def test_what_does_not_fit_is_refused_before_it_is_drawn() -> None:
    with pytest.raises(DeviceMemoryError, match="nested sine of"):
        SINE.workload("cpu", {"elements": 2**45})


def test_where_each_variant_exists() -> None:
    largest, odd = {"elements": LARGEST}, {"elements": 100_003}
    there = {v.name for v in SINE.variants if SINE.has(v.name, largest)}
    assert there == {"cpu", "gpu-transfers", "gpu-pinned", "gpu", "gpu-compiled"}
    assert not SINE.has("gpu-scripted", odd)
    assert not SINE.has("gpu-compiled", odd)
    assert SINE.has("gpu-transfers-sync", {"elements": SLOWEST_MAX})
    assert SINE.has("queue-gpu", {"elements": QUEUE_MAX})
    assert set(COMPILED) <= set(SINE.axis("elements").values)
    for name, point in SINE.traces:
        assert SINE.has(name, SINE.point(**point))
        assert point["elements"] in SINE.axis("elements").values


def test_its_cost_and_that_the_plan_is_modest() -> None:
    cost = SINE.cost_at("gpu", {"elements": 1000})
    assert cost is not None
    assert (cost.flop, cost.bytes) == (4000, 8000)
    for name, most_minutes in (("nested_sine", 4), ("transfers", 2)):
        planned = sum(DurationEstimator(16).seconds(step) for step in steps([experiment(name)], "cuda"))
        assert planned < 60 * most_minutes, name


# ---- exercise 02-sines ----


@pytest.fixture
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson_02, "source", lambda name: Made(AS_THE_SOURCE_SAW, SIZES))


@pytest.mark.usefixtures("_measured")
def test_the_exercise_takes_the_right_number_and_explains_it() -> None:
    """A sine costs 0.25 ns an element on the CPU and 2 ps on the GPU; the way costs 1.992 ns: 8.03 sines."""
    assert next(iter(lesson_02.sines_that_pay({})))["wanted"] == 9
    for right in (9, 9.0, 8, 10):
        assert check("02-sines", sines=right).right
    mark = check("02-sines", sines=9)
    assert "transfers cost" in mark.text
    assert "NVIDIA H200" in mark.text


@pytest.mark.usefixtures("_measured")
@pytest.mark.parametrize(
    ("wrong", "hint"),
    [(2, "those of four sines"), (6, "So few do not pay"), (30, "Fewer are enough"), (0, "Write a whole")],
)
def test_the_exercise_refuses_other_numbers(wrong: Any, hint: str) -> None:
    mark = check("02-sines", sines=wrong)
    assert mark.status == "wrong"
    assert hint in mark.hint


def test_without_a_measurement_the_exercise_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson_02, "source", lambda name: Made({}, SIZES))
    with pytest.raises(Exception, match="no source here holds"):
        check("02-sines", sines=9)
