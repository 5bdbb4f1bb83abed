"""Every link of the reference and of the documents leads somewhere; a page without JavaScript fits its window."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from interpreter import load_before_a_cell_does
from opened import NOTEBOOKS, index_of, made

from brrr_course.site import reference as referred
from brrr_course.site.documents import documents, glossary
from brrr_course.site.index import index_page, list_page
from brrr_course.site.questions import questions

DOCS = NOTEBOOKS.parent / "docs"


def dead(pages: dict[str, str], others: set[str]) -> list[str]:
    """The links of these pages that lead nowhere; `others` are pages of which the names are known alone."""
    places = {name: {*re.findall(r'\sid="([^"]+)"', html)} for name, html in pages.items()}
    found = []
    for name, html in pages.items():
        for where, place in re.findall(r'href="(?!https?:|mailto:|data:)([^"#]*)(?:#([^"]*))?"', html):
            there = where.removesuffix(".html") or name
            known = there in pages or there in others
            if not known or (place and there in pages and place not in places[there]):
                found.append(f"{name}: {where}#{place}")
    return found


def test_a_dead_link_is_found() -> None:
    pages = {
        "a": '<h2 id="b"></h2><a href="#b"></a><a href="#c"></a>',
        "d": '<a href="a.html#b"></a><a href="e.html"></a>',
    }
    assert dead(pages, set()) == ["a: #c", "d: e.html#"]
    assert dead(pages, {"e"}) == ["a: #c"]


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    load_before_a_cell_does()
    with patch.dict(os.environ):
        return {name: html for name, (_, html) in referred.reference().items()}


def test_every_link_leads_somewhere(reference: dict[str, str]) -> None:
    pages = {name: html for name, (_, html) in documents(DOCS).items()} | glossary([]) | reference
    asked = questions()
    pages |= {"questions": list_page(asked), "index": index_page([], asked, {name: name for name in pages})}
    lessons = {path.stem for path in NOTEBOOKS.glob("*.ipynb")}
    assert sum(html.count('href="#') for html in pages.values()) > 200 and "timer_details" not in pages["index"]
    pages["why"] = made("why").page
    others = lessons | {each.slug for each in asked} | {""}
    assert dead(pages, others) == []


# ----------------------------------------------------------------------------------------------------------------------
# Without JavaScript


@pytest.fixture(params=[390, 1280])
def unscripted(request: pytest.FixtureRequest, browser: Any) -> Iterator[Any]:
    context = browser.new_context(
        viewport={"width": request.param, "height": 900}, offline=True, java_script_enabled=False
    )
    yield context.new_page()
    context.close()


@pytest.mark.browser
def test_recorded_pictures_stand_there_and_fit_the_window_in_a_browser(unscripted: Any, tmp_path: Path) -> None:
    found = made("02")  # with a timeline that waits for a guess
    (tmp_path / "page.html").write_text(found.page, encoding="utf-8")
    unscripted.goto((tmp_path / "page.html").as_uri())
    seen = unscripted.locator(".view:has(p)").all_inner_texts()
    assert len(seen) == len(found.views) > 0 and all(len(each) > 10 for each in seen)
    pictures = unscripted.locator(".view svg").all()
    width = unscripted.viewport_size["width"]
    assert pictures
    for box in (each.bounding_box() for each in pictures):
        assert 300 < box["width"] <= width and box["x"] >= 0
        assert 0.3 < box["height"] / box["width"] < 1.5, "it keeps its shape"
    assert unscripted.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.browser
def test_nobody_is_told_to_move_what_is_not_there_in_a_browser(unscripted: Any, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(index_of("01"), encoding="utf-8")
    unscripted.goto((tmp_path / "index.html").as_uri())
    shown = unscripted.locator(".front")
    assert shown.locator("input").count() == 1 and not shown.locator("input").is_visible()
    assert "needs JavaScript" in shown.inner_text() and shown.locator("svg").is_visible()
    without = index_page([], questions(), {})
    assert 'class="scene front"' not in without and "timed twice" not in without and 'href=".html"' not in without
