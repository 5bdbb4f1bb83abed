"""The first page: its figure moves as Python says, each lesson has a picture, and the search finds what is asked."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from opened import index_of, made

from brrr_course import explore
from brrr_course.site.index import index_page
from brrr_course.site.page import Page
from brrr_course.site.pictures import picture
from brrr_course.site.questions import questions
from brrr_course.site.search import parts_of
from brrr_course.site.text import slug
from brrr_course.view.explorer import Explorer
from brrr_course.view.figure import figure_of


def test_a_lesson_s_picture_has_a_point_for_each_measured_one() -> None:
    shown = explore("matmul", lines=["unsynchronized", "synchronized"], source="recorded:h200")
    drawn = re.findall(r' d="M([^"]*)"', picture(figure_of(shown.scene, ["size"])))
    assert [each.count("L") + 1 for each in drawn] == [len(shown.scene.values["size"])] * 2
    heights = [float(each.split()[1]) for line in drawn for each in line.split("L")]
    assert 0 < min(heights) < max(heights) < 90
    assert picture({"sliders": []}) == ""


@pytest.mark.browser
def test_keys_move_it_in_a_browser(browser, tmp_path) -> None:
    (tmp_path / "index.html").write_text(index_of("01"), encoding="utf-8")
    page, complaints = browser.new_page(), list[str]()
    page.on("console", lambda message: complaints.append(message.text))
    page.goto((tmp_path / "index.html").as_uri())
    slider, said = page.locator(".front input"), page.locator(".front .say")
    before = said.inner_text()
    assert page.locator("main a").first.get_attribute("href") == "why.html"
    slider.press("End")
    explorer = next(each for each in made("01").views if isinstance(each, Explorer))
    size = explorer.scene.values["size"][-1]
    assert said.inner_text() != before and slider.get_attribute("aria-valuetext") == str(size)
    slider.press("Home")
    assert slider.get_attribute("aria-valuetext") == "1" and page.locator(".card .picture svg").count() == 1
    assert complaints == []
    page.close()


@pytest.fixture(scope="module")
def lessons() -> list[Page]:
    return [Page(e.name, e.lesson.title, e.lesson.question, [], e.page) for e in map(made, ("01", "03"))]


@pytest.fixture
def index(browser: Any, tmp_path: Any, lessons: list[Page]) -> Iterator[Any]:
    (tmp_path / "index.html").write_text(index_page(lessons, questions(), {"timer": "The timer"}), encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "index.html").as_uri())
    yield page
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize(("asked", "first"), [
    ("fusion", "term-fusion.html"), ("synchronize", "term-synchronisation.html"),
    ("synchronise", "term-synchronisation.html"), ("profiler", "01_async_timing.html#guess-which-timer-is-closest"),
    ("why is my gpu idle", "03_overhead.html"), ("kernal", "term-kernel.html"), ("kerenl", "term-kernel.html"),
    ("out of memory", "memory-and-empty-cache.html"), ("print(loss)", "item-is-slow.html"), ("timer", "timer.html"),
])  # fmt: skip
def test_the_search_finds_what_is_asked_in_a_browser(index: Any, asked: str, first: str) -> None:
    index.locator("#find").fill(asked)
    assert index.locator("#found a").first.get_attribute("href") == first
    assert not index.locator("search div p").is_visible()


@pytest.mark.browser
def test_where_nothing_is_found_it_offers_what_is_in_a_browser(index: Any) -> None:
    index.locator("#find").fill("latenzzy")
    offered = index.locator("search p:has-text('Nothing found') button")
    assert len(offered.all_inner_texts()) == 3 and "latency" in offered.all_inner_texts()
    offered.first.click()
    assert index.locator("#found a").count() > 0


@pytest.mark.browser
def test_the_road_shows_how_far_a_reader_is_in_a_browser(index: Any) -> None:
    index.evaluate("localStorage.setItem('brrr 01_async_timing progress', '[4, 4]')")
    index.reload()
    said = index.locator(".map .card").evaluate_all("all => all.map(a => getComputedStyle(a, '::before').content)")
    assert said == ["none", '"You are here"']


def test_each_part_that_is_found_has_its_address(lessons: list[Page]) -> None:
    for each in lessons:
        headings = [heading for heading, _ in parts_of(each.html)][1:]
        assert "At work" in headings and all(f'id="{slug(heading)}"' in each.html for heading in headings)


@pytest.mark.browser
def test_the_first_tab_stop_skips_to_the_lesson_in_a_browser(opened: Any) -> None:
    page = opened("01").page
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the lesson"
    for key in ("Enter", "Tab"):
        page.keyboard.press(key)
    assert page.locator("main :focus").count() == 1
