"""Drawings with sliders in a real browser: covered, uncovered, moved by key and by mouse, in both themes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from page import NotebookPage, Window

pytestmark = pytest.mark.browser

SET_UP = "import os\nos.environ['BRRR_SOURCE'] = 'cpu'\nfrom brrr import guess\n"
SET_UP += "from brrr.course.lessons.drawings import drawing"
GUESS = 'g = guess("A level is faster by ...", unit="x")'
NAMES = ("strassen-flow", "strassen-tiles", "strassen-bytes", "strassen-roofline", "strassen-errors")
CELLS = [f'drawing("{name}"{", unlock=g" * (name == NAMES[0])})' for name in NAMES]


@pytest.fixture(scope="module")
def opened(window: Window) -> Iterator[NotebookPage]:
    """A notebook with every drawing that needs no recording."""
    page = window.open(window.lab.write("drawing.ipynb", SET_UP, GUESS, *CELLS))
    page.run_all()
    yield page
    assert page.errors == []
    page.close()


def test_a_drawing_is_covered_until_the_guess(opened: NotebookPage) -> None:
    assert opened.page.locator(".brrr-cover").count() == 1
    opened.answer_all()
    opened.page.wait_for_function("() => document.querySelectorAll('.brrr-cover').length === 0")
    assert "nothing is computed yet" in opened.explorer(0).text


def test_the_flow_to_its_last_step(opened: NotebookPage) -> None:
    flow = opened.explorer(0)
    handle = flow.handles()[0]
    flow.press(handle, "End")
    assert "C equals A times B" in flow.text
    assert flow.text in flow.root.locator("img.brrr-figure").get_attribute("title")
    flow.press(handle, "ArrowLeft")
    assert "addition 7 of 8 after the products" in flow.text


@pytest.mark.parametrize("number", range(1, len(NAMES)))
def test_every_slider_moves_by_key_and_by_mouse(opened: NotebookPage, number: int) -> None:
    shown = opened.explorer(number)
    shown.root.scroll_into_view_if_needed()
    for handle in shown.handles():
        shown.press(handle, shown.inward(handle))
        shown.drag(handle, shown.away(handle))
    opened.photograph(NAMES[number], shown.root)
