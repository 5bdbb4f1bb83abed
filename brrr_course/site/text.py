"""The course's Markdown as a page's HTML: links lead to pages, and a reader is told what to do."""

import re
from pathlib import PurePosixPath

import mistune

from brrr_course.site.addresses import in_repository

_MARKDOWN = mistune.create_markdown(escape=False, plugins=["table", "strikethrough"])
_LINK = re.compile(r'<a href="([^"#]*)([^"]*)">(.*?)</a>', re.DOTALL)
_DOCUMENT = re.compile(r"<code>docs/(\w+)\.md</code>(?: in the repository)?")
READING = {
    r"Click into a cell [^:]*:\s+this is your own copy\.": "Answer, move the sliders, and look: nothing breaks.",
    r"Double-click\s+here\s+and\s+write": "Write",
    r"; Shift\+Enter shows it": "",
    r"Replace the `\.\.\.` by your number and run the cell\.\s+It": "Give your number and press *Check*. It",
}
"""What a notebook asks of its reader, and what a page asks instead."""


def markdown(text: str, folder: str = "notebooks") -> str:
    """HTML of a Markdown text that stands in a folder of the repository.

    >>> markdown("Next: [01](01_async_timing.ipynb#guess), or `docs/rnn.md`.")
    '<p>Next: <a href="01_async_timing.html#guess">01</a>, or <a href="rnn.html">rnn</a>.</p>\\n'
    """
    for asked, instead in READING.items():
        text = re.sub(asked, instead, text)
    html = str(_MARKDOWN(re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)))
    html = re.sub(r'<abbr title="([^"]*)">', r'<abbr tabindex="0" data-means="\1" aria-description="\1">', html)
    html = _DOCUMENT.sub(r'<a href="docs/\1.md">\1</a>', html) if folder == "notebooks" else html
    return _LINK.sub(lambda found: _linked(folder, *found.groups()), html)


def addressed(html: str) -> str:
    """HTML whose headings have addresses.

    >>> addressed("<h2>At work</h2>")
    '<h2 id="at-work">At work</h2>'
    """
    return re.sub(r"<(h[23])>(.*?)</h", lambda found: f'<{found[1]} id="{slug(found[2])}">{found[2]}</h', html)


def slug(text: str) -> str:
    """A text as part of an address.

    >>> slug("Two hours, <em>tomorrow</em>")
    'two-hours-tomorrow'
    """
    return "-".join(re.findall(r"\w+", re.sub(r"<[^>]+>|'", "", text).lower()))


def _linked(folder: str, where: str, place: str, said: str) -> str:
    """A link as a page has it: to another page, into the repository, or, where that is not known, only its words."""
    if not where or "://" in where:
        return f'<a href="{where}{place}">{said}</a>'
    path = PurePosixPath(where.removeprefix("../") if where.startswith(("../", "docs/")) else f"{folder}/{where}")
    if path.parent.name in ("notebooks", "docs") and path.parent.parent.name == "" and path.suffix in (".ipynb", ".md"):
        return f'<a href="{path.stem}.html{place}">{said}</a>'
    address = in_repository(str(path))
    return f'<a href="{address}{place}">{said}</a>' if address else said


def contents(html: str) -> str:
    """A page's parts as links to them.

    >>> contents('<h2 id="run">Run</h2>')
    '<nav class="contents" aria-label="On this page"><a href="#run">Run</a></nav>'
    """
    links = "".join(f'<a href="#{place}">{said}</a>' for place, said in re.findall(r'<h2 id="(.*?)">(.*?)</h2>', html))
    return f'<nav class="contents" aria-label="On this page">{links}</nav>'
