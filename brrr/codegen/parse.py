"""A line of CUDA C++ as tokens and, for the emulation, as a tree; nothing of it is ever run as Python.

line       = statement { ";" statement } [ ";" ]
statement  = [ "const" ] [ "float" | "double" | "auto" ] NAME "=" expression
expression = condition [ "?" expression ":" expression ]        with C's operators and their precedence
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

from brrr.codegen.complaint import LineError
from brrr.errors import ArgumentError

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
