"""A comparison in a real browser: it fills itself in, and in its own cell."""

from collections.abc import Iterator
from typing import Any

import pytest
from page import NotebookPage, Window

pytestmark = pytest.mark.browser

SET_UP = "from synthetic import Synthetic\nfrom brrr_course import compare, guess"
GUESS = 'g = guess("A product of two 4096 x 4096 matrices seems to take ...", unit="s")'
COMPARE = 'compare(g, "matmul", ["unsynchronized", "synchronized"], source=Synthetic(), size=4096)'
CELLS = 'from brrr_course.lessons.waiting import _last_run\nprint(len(_last_run), "cells wait")'
REQUEST = "Not answered yet: give your guess above."


@pytest.fixture(scope="module")
def opened(window: Window) -> Iterator[NotebookPage]:
    """A notebook whose guess is open; both comparisons ran twice without it."""
    with window.ran("comparison.ipynb", SET_UP, GUESS, COMPARE, COMPARE, CELLS) as page:
        page.run_all()
        yield page


def _output(opened: NotebookPage, cell: int) -> Any:
    return opened.page.locator(".jp-CodeCell").nth(cell).locator(".jp-Cell-outputArea")


def test_it_waits_for_the_guess(opened: NotebookPage) -> None:
    for cell in (2, 3):
        _output(opened, cell).get_by_text(REQUEST).wait_for(timeout=15_000)
        assert _output(opened, cell).inner_text().strip() == REQUEST
    assert "2 cells wait" in _output(opened, 4).inner_text(), "a cell that ran again is the same cell"
    opened.photograph("comparison-before")


def test_a_guess_is_changed_by_keyboard_and_the_focus_stays(opened: NotebookPage) -> None:
    opened.answer_all()
    _output(opened, 2).get_by_text("you said 1 ms").wait_for(timeout=15_000)
    page, button = opened.page, opened.page.get_by_role("button", name="Change my guess")
    button.focus()
    page.keyboard.press("Enter")
    field = _output(opened, 1).locator(".widget-text input:not([disabled])")
    field.fill("2 ms")
    field.press("Enter")
    _output(opened, 2).get_by_text("you said 2 ms").wait_for(timeout=15_000)
    assert "At size 4096" not in _output(opened, 1).inner_text()
    assert "At first: 1 ms." in _output(opened, 1).inner_text()
    assert page.evaluate("() => document.activeElement.innerText") == "Change my guess"
