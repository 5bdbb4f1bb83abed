"""The pages' HTML: a lesson's parts around its packed data, and the index with the map of the course."""

from __future__ import annotations

import gzip
import json
import os
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from brrr_course.site.lesson import COMMANDS, Lesson
from brrr_course.site.slides import slides


class Page(NamedTuple):
    """A lesson's page, and what the index says of it; `missing` is what its source lacks, `slides` its slides' page."""

    name: str
    title: str
    question: str
    badge: str
    missing: list[str]
    html: str
    slides: str = ""
    is_side_road: bool = False


def lesson_page(path: Path, before: str, after: str, *, with_slides: bool = False) -> Page:
    """The page of a notebook, a file that needs no other; `before` and `after` name its neighbours, empty for none.

    It shows the recording of the device that its metadata names, if it names one.
    """
    device = metadata_of(path).get("recorded")
    with patch.dict(os.environ, {"BRRR_SOURCE": f"recorded:{device}"} if device else {}):
        found = Lesson(path)
        page = page_of(found, before, after, f"{found.name}.slides" if with_slides else "")
        leaves = bool(metadata_of(path).get("leaves"))
        return page._replace(slides=slides_page(found) if with_slides else "", is_side_road=leaves)


def metadata_of(path: Path) -> dict[str, str]:
    """What a notebook says of itself to the course."""
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8")).get("metadata", {}).get("brrr", {})
    return found


def page_of(found: Lesson, before: str = "", after: str = "", beside: str = "") -> Page:
    """The page of a lesson that was run; `beside` names its slides."""
    links = [("index", "All lessons"), (before, "Previous"), (after, "Next"), (beside, "Slides")]
    around = f"<nav>{''.join(f'<a href={name}.html>{said}</a>' for name, said in links if name)}</nav>"
    here = '<p class="origin">The course without an install: where the text says to run a cell, its result stands here.'
    parts = [around, f"<main>{here} <a href=index.html>How to get the notebooks</a></p>", *found.parts]
    views = found.shown["view"]
    if any(each["guess"] >= 0 for each in views):
        parts.append('<p class="origin">What is covered stands in this page\'s source: no server keeps it.</p>')
    if found.shown["guess"]:
        parts.append('<button type="button" id="again">Start again</button>')
    html = _html(found.title, "\n".join([*parts, around, "</main>", _data(found)]), _read("site.js"))
    badge = next((each["badge"] for each in views if each.get("badge")), "")
    return Page(found.name, found.title, found.question, badge, found.missing, html)


def slides_page(found: Lesson) -> str:
    """The slides of a lesson that was run, as a file that needs no other."""
    turns = (
        f'<nav id="turn"><a href="{found.name}.html">Lesson</a><button type="button" aria-label="Back">←</button>'
        '<output></output><button type="button" aria-label="On">→</button></nav>'
    )
    body = [f'<main class="deck">{"".join(slides(found))}</main>', turns, _data(found)]
    return _html(found.title, "\n".join(body), _read("site.js") + _read("slides.js"), _read("slides.css"))


def _data(found: Lesson) -> str:
    text = json.dumps(found.data, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    packed = b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    asks = "<noscript><p>The figures need JavaScript, which is in this page.</p></noscript>"
    return f'<script type="application/gzip" id="data">{packed}</script>{asks}'


def index_page(lessons: Sequence[Page]) -> Page:
    """The first page: what this is, and every lesson with its question, side roads beside the main road."""
    badge = next((each.badge for each in lessons if each.badge), "RECORDED")
    title = "brrr: why GPU code is fast or slow"
    items = [
        f'<li class="{"b" if each.is_side_road else "core"}"><a href="{each.name}.html">'
        f"{escape(each.title)}</a><br>{escape(each.question)}</li>" for each in lessons
    ]  # fmt: skip
    html = _html(
        title,
        f"<main><h1>{title}</h1><p>Guess, move a slider, and watch where the time goes: into issuing the work, into "
        "moving data, or into computing. There is nothing to install. Every figure carries a badge, as "
        f"<em>{escape(badge)}</em>: it was measured there, and nothing between two points is invented.</p>"
        "<p>To measure on your own computer, and for the exercises that run your code, get the notebooks:</p>"
        f"{COMMANDS}<h2>The map of the course</h2><p>The main road is on the left. Side roads, for engineers, stand on "
        f'the right, below the lesson that they leave from.</p><ul class="map">{"".join(items)}</ul></main>',
    )
    return Page("index", title, "", badge, [], html)


def _html(title: str, body: str, script: str = "", style: str = "") -> str:
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{allowed}'; style-src 'unsafe-inline'; img-src data:; "
    policy += "base-uri 'none'; form-action 'none'"  # which default-src does not cover
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_read('site.css')}{style}</style></head><body>"
        f'<svg id="defs" aria-hidden="true"></svg>{body}<script type="module">{script}</script></body></html>\n'
    )


def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
