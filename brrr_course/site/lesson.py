"""A lesson's cells run once on a recording; what each of them shows becomes a part of the lesson's page."""

from __future__ import annotations

import gc
import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

import numpy

from brrr.core.errors import BrrrError
from brrr.drawing import style
from brrr.drawing.style import Picture, kept_figures
from brrr_course.lessons.cells import Cells
from brrr_course.lessons.guessing import Guess, forget
from brrr_course.lessons.marks import Mark
from brrr_course.lessons.waiting import Waiting
from brrr_course.site.addresses import notebook_links
from brrr_course.site.exercises import is_tabulated, table_of
from brrr_course.site.guesses import comparison, form, numbers
from brrr_course.site.text import markdown
from brrr_course.site.vector import Pieces
from brrr_course.site.views import view
from brrr_course.view import display
from brrr_course.view.timeline_view import TimelineView

_CODE = re.compile(r"```.*?```", re.DOTALL)


class LessonPage:
    """A lesson's parts as HTML in their order, and by kind what its script shows in the places that they leave.

    Made of a notebook, on the source that `BRRR_SOURCE` names. `cells` has each cell's tags, whether it is code, and
    its parts; `seen` is what the cells showed, for who holds the page against it; `missing` says what the source lacks.
    NotImplementedError for a view that no page can show.
    """

    def __init__(self, path: Path) -> None:
        import torch

        self.name, self.title, self.question = path.stem, path.stem, ""
        self.parts: list[str] = []
        self.cells: list[tuple[list[str], bool, list[str]]] = []
        self.missing: list[str] = []
        self.seen: list[Any] = []
        self.shown: dict[str, list[dict[str, Any]]] = {"view": [], "guess": [], "comparison": [], "exercise": []}
        self.pieces = Pieces()
        self._cells = Cells(self.name, self._show, self._add_text)
        forget()
        for seed in (random.seed, numpy.random.seed, torch.manual_seed):
            seed(0)
        with _rarely_collected(), kept_figures(), self._cells.on_stage():
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
                source, tags = "".join(cell["source"]), cell["metadata"].get("tags", [])
                before, is_code = len(self.parts), cell["cell_type"] == "code"
                (self._run if is_code else self._read)(source, tags)
                self.cells.append((tags, is_code, self.parts[before:]))

    @property
    def data(self) -> dict[str, Any]:
        """All that the script reads."""
        return {**self.shown, "lesson": self.name, "pieces": self.pieces.all, "defs": self.pieces.defs, **numbers()}

    def pictures(self) -> Iterator[tuple[str, bytes]]:
        """The figures as they stand at first, each with its file's name: for a reader without JavaScript."""
        shown = (each for each in self.seen if isinstance(each, display.Shown | Picture))
        yield from ((f"{self.name}-{at}.png", _still(each)) for at, each in enumerate(shown))

    def _read(self, text: str, tags: list[str]) -> None:
        """Take a cell of text; the first heading is the title, the first bold sentence the question."""
        if self.title == self.name and (heading := re.search(r"^# (.*)$", text, re.MULTILINE)):
            self.title = _plain(heading[1])
        if not self.question and (asked := re.search(r"\*\*(.+?)\*\*", _CODE.sub("", text), re.DOTALL)):
            self.question = _plain(asked[1])
        if "yours" not in tags:
            self.parts.append(markdown(text))
            return
        box = f'<textarea rows="3" data-kept="{len(self.parts)}" aria-label="Your explanation"></textarea>'
        self.parts.append(f'<div class="explain">{markdown(text)}{box}</div>')

    def _run(self, source: str, tags: list[str]) -> None:
        """Run a cell of code, and take what it prints and shows."""
        self._exercise = next((tag.partition(":")[2] for tag in tags if tag.startswith("exercise:")), "")
        is_open = " open" if self._exercise and not is_tabulated(self._exercise) else ""
        code = f"<summary>Code</summary><pre>{escape(source)}</pre>"
        self.parts.append(f'<details class="code"{is_open}>{code}</details>')
        try:
            self._cells.run(source)
        except BrrrError as lacking:  # a recording of the teacher's own may not have everything
            self.missing.append(str(lacking))
            self._add_text(str(lacking))
        except NameError:
            if not self.missing:
                raise
            self._add_text("This builds on what was not recorded.")

    def _add_text(self, text: str) -> None:
        if text.strip():
            self.parts.append(f"<pre>{escape(text)}</pre>")

    def _place(self, kind: str, made: dict[str, Any], waits_for: object = None) -> None:
        """Leave a place for the script; `guess` is the number of the guess that it waits for, -1 for none."""
        guesses = [each for each in self.seen if isinstance(each, Guess)]
        made["guess"] = guesses.index(waits_for) if waits_for in guesses else -1
        at = len(self.shown[kind])
        still = f'<img src="{self.name}-{at}.png" alt="{escape(made.get("alt") or "The figure as recorded.")}">'
        picture = f"<noscript>{still}</noscript>" if kind == "view" else ""
        self.parts.append(f'<div class="{kind}" data-at="{at}">{picture}</div>')
        self.shown[kind].append(made)

    def _show(self, value: Any) -> None:
        """Take what a cell shows."""
        self.seen.append(value)
        if isinstance(value, Guess):
            self._place("guess", form(value))
        elif isinstance(value, Waiting):
            self._place("comparison", comparison(value, self.pieces), value.guess)
        elif isinstance(value, display.Shown | Picture):
            self._place("view", view(value, self.pieces), getattr(value, "unlock", None))
        elif isinstance(value, Mark) and is_tabulated(self._exercise):
            self._place("exercise", table_of(self._exercise))
        elif isinstance(value, Mark):
            self.parts.append(
                f'<div class="python">This exercise runs your code: take {notebook_links(self.name)}.</div>'
            )
        elif hasattr(value, "_repr_html_"):
            self.parts.append(f'<div class="html">{value._repr_html_()}</div>')
        else:
            self._add_text(repr(value))


def _still(shown: Any) -> bytes:
    """What is shown as a PNG, covered or not."""
    if isinstance(shown, TimelineView):
        return shown.selection.png()
    kept = shown.figure if isinstance(shown, Picture) else None  # a bare picture was drawn while figures were kept
    return bytes((shown._picture() if kept is None else style.picture(kept, shown.alt)).png)


def _plain(markdown: str) -> str:
    """Words alone: without tags and marks of emphasis, on one line."""
    return " ".join(re.sub(r"<[^>]+>|[*`]", "", markdown).split())


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Each figure is garbage at once: to collect it need not mean to look through torch, nor after each tenth of it."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000)
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
