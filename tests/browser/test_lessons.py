"""Every lesson as a student meets it: run all unanswered, answer, then move every slider by key and by mouse."""

import json
from typing import Any

import pytest
from page import Explorer, Window
from server import ROOT

from brrr_course.lessons.course import copy_lessons
from brrr_course.lessons.course import notebooks_in as lessons

pytestmark = pytest.mark.browser
SHOW = ("explore", "timeline", "drawing", "roofline_of")
LESSONS = [path.name for path in lessons(ROOT / "notebooks")]


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_from_run_all_to_the_last_slider(name: str, window: Window) -> None:
    work, stem = window.lab.work, name.removesuffix(".ipynb")
    copy_lessons(ROOT / "notebooks", work)
    code = _code_of(work / name)
    page = window.open(name)
    page.run_all()
    covered, explorers = code.count("unlock="), sum(code.count(f"{name}(") for name in SHOW)
    page.page.wait_for_function("n => document.querySelectorAll('.brrr-cover').length === n", arg=covered)
    assert page.page.locator(".brrr-explorer").count() == explorers - covered, "what is covered is not on the page"
    term = page.page.locator(".jp-RenderedMarkdown abbr[title]").first  # hovering explains it
    assert term.evaluate("each => getComputedStyle(each).textDecorationStyle") == "dotted"
    page.photograph(f"{stem}-unanswered")
    page.answer_all()
    page.page.wait_for_function("() => document.querySelectorAll('.brrr-cover').length === 0")
    assert page.page.locator(".brrr-explorer").count() == explorers
    for number in range(explorers):
        _move_everything(page.explorer(number))
        page.photograph(f"{stem}-explorer-{number}", page.explorer(number).root)
    assert page.errors == []
    page.close()


def _move_everything(explorer: Explorer) -> None:
    explorer.root.scroll_into_view_if_needed()
    for number, handle in enumerate(explorer.handles()):
        explorer.press(handle, explorer.inward(handle))
        if number == 0:
            explorer.drag(handle, explorer.away(handle))


def _code_of(path: Any) -> str:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
