"""A notebook on the next day: its figures move without its kernel, and its guesses are known when it runs again."""

import json
from collections.abc import Iterator

import pytest
from page import NotebookPage, Window

pytestmark = pytest.mark.browser

NAME = "tomorrow.ipynb"
CELLS = (
    "from synthetic import Synthetic\nfrom brrr_course import compare, explore, guess",
    'g = guess("A product of two 4096 x 4096 matrices seems to take ...", unit="s")',
    'explore("matmul", source=Synthetic(), at={"size": 4096}, unlock=g)',
    'compare(g, "matmul", ["unsynchronized", "synchronized"], source=Synthetic(), size=4096)',
)


@pytest.fixture(scope="module")
def reopened(window: Window) -> Iterator[NotebookPage]:
    """Answered, saved and closed, and opened again: its kernel has run nothing yet."""
    with window.ran(NAME, *CELLS) as page:
        page.answer_all()
        page.page.locator(".jp-OutputArea table").first.wait_for(timeout=15_000)
        page.command("docmanager:save")
    again = window.open(NAME)
    yield again
    again.close()


def test_guess_figure_and_comparison_are_there_without_the_kernel(reopened: NotebookPage) -> None:
    page = reopened.page
    page.get_by_text("Your guess: 1 ms").wait_for(timeout=15_000)
    page.get_by_text("At size 4096, you said 1 ms, measured").wait_for(timeout=15_000)
    shown = reopened.explorer()
    assert shown.root.locator(".plot svg").evaluate("each => each.clientWidth") > 500
    shown.move_alone(shown.handles()[0], "End")
    assert "At size 32768:" in shown.text
    assert page.get_by_text("Error displaying widget").count() == 0
    reopened.photograph("tomorrow")


def test_run_all_in_a_new_kernel_keeps_the_guess(reopened: NotebookPage, window: Window) -> None:
    reopened.run_all()
    reopened.page.get_by_text("Your guess: 1 ms").wait_for(timeout=15_000)
    assert reopened.page.locator(".brrr-cover").count() == 0
    kept = window.lab.work / ".tomorrow.guesses.json"
    assert list(json.loads(kept.read_text()).values()) == [0.001, "1 ms"] and kept.stat().st_mode & 0o077 == 0
