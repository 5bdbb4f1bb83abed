"""The nested sine: workloads against float64, where each exists, and its exercise."""

from typing import Any

import pytest
import torch
from formulas import Formula, Made

from brrr_course.experiments import experiment
from brrr_course.experiments.checked import sampled, sampled_error
from brrr_course.experiments.nested_sine import (
    SAMPLE,
    SINES,
    UNIFORM_TOLERANCE,
    nested_sine,
    uniform_error,
)
from brrr_course.experiments.sines import chain
from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises import lesson_02
from brrr_course.sources.timers import measure_point

SINE = experiment("nested_sine")
SIZES = (1, 2**10, 2**16, 2**20, 2**24, 2**28, 2**31)


def takes(floor_s: float, element_s: float, field: str = "latency_s") -> dict[str, Formula]:
    return {field: lambda size: floor_s + size * element_s}


AS_THE_SOURCE_SAW: dict[str, Any] = {
    "cpu": takes(4e-6, 1e-9),
    "gpu-transfers": takes(60e-6, 2e-9),
    "gpu": takes(30e-6, 8e-12),
}
# ---- the workloads ----


@pytest.mark.parametrize("elements", [5, 100_003])
def test_the_check_finds_a_wrong_end_a_wrong_stretch_and_nan(elements: int) -> None:
    x = torch.randn(elements)
    error, right = sampled_error(chain(SINES), x, SAMPLE), nested_sine(x)
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
    places = sampled(10 * SAMPLE + 7, SAMPLE)
    assert places[0] == 0
    assert places[-1] == 10 * SAMPLE + 6
    assert torch.equal(places[1:-1] // 10, torch.arange(SAMPLE))
    assert not torch.equal(sampled(10**6, SAMPLE), sampled(10**6, SAMPLE))


# ---- exercise 02-sines ----


@pytest.fixture
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson_02, "source", lambda name: Made(NINE_PAY, SIZES))


NINE_PAY = AS_THE_SOURCE_SAW | {"gpu-transfers": takes(60e-6, 2.1e-9)}
"""A sine costs 0.25 ns an element on the CPU and 2 ps on the GPU; the way costs 2.092 ns: 8.5 sines."""


@pytest.mark.usefixtures("_measured")
def test_the_exercise_takes_the_right_number_and_explains_it() -> None:
    assert check("02-sines", sines=9.0).right
    mark = check("02-sines", sines=9)
    assert "transfers cost" in mark.text
    assert "NVIDIA H200" in mark.text


@pytest.mark.usefixtures("_measured")
@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (2, "those of four sines"),
        (6, "So few do not pay"),
        (8, "the CPU is still faster"),
        (8.46, "Round up"),
        (10, "Fewer"),
        (0, "Write a whole"),
    ],
)
def test_the_exercise_refuses_other_numbers(wrong: Any, hint: str) -> None:
    mark = check("02-sines", sines=wrong)
    assert mark.status == "wrong"
    assert hint in mark.hint


def test_without_a_measurement_the_exercise_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson_02, "source", lambda name: Made({}, SIZES))
    with pytest.raises(Exception, match="no source here holds"):
        check("02-sines", sines=9)
