"""What all pages share: one file each, under a strict policy, with the ways to the others at its top."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

WAYS = {"index": "All lessons", "questions": "Questions", "glossary": "Glossary", "cheatsheet": "Cheat sheet"}
"""The pages that every other leads to."""


def ways(here: str = "", more: Mapping[str, str] | None = None) -> str:
    """The links at the top of a page: to all pages that others lead to, but to itself, and some more."""
    links = {name: said for name, said in {**WAYS, **(more or {})}.items() if name and name != here}
    inner = "".join(f'<a href="{name}.html">{escape(said)}</a>' for name, said in links.items())
    return f'<nav aria-label="Course">{inner}</nav>'


def whole(title: str, body: str, script: str = "", style: str = "") -> str:
    """A page, which needs no other file."""
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{allowed}'; style-src 'unsafe-inline'; img-src data:; "
    policy += "base-uri 'none'; form-action 'none'"  # which default-src does not cover
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{read('site.css')}{style}</style></head><body>"
        f'<svg id="defs" aria-hidden="true"></svg>{reachable(body)}'
        f'<script type="module">{script}</script></body></html>\n'
    )


def reachable(html: str) -> str:
    """HTML whose tables and code are scrolled by keys too, and whose empty table heads are none.

    >>> reachable("<table><th></th>")
    '<table tabindex="0"><td></td>'
    """
    return re.sub(r"<th\b[^>]*></th>", "<td></td>", re.sub(r"<(pre|table)\b", r'<\1 tabindex="0"', html))


def packed(data: Mapping[str, Any]) -> str:
    """What a page's script reads, within the page."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    inner = b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return f'<script type="application/gzip" id="data">{inner}</script>'


def read(name: str) -> str:
    """A file of this folder."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
