"""The lessons keep the form; test_parts.py breaks each of its rules."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rules
from harness import LESSONS, NOTEBOOKS, SOLUTIONS, read
from parts_rules import ALL_RULES

CASES = [pytest.param(lesson, rule, id=f"{lesson.stem}-{rule.__name__}") for lesson in LESSONS for rule in ALL_RULES]


@pytest.mark.parametrize(("lesson", "rule"), CASES)
def test_lesson_keeps_the_form(lesson: Path, rule: Callable[[Any], list[str]]) -> None:
    assert rule(read(lesson)) == []


def test_there_are_lessons() -> None:
    assert {"00_start_here", "01_async_timing"} <= {path.stem for path in LESSONS}


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_every_exercise_has_its_answer(lesson: Path) -> None:
    solution = NOTEBOOKS / "solutions" / lesson.name
    assert solution in SOLUTIONS
    asked, answered = _exercises(lesson), _exercises(solution)
    assert asked == answered
    assert asked


def _exercises(path: Path) -> list[str]:
    return [tag for cell in read(path).cells for tag in rules.tags(cell) if tag.startswith("exercise:")]
