"""The first page: its figure moves as Python says, and each lesson has a picture."""

import re

import pytest
from opened import SOURCE, made

from brrr_course import explore
from brrr_course.site.index import index_page
from brrr_course.site.page import Page
from brrr_course.site.pictures import picture
from brrr_course.site.questions import questions
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
def test_keys_move_it_in_a_browser(browser, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BRRR_SOURCE", SOURCE["BRRR_SOURCE"])
    lesson = made("01")
    asked = {each.slug: each.page(lesson.name, "01", lesson.seen) for each in questions() if each.lesson == "01"}
    index = index_page([Page(lesson.name, "01", "?", [], lesson.page, questions=asked)], questions(), {})
    (tmp_path / "index.html").write_text(index, encoding="utf-8")
    page, complaints = browser.new_page(), list[str]()
    page.on("console", lambda message: complaints.append(message.text))
    page.goto((tmp_path / "index.html").as_uri())
    slider, said = page.locator(".front input"), page.locator(".front .say")
    before = said.inner_text()
    slider.press("End")
    explorer = next(each for each in lesson.views if isinstance(each, Explorer))
    size = explorer.scene.values["size"][-1]
    assert said.inner_text() != before and slider.get_attribute("aria-valuetext") == str(size)
    slider.press("Home")
    assert slider.get_attribute("aria-valuetext") == "1" and page.locator(".card .picture svg").count() == 1
    assert complaints == []
    page.close()
