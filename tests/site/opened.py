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
from brrr_course.site.lesson import LessonPage
from brrr_course.site.page import page_of
from brrr_course.view.display import Shown

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
SOURCE = {"BRRR_SOURCE": "recorded:h200", "BRRR_STATIC": "", "BRRR_RECORDINGS": ""}

_ANSWER = """given => document.querySelectorAll('.guess form').forEach((form, n) => {
  const text = form.querySelector('input[type=text]'), answer = given[n];
  if (text) text.value = answer;
  else if (Array.isArray(answer))
    form.querySelectorAll('select').forEach((select, at) => { select.value = answer[at]; });
  else [...form.querySelectorAll('input')].find(radio => radio.value === answer).checked = true;
  form.requestSubmit();
})"""
_STATES = """([number, states]) => {
  const view = document.querySelectorAll('.view')[number].view;
  return states.map(({index, on, held, predicting, variant, texts}) => {
    Object.assign(view, {index: [...index], on: [...on], held: new Set(held), predicting, variant, tabled: !!texts});
    view.show();
    const words = texts ? [...view.figure.querySelectorAll('text')].map(each => each.textContent) : [];
    const svg = view.figure.querySelector('svg');
    const places = texts ? [...view.figure.querySelectorAll('text')].map(each => {
      const to = svg.getScreenCTM().inverse().multiply(each.getScreenCTM());
      const at = name => +(each.getAttribute(name) ?? 0);
      return [to.a * at('x') + to.e, to.d * at('y') + to.f];
    }) : [];
    const table = [...view.table.querySelectorAll('td, th, caption, div')].map(each => each.textContent);
    const said = [view.text, view.rest].map(each => each.textContent).filter(Boolean).join(' ');
    return {said, words, places, predicted: view.predicted.textContent, table};
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
    """The page of the lesson with that number."""
    (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
    environment = {name: value for name, value in SOURCE.items() if value}
    load_before_a_cell_does()
    with patch.dict(os.environ, environment):
        os.environ.pop("BRRR_STATIC", None)
        found = LessonPage(path)
    return Made(path.stem, page_of(found).html, found, found.seen)


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

    def states(self, number: int, states: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What a view says in each of these states."""
        found: list[dict[str, Any]] = self.page.evaluate(_STATES, [number, states])
        return found

    def close(self) -> None:
        self._context.close()
