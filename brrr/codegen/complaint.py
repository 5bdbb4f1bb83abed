"""What is wrong with a line, shown under it: from the emulation's parser or from the CUDA compiler's log."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from itertools import pairwise

from brrr.errors import BrrrError

LINE_FILE = "your_line"
"""The name by which the compiler knows the student's line, so that its errors can be told from those of the rest."""

_ERROR = re.compile(rf"^{LINE_FILE}\(\d+\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$")
_QUOTED = re.compile(r'"(\w+)"')
_WORD = re.compile(r"\w+")


class LineError(BrrrError, ValueError):
    """The line of CUDA C++ does not compile, or the emulation does not understand it; a caret shows where.

    >>> raise LineError("y = cossf(x)", 'identifier "cossf" is undefined', 4)
    Traceback (most recent call last):
    ...
    brrr.codegen.complaint.LineError: elementwise: identifier "cossf" is undefined
        y = cossf(x)
            ^
    """

    def __init__(self, line: str, problem: str, column: int | None = None, hint: str = "") -> None:
        self.line, self.problem, self.column = line, problem, column
        rows = [f"elementwise: {problem}", f"    {line}"]
        rows += [f"    {' ' * column}^"] if column is not None else []
        super().__init__("\n".join([*rows, *([hint] if hint else [])]))


def from_log(line: str, log: str, known: Iterable[str]) -> LineError:
    """The first error in the compiler's log that concerns the student's line, as a LineError.

    `known` are names that an undefined one may have been meant for. Where no error points at the line, the compiler's
    first message is shown as it is.
    """
    rows = log.splitlines()
    for number, row in enumerate(rows):
        found = _ERROR.match(row.strip())
        if found:
            problem = found["text"].strip()
            return LineError(line, problem, _column(line, problem, rows[number + 1 : number + 4]), hint(problem, known))
    first = next((row.strip() for row in rows if "error" in row), log.strip()[:200] or "the compiler gave no reason")
    return LineError(line, f"the line does not compile: {first.split('error: ')[-1]}")


def hint(problem: str, known: Iterable[str]) -> str:
    """A name close to the one that the message quotes, if there is one.

    >>> hint('identifier "cossf" is undefined', ["cosf", "sinf"])
    'Did you mean cosf?'
    """
    quoted = _QUOTED.search(problem)
    if quoted is None or ("undefined" not in problem and "known" not in problem):
        return ""
    near = difflib.get_close_matches(quoted[1], [name for name in known if name != quoted[1]], n=1)
    return f"Did you mean {near[0]}?" if near else ""


def _column(line: str, problem: str, after: list[str]) -> int | None:
    """Where the caret of the log stands under the line; else where the name that the message quotes stands."""
    for echoed, mark in pairwise(after):
        start = echoed.find(line)
        if start >= 0 and mark.strip() == "^":
            return min(max(mark.index("^") - start, 0), len(line))
    quoted = _QUOTED.search(problem)
    if quoted is None:
        return None
    return next((word.start() for word in _WORD.finditer(line) if word[0] == quoted[1]), None)
