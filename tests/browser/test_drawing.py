"""Drawings with sliders in a real browser, and a picture without: in both themes, and what a slider reads.

They are moved in their lessons, by test_lessons.py.
"""

import pytest
from page import Window

pytestmark = pytest.mark.browser

SET_UP = "from brrr_course import drawing, factory"


def test_every_picture_has_a_name_and_is_dark_on_a_dark_page(window: Window) -> None:
    look = "() => [...document.querySelectorAll('img.brrr-figure, img.brrr-picture')].map("
    look += "image => (image.alt || image.title) && getComputedStyle(image).filter)"
    with window.ran("drawing.ipynb", SET_UP, "factory()", 'drawing("strassen-flow", source="cpu")') as page:
        for theme, filters in (("Dark", {"invert(0.93) hue-rotate(180deg) brightness(1.2)"}), ("Light", {"none"})):
            page.command("apputils:change-theme", theme=f"JupyterLab {theme}")
            light = str(theme == "Light").lower()
            page.page.wait_for_selector(f"body[data-jp-theme-light='{light}']", state="attached")
            assert len(found := page.page.evaluate(look)) == 2
            assert set(found) == filters


def test_the_longest_reading_of_a_slider_is_shown_whole(window: Window) -> None:
    call = "conv3x3_channels_last 16x128x57x57x160 bfloat16"
    with window.ran("reading.ipynb", SET_UP, f'drawing("memory-swap", call="{call}", source="recorded:h200")') as page:
        said = page.explorer(0).root.locator(".widget-readout")
        page.photograph("reading", page.explorer(0).root)
        assert said.inner_text() == call
        assert said.evaluate("it => it.scrollWidth <= it.clientWidth")
