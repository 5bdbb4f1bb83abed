"""The documents beside the lessons as pages: those of the folder docs, and the glossary with a page for each term."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from brrr_course.nouns.places import share
from brrr_course.site.frame import ways, whole
from brrr_course.site.text import addressed, markdown, slug

_PICTURE = re.compile(r'<img src="([^"]+\.svg)" alt="([^"]*)"[^>]*>')


def documents(folder: Path) -> dict[str, tuple[str, str]]:
    """The title and the page of each of a folder's Markdown files, by their names, with their pictures inside them."""
    pages = {}
    for path in sorted(folder.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        html = _PICTURE.sub(lambda found: _drawn(folder / found[1], found[2]), markdown(text, "docs"))
        title = text.partition("\n")[0].lstrip("# ")
        pages[path.stem] = title, whole(title, _body(path.stem, addressed(html)))
    return pages


def _drawn(path: Path, said: str) -> str:
    return path.read_text(encoding="utf-8").replace("<svg ", f'<svg aria-label="{said}" ', 1)


def terms() -> list[dict[str, Any]]:
    """The glossary's terms, by the alphabet."""
    found = tomllib.loads((share("data") / "glossary.toml").read_text(encoding="utf-8"))["term"]
    return sorted(found, key=lambda term: str(term["name"]).lower())


def page_of_term(term: Mapping[str, Any]) -> str:
    """The name of a term's page."""
    return f"term-{slug(term['name'])}"


def glossary(lessons: Sequence[tuple[str, str, str]]) -> dict[str, str]:
    """The glossary's pages by their names; the lessons' names, titles and pages tell where a term is used."""
    rows, pages = [], {}
    for term in terms():
        name, means = escape(term["name"]), escape(term["means"])
        rows.append(f'<dt><a href="{page_of_term(term)}.html">{name}</a></dt><dd>{means}</dd>')
        used = [f'<li><a href="{page}.html">{escape(title)}</a></li>' for page, title, html in lessons
                if f'data-means="{means}"' in html or page.startswith(f"{term['lesson']}_")]  # fmt: skip
        also = f"<p>Also written: {escape(', '.join(term['also']))}.</p>" if term.get("also") else ""
        body = f"<h1>{name}</h1><p><b>{means}</b></p>{also}<h2>Lessons that use it</h2><ul>{''.join(used)}</ul>"
        pages[page_of_term(term)] = whole(f"{term['name']}: what it means", _body(page_of_term(term), body))
    listed = f"<h1>Glossary</h1><p>The course's terms, and what each means.</p><dl>{''.join(rows)}</dl>"
    return {**pages, "glossary": whole("Glossary", _body("glossary", listed))}


def _body(name: str, html: str) -> str:
    return f"{ways(name)}<main>{html}</main>"
