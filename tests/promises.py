"""Numbers that documents promise, read out of their text: a test holds what the code does against them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORDS = {"half": 0.5, "a": 1.0, "twice": 2.0, "two": 2.0, "three": 3.0, "four": 4.0, "eight": 8.0, "ten": 10.0,
         "sixteen": 16.0, "two fifths": 0.4, "a tenth": 0.1, "a twentieth": 0.05, "a thousand": 1000.0}  # fmt: skip


def promised(document: str, pattern: str) -> float:
    """The number in the one place where a document says it: `(...)` in the pattern is a number, or a word for one."""
    text = " ".join((ROOT / document).read_text(encoding="utf-8").split())
    found = re.findall(pattern, text)
    assert len(found) == 1, f"{document}: {len(found)} places say {pattern!r}"
    word = found[0].replace(",", "")
    return WORDS[word] if word in WORDS else float(word)
