"""What `compare` returns: a sentence with its table, which in a notebook fills itself in once the guess is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ipywidgets as widgets

from brrr_course.lessons.answers import Answer
from brrr_course.lessons.guessing import Guess
from brrr_course.view.display import (
    MEASURING,
    folded_html,
    in_notebook,
    message_html,
    publish,
    side_by_side_html,
    table_html,
    table_text,
)

INTERVAL = re.compile(r" \([^()]* to [^()]*\)$")


@dataclass(frozen=True)
class Comparison:
    """A sentence and the table behind it, with a badge that says where the numbers come from.

    >>> Comparison("One is larger.", ("name", "value"), (("a", "1"), ("b", "2")), "MADE UP")
    One is larger.
    name  value
    a     1
    b     2
    MADE UP

    `compare` and the course's tables return it.

    Attributes
    ----------
    text : str
        The sentence. It comes first, for screen readers and for tests.
    header : tuple of str
        The columns' titles.
    rows : tuple of tuple of str
        The table's cells.
    badge : str
        Where the numbers come from.
    groups : tuple
        Titles over several columns, each with its number of columns.
    shades : mapping
        Background colours, by row and column.
    beside : tuple of Comparison
        Other tables that stand beside it.
    measured : float, str or tuple of str, optional
        What a guess is held against.
    """

    text: str = ""
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    badge: str = ""
    groups: tuple[tuple[str, int], ...] = ()
    shades: Mapping[tuple[int, int], str] = field(default_factory=dict)
    beside: tuple[Comparison, ...] = ()
    measured: Answer | None = None

    def __repr__(self) -> str:
        table = table_text(self.header, self.rows, self.badge, self.groups) if self.rows else ""
        return "\n".join(filter(None, [self.text, table, *(f"\n{each}" for each in self.beside)]))

    def _repr_html_(self) -> str:
        text = message_html("open", self.text) if self.text else ""
        if self.rows:
            rows = [[INTERVAL.sub("", cell) for cell in row] for row in self.rows]
            text += table_html(self.header, rows, self.badge, self.groups, self.shades)
            if any(INTERVAL.search(cell) for row in self.rows for cell in row):
                text += folded_html("With intervals", table_html(self.header, self.rows))
        return side_by_side_html([text, *(each._repr_html_() for each in self.beside)]) if self.beside else text


UNANSWERED = "Not answered yet: give your guess above, then run this cell again."

# ---------------------------------------------------------------------------------------------------------------------
# A comparison without a guess, and the call that is made once the guess is given.

REQUEST = "Not answered yet: give your guess above."

_last_run: dict[str, str] = {}
"""The last run of each cell that shows a place: only that run fills its place, for the earlier ones are not seen."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Waiting(Comparison):
    """A place in a notebook's cell that holds the request for a guess, then the comparison or what it raised."""

    guess: Guess
    compared: Callable[[], Comparison]

    def _ipython_display_(self) -> None:
        if not in_notebook():
            print(self)
            return
        place = widgets.Output()
        _show(place, REQUEST, message_html("open", REQUEST))
        cell, run = _cell_and_run()
        _last_run[cell] = run
        publish({**place._repr_mimebundle_(), "text/plain": self.text})

        def in_last_run(show: Callable[..., None], *given: Any) -> Callable[[Guess], None]:
            return lambda _: show(*given) if _last_run[cell] == run else None

        measuring = in_last_run(_show, place, MEASURING, message_html("open", MEASURING))
        self.guess.on_answer(in_last_run(self._fill, place), measuring)

    def _fill(self, place: Any) -> None:
        try:
            found = self.compared()
        except Exception as error:  # what an event's callback raises is only logged
            name, told = type(error).__name__, str(error)
            _show(place, f"{name}: {told}", message_html("wrong", name, [told]))
        else:
            _show(place, repr(found), found._repr_html_())


def _show(place: Any, text: str, html: str) -> None:
    """Put one output into the place: set as the widget's state, it goes there from an event's callback too."""
    place.outputs = ({"output_type": "display_data", "data": {"text/plain": text, "text/html": html}, "metadata": {}},)


def _cell_and_run() -> tuple[str, str]:
    """Which cell runs, and which of its runs this is; each run its own cell where the front end names no cells."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    request = shell.get_parent()
    run = request["header"]["msg_id"]
    return request.get("metadata", {}).get("cellId", run), run
