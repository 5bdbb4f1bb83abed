"""The explorer in a real browser: without its kernel, with another figure in its cell, and measuring."""

from collections.abc import Iterator

import pytest
from page import KERNEL, NotebookPage, Window

pytestmark = pytest.mark.browser

SET_UP = "from brrr_course.view.explorer import explore\nfrom synthetic import Synthetic"
EXPLORE = 'explore("matmul", at={"size": 4096}, lines=["cpu", "transfers", "unsynchronized", "synchronized"], source=S)'
LIVE = [
    EXPLORE.replace("S)", 'Synthetic(live=True, slice_s=0.15, name="toy"))'),
    EXPLORE.replace("S)", 'Synthetic(live=True, slice_s=30, name="slow toy"))'),
    'explore("matmul", at={"size": 64}, lines=["cpu", "unsynchronized", "synchronized"], source="cpu")',
]


# -- without the kernel


def test_it_moves_while_the_kernel_works_and_after_the_kernel_was_shut_down(window: Window) -> None:
    page = window.open(window.lab.write("asleep.ipynb", SET_UP, EXPLORE.replace("S)", "Synthetic())")))
    page.run_all()
    explorer = page.explorer()
    page.page.evaluate(f"() => void {KERNEL}.requestExecute({{code: 'import time; time.sleep(8)'}})")
    page.page.wait_for_function(f"() => {KERNEL}?.status === 'busy'", polling=20)
    explorer.move_alone(explorer.handles()[0], "Home")
    assert page.page.evaluate(f"() => {KERNEL}.status") == "busy" and "At size 1:" in explorer.text
    page.page.evaluate(f"async () => {{ await {KERNEL}.shutdown(); }}")
    explorer.move_alone(explorer.handles()[0], "End")
    assert "At size 32768:" in explorer.text
    page.close()


# -- with another figure in its cell


TWINS = """display(timeline("run_ahead", variant="eager", at={"elements": 65536}, source="recorded:h200"),
explore("run_ahead", at={"elements": 65536}, lines=["host", "busy"], source="recorded:h200"))"""


def test_a_timeline_and_its_curve_in_one_cell_move_together(window: Window) -> None:
    with window.ran("twins.ipynb", "from brrr_course import explore, timeline", TWINS) as page:
        line, curve = page.explorer(), page.explorer(1)
        (leads,) = curve.handles()
        before = line.text, line.picture
        curve.press(leads, "End")
        line.wait_for_change(*before)
        assert [each.root.locator(".dial output").inner_text() for each in (line, curve)] == ["2²⁴", "2²⁴"]
        before = curve.text, curve.picture
        line.press(line.handles()[0], "Home")
        curve.wait_for_change(*before)
        assert [each.root.locator(".dial output").inner_text() for each in (line, curve)] == ["1024", "1024"]
        own = curve.root.locator(".own")  # and a browser without WebGPU says what is missing
        own.get_by_role("button").click()
        own.locator("span", has_text="WebGPU").wait_for()
        assert own.get_by_role("button").all_inner_texts() == ["Measure my own GPU", "Copy what to send"]
        own.get_by_role("button", name="Copy what to send").click()  # a page may copy once one has clicked
        own.get_by_role("button", name="Copied: now paste it into an issue").wait_for()


# -- live


@pytest.fixture(scope="module")
def live(window: Window) -> Iterator[NotebookPage]:
    """A notebook with explorers that measure: a toy, a slow toy, and this CPU."""
    with window.ran("live.ipynb", SET_UP, *LIVE) as page:
        yield page


def test_measure_progress_and_cancel(live: NotebookPage) -> None:
    explorer = live.explorer()
    assert "Not measured yet" in explorer.text
    text, picture = explorer.text, explorer.picture
    explorer.click("Measure")
    explorer.wait_for_change(text, picture)
    explorer.wait_for_words("Not measured", there=False)
    explorer.click("Measure all points")
    explorer.root.get_by_role("button", name="Cancel").wait_for()
    live.page.wait_for_timeout(1000)
    live.photograph("live-progress", explorer.root)
    explorer.click("Cancel")
    explorer.wait_for_words("Stopped")
    explorer.press(explorer.handles()[0], "ArrowLeft")
    explorer.wait_for_words("Stopped", there=False)


def test_an_interrupt_stops_measuring_and_the_explorer_lives_on(live: NotebookPage) -> None:
    explorer = live.explorer(1)
    explorer.click("Measure")
    explorer.root.get_by_role("button", name="Cancel").wait_for()
    live.page.wait_for_timeout(800)
    live.command("notebook:interrupt-kernel")
    explorer.wait_for_words("Stopped", seconds=20)  # a measurement takes half a minute
    explorer.move_alone(explorer.handles()[0], "ArrowLeft")
    explorer.wait_for_words("Stopped", there=False)


def test_measure_live_on_this_cpu(live: NotebookPage) -> None:
    explorer = live.explorer(2)
    assert "LIVE, CPU QUEUE" in explorer.root.inner_text()
    explorer.click("Measure")
    explorer.wait_for_words("Not measured", there=False)
    assert "without waiting" in explorer.text
    live.photograph("live-cpu", explorer.root)
