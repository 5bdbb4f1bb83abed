"""Every lesson under nbval, unanswered, then answered, every slider moved: recorded, live on the CPU, live on a GPU."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from harness import LESSONS, SOLUTIONS, read, run_nbval, with_all_right, with_sweep

CPU = {"BRRR_SOURCE": "cpu", "BRRR_QUICK": "1"}
ON_A_GPU = os.environ.get("BRRR_SOURCE") == "cuda"  # `make test-gpu` asks for this lane, and for this one only
LANES = {"cuda": {"BRRR_SOURCE": "cuda"}} if ON_A_GPU else {"recorded": {"BRRR_SOURCE": "recorded:h200"}, "cpu": CPU}


def _id(value: object) -> str:
    return value.stem if isinstance(value, Path) else str(value)


@pytest.mark.slow
@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("lesson", LESSONS, ids=_id)
def test_lesson_runs_and_its_sliders_move(lesson: Path, lane: str, tmp_path: Path) -> None:
    ran = run_nbval(with_sweep(read(lesson)), tmp_path, **LANES[lane])
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("solution", SOLUTIONS, ids=_id)
def test_solution_is_marked_right(solution: Path, lane: str, tmp_path: Path) -> None:
    ran = run_nbval(with_all_right(read(solution)), tmp_path, **LANES[lane])
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _broken(*sources: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


EXPLORES = 'from brrr.course.view.explorer import explore\nexplore("matmul", source="cpu")'
RAISES = "from brrr.course.view.panel import Panel\nPanel._on_slider = lambda *_: 1 / 0"


@pytest.mark.slow
def test_a_raising_callback_fails_the_lane(tmp_path: Path) -> None:
    ran = run_nbval(with_sweep(_broken(RAISES, EXPLORES)), tmp_path, **CPU)
    assert ran.returncode == 1
    assert "ZeroDivisionError" in ran.stdout


@pytest.mark.slow
def test_the_same_notebook_without_the_fault_passes(tmp_path: Path) -> None:
    ran = run_nbval(with_sweep(_broken("pass", EXPLORES)), tmp_path, **CPU)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.slow
def test_an_explorer_that_is_not_swept_fails_the_lane(tmp_path: Path) -> None:
    hidden = EXPLORES + "\nfrom brrr.course.view.explorer import explorers\nexplorers.clear()"
    ran = run_nbval(with_sweep(_broken(hidden)), tmp_path, **CPU)
    assert ran.returncode == 1
    assert "0 explorers were swept" in ran.stdout


@pytest.mark.slow
def test_a_wrong_solution_fails_the_lane(tmp_path: Path) -> None:
    wrong = 'from brrr.course.lessons.checking import check\ncheck("00-orders", microseconds=1200)'
    ran = run_nbval(with_all_right(_broken(wrong)), tmp_path, **CPU)
    assert ran.returncode == 1
    assert "AssertionError" in ran.stdout
