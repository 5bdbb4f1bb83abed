"""The first page: a figure to move, the map of the lessons, what people ask, and where the rest is."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from string import Template
from typing import Any

from brrr_course.lessons.course import road
from brrr_course.site.addresses import repository
from brrr_course.site.documents import terms
from brrr_course.site.frame import ASKS, WAYS, plain, read, unpacked
from brrr_course.site.page import Page
from brrr_course.site.pictures import picture
from brrr_course.site.questions import Question
from brrr_course.site.search import parts_of, search_data
from brrr_course.view.figure import place_of

FRONT = "timing-without-synchronize"
"""The question whose figure stands at the top."""


def index_page(lessons: Sequence[Page], asked: Sequence[Question], documents: Mapping[str, str]) -> str:
    """The index of these lessons, questions and documents (titles by names), without the pages behind others."""
    page = next((each.questions[FRONT] for each in lessons if FRONT in each.questions), "")
    scenes = [each["scene"] for each in unpacked(page).get("view", ()) if each.get("scene", {}).get("lines")]
    more = {name: said for name, said in documents.items() if name not in WAYS and ("_" not in name or "brrr" in name)}
    read_in = {each.name: parts_of(each.html) for each in lessons}
    found = search_data(read_in | {each.slug: [("", each.answer)] for each in asked})
    found["terms"] = {term["name"]: term["means"] for term in terms()}
    body = Template(read("index.html")).substitute(
        figure="".join(map(_front, scenes)), first=f"{lessons[0].name}.html" if lessons else "#map",
        lessons=_road(lessons), found=_json(found), questions=_groups(asked, lessons), documents=_items(more),
        repository=f'<a href="{repository()}">the repository</a>' if repository() else "a clone of the repository",
    )  # fmt: skip
    return plain("index", "brrr: why GPU code is fast or slow", body, read("index.js"))


def _front(scene: Mapping[str, Any]) -> str:
    """The figure at the top: what it says at each place of its slider."""
    along, sliders, say = scene["x"]["along"], scene["sliders"], scene["say"]
    slider, at = sliders[along], []
    for n in range(len(slider["texts"])):
        at.append(place_of([*sliders[:along], {**slider, "at": n}, *sliders[along + 1 :]]))
    said = [say["forms"][say["at"][place]] for place in at]
    names = (f'<li class="ink-{each["hue"]}">{each["label"]}</li>' for each in scene["lines"] if each.get("on"))
    places = _json([*zip(slider["texts"], said, strict=True)])
    told = {"title": slider["title"], "at": slider["at"], "last": len(at) - 1, "badge": scene["badge"], "asks": ASKS}
    drawn = {"picture": picture(scene, 640, 260), "names": "".join(names), "said": said[slider["at"]], "places": places}
    return Template(read("front.html")).substitute(told | drawn, question=FRONT)


def _json(data: object) -> str:
    """Data within a page."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def list_page(asked: Sequence[Question], lessons: Sequence[Page] = ()) -> str:
    """The page that leads to all questions."""
    head = "<h1>Questions</h1><p>What people ask about GPU performance, and what was measured.</p>"
    return plain("questions", "Questions about GPU performance", head + _groups(asked, lessons, "h2"))


def _groups(asked: Sequence[Question], lessons: Sequence[Page], tag: str = "h3") -> str:
    """The questions by the lesson of the main road to which they belong, then those that nobody measured."""
    heading = {each.name.partition("_")[0]: _link(each.name, each.title) for each in lessons}
    groups = {heading[main]: (main, *side) for main, side in _along(lessons).items()}
    left = {each.lesson for each in asked} - set().union(*groups.values())
    told = ""
    for title, numbers in (*groups.items(), ("Not measured here yet", left)):
        some = (each for each in asked if each.lesson in numbers)
        items = "".join(f'<li data-also="{escape(each.also)}">{_link(each.slug, each.question)}</li>' for each in some)
        told += items and f"<section><{tag}>{title}</{tag}><ul>{items}</ul></section>"
    return f'<div class="asked">{told}</div>'


def _items(links: Mapping[str, str]) -> str:
    return "".join(f"<li>{_link(name, said)}</li>" for name, said in links.items())


def _link(name: str, said: str) -> str:
    return f'<a href="{name}.html">{escape(said)}</a>'


def _along(lessons: Sequence[Page]) -> dict[str, list[str]]:
    """The main road of these lessons, each with its side roads, by numbers."""
    return road({each.name.partition("_")[0]: each.about.get("leaves", "") for each in lessons})


def _road(lessons: Sequence[Page]) -> str:
    """The lessons of the main road, below each the side roads that leave from it, and from those."""
    card = {each.name.partition("_")[0]: _card(each) for each in lessons}
    below = {main: "".join(f"<li>{card[each]}</li>" for each in side) for main, side in _along(lessons).items()}
    return "".join(f"<li>{card[main]}{side and f'<ul>{side}</ul>'}</li>" for main, side in below.items())


def _card(each: Page) -> str:
    """What the map says of a lesson."""
    minutes, before = each.about.get("minutes"), each.about.get("before")
    told = [f"{minutes} minutes"] * bool(minutes) + [f"read {before} before"] * (before not in (None, "–"))
    said = f'<p>{escape(each.question)}</p><p class="origin">{" · ".join(told)}</p>'
    scenes = (view.get("scene", {}) for view in unpacked(each.html).get("view", ()))
    drawn = f'<div class="scene picture">{next(filter(None, map(picture, scenes)), "")}</div>'
    told_of = f'<div class="told">{_link(each.name, each.title)}{said}</div>'
    return f'<div class="card" data-lesson="{each.name}">{drawn}{told_of}</div>'
