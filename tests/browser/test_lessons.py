"""Every lesson as a student meets it: run all unanswered, answer, then move every slider by key and by mouse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from page import NotebookPage
from server import ARTIFACTS, ROOT

from brrr.course.lessons.copies import copy_lessons, lessons

pytestmark = [pytest.mark.browser, pytest.mark.slow]
LESSONS = [path.name for path in lessons(ROOT / "notebooks")]


def test_there_are_lessons() -> None:
    assert "00_start_here.ipynb" in LESSONS


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_from_run_all_to_the_last_slider(name: str, browser: Any, lab: Any) -> None:
    copy_lessons(ROOT / "notebooks", lab.work)
    covered = _code_of(lab.work / name).count("unlock=")
    stem = name.removesuffix(".ipynb")
    page = NotebookPage(browser, lab, name)
    page.run_all()
    page.page.wait_for_function("n => document.querySelectorAll('.brrr-cover').length === n", arg=covered)
    page.photograph(f"{stem}-unanswered", ARTIFACTS)
    page.answer_all()
    page.page.wait_for_function("() => document.querySelectorAll('.brrr-cover').length === 0")
    code = _code_of(lab.work / name)
    explorers = sum(code.count(f"{name}(") for name in ("explore", "timeline", "drawing"))
    assert page.page.locator(".brrr-explorer").count() == explorers
    for number in range(explorers):
        _move_everything(page, number, f"{stem}-explorer-{number}")
    page.run_all()
    assert page.errors == []
    page.close()


def _move_everything(page: NotebookPage, number: int, name: str) -> None:
    explorer = page.explorer(number)
    explorer.root.scroll_into_view_if_needed()
    page.photograph(f"{name}-light", ARTIFACTS, explorer.root)
    for handle in explorer.handles():
        explorer.press(handle, explorer.inward(handle))
        explorer.drag(handle, explorer.away(handle))
        explorer.drag(handle, explorer.away(handle))
    page.theme("dark")
    page.photograph(f"{name}-moved-dark", ARTIFACTS, explorer.root)
    page.theme("light")


def _code_of(path: Any) -> str:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
