"""The timeline in a real browser, live on the CPU queue: the slider, the button, the variants, both themes."""

import re
from collections.abc import Iterator

import pytest
from page import NotebookPage, Window

pytestmark = pytest.mark.browser

SET_UP = "import os\nos.environ['BRRR_QUICK'] = '1'\nfrom brrr_course import timeline"
SHOWN = 'timeline("run_ahead", variant="queue", source="cpu")'
CHOICE = 'timeline("overlap", source="cpu")'
WORKS = "(the worker works|a call keeps the worker)"  # the second where other programs kept the traced loop waiting


@pytest.fixture(scope="module")
def opened(window: Window) -> Iterator[NotebookPage]:
    """A notebook with two timelines."""
    with window.ran("timeline.ipynb", SET_UP, SHOWN, CHOICE) as page:
        yield page


def test_the_first_point_is_there_at_once(opened: NotebookPage) -> None:
    shown = opened.explorer()
    assert re.search(rf"a call without tracing: {WORKS}", shown.text)
    assert "LIVE, CPU QUEUE" in shown.root.inner_text()
    title = shown.root.locator("img.brrr-figure").get_attribute("title")
    assert "A timeline with the lanes Python: calls, submit (queue), worker" in title


def test_another_point_is_traced_on_the_button(opened: NotebookPage) -> None:
    shown = opened.explorer()
    (handle,) = shown.handles()
    shown.press(handle, "End")
    assert "Not traced yet" in shown.text
    text, picture = shown.text, shown.picture
    shown.click("Trace this point")
    shown.wait_for_change(text, picture)
    assert re.search(WORKS, shown.text)
    shown.root.get_by_role("button", name="Trace this point").wait_for(state="hidden")  # it goes behind the picture
    opened.photograph("timeline-traced", shown.root)
    shown.press(handle, "Home")
    assert re.search(WORKS, shown.text)


def test_variants_are_chosen_from_a_list(opened: NotebookPage) -> None:
    shown = opened.explorer(1)
    text, picture = shown.text, shown.picture
    shown.root.locator("select").select_option(index=2)
    shown.wait_for_change(text, picture)
    text, picture = shown.text, shown.picture
    shown.click("Trace this point")
    shown.wait_for_change(text, picture)
    assert "Copies" in shown.text
    opened.photograph("timeline-variant", shown.root)


TWINS = """display(timeline("run_ahead", variant="eager", at={"elements": 65536}, source="recorded:h200"),
explore("run_ahead", at={"elements": 65536}, lines=["host", "busy"], source="recorded:h200"))"""


def test_a_timeline_and_its_curve_in_one_cell_move_together(window: Window) -> None:
    with window.ran("twins.ipynb", "from brrr_course import explore, timeline", TWINS) as page:
        line, curve = page.explorer(), page.explorer(1)
        (leads,) = curve.handles()
        before = line.text, line.picture
        curve.press(leads, "End")
        line.wait_for_change(*before)
        assert "16777216" in line.text.replace("2²⁴", "16777216") and "2²⁴" in curve.text
        before = curve.text, curve.picture
        line.press(line.handles()[0], "Home")
        curve.wait_for_change(*before)
        assert "1024" in line.text and "1024" in curve.text
