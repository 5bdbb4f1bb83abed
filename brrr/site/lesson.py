"""A lesson's cells run once on a recording; what each of them shows becomes a part of the lesson's page."""

from __future__ import annotations

import ast
import io
import json
import random
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import IPython.display
import numpy

from brrr.core.errors import BrrrError
from brrr.course.lessons.checking import Mark
from brrr.course.lessons.drawings import Drawing
from brrr.course.lessons.guessing import Guess, forget
from brrr.course.lessons.waiting import Waiting
from brrr.course.sources import reading_once
from brrr.course.view import display
from brrr.course.view.explorer import Explorer
from brrr.course.view.timeline import TimelineView
from brrr.drawing.style import Picture, kept_figures
from brrr.site import states
from brrr.site.bars import bars
from brrr.site.exercises import is_tabulated, right_answers, table_of
from brrr.site.guesses import comparison, form, numbers
from brrr.site.lines import lines
from brrr.site.vector import Pieces
from brrr.site.words import told

PYTHON = "needs-python"
"""The mark of what only a notebook can do; `page.py` says so in its place."""
Part = tuple[str, str]
"""What a cell becomes: a kind (`markdown`, `code`, `html`, `text`, `needs-python`) and its text."""


@dataclass
class Lesson:
    """A lesson's parts in their order, and what its script shows in the places that they leave."""

    name: str
    parts: list[Part] = field(default_factory=list)
    views: list[dict[str, Any]] = field(default_factory=list)
    guesses: list[dict[str, Any]] = field(default_factory=list)
    comparisons: list[dict[str, Any]] = field(default_factory=list)
    exercises: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    pieces: Pieces = field(default_factory=Pieces)

    @property
    def data(self) -> dict[str, Any]:
        """All that the script reads."""
        return {
            "lesson": self.name, "views": self.views, "guesses": self.guesses, "comparisons": self.comparisons,
            "exercises": self.exercises, "pieces": self.pieces.all, "defs": self.pieces.defs, "numbers": numbers(),
        }  # fmt: skip


class NoForm(BrrrError):
    """A view that no page can show: brrr/site has no exporter for it."""


def lesson(path: Path, seen: list[object] | None = None) -> Lesson:
    """A notebook's lesson on the source that `BRRR_SOURCE` names; NoForm for a view that none can show.

    `seen` gets what the cells showed, views and comparisons among it, for who holds the page against it.
    """
    return _Run(path, [] if seen is None else seen).lesson()


class _Run:
    """One run of a notebook's cells."""

    def __init__(self, path: Path, seen: list[object]) -> None:
        self._seen = seen
        self.found = Lesson(path.stem)
        self._cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        solution = path.parent / "solutions" / path.name
        self._solutions = right_answers(solution) if solution.is_file() else {}
        self._names: dict[str, Any] = {"__name__": "lesson", "display": self._show_all}
        self._guesses: dict[int, Guess] = {}
        self._exercise = ""

    def lesson(self) -> Lesson:
        import torch

        forget()
        random.seed(0)
        numpy.random.seed(0)
        torch.manual_seed(0)
        with (
            reading_once(),
            kept_figures(),
            display.on_stage(self._show),
            patch.object(IPython.display, "display", self._show_all),
        ):
            for cell in self._cells:
                source, tags = "".join(cell["source"]), cell["metadata"].get("tags", [])
                if cell["cell_type"] == "markdown":
                    self._add("explanation" if "yours" in tags else "markdown", source)
                else:
                    self._run(source, tags)
        return self.found

    def _run(self, source: str, tags: list[str]) -> None:
        self._exercise = next((tag.partition(":")[2] for tag in tags if tag.startswith("exercise:")), "")
        self._add("open code" if self._exercise and not self._is_tabulated else "code", source)
        printed, tree = io.StringIO(), ast.parse(source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        try:
            with redirect_stdout(printed):
                exec(compile(tree, self.found.name, "exec"), self._names)
                value = None
                if isinstance(last, ast.Expr):
                    value = eval(compile(ast.Expression(last.value), self.found.name, "eval"), self._names)
            if printed.getvalue().strip():
                self._add("text", printed.getvalue())
            if value is not None:
                self._show(value)
        except NoForm:
            raise
        except BrrrError as lacking:  # a recording of the teacher's own may not have everything
            self.found.missing.append(str(lacking))
            self._add("text", str(lacking))
        except NameError:
            if not self.found.missing:
                raise
            self._add("text", "This builds on what was not recorded.")

    @property
    def _is_tabulated(self) -> bool:
        return self._exercise in self._solutions and is_tabulated(self._solutions[self._exercise])

    def _add(self, kind: str, text: str) -> None:
        self.found.parts.append((kind, text))

    def _place(self, kind: str, all_of_them: list[dict[str, Any]], made: dict[str, Any]) -> None:
        self._add("html", f'<div class="{kind}" data-at="{len(all_of_them)}"></div>')
        all_of_them.append(made)

    def _show_all(self, *values: object, **_: object) -> None:
        for value in values:
            self._show(value)

    def _show(self, value: object) -> None:
        """Take what a cell shows; NoForm for a view that no page can show."""
        self._seen.append(value)
        if isinstance(value, Guess):
            self._guesses[len(self._guesses)] = value
            self._place("guess", self.found.guesses, form(value))
        elif isinstance(value, Waiting):
            made = comparison(value, self.found.pieces)
            self._place("comparison", self.found.comparisons, {"guess": self._number(value.guess), **made})
        elif isinstance(value, display.Shown | Picture):
            made = view(value, self.found.pieces)
            unlock = value.unlock if isinstance(value, display.Shown) else None
            self._place("view", self.found.views, {**made, "guess": self._number(unlock)})
        elif isinstance(value, Mark) and self._is_tabulated:
            table = table_of(self._exercise, self._solutions[self._exercise])
            self._place("exercise", self.found.exercises, table)
        elif isinstance(value, Mark):
            self._add(PYTHON, "This exercise runs your own code.")
        elif type(value).__name__ == "Report":
            self._add(PYTHON, "The doctor looks at the computer that it runs on.")
        elif (html := getattr(value, "_repr_html_", None)) is not None:
            self._add("html", html())
        else:
            self._add("text", repr(value))

    def _number(self, guess: object) -> int:
        """Which of the page's guesses that is; -1 for none."""
        return next((number for number, each in self._guesses.items() if each is guess), -1)


def view(shown: display.Shown | Picture, pieces: Pieces) -> dict[str, Any]:
    """A view as what `site.js` reads; NoForm for a kind that has no form here."""
    if isinstance(shown, Picture):
        return states.picture(shown, pieces)
    if isinstance(shown, Drawing):
        return states.drawing(shown, pieces)
    if isinstance(shown, TimelineView):
        return states.timeline(shown, pieces)
    if not isinstance(shown, Explorer):
        raise BrrrError(
            f"site: an {type(shown).__name__} has no form on a page; brrr/site/lesson.py is to give it one."
        )
    if shown.scene.view.form == "stack":
        return states.stack(shown, pieces)
    drawn = bars(shown, pieces) if shown.scene.view.is_bars else lines(shown, pieces)
    return {**told(shown.fresh(), shown.slider_names, pieces), **drawn}
