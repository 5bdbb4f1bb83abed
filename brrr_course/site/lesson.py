"""A lesson's cells run once on a recording; what each of them shows becomes a part of the lesson's page."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy

from brrr.core.errors import BrrrError
from brrr.drawing.style import Picture, kept_figures
from brrr_course.lessons.cells import Cells
from brrr_course.lessons.course import own_cells
from brrr_course.lessons.guessing import Guess, forget
from brrr_course.lessons.marks import Mark
from brrr_course.lessons.waiting import Waiting
from brrr_course.site.addresses import notebook_links
from brrr_course.site.exercises import is_tabulated, table_of
from brrr_course.site.guesses import comparison, form, rules
from brrr_course.site.pictures import WIDE, picture
from brrr_course.site.text import markdown
from brrr_course.site.vector import Pieces
from brrr_course.site.views import view
from brrr_course.view import display
from brrr_course.view.figure import place_of

_CODE = re.compile(r"```.*?```", re.DOTALL)
_CELL = re.compile(r"^# %%( \[markdown\])?\n(.*?)\s*(?=^# %%|\Z)", re.MULTILINE | re.DOTALL)


class LessonPage:
    """A lesson's parts as HTML in their order, and by kind what its script shows in the places that they leave.

    Made of a notebook or of a page's cells (`cells_of`), on the source that `BRRR_SOURCE` names. `cells` has each
    cell's tags, whether it is code, and its parts; `seen` is what the cells showed, for who holds the page against it;
    `missing` says what the source lacks.
    NotImplementedError for a view that no page can show.
    """

    def __init__(self, path: Path) -> None:
        import torch

        cells = cells_of(path)
        self.name = path.stem
        self.title, self.question = told(cells)
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
        with kept_figures(), self._cells.on_stage():
            for cell in cells:
                source, tags = "".join(cell["source"]), cell["metadata"].get("tags", [])
                before, is_code = len(self.parts), cell["cell_type"] == "code"
                (self._run if is_code else self._read)(source, tags)
                self.cells.append((tags, is_code, self.parts[before:]))

    @property
    def data(self) -> dict[str, Any]:
        """All that the script reads."""
        return {**self.shown, "lesson": self.name, "pieces": self.pieces.all, "defs": self.pieces.defs, **rules()}

    @property
    def knows_yours(self) -> bool:
        """Whether a figure of it can stand beside what a browser measures of its reader's GPU."""
        return any("yours" in each.get("scene", ()) for each in self.shown["view"])

    def _read(self, text: str, tags: list[str]) -> None:
        """Take a cell of text."""
        box = f'<textarea rows="3" data-kept="{len(self.parts)}" aria-label="Your explanation"></textarea>'
        html = markdown(text)
        self.parts.append(f'<div class="explain">{html}{box}</div>' if "yours" in tags else html)

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
        picture = f"<noscript>{self._still(made)}</noscript>" if kind == "view" else ""
        self.parts.append(f'<div class="{kind}" data-at="{at}">{picture}</div>')
        self.shown[kind].append(made)

    def _still(self, made: dict[str, Any]) -> str:
        """A figure where its sliders stand at first, for a reader without JavaScript, and what it shows in words."""
        if "scene" in made:
            return f'<div class="scene">{picture(made["scene"], 640, 260)}</div><p>{escape(made["alt"])}</p>'
        state, pieces = made["states"][place_of(made["sliders"])], self.pieces.all
        drawn = "".join([*self.pieces.defs.values(), *(pieces[each] for each in state["still"])])
        # a long one would make the page much longer: its words have to do
        svg = f'<svg viewBox="0 0 {WIDE} {state["height"]}" aria-hidden="true">{drawn}</svg>' * (len(drawn) < 20_000)
        return f'<div class="figure">{svg}</div><p>{escape(made.get("alt") or state["text"])}</p>'

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
            where = notebook_links(self.name)
            self.parts.append(f'<div class="python">This exercise runs your code: take {where}.</div>')
        elif hasattr(value, "_repr_html_"):
            self.parts.append(f'<div class="html">{value._repr_html_()}</div>')
        else:
            self._add_text(repr(value))


def cells_of(path: Path) -> list[Any]:
    """The cells of a notebook, or of a file in the percent format, as those of data/pages."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return own_cells(json.loads(text))
    return [{"cell_type": "markdown" if prose else "code", "metadata": {},
             "source": re.sub("^# ?", "", body, flags=re.MULTILINE) if prose else body}
            for prose, body in _CELL.findall(text)]  # fmt: skip


def told(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """The title of a notebook's cells, which is the first heading, and its question, the first bold one.

    >>> told([{"cell_type": "markdown", "source": "# Waves\\nIt is **loud**. **How many?**"}])
    ['Waves', 'How many?']
    """
    text = "\n\n".join(_CODE.sub("", "".join(each["source"])) for each in cells if each["cell_type"] == "markdown")
    found = (re.search(r"^# (.*)$", text, re.MULTILINE), re.search(r"\*\*([^*]+\?)\*\*", text))
    return [_plain(each[1]) if each else "" for each in found]


def _plain(markdown: str) -> str:
    """Words alone: without tags and marks of emphasis, on one line."""
    return " ".join(re.sub(r"<[^>]+>|[*`]", "", markdown).split())
