"""What a terminal is given: a file's or a gateway's texts may hold what moves its cursor, or turns its lines around.

>>> print(printable("H200\\x1b[2J, \\u202e0.5 s"))
H200\\x1b[2J, \\u202e0.5 s
"""

import json
from typing import Any, TextIO

BREAKS = "\n\t\xa0\u202f"
"""Line ends, tabs and spaces that no line breaks at: they move no further than a text may."""


def printable(text: str, kept: str = "") -> str:
    """The text with what is not to be seen, but for `kept`, as Python and JSON write it; half a surrogate pair, too."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept
                   else (ascii if each < " " else json.dumps)(each)[1:-1] for each in text)  # fmt: skip


class Shown:
    """A stream whose every text is printable; `stream` is the one behind it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the printable text."""
        return self.stream.write(printable(text, BREAKS))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def shown(stream: TextIO | None) -> Any:
    """The stream as `Shown`; None where the process has none."""
    return Shown(stream) if stream else None
