"""One page of the site in the browser: answer its guesses, put its views where they should stand, and read them."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from interpreter import load_before_a_cell_does

from brrr.drawing.style import Picture
from brrr_course.lessons.waiting import Waiting
from brrr_course.site.index import index_page
from brrr_course.site.lesson import LessonPage
from brrr_course.site.page import WHY, Page, page_of, why_of
from brrr_course.site.questions import questions
from brrr_course.view.display import Shown
from brrr_course.view.explorer import Explorer

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
SOURCE = {"BRRR_SOURCE": "recorded:h200", "BRRR_STATIC": "", "BRRR_RECORDINGS": ""}

_ANSWER = """given => document.querySelectorAll('.guess form').forEach((form, n) => {
  const text = form.querySelector('input[type=text]'), answer = given[n];
  if (text) text.value = answer;
  else if (Array.isArray(answer))
    answer.forEach(item => [...form.querySelectorAll('.order button')].find(each => each.textContent === item).click());
  else [...form.querySelectorAll('input')].find(radio => radio.value === answer).checked = true;
  form.requestSubmit();
})"""
_STATES = """([number, states]) => {
  const view = document.querySelectorAll('.view')[number].view;
  return states.map(state => {
    Object.assign(view, state);
    view.show();
    return [view.text.textContent, [...view.figure.querySelectorAll('text')].map(each => each.textContent)];
  });
}"""
_PLACES = """([number, places]) => {
  const place = document.querySelectorAll('.view')[number];
  place.querySelector('.scene details').open = true;
  place.view.drawn.again();
  return places.map(at => {
    place.view.drawn.stand(at);
    const rows = place.querySelectorAll('.scene details tbody tr').length;
    return [place.querySelector('.say').textContent.replaceAll('\u00a0', ' '), rows];
  });
}"""


@dataclass
class Made:
    """A lesson's page, and what its cells showed."""

    name: str
    page: str
    lesson: LessonPage
    seen: list[object]

    @property
    def views(self) -> list[Any]:
        return [each for each in self.seen if isinstance(each, Shown | Picture)]

    @property
    def comparisons(self) -> list[Waiting]:
        return [each for each in self.seen if isinstance(each, Waiting)]


@cache
def made(number: str) -> Made:
    """The page of the lesson with that number, or that to send to others, `why`."""
    (path,) = [WHY] if number == WHY.stem else NOTEBOOKS.glob(f"{number}_*.ipynb")
    environment = {name: value for name, value in SOURCE.items() if value}
    load_before_a_cell_does()
    with patch.dict(os.environ, environment):
        os.environ.pop("BRRR_STATIC", None)
        found = LessonPage(path)
    return Made(path.stem, why_of(found) if path == WHY else page_of(found).html, found, found.seen)


def index_of(number: str) -> str:
    """The first page with that lesson alone, and with the questions that it answers."""
    lesson, asked = made(number), questions()
    with patch.dict(os.environ, SOURCE):
        found = {each.slug: each.page(lesson.name, number, lesson.seen) for each in asked if each.lesson == number}
    about = {"minutes": "45", "before": "00"}
    return index_page([Page(lesson.name, number, "?", [], lesson.page, about=about, questions=found)], asked, {})


class Opened:
    """A page in the browser; `complaints` keeps what the console said and every address asked for but its own."""

    def __init__(self, browser: Any, path: Path, found: Made, width: int) -> None:
        self.made, self.path, self.complaints = found, path, list[str]()
        self._context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
        self.page = self._context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)
        self.load()

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.path.as_uri(), "data:")):
            self.complaints.append(f"asked for {request.url}")

    def load(self, fragment: str = "") -> None:
        self.page.goto(self.path.as_uri() + fragment)
        self.page.wait_for_selector("html[data-ready]")

    def answer(self, given: list[Any]) -> None:
        """Give an answer to each guess of the page, in order."""
        self.page.evaluate(_ANSWER, given)

    def states(self, number: int, states: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
        """What a picture's view says in each of these states, and the words in it."""
        found: list[tuple[str, list[str]]] = self.page.evaluate(_STATES, [number, states])
        return found

    def places(self, number: int, places: list[tuple[int, ...]]) -> list[tuple[str, int]]:
        """What an explorer's figure says with its sliders at each of these places, and its table's rows there."""
        found: list[tuple[str, int]] = self.page.evaluate(_PLACES, [number, places])
        return found

    def figure(self, name: str, nth: int = 0) -> Any:
        """The figure of an experiment's explorer, the nth on the page."""
        explorers = {n: each for n, each in enumerate(self.made.views) if isinstance(each, Explorer)}
        at = [n for n, each in explorers.items() if each.scene.experiment.name == name]
        return self.page.locator(".view").nth(at[nth])

    def close(self) -> None:
        self._context.close()
