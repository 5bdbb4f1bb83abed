"""The explorer in a real browser: without its kernel, and measuring."""

from collections.abc import Iterator

import pytest
from page import KERNEL, NotebookPage, Window

pytestmark = pytest.mark.browser

SET_UP = "from brrr_course.view.explorer import explore\nfrom synthetic import Synthetic"
EXPLORE = 'explore("matmul", at={"size": 4096}, lines=["cpu", "transfers", "unsynchronized", "synchronized"], source=S)'
LIVE = [
    EXPLORE.replace("S)", 'Synthetic(live=True, slice_s=0.15, name="toy"))'),
    EXPLORE.replace("S)", 'Synthetic(live=True, slice_s=30, name="slow toy"))'),
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


# -- live


@pytest.fixture(scope="module")
def live(window: Window) -> Iterator[NotebookPage]:
    """A notebook with explorers that measure: a toy and a slow one."""
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
