"""The documents beside the lessons as pages: those of the folder docs, and the glossary with a page for each term."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from brrr_course.nouns.places import share
from brrr_course.site.frame import plain
from brrr_course.site.page import Page
from brrr_course.site.text import addressed, markdown, slug

_PICTURE = re.compile(r"<p><img [^>]*></p>")


def documents(folder: Path) -> dict[str, tuple[str, str]]:
    """The title and the page of each of a folder's Markdown files, by their names, without pictures."""
    pages = {}
    for path in sorted(folder.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        title = text.partition("\n")[0].lstrip("# ").replace("`", "")
        pages[path.stem] = title, plain(path.stem, title, addressed(_PICTURE.sub("", markdown(text, "docs"))))
    return pages


def terms() -> list[dict[str, Any]]:
    """The glossary's terms, by the alphabet."""
    found = tomllib.loads((share("data") / "glossary.toml").read_text(encoding="utf-8"))["term"]
    return sorted(found, key=lambda term: str(term["name"]).lower())


def page_of_term(term: Mapping[str, Any]) -> str:
    """The name of a term's page."""
    return f"term-{slug(term['name'])}"


def glossary(lessons: Sequence[Page]) -> dict[str, str]:
    """The glossary's pages by their names; a term's tells which of these lessons use it."""
    rows, pages = [], {}
    for term in terms():
        name, means = escape(term["name"]), escape(term["means"])
        rows.append(f'<dt><a href="{page_of_term(term)}.html">{name}</a></dt><dd>{means}</dd>')
        used = [f'<li><a href="{each.name}.html">{escape(each.title)}</a></li>' for each in lessons
                if f'data-means="{means}"' in each.html or each.name.startswith(f"{term['lesson']}_")]  # fmt: skip
        also = f"<p>Also written: {escape(', '.join(term['also']))}.</p>" if term.get("also") else ""
        body = f"<h1>{name}</h1><p><b>{means}</b></p>{also}<h2>Lessons that use it</h2><ul>{''.join(used)}</ul>"
        pages[page_of_term(term)] = plain("", f"{term['name']}: what it means", body)
    listed = f"<h1>Glossary</h1><p>The course's terms, and what each means.</p><dl>{''.join(rows)}</dl>"
    return {**pages, "glossary": plain("glossary", "Glossary", listed)}
