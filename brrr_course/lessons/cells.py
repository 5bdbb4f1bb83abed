"""A lesson's cells of code run outside a notebook: what each prints, and what it shows."""

from __future__ import annotations

import ast
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any
from unittest.mock import patch

import IPython.display

from brrr_course.view import display


class Cells:
    """Runs cells one after the other, each with the names of those before it.

    >>> cells = Cells("lesson", show=print, say=print)
    >>> with cells.on_stage():
    ...     cells.run("a = 1")
    ...     cells.run("a + 1")
    2

    `show` takes each value that a cell shows, `say` the text that it prints. What a cell raises comes through.
    """

    def __init__(self, name: str, show: Callable[[Any], None], say: Callable[[str], object]) -> None:
        self._name, self._show, self._say = name, show, say
        self._names: dict[str, Any] = {"__name__": "lesson", "display": self._show_all}

    @contextmanager
    def on_stage(self) -> Iterator[None]:
        """Within it, `show` also takes what would ask a reader something, and what a cell displays."""
        with display.on_stage(self._show), patch.object(IPython.display, "display", self._show_all):
            yield

    def run(self, source: str) -> None:
        """Run a cell; what it ends in is shown."""
        printed, tree = io.StringIO(), ast.parse(source)
        if tree.body and isinstance(last := tree.body[-1], ast.Expr):
            tree.body[-1] = ast.copy_location(ast.Assign([ast.Name("_", ast.Store())], last.value), last)
        self._names["_"] = None
        with redirect_stdout(printed):
            exec(compile(ast.fix_missing_locations(tree), self._name, "exec"), self._names)
        if text := printed.getvalue():
            self._say(text)
        if self._names["_"] is not None:
            self._show(self._names["_"])

    def _show_all(self, *values: object, **_: object) -> None:
        for value in values:
            self._show(value)
