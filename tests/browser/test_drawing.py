"""Drawings with sliders in a real browser: covered, uncovered, moved by key and by mouse, in both themes."""

from collections.abc import Iterator

import pytest
from page import NotebookPage, Window

pytestmark = pytest.mark.browser

SET_UP = "import os\nos.environ['BRRR_SOURCE'] = 'cpu'\nfrom brrr_course import factory, guess\n"
SET_UP += "from brrr_course.lessons.drawings import drawing"
GUESS = 'g = guess("A level is faster by ...", unit="x")'
CELL = 'drawing("strassen-flow", unlock=g)'  # the others are moved in their lessons, by test_lessons.py


@pytest.fixture(scope="module")
def opened(window: Window) -> Iterator[NotebookPage]:
    """A notebook with a drawing that needs no recording."""
    with window.ran("drawing.ipynb", SET_UP, "factory()", GUESS, CELL) as page:
        yield page


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


def test_every_picture_is_dark_on_a_dark_page(opened: NotebookPage) -> None:
    """Those with sliders and those without, the lesson's first one for example."""
    look = "() => [...document.querySelectorAll('img.brrr-figure, img.brrr-picture')].map("
    look += "image => getComputedStyle(image).filter)"
    for theme, filters in (("Dark", {"invert(0.93) hue-rotate(180deg) brightness(1.2)"}), ("Light", {"none"})):
        opened.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        opened.page.wait_for_selector(f"body[data-jp-theme-light='{str(theme == 'Light').lower()}']", state="attached")
        assert len(found := opened.page.evaluate(look)) == 2
        assert set(found) == filters


def test_the_longest_reading_of_a_slider_is_shown_whole(window: Window) -> None:
    call = "conv3x3_channels_last 16x128x57x57x160 bfloat16"
    with window.ran("reading.ipynb", SET_UP, f'drawing("memory-swap", call="{call}", source="recorded:h200")') as page:
        said = page.explorer(0).root.locator(".widget-readout")
        page.photograph("reading", page.explorer(0).root)
        assert said.inner_text() == call
        assert said.evaluate("it => it.scrollWidth <= it.clientWidth")
