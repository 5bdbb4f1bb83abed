"""A page in Firefox too: it gets ready, says what Python says, and its slider moves by keys."""

import os

import pytest
from firefox import FIREFOX, firefox, waited
from opened import made

from brrr_course.view import words
from brrr_course.view.explorer import Explorer

pytestmark = pytest.mark.browser

ARROW_RIGHT = "\ue014"  # as WebDriver names the key


def test_a_page_works_in_firefox(tmp_path):
    if FIREFOX is None:
        lacking = "no Firefox here: Debian's package is `firefox-esr`"
        pytest.fail(lacking, pytrace=False) if os.environ.get("CI") else pytest.skip(lacking)
    found = made("00")
    path = tmp_path / f"{found.name}.html"
    path.write_text(found.page, encoding="utf-8")
    with firefox(tmp_path / "profile") as browser:
        browser.call("Navigate", url=path.as_uri())
        waited(lambda: browser.run("return document.documentElement.dataset.ready"))
        browser.run("document.querySelector('.guess input').click()")
        browser.run("document.querySelector('.guess form').requestSubmit()")
        (number, explorer), *_ = [each for each in enumerate(found.views) if isinstance(each[1], Explorer)]
        text = f"document.querySelectorAll('.view')[{number}].querySelector('.say').textContent"
        said = f"return {text}.replaceAll('\u00a0', ' ')"
        scene = explorer.fresh()
        assert browser.run(said) == words.verdict(scene)
        (slider,) = browser.call("FindElement", using="css selector", value="input[type=range]").values()
        browser.call("ElementSendKeys", id=slider, text=ARROW_RIGHT)
        scene.move("size", scene.values["size"][1])
        assert browser.run(said) == words.verdict(scene)
        drawn = f"return document.querySelectorAll('.view')[{number}].querySelectorAll('svg text').length"
        assert browser.run(drawn) > 10
