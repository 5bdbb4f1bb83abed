"""Lessons of the main road on an accelerator without CUDA, which `tests/played.py` plays, with the small grids."""

from functools import reduce
from pathlib import Path

import pytest
from harness import LESSONS, NOTEBOOKS, read, run_nbval, then, with_all_right, with_sweep

from tests.on_played import environment

HERE = ("00", "01", "05")
"""All of the road run; these take the least time."""


def test_lessons_run_on_an_accelerator_without_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    monkeypatch.delenv("BRRR_SOURCE", raising=False)
    parts = [with_sweep(read(lesson)) for lesson in LESSONS if lesson.stem[:3] in [f"{number}_" for number in HERE]]
    parts.append(with_all_right(read(NOTEBOOKS / "solutions" / "01_async_timing.ipynb")))
    looks = "from brrr_course.sources import source\nassert source().name == 'played'"
    parts[0].cells[0].source += f"\n{looks}"
    ran = run_nbval(reduce(then, parts), tmp_path, BRRR_QUICK="1")
    assert ran.returncode == 0, ran.stdout + ran.stderr
