"""A line of CUDA C++ as text: what is asked of it before it is compiled, and what is said where it does not compile."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

from brrr.core.errors import ArgumentError, BrrrError

LINE_FILE = "your_line"
"""The name by which the compiler knows the student's line, so that its errors can be told from those of the rest."""

_ASSIGNED = re.compile(r"\s*(?:const\s+)?(?:(?:float|double|auto)\s+)?(?P<name>[A-Za-z_]\w*)\s*=(?!=)")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_QUOTED = re.compile(r'"(\w+)"')
_ERROR = re.compile(rf"^{LINE_FILE}\(\d+\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$")


class LineError(BrrrError, ValueError):
    """A line of CUDA C++ given to `elementwise` does not compile.

    >>> raise LineError("y = cossf(x)", 'identifier "cossf" is undefined', ["cosf"])
    Traceback (most recent call last):
    ...
    brrr.kernels.elementwise.parse.LineError: elementwise: identifier "cossf" is undefined
        y = cossf(x)
            ^
    Did you mean cosf?

    On a CPU it is raised for code that the emulation does not support. It is a ValueError, too.

    Parameters
    ----------
    line : str
        The line.
    problem : str
        What is wrong with it; a name that it quotes is pointed at.
    known : iterable of str
        Known names, of which the nearest is suggested.
    """

    def __init__(self, line: str, problem: str, known: Iterable[str] = ()) -> None:
        self.line, self.problem = line, problem
        rows = [f"elementwise: {problem}", f"    {line}"]
        quoted = _QUOTED.search(problem)
        place = re.search(rf"\b{quoted[1]}\b", line) if quoted else None
        if quoted and place:
            rows.append(" " * (4 + place.start()) + "^")
            others = [name for name in known if name != quoted[1]]
            rows += [f"Did you mean {near}?" for near in difflib.get_close_matches(quoted[1], others, n=1)]
        super().__init__("\n".join(rows))


def checked_line(line: Any) -> str:
    """The line without the spaces around it and the last semicolon; ArgumentError for what is not one line."""
    if not isinstance(line, str) or not line.strip():
        raise ArgumentError("elementwise", "line", line, 'a line of CUDA C++, such as "y = cosf(cosf(x))"')
    for mark in ("\n", "\r", "//", "/*", "#", "\\"):
        if mark in line.strip():
            raise ArgumentError("elementwise", "line", line, f"one line without {mark!r}")
    if not line.isascii():
        raise ArgumentError("elementwise", "line", line, "letters, digits and signs of ASCII")
    return line.strip().rstrip("; ")


def output_name(line: str) -> tuple[str, bool]:
    """The name that the line's last statement assigns, and whether the line declares it itself.

    >>> output_name("float t = x * x; y = t + 1"), output_name("float y = x")
    (('y', False), ('y', True))
    """
    last = _ASSIGNED.match(line.rpartition(";")[2])
    if last is None:
        raise LineError(line, "the last statement gives no name a value, as y = cosf(x) does")
    return last["name"], re.search(rf"\b(?:float|double|auto)\s+{last['name']}\b", line) is not None


def used_names(line: str) -> set[str]:
    """Every name in the line.

    >>> sorted(used_names("y = 2.5f * x"))
    ['x', 'y']
    """
    return {*_NAME.findall(line)}


def from_log(line: str, log: str, known: Iterable[str]) -> LineError:
    """The first error in the compiler's log that concerns the student's line, as a LineError.

    Where no error points at the line, the compiler's first message is shown as it is.
    """
    rows = [row.strip() for row in log.splitlines()]
    mine = next((found for row in rows if (found := _ERROR.match(row))), None)
    if mine:
        return LineError(line, mine["text"].strip(), known)
    first = next((row for row in rows if "error" in row), log.strip()[:200] or "the compiler gave no reason")
    return LineError(line, f"the line does not compile: {first.split('error: ')[-1]}")
