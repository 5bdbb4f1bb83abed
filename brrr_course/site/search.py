"""What the first page's search looks through beside that page's own links: headings, and below which a word stands."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from html import unescape
from itertools import pairwise

COMMON = 8
"""A word in more pages than these tells nothing: it is taken to stand in every lesson."""
_UNREAD = re.compile(r'<(script|svg|noscript|nav)\b.*?</\1>|<details class="code".*?</details>', re.DOTALL)
_HEADING = re.compile(r"<h[23] id=.*?>(.*?)</h[23]>")
_WORD = re.compile(r"[a-z][a-z0-9_]+")
_ENDING = re.compile(r"(?<=...)(?:ing|ed|es|s|e)$")
LEFT_OUT = ("Which claims held", "Next")


def parts_of(page: str) -> list[tuple[str, str]]:
    """A page's headings, each with the text below it; the first is empty, for what stands above all.

    >>> parts_of('<main id="content"><p>One.</p><h2 id="run"><em>Run</em></h2><pre>go()</pre></main>')
    [('', 'One.'), ('Run', 'go()')]
    """
    main = _UNREAD.sub(" ", page.partition('<main id="content">')[2].partition("</main>")[0])
    found = [
        " ".join(unescape(re.sub(r"<[^>]+>", " ", each)).split()) for each in _HEADING.split("<h2 id=></h2>" + main)
    ]
    return [part for part in zip(found[1::2], found[2::2], strict=True) if part[0] not in LEFT_OUT]


def search_data(pages: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, object]:
    """What the script reads: the pages' headings, and by word the part of each page in which it stands most often.

    >>> search_data({"a": [("", "Caches"), ("Run", "a cache, the cache")], "b": [("", "")], "c": [("", "cached")]})
    {'parts': {'a': ['', 'Run'], 'b': [''], 'c': ['']}, 'words': 'cach,1,2 the,1'}

    The parts are counted over all pages, each from the one before, to the base of 36.
    """
    found, at = defaultdict[str, list[int]](list), 0
    for parts in pages.values():
        counts = [Counter(_ENDING.sub("", word) for word in _WORD.findall(text.lower())) for _, text in parts]
        for word in set().union(*counts):
            often = [each[word] for each in counts]
            found[word].append(at + often.index(max(often)))
        at += len(counts)
    told = {word: places if len(places) <= COMMON else [] for word, places in sorted(found.items())}
    words = (",".join([word, *(_base36(b - a) for a, b in pairwise([0, *at]))]) for word, at in told.items())
    return {"parts": {name: [part[0] for part in parts] for name, parts in pages.items()}, "words": " ".join(words)}


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return (_base36(number // 36) if number >= 36 else "") + digits[number % 36]
