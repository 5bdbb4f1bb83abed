"""A line of CUDA C++ as tokens and, for the emulation, as a tree; nothing of it is ever run as Python.

line       = statement { ";" statement } [ ";" ]
statement  = [ "const" ] [ "float" | "double" | "auto" ] NAME "=" expression
expression = condition [ "?" expression ":" expression ]        with C's operators and their precedence
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

from brrr.core.errors import ArgumentError, BrrrError

TYPES = ("float", "double", "auto")
MOST_DEPTH = 60
"""Parentheses and signs inside each other: more are refused, before Python's own limit is met."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator><=|>=|==|!=|&&|\|\||\+\+|--|[-+*/]=|[-+*/%()<>!?:=,;{}\[\]&|^~.]))"
)
_LEVELS = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("+", "-"), ("*", "/"))


@dataclass(frozen=True)
class Token:
    """A number, a name or an operator, and where it starts in the line."""

    kind: str
    text: str
    column: int


@dataclass(frozen=True)
class Node:
    """A part of an expression: what it is (number, name, call, unary, binary, choice), its text, its parts."""

    kind: str
    text: str
    column: int
    parts: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Statement:
    """An assignment: the name that gets the value, and the value."""

    target: str
    value: Node


def tokens(line: str) -> list[Token]:
    """The line's tokens; LineError at what belongs to no expression of C++.

    >>> [token.text for token in tokens("y = 2.5f * x")]
    ['y', '=', '2.5f', '*', 'x']
    """
    found, place = [], 0
    while line[place:].strip():
        match = _TOKEN.match(line, place)
        if match is None:
            column = place + len(line[place:]) - len(line[place:].lstrip())
            raise LineError(line, f"{line[column]!r} cannot stand here", column)
        kind = str(match.lastgroup)
        found.append(Token(kind, match[kind], match.start(kind)))
        place = match.end()
    return found


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
    every = tokens(line)
    ends = [place for place, token in enumerate(every) if token.text == ";"]
    last = every[ends[-1] + 1 if ends else 0 :]
    names = _target(last)
    if names is None:
        raise LineError(line, "the last statement gives no name a value", last[0].column if last else None,
                        "Write it as in y = cosf(x).")  # fmt: skip
    declared = {every[place + 1].text for place, token in enumerate(every[:-1]) if token.text in TYPES}
    return names, names in declared


def _target(statement: list[Token]) -> str | None:
    rest = [token for token in statement if token.text not in (*TYPES, "const")]
    fits = len(rest) >= 3 and rest[0].kind == "name" and rest[1].text == "="
    return rest[0].text if fits else None


def used_names(line: str) -> set[str]:
    """Every name in the line."""
    return {token.text for token in tokens(line) if token.kind == "name"}


def parse(line: str) -> list[Statement]:
    """The line's statements as trees; LineError with a caret where the emulation does not understand it.

    >>> parse("y = 2 * x")[0].value.text
    '*'
    """
    return _Parser(line).statements()


class _Parser:
    """Recursive descent, a level of precedence each."""

    def __init__(self, line: str) -> None:
        self.line, self.rest, self.depth = line, [*tokens(line), Token("end", "", len(line))], 0

    def statements(self) -> list[Statement]:
        found = [self._statement()]
        while self._next_is(";"):
            self._take()
            if self.rest[0].kind != "end":
                found.append(self._statement())
        if self.rest[0].kind != "end":
            self._refuse(f"{self.rest[0].text!r} was not expected")
        return found

    def _statement(self) -> Statement:
        while self.rest[0].text in (*TYPES, "const"):
            self._take()
        if self.rest[0].kind != "name" or self.rest[1].text != "=":
            self._refuse("the emulation understands only statements such as y = cosf(x)")
        target = self._take().text
        self._take()
        return Statement(target, self._expression())

    def _expression(self) -> Node:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            self._refuse("more parts inside each other than the emulation takes")
        condition = self._binary(0)
        if self._next_is("?"):
            mark = self._take()
            yes = self._expression()
            self._expect(":")
            condition = Node("choice", "?", mark.column, (condition, yes, self._expression()))
        self.depth -= 1
        return condition

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self.rest[0].text in _LEVELS[level]:
            sign = self._take()
            left = Node("binary", sign.text, sign.column, (left, self._binary(level + 1)))
        return left

    def _unary(self) -> Node:
        signs = []
        while self.rest[0].text in ("-", "+", "!"):
            signs.append(self._take())
        node = self._primary()
        for sign in reversed(signs[:MOST_DEPTH]):
            node = Node("unary", sign.text, sign.column, (node,))
        return node

    def _primary(self) -> Node:
        token = self._take()
        if token.text == "(":
            inner = self._expression()
            self._expect(")")
            return inner
        if token.kind == "name" and self._next_is("("):
            return Node("call", token.text, token.column, self._arguments())
        if token.kind in ("number", "name"):
            return Node(token.kind, token.text, token.column)
        raise LineError(self.line, "a number, a name or a parenthesis was expected", token.column)

    def _arguments(self) -> tuple[Node, ...]:
        self._take()
        found: list[Node] = []
        while not self._next_is(")"):
            found.append(self._expression())
            if not self._next_is(","):
                break
            self._take()
        self._expect(")")
        return tuple(found)

    def _next_is(self, text: str) -> bool:
        return self.rest[0].text == text

    def _take(self) -> Token:
        return self.rest.pop(0) if self.rest[0].kind != "end" else self.rest[0]

    def _expect(self, text: str) -> None:
        if not self._next_is(text):
            self._refuse(f"{text!r} was expected")
        self._take()

    def _refuse(self, problem: str) -> NoReturn:
        raise LineError(self.line, problem, self.rest[0].column)


# ---------------------------------------------------------------------------------------------------------------------
# What is wrong with a line, shown under it: from the emulation's parser or from the CUDA compiler's log.

LINE_FILE = "your_line"
"""The name by which the compiler knows the student's line, so that its errors can be told from those of the rest."""

_ERROR = re.compile(rf"^{LINE_FILE}\(\d+\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$")
_QUOTED = re.compile(r'"(\w+)"')
_WORD = re.compile(r"\w+")


class LineError(BrrrError, ValueError):
    """A line of CUDA C++ given to `elementwise` does not compile.

    >>> raise LineError("y = cossf(x)", 'identifier "cossf" is undefined', 4)
    Traceback (most recent call last):
    ...
    brrr.kernels.elementwise.parse.LineError: elementwise: identifier "cossf" is undefined
        y = cossf(x)
            ^

    On a CPU it is raised for what the emulation does not understand. It is a ValueError, too.

    Parameters
    ----------
    line : str
        The line.
    problem : str
        What is wrong with it.
    column : int, optional
        Where the caret stands, counted from 0.
    hint : str
        What to do, if that helps.
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
