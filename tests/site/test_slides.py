"""A lesson's slides: all that its page shows stands on one of them, and keys turn them."""

import json
import re
from pathlib import Path

import pytest
from opened import NOTEBOOKS, made

from brrr_course.site.page import slides_page
from brrr_course.site.slides import FOLDED, slides

SHOWN = "graph|figure|picture|plot|table|data|drawing|claim|curve|line|code|cell|exercise|question|timeline"
POINTS = re.compile(
    rf"\b(?:(?:{SHOWN})s?|as|see|shown) (?:above|below)\b(?!\s+\w)"
    r"|\b(?:last|next|previous|following) (?:cell|lesson|figure|section)\b|\bthis page\b|build\.py",
    re.IGNORECASE,
)
"""What sends a reader to something beside the text; "below the ridge point" does not."""


@pytest.mark.parametrize("number", ["00", "03"])
def test_each_thing_that_a_page_shows_stands_on_one_slide(number: str) -> None:
    lesson = made(number).lesson
    found = slides(lesson)
    place = re.compile(r'<div class="(?:view|guess|comparison|exercise)" data-at="\d+">')
    assert place.findall("".join(found)) == place.findall("".join(lesson.parts))
    headings = re.compile(r"<h[12]>(.*?)</h[12]>")
    asked = [each for each in headings.findall("".join(lesson.parts)) if each != "Next"]
    shown = re.findall(r'<h[12]>(.*?)</h[12]>|class="running">(.*?)<', "".join(found))
    assert list(dict.fromkeys(one or other for one, other in shown)) == asked
    for slide in found:
        assert len(re.findall('class="(?:comparison|exercise)"', slide)) <= 1, slide
        assert slide.count('class="view"') <= 1 and re.sub("<[^>]+>", "", slide).strip()
    words = re.compile(r"<p>(.{40})")
    assert set(words.findall("".join(lesson.parts[:-1]))) <= set(words.findall("".join(found)))  # no prose is lost


@pytest.mark.browser
def test_keys_turn_the_slides_and_move_a_slider_that_has_them_in_a_browser(browser, tmp_path) -> None:
    path, complaints = tmp_path / "slides.html", list[str]()
    path.write_text(slides_page(made("01").lesson), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme="dark")
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    painted = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"  # then keys count
    shown = page.locator(".deck > section:not([hidden])")
    turned = page.locator("#turn output")
    page.evaluate(painted)
    page.keyboard.press("ArrowRight")
    assert turned.inner_text().startswith("2 of ") and shown.count() == 1 and page.url.endswith("#2")
    shown.locator("input").fill("1 ms")
    shown.locator("input").press("ArrowLeft")  # the text's own
    shown.locator("form button").click()
    page.keyboard.press("Escape")
    page.keyboard.press("PageDown")
    assert shown.locator(".view svg").count() == 1 and "2048" in shown.inner_text()
    shown.locator("input[type=range]").first.press("ArrowRight")
    assert turned.inner_text().startswith("3 of ") and "3000" in shown.inner_text()
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    assert "you said 1 ms" in shown.inner_text()
    page.reload()
    page.evaluate(painted)
    assert turned.inner_text().startswith("4 of ")
    page.keyboard.press("Home")
    for _ in range(page.locator(".deck > section").count()):
        page.evaluate(painted)
        size = shown.evaluate("each => [each.scrollHeight - each.clientHeight, each.scrollWidth - each.clientWidth]")
        assert size == [0, 0], turned.inner_text()
        page.keyboard.press("ArrowRight")
    assert page.locator("#turn button").last.is_disabled() and complaints == []
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert all(each.is_visible() for each in page.locator(".deck > section").all())
    assert all(each.bounding_box()["height"] > 100 for each in page.locator(".deck .scene svg").all())


def pointing(text: str) -> list[str]:
    """What a text points to that does not stand in it: code or a picture above is there."""
    alone = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return [found[0] for found in POINTS.finditer(alone) if not re.search(r"```|!\[", alone[: found.start()])]


def test_the_cheat_sheet_stands_alone() -> None:
    for part in (NOTEBOOKS.parent / "docs" / "cheatsheet.md").read_text("utf-8").split("\n## "):
        assert pointing(re.sub(r"```.*?```", "", part, flags=re.DOTALL)) == []


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_no_slide_points_to_what_stands_on_another(path: Path) -> None:
    """What is folded below a figure may point to it; any other text has a slide of its own."""
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        tags = {*cell["metadata"].get("tags", [])}
        if cell["cell_type"] == "markdown" and "next" not in tags and not (FOLDED & tags and "yours" not in tags):
            assert pointing("".join(cell["source"])) == [], tags
