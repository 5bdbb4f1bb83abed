"""The first page: a figure to move, the map of the lessons, what people ask, and where the rest is."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from string import Template
from typing import Any

from brrr_course.lessons.course import road
from brrr_course.site.addresses import in_repository
from brrr_course.site.documents import page_of_term, terms
from brrr_course.site.frame import ASKS, WAYS, plain, read, unpacked
from brrr_course.site.page import Page
from brrr_course.site.pictures import picture
from brrr_course.site.questions import Question
from brrr_course.view.figure import place_of


def index_page(lessons: Sequence[Page], asked: Sequence[Question], documents: Mapping[str, str]) -> str:
    """The index of these lessons, questions and documents (their titles by their names)."""
    front, page = next((each for lesson in lessons for each in lesson.questions.items()), ("", ""))
    scenes = [each["scene"] for each in unpacked(page).get("view", ()) if each.get("scene", {}).get("lines")]
    links = {f"{each.name}.html": each.title for each in lessons}
    questions = {f"{each.slug}.html": each.question for each in asked}
    more = {f"{name}.html": said for name, said in documents.items() if name not in WAYS}
    known = {f"{page_of_term(term)}.html": f"{term['name']}: {term['means']}" for term in terms()}
    address = in_repository("").partition("/blob/")[0]
    body = Template(read("index.html")).substitute(
        figure="".join(map(_front, scenes)), first=next(iter(links), ""), front=f"{front}.html", lessons=_road(lessons),
        found=_items({**links, **questions, **more, **known}), questions=_items(questions), documents=_items(more),
        repository=f'<a href="{address}">the repository</a>' if address else "a clone of the repository",
    )  # fmt: skip
    return plain("index", "brrr: why GPU code is fast or slow", body, read("index.js"))


def _front(scene: Mapping[str, Any]) -> str:
    """The figure at the top, of the first question that is answered: what it says at each place of its slider."""
    along, sliders, say = scene["x"]["along"], scene["sliders"], scene["say"]
    slider, at = sliders[along], []
    for n in range(len(slider["texts"])):
        at.append(place_of([*sliders[:along], {**slider, "at": n}, *sliders[along + 1 :]]))
    said = [say["forms"][say["at"][place]] for place in at]
    names = (f'<li class="ink-{each["hue"]}">{each["label"]}</li>' for each in scene["lines"] if each.get("on"))
    places = json.dumps([*zip(slider["texts"], said, strict=True)], ensure_ascii=False).replace("<", "\\u003c")
    told = {"title": slider["title"], "at": slider["at"], "last": len(at) - 1, "badge": scene["badge"], "asks": ASKS}
    drawn = {"picture": picture(scene, 640, 260), "names": "".join(names), "said": said[slider["at"]], "places": places}
    return Template(read("front.html")).substitute(told | drawn)


def _items(links: Mapping[str, str]) -> str:
    return "".join(f"<li>{_link(where, said)}</li>" for where, said in links.items())


def _link(where: str, said: str) -> str:
    return f'<a href="{where}">{escape(said)}</a>'


def _road(lessons: Sequence[Page]) -> str:
    """The lessons of the main road, below each the side roads that leave from it, and from those."""
    card = {each.name.partition("_")[0]: _card(each) for each in lessons}
    along = road({each.name.partition("_")[0]: each.about.get("leaves", "") for each in lessons})
    side = {main: "".join(f"<li>{card[each]}</li>" for each in along[main]) for main in along}
    return "".join(f"<li>{card[main]}{f'<ul>{below}</ul>' if below else ''}</li>" for main, below in side.items())


def _card(each: Page) -> str:
    """What the map says of a lesson."""
    minutes, before = each.about.get("minutes"), each.about.get("before")
    told = [f"{minutes} minutes"] * bool(minutes) + [f"read {before} before"] * (before not in (None, "–"))
    said = f'<p>{escape(each.question)}</p><p class="origin">{" · ".join(told)}</p>'
    scenes = (view.get("scene", {}) for view in unpacked(each.html).get("view", ()))
    drawn = f'<div class="scene picture">{next(filter(None, map(picture, scenes)), "")}</div>'
    told_of = f'<div class="told">{_link(f"{each.name}.html", each.title)}{said}</div>'
    return f'<div class="card" data-lesson="{each.name}">{drawn}{told_of}</div>'
