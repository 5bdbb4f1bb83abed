"""The pages' HTML: a lesson's parts around its packed data, and the index with the map of the course."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

import mistune

from brrr.site.lesson import PYTHON, Lesson

_HERE = Path(__file__).parent
_MARKDOWN = mistune.create_markdown(escape=False, plugins=["table", "strikethrough"])
_COMMANDS = "git clone &lt;this repository&gt; brrr &amp;&amp; cd brrr\nmake lab"
_NOTEBOOK = re.compile(r'href="(?:\.\./notebooks/)?(\d\w*)\.ipynb"')


def lesson_page(found: Lesson, before: str, after: str) -> str:
    """A lesson as one file that needs no other; `before` and `after` are its neighbours' names, empty for none."""
    body = "\n".join(_part(found, number, kind, text) for number, (kind, text) in enumerate(found.parts))
    covered = any(each["guess"] >= 0 for each in found.views)
    note = "<p class='origin'>What is covered stands in this page's source all the same: no server keeps it.</p>"
    around = _navigation(before, after)
    again = '<button type="button" id="again">Start again</button>' if found.guesses else ""
    head = (
        "<p class='origin'>The course without an install: where the text says to run a cell, its result stands here. "
        "<a href=index.html>How to get the notebooks</a></p>"
    )
    return _page(
        title_of(found), f"{around}<main>{head}{body}{note if covered else ''}{again}{around}</main>", found.data
    )


def title_of(found: Lesson) -> str:
    """A lesson's title, which is the first heading of its text."""
    text = "\n".join(text for kind, text in found.parts if kind == "markdown")
    heading = re.search(r"^# (.*)$", text, re.MULTILINE)
    return heading[1] if heading else found.name


def question_of(found: Lesson) -> str:
    """What a lesson asks: the first bold sentence of its text."""
    text = "\n".join(text for kind, text in found.parts if kind == "markdown")
    asked = re.search(r"\*\*(.+?)\*\*", text, re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", asked[1])) if asked else ""


def index_page(lessons: Sequence[Lesson], badge: str) -> str:
    """The first page: what this is, and every lesson with its question, those for engineers beside the core."""
    items = [
        f'<li class="{"b" if re.match(r"[0-9]+b", each.name) else "core"}"><a href="{each.name}.html">'
        f"{escape(title_of(each))}</a><br>{escape(question_of(each))}</li>" for each in lessons
    ]  # fmt: skip
    text = (
        "<h1>brrr: why GPU code is fast or slow</h1><p>Guess, move a slider, and watch where the time goes: "
        "into issuing the work, into moving data, or into computing. There is nothing to install. Every figure carries "
        f"a badge, as <em>{escape(badge)}</em>: it was measured there, and nothing between two points is invented.</p>"
        "<p>To measure on your own computer, and for the exercises that run your code, get the notebooks:</p>"
        f"<pre>{_COMMANDS}</pre><h2>The map of the course</h2><p>Lessons for engineers stand beside those of the core, "
        f'which never need them.</p><ul class="map">{"".join(items)}</ul>'
    )
    return _page("brrr: why GPU code is fast or slow", f"<main>{text}</main>", None)


def _part(found: Lesson, number: int, kind: str, text: str) -> str:
    if kind == "markdown":
        return _markdown(text)
    if kind == "explanation":
        asked = _markdown(re.sub(r"Double-click here and write", "Write", text).replace("; Shift+Enter shows it", ""))
        label = f'<textarea rows="3" data-kept="{found.name} {number}" aria-label="Your explanation"></textarea>'
        return f'<div class="explain">{asked}{label}</div>'
    if kind in ("code", "open code"):
        is_open = " open" if kind == "open code" else ""
        return f'<details class="code"{is_open}><summary>Code</summary><pre>{escape(text)}</pre></details>'
    if kind == PYTHON:
        return f'<div class="python">{escape(text)} It needs Python: <pre>{_COMMANDS}</pre></div>'
    return f'<div class="html">{text}</div>' if kind == "html" else f"<pre>{escape(text)}</pre>"


def _markdown(text: str) -> str:
    html = str(_MARKDOWN(text))
    html = re.sub(r'<abbr title="([^"]*)">', r'<abbr tabindex="0" data-means="\1" aria-description="\1">', html)
    return _NOTEBOOK.sub(r'href="\1.html"', html)


def _navigation(before: str, after: str) -> str:
    links = [("index", "All lessons"), (before, "Previous"), (after, "Next")]
    return f"<nav>{''.join(f'<a href={name}.html>{said}</a>' for name, said in links if name)}</nav>"


def _page(title: str, body: str, data: dict[str, Any] | None) -> str:
    script, style = ((_HERE / name).read_text(encoding="utf-8") for name in ("site.js", "site.css"))
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{allowed}'; style-src 'unsafe-inline'; img-src data:"
    packed = "" if data is None else f'<script type="application/gzip" id="data">{_packed(data)}</script>'
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f'<svg id="defs" aria-hidden="true"></svg>{body}'
        "<noscript><p>The figures need JavaScript, which is in this page.</p></noscript>"
        f"{packed}<script>{script}</script></body></html>\n"
    )


def _packed(data: dict[str, Any]) -> str:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()
