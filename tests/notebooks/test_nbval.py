"""Every lesson under nbval, unanswered, then answered, every slider moved, and then its solution.

Recorded, live on the CPU, live on a GPU.
"""

import os
import re
from functools import reduce
from pathlib import Path

import nbformat
import pytest
from harness import LESSONS, NOTEBOOKS, read, run_nbval, then, with_all_right, with_sweep

CPU = {"BRRR_SOURCE": "cpu", "BRRR_QUICK": "1"}
ON_A_GPU = os.environ.get("BRRR_SOURCE") == "cuda"  # `make test-gpu` asks for this lane, and for this one only
LANES = {"cuda": {"BRRR_SOURCE": "cuda"}} if ON_A_GPU else {"recorded": {"BRRR_SOURCE": "recorded:h200"}, "cpu": CPU}
KERNELS = len(LESSONS) if ON_A_GPU else 2
"""To load torch takes longer than most lessons: several of them share a kernel, one after the other."""


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("kernel", range(KERNELS))
def test_lessons_run_their_sliders_move_and_their_answers_are_right(kernel: int, lane: str, tmp_path: Path) -> None:
    parts, starts = [], {}
    for lesson in LESSONS[kernel::KERNELS]:
        starts[lesson.stem] = sum(len(part.cells) + 1 for part in parts)
        parts += [with_sweep(read(lesson)), with_all_right(read(NOTEBOOKS / "solutions" / lesson.name))]
    ran = run_nbval(reduce(then, parts), tmp_path, **LANES[lane])
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}The lessons begin at these cells: {starts}"


def test_a_lesson_live_on_a_gpu_with_the_small_grids(tmp_path: Path) -> None:
    """Its lists of functions have more than the small grid of any device; what is measured is the recording's."""
    lesson = with_sweep(read(NOTEBOOKS / "01_async_timing.ipynb"))
    lesson.cells.insert(0, nbformat.v4.new_code_cell("import recorded_gpu"))
    ran = run_nbval(lesson, tmp_path, BRRR_SOURCE="cuda", BRRR_QUICK="1")
    assert ran.returncode == 0, ran.stdout + ran.stderr


EXPLORES = 'from brrr_course.view.explorer import explore\nexplore("matmul", source="cpu")'
HIDES = EXPLORES + "\nfrom brrr_course.view.display import shown\nshown.clear()"
RAISES = "from brrr_course.view.panel import ExplorerPanel\nExplorerPanel._on_dial = lambda *_: 1 / 0"
WRONG = 'from brrr_course.lessons.checking import check\ncheck("00-launches", microseconds=1200)'


def _notebook(*sources: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


def test_each_fault_fails_the_lane_and_what_has_none_passes(tmp_path: Path) -> None:
    """One kernel: an explorer as it should be, a callback that raises, an explorer not swept, a wrong answer."""
    parts = [with_sweep(_notebook(*cells)) for cells in ([EXPLORES], [RAISES, EXPLORES], [HIDES])]
    whole = reduce(then, [*parts, with_all_right(_notebook(WRONG))])
    ran = run_nbval(whole, tmp_path, **CPU)
    swept = [number for number, cell in enumerate(whole.cells) if "sweep_all()" in cell.source]
    assert len(swept) == 3
    failed = {int(number) for number in re.findall(r"^FAILED .*Cell (\d+)", ran.stdout, re.MULTILINE)}
    assert failed == {*swept[1:], len(whole.cells) - 1}, ran.stdout
    assert all(words in ran.stdout for words in ("ZeroDivisionError", "0 explorers were swept", "assert _.right"))
