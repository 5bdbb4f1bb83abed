"""What all pages share: one file each, under a strict policy, with the ways to the others at its top."""

import gzip
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template
from typing import Any

WAYS = {"index": "All lessons", "questions": "Questions", "glossary": "Glossary", "cheatsheet": "Cheat sheet"}
"""The pages that every other leads to."""


def ways(here: str = "", more: Mapping[str, str] | None = None, to: str = "content") -> str:
    """The links at the top of a page: past them to what it has, to all pages that others lead to, and some more."""
    links = {name: said for name, said in {**WAYS, **(more or {})}.items() if name and name != here}
    inner = "".join(f'<a href="{name}.html">{escape(said)}</a>' for name, said in links.items())
    skip = f'<a class="skip" href="#content">Skip to the {to}</a>'
    return f'{skip}<nav aria-label="Course">{inner}</nav>'


def plain(name: str, title: str, html: str, script: str = "") -> str:
    """A page of text with the usual links at its top."""
    return whole(title, f'{ways(name)}<main id="content">{html}</main>', script)


def figures(then: str = "", *, own: bool = False) -> str:
    """The script of a page with figures; `then` comes behind it, `own` measures the reader's GPU."""
    return f"{drawn('own.bundle.js') * own}{drawn('scene.bundle.js')}{read('site.js')}{then}"


def drawn(name: str) -> str:
    """A file of what draws a scene, as it was built: `brrr_course/view/drawn`."""
    return (Path(__file__).parents[1] / "view" / "drawn" / "built" / name).read_text(encoding="utf-8")


def whole(title: str, body: str, script: str = "", style: str = "") -> str:
    """A page, which needs no other file; its policy lists what default-src does not cover too."""
    allowed, style = b64encode(sha256(script.encode()).digest()).decode(), read("site.css") + drawn("scene.css") + style
    told = {"title": escape(title), "style": style, "body": reachable(body), "script": script, "allowed": allowed}
    return Template(read("page.html")).substitute(told)


def reachable(html: str) -> str:
    """HTML whose tables and code are scrolled by keys too, and whose empty table heads are none.

    >>> reachable("<table><th></th>")
    '<table tabindex="0"><td></td>'
    """
    return re.sub(r"<th\b[^>]*></th>", "<td></td>", re.sub(r"<(pre|table)\b", r'<\1 tabindex="0"', html))


ASKS = "<noscript><p>Moving a figure needs JavaScript, which is in this page.</p></noscript>"


def packed(data: Mapping[str, Any]) -> str:
    """What a page's script reads, within the page."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    inner = b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return f'<script type="application/gzip" id="data">{inner}</script>'


def unpacked(page: str) -> dict[str, Any]:
    """What a page's script reads; of a page without any, nothing.

    >>> unpacked(packed({"lesson": "00"}))
    {'lesson': '00'}
    """
    inner = page.partition('id="data">')[2].partition("<")[0]
    return dict(json.loads(gzip.decompress(b64decode(inner)))) if inner else {}


def read(name: str) -> str:
    """A file of this folder."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
