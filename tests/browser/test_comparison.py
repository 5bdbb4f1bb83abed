"""A comparison in a real browser: it fills itself in, and in its own cell; and a term that hovering explains."""

import sys
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from page import NotebookPage, Window
from server import ROOT

pytestmark = pytest.mark.browser

SET_UP = "from synthetic import Synthetic\nfrom brrr_course import compare, guess"
GUESS = 'g = guess("A product of two 4096 x 4096 matrices seems to take ...", unit="s")'
COMPARE = 'compare(g, "matmul", ["unsynchronized", "synchronized"], source=Synthetic(), size=4096)'
FAILS = 'compare(g, "matmul", ["no such line"], source=Synthetic(), size=4096)'
CELLS = 'from brrr_course.lessons.waiting import _last_run\nprint(len(_last_run), "cells wait")'
REQUEST = "Not answered yet: give your guess above."


@pytest.fixture(scope="module")
def opened(window: Window) -> Iterator[NotebookPage]:
    """A notebook whose guess is open; both comparisons ran twice without it."""
    with window.ran("comparison.ipynb", SET_UP, GUESS, COMPARE, FAILS, CELLS) as page:
        page.run_all()
        yield page


def _output(opened: NotebookPage, cell: int) -> Any:
    return opened.page.locator(".jp-CodeCell").nth(cell).locator(".jp-Cell-outputArea")


def test_it_waits_for_the_guess(opened: NotebookPage) -> None:
    for cell in (2, 3):
        output = _output(opened, cell).get_by_text(REQUEST)
        output.wait_for(timeout=15_000)
        assert _output(opened, cell).inner_text().strip() == REQUEST
    assert "2 cells wait" in _output(opened, 4).inner_text(), "a cell that ran again is the same cell"
    opened.photograph("comparison-before")


def test_it_fills_itself_in_where_it_stands(opened: NotebookPage) -> None:
    opened.answer_all()
    _output(opened, 2).locator("table").wait_for(timeout=15_000)
    text = _output(opened, 2).inner_text()
    assert text.startswith("At size 4096, you said 1 ms, measured")
    assert REQUEST not in text and "RECORDED · synthetic device" in text
    assert "At size 4096" not in _output(opened, 1).inner_text()
    opened.photograph("comparison-after")


def test_a_guess_is_changed_by_keyboard_and_the_focus_stays(opened: NotebookPage) -> None:
    page, button = opened.page, opened.page.get_by_role("button", name="Change my guess")
    button.focus()
    page.keyboard.press("Enter")
    field = _output(opened, 1).locator(".widget-text input:not([disabled])")
    field.fill("2 ms")
    field.press("Enter")
    _output(opened, 2).get_by_text("you said 2 ms").wait_for(timeout=15_000)
    assert "At first: 1 ms." in _output(opened, 1).inner_text()
    assert page.evaluate("() => document.activeElement.innerText") == "Change my guess"


def test_what_it_raises_stands_in_its_place(opened: NotebookPage) -> None:
    _output(opened, 3).get_by_text("ArgumentError").wait_for(timeout=15_000)
    assert "no such line" in _output(opened, 3).inner_text()


def test_a_marked_term_is_explained_by_hovering(window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "tests" / "notebooks")])
    from harness import build_script

    path = window.lab.work / window.lab.write("terms.ipynb", "1")
    made = nbformat.read(path, as_version=4)
    text = build_script().with_meanings("How many warps are [[occupancy|occupied]]?")
    made.cells.insert(0, nbformat.v4.new_markdown_cell(text))
    nbformat.write(made, path)
    page = window.open("terms.ipynb")
    word = page.page.locator(".jp-RenderedMarkdown abbr")
    word.wait_for(timeout=15_000)
    assert word.inner_text() == "occupied"
    assert word.get_attribute("title").startswith("The warps that a multiprocessor holds at once")
    assert word.evaluate("each => getComputedStyle(each).textDecorationStyle") == "dotted"
    page.photograph("term", word.locator("xpath=.."))
    page.close()


def test_an_order_is_a_click_for_each(window: Window) -> None:
    with window.ran("order.ipynb", SET_UP, 'g = guess("Which first?", ranking=["a", "b", "c"])', "g") as page:
        for item in "cab":
            page.page.get_by_role("button", name=item, exact=True).click()
        page.page.get_by_role("button", name="This is my guess").click()
        page.page.get_by_text("Your guess: c, a, b").wait_for(timeout=15_000)
