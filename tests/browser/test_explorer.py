"""The explorer in a real browser: keys, mouse, cover, measuring, and how fast it answers."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest
from page import NotebookPage
from server import ARTIFACTS

pytestmark = pytest.mark.browser

TARGET_MS = 60
SET_UP = "from brrr.course.view.explorer import explore\nfrom synthetic import Synthetic"
EXPLORE = 'explore("matmul", at={"size": 4096}, lines=["cpu", "transfers", "unsynchronized", "synchronized"], source=S)'


@pytest.fixture(scope="module")
def opened(browser: Any, lab: Any) -> Iterator[NotebookPage]:
    """A notebook with one explorer over synthetic recorded times."""
    page = NotebookPage(browser, lab, lab.write("explorer.ipynb", SET_UP, EXPLORE.replace("S)", "Synthetic())")))
    page.run_all()
    yield page
    assert page.errors == []
    page.close()


def test_first_load_says_what_it_shows(opened: NotebookPage) -> None:
    explorer = opened.explorer()
    assert explorer.text.startswith("At size 4096: CPU: 687 ms")
    assert "RECORDED · synthetic device" in explorer.root.inner_text()
    assert "matrix size n" in explorer.root.inner_text()
    title = explorer.root.locator("img.brrr-figure").get_attribute("title")
    assert title.startswith("Line chart of time against matrix size n")
    opened.photograph("explorer-light", ARTIFACTS)


@pytest.mark.parametrize("key", ["ArrowLeft", "ArrowRight", "Home", "End"])
def test_keys_move_text_and_picture(opened: NotebookPage, key: str) -> None:
    explorer = opened.explorer()
    for handle in explorer.handles():
        explorer.press(handle, key)


def test_mouse_drag_moves_text_and_picture(opened: NotebookPage) -> None:
    explorer = opened.explorer()
    for handle in explorer.handles():
        explorer.drag(handle, 0.1)
        explorer.drag(handle, 0.7)
    opened.photograph("explorer-light-moved", ARTIFACTS)


def test_lines_switch_off_and_the_table_opens(opened: NotebookPage) -> None:
    explorer = opened.explorer()
    text, picture = explorer.text, explorer.picture
    explorer.root.locator(".brrr-lines input").first.uncheck()
    explorer.wait_for_change(text, picture)
    assert "CPU:" not in explorer.text
    text, picture = explorer.text, explorer.picture
    explorer.root.locator(".brrr-lines input").first.check()
    explorer.wait_for_change(text, picture)
    button = explorer.root.get_by_role("button", name="Data table")
    button.click()
    rows = explorer.root.locator(".brrr-table tbody tr")
    rows.first.wait_for()
    assert rows.count() > 10
    opened.photograph("explorer-light-table", ARTIFACTS)
    button.click()
    rows.first.wait_for(state="detached")


def test_dark_theme_for_the_eye(opened: NotebookPage) -> None:
    opened.theme("dark")
    opened.photograph("explorer-dark", ARTIFACTS)
    opened.theme("light")


def test_a_key_press_changes_the_picture_quickly(opened: NotebookPage, capsys: pytest.CaptureFixture[str]) -> None:
    explorer = opened.explorer()
    handle = explorer.handles()[0]
    handle.focus()
    explorer.press(handle, "Home")
    explorer.press(handle, "End")
    times = explorer.latencies_ms(handle, 30)
    said = f"key press to changed picture: median {median(times):.0f} ms, {min(times):.0f} to {max(times):.0f} ms"
    said += f", {len(times)} presses (target {TARGET_MS} ms)"
    (ARTIFACTS / "latency.txt").write_text(said + "\n", "utf-8")
    with capsys.disabled():
        print(f"\n{said}")
    assert median(times) < 5 * TARGET_MS


def test_two_sliders_over_categories(browser: Any, lab: Any) -> None:
    both = 'explore("timers", lines=["measure", "no profiler", "do_bench"], source=Synthetic())'
    page = NotebookPage(browser, lab, lab.write("two.ipynb", SET_UP, both))
    page.run_all()
    explorer = page.explorer()
    function, cache = explorer.handles()
    explorer.press(function, "Home")
    explorer.press(cache, explorer.inward(cache))
    explorer.press(cache, explorer.inward(cache))
    explorer.drag(function, 0.5)
    page.photograph("two-sliders", ARTIFACTS)
    assert page.errors == []
    page.close()


def test_covered_until_the_guess_and_nothing_leaks(browser: Any, lab: Any) -> None:
    covered = EXPLORE.replace("S)", "Synthetic(), unlock=g)")
    guess = 'from brrr.course.lessons.guessing import guess\ng = guess("How long?", unit="s")'
    page = NotebookPage(browser, lab, lab.write("covered.ipynb", SET_UP, guess, covered))
    page.run_all()
    page.page.locator(".brrr-cover").wait_for()
    html = page.page.content()
    assert "687 ms" not in html
    assert 'brrr-figure"' not in html
    page.photograph("covered-light", ARTIFACTS)
    page.theme("dark")
    page.photograph("covered-dark", ARTIFACTS)
    page.page.locator(".widget-text input").first.fill("25 µs")
    page.page.get_by_role("button", name="This is my guess").click()
    explorer = page.explorer()
    explorer.press(explorer.handles()[0], "ArrowLeft")
    page.photograph("uncovered-dark", ARTIFACTS)
    assert page.errors == []
    page.close()


def test_measure_progress_and_cancel(browser: Any, lab: Any) -> None:
    live = EXPLORE.replace("S)", 'Synthetic(live=True, slice_s=0.15, name="toy"))')
    page = NotebookPage(browser, lab, lab.write("live.ipynb", SET_UP, live))
    page.run_all()
    explorer = page.explorer()
    assert "Not measured yet" in explorer.text
    text, picture = explorer.text, explorer.picture
    explorer.root.get_by_role("button", name="Measure", exact=True).click()
    explorer.wait_for_change(text, picture)
    page.page.wait_for_function("() => !document.querySelector('.brrr-said').innerText.includes('Not measured')")
    explorer.root.get_by_role("button", name="Measure all points").click()
    explorer.root.get_by_role("button", name="Cancel").wait_for()
    page.page.wait_for_timeout(1500)
    page.photograph("live-progress", ARTIFACTS)
    explorer.root.get_by_role("button", name="Cancel").click()
    page.page.wait_for_function(
        "() => document.querySelector('.brrr-said').innerText.includes('Stopped')", timeout=5000
    )
    page.photograph("live-cancelled", ARTIFACTS)
    explorer.press(explorer.handles()[0], "ArrowLeft")
    assert "Stopped" not in explorer.text
    assert page.errors == []
    page.close()


def test_an_interrupt_stops_measuring_and_the_explorer_lives_on(browser: Any, lab: Any) -> None:
    live = EXPLORE.replace("S)", 'Synthetic(live=True, slice_s=30, name="toy"))')
    page = NotebookPage(browser, lab, lab.write("interrupt.ipynb", SET_UP, live))
    page.run_all()
    explorer = page.explorer()
    explorer.root.get_by_role("button", name="Measure", exact=True).click()
    explorer.root.get_by_role("button", name="Cancel").wait_for()
    page.page.wait_for_timeout(800)
    page.command("notebook:interrupt-kernel")
    page.page.wait_for_function(
        "() => document.querySelector('.brrr-said').innerText.includes('Stopped')", timeout=9000
    )
    explorer.press(explorer.handles()[0], "ArrowLeft")
    assert page.errors == []
    page.close()


def test_measure_live_on_this_cpu(browser: Any, lab: Any) -> None:
    cells = (
        SET_UP,
        'explore("matmul", at={"size": 64}, lines=["cpu", "unsynchronized", "synchronized"], source="cpu")',
    )
    page = NotebookPage(browser, lab, lab.write("cpu.ipynb", *cells))
    page.run_all()
    explorer = page.explorer()
    assert "LIVE, CPU QUEUE" in explorer.root.inner_text()
    explorer.root.get_by_role("button", name="Measure", exact=True).click()
    page.page.wait_for_function(
        "() => !document.querySelector('.brrr-said').innerText.includes('Not measured')", timeout=60_000
    )
    assert "clock stopped without waiting: " in explorer.text
    page.photograph("live-cpu", ARTIFACTS)
    assert page.errors == []
    page.close()


PREDICTED = 'explore("unary", at={"elements": 2**24, "dtype": "float32"}, source="recorded:h200")'


def test_predictions_stand_below_the_figure_and_do_not_jump(browser: Any, lab: Any) -> None:
    page = NotebookPage(browser, lab, lab.write("predicted.ipynb", SET_UP, PREDICTED))
    page.run_all()
    explorer = page.explorer()
    table = explorer.root.locator(".brrr-predicted")
    assert "PREDICTED · NVIDIA H200 · peaks: measured" in table.inner_text()
    assert table.locator("tbody tr").count() == 7
    page.photograph("predicted-light", ARTIFACTS)
    elements = explorer.handles()[0]
    heights = {table.bounding_box()["height"]}
    said = {table.inner_text()}
    for key in ("Home", "End", "ArrowLeft"):
        explorer.press(elements, key)
        heights.add(table.bounding_box()["height"])
        said.add(table.inner_text())
    assert len(heights) == 1
    assert len(said) == 4
    page.theme("dark")
    page.photograph("predicted-dark", ARTIFACTS)
    page.theme("light")
    text, picture = explorer.text, explorer.picture
    explorer.root.get_by_role("button", name="Predictions").click()
    page.page.wait_for_function("() => !document.querySelector('.brrr-predicted table')")
    assert explorer.text == text
    assert explorer.picture != picture
    assert page.errors == []
    page.close()


VIEWS = {
    "rate": 'show="rate", lines=["prepared", "aten", "module", "graph"]',
    "speedup": 'show={"speedup": {"prepared": "module", "graph": "module"}}, published="pseudo_linear"',
    "ladder": 'show="ladder"',
    "stack": 'show={"stack": views.PARTS}',
}


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_moves_by_key_and_mouse(
    view: str, browser: Any, lab: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = (
        f"{SET_UP}\nimport views\nviews.install()",
        f'explore("views", at={{"width": 1024, "batch": 64}}, {VIEWS[view]}, source=views.Recorded())',
    )
    page = NotebookPage(browser, lab, lab.write(f"{view}.ipynb", *cells))
    page.run_all()
    explorer = page.explorer()
    page.photograph(f"view-{view}-light", ARTIFACTS)
    for handle in explorer.handles():
        explorer.press(handle, "End")
        explorer.press(handle, explorer.inward(handle))
        explorer.drag(handle, 0.2)
    explorer.root.get_by_role("button", name="Data table").click()
    explorer.root.locator(".brrr-table tbody tr").first.wait_for()
    page.theme("dark")
    page.photograph(f"view-{view}-dark", ARTIFACTS)
    page.theme("light")
    handle = explorer.handles()[0]
    explorer.press(handle, "Home")
    explorer.press(handle, "End")
    times = explorer.latencies_ms(handle, 12)
    with capsys.disabled():
        print(f"\n{view}, table open: key press to picture, median {median(times):.0f} ms, {max(times):.0f} at most")
    assert median(times) < 5 * TARGET_MS
    assert page.errors == []
    page.close()
