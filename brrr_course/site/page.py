"""The pages of a lesson: its parts around its packed data, its slides, and the questions that it answers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest.mock import patch

from brrr_course.nouns.places import share
from brrr_course.site.frame import ASKS, figures, packed, read, ways, whole
from brrr_course.site.lesson import LessonPage, told
from brrr_course.site.questions import Question
from brrr_course.site.slides import slides
from brrr_course.site.text import addressed, contents

WHY = share("data") / "pages" / "why.py"


class Page(NamedTuple):
    """A lesson's page, and what the index says of it; `missing` is what its source lacks, `slides` its slides' page.

    `about` is what the notebook says of itself, `questions` the pages of those that it answers, by their addresses.
    """

    name: str
    title: str
    question: str
    missing: list[str]
    html: str
    slides: str = ""
    about: Mapping[str, Any] = MappingProxyType({})
    questions: Mapping[str, str] = MappingProxyType({})


def lesson_page(path: Path, before: str, after: str, *, with_slides: bool = False,
                asked: Sequence[Question] = ()) -> Page:  # fmt: skip
    """The page of a notebook, a file that needs no other; `before` and `after` name its neighbours, empty for none.

    It shows the recording of the device that its metadata names, if it names one. `asked` are questions of any lessons.
    """
    about = metadata_of(path)
    device = about.get("recorded")
    with patch.dict(os.environ, {"BRRR_SOURCE": f"recorded:{device}"} if device else {}):
        found = LessonPage(path)
        page = page_of(found, before, after, f"{found.name}.slides" if with_slides else "")
        answered = {each.slug: each.page(found.name, found.title, found.seen) for each in asked
                    if each.lesson == found.name.partition("_")[0] and not found.missing}  # fmt: skip
        return page._replace(about=about, questions=answered, slides=slides_page(found) if with_slides else "")


def kept_page(path: Path, out: Path, asked: Sequence[Question]) -> Page:
    """The page of a notebook as it lies in a folder since an earlier build, with the questions that it answers."""
    title, question = told(json.loads(path.read_text(encoding="utf-8"))["cells"])
    names = [each.slug for each in asked if each.lesson == path.stem.partition("_")[0]]
    html = {each: (out / f"{each}.html").read_text("utf-8") for each in names if (out / f"{each}.html").is_file()}
    page = out / f"{path.stem}.html"
    return Page(path.stem, title, question, [], page.read_text("utf-8"), about=metadata_of(path), questions=html)


def metadata_of(path: Path) -> dict[str, Any]:
    """What a notebook says of itself to the course."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")).get("metadata", {}).get("brrr", {})
    return found


def why_page() -> str:
    """The page to send to somebody who asks why GPU code is slow."""
    with patch.dict(os.environ, {"BRRR_SOURCE": "recorded:h200"}):
        return why_of(LessonPage(WHY))


def why_of(found: LessonPage) -> str:
    """The page of these cells: without their code, and what was guessed and measured is one table at its end."""
    found.parts = [each for each in found.parts if not re.match('<details class="code"|<div class="comparison"', each)]
    return page_of(found, then=read("why.js")).html


def page_of(found: LessonPage, before: str = "", after: str = "", beside: str = "", then: str = "") -> Page:
    """The page of a lesson that was run; `beside` names its slides, `then` is a script of its own."""
    around = {name: f"{said}: {name.partition('_')[0]}" for said, name in (("Back", before), ("Next", after))}
    around[beside] = "Slides"
    html = addressed("\n".join(found.parts))
    parts = [ways(more=around, to="lesson"), '<main id="content">', html.replace("</h1>", f"</h1>{contents(html)}", 1)]
    if any(each["guess"] >= 0 for each in found.shown["view"]):
        parts.append('<p class="origin">What is covered stands in this page\'s source: no server keeps it.</p>')
    if found.shown["guess"]:
        parts.append('<button type="button" id="again">Start again</button>')
    html = whole(found.title, "\n".join([*parts, "</main>", _data(found)]), figures(then, own=found.knows_yours))
    return Page(found.name, found.title, found.question, found.missing, html)


def slides_page(found: LessonPage) -> str:
    """The slides of a lesson that was run, as a file that needs no other."""
    body = Template(read("slides.html")).substitute(slides="".join(slides(found)), name=found.name)
    script = figures(read("slides.js"), own=found.knows_yours)
    return whole(found.title, body + _data(found), script, read("slides.css"))


def _data(found: LessonPage) -> str:
    return packed(found.data) + ASKS
