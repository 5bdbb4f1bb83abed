"""`guess`: the student commits to an answer before the experiment is uncovered."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from brrr.core.errors import ArgumentError
from brrr_course.lessons.answers import Answer, Choice, Form, Quantity, Ranking
from brrr_course.lessons.course import guesses_beside
from brrr_course.lessons.sharing import send
from brrr_course.view.display import in_notebook, message_html, staged, static

_given: dict[str, Answer] = {}
"""The answers by question, so that *Run All* once more does not lose one, nor a kernel that starts anew."""


def _file() -> Path | None:
    """Where Jupyter says which notebook this is, the file beside it that keeps the answers."""
    notebook = Path(os.environ.get("JPY_SESSION_NAME", ""))
    return guesses_beside(notebook) if notebook.suffix == ".ipynb" and not static() else None


def _remember() -> None:
    """Read the answers of an earlier session, where there are any; a damaged file holds none."""
    if not _given and (file := _file()):
        with suppress(OSError, ValueError, TypeError):
            _given.update(json.loads(file.read_text("utf-8")))


def _keep() -> None:
    if file := _file():
        with suppress(OSError):
            file.touch(0o600)
            file.write_text(json.dumps(_given), "utf-8")


class Guess:
    """A question and the student's answer, if it is given already.

    >>> g = Guess("Without synchronize(), a 4096 matmul seems to take ...", Quantity("s"))
    >>> g
    not answered yet: Without synchronize(), a 4096 matmul seems to take ...
    >>> g.answer("25 µs")
    your guess: 25 µs (Without synchronize(), a 4096 matmul seems to take ...)

    `guess` returns it. Callbacks registered with `on_answer` are called at once if the answer is there already.

    Parameters
    ----------
    question : str
        What is asked.
    form : Quantity, Choice or Ranking
        Which kind of answer it takes.
    """

    def __init__(self, question: str, form: Form) -> None:
        self.question, self.form = question, form
        self.value: Answer | None = None
        self.first = ""
        self._waiting: list[Callable[[Guess], object]] = []
        self._at_once: list[Callable[[Guess], object]] = []

    @property
    def answered(self) -> bool:
        """Whether there is an answer; always True with `BRRR_STATIC=1`, by which notebooks are executed for reading."""
        return self.value is not None or static()

    def answer(self, given: object) -> Guess:
        """Give the answer, or change it: the first one stays on record, and is what the class sees.

        If it does not fit the question, ArgumentError is raised and nothing changes.
        """
        self.value = _given[self.question] = self.form.parse(given)
        self.first = str(_given.setdefault(f"first: {self.question}", self.form.show(self.value)))
        _keep()
        send("guess", self.question, self.first)
        for call in (*self._at_once, *self._waiting):
            call(self)
        return self

    def on_answer(self, call: Callable[[Guess], object], at_once: Callable[[Guess], object] = lambda _: None) -> None:
        """Call ``call(guess)`` whenever an answer is given, and now if one already was.

        Calls may measure for some time: ahead of all of them, ``at_once(guess)`` tells the reader of it.
        """
        self._at_once.append(at_once)
        self._waiting.append(call)
        if self.answered:
            call(self)

    def __repr__(self) -> str:
        if self.value is None:
            return f"not answered yet: {self.question}"
        return f"your guess: {self.form.show(self.value)} ({self.question})"


def guess(
    question: str, *, unit: str | None = None, options: Sequence[str] | None = None,
    ranking: Sequence[str] | None = None, answer: Any = None,
) -> Guess:  # fmt: skip
    """Ask for a guess: a number with a unit, one of several options, or an order of several items.

    >>> guess("How many times slower?", unit="x", answer="3x").value
    Your guess: 3x
    3.0

    In a notebook it shows a form; elsewhere give the answer by `answer=` or by ``g.answer("25 µs")``.

    Parameters
    ----------
    question : str
        What is asked; of a number with ``...`` in its place, which a figure fills in with what was measured.
    unit : str, optional
        For a number: its unit, such as "s", "x" (a factor) or "%".
    options : sequence of str, optional
        For a choice: its options.
    ranking : sequence of str, optional
        For an order: the items. Exactly one of `unit`, `options` and `ranking` is given.
    answer : str, float or list, optional
        The answer, if you give it here; for an order, the items in that order.

    Returns
    -------
    Guess
        `explore`, `timeline` and `drawing` take it as `unlock`, and `compare` holds it against the measurement. Its
        answer is kept beside the notebook: running the cell again shows it again, on later days too, until
        `forget()` or `brrr lab --fresh`.

    Raises
    ------
    ArgumentError
        If not exactly one kind of answer is asked for, or if the answer does not fit it.
    """
    asked = Guess(question, _form(unit, options, ranking))
    _remember()
    if answer is not None:
        asked.answer(answer)
    elif question in _given:
        with suppress(ArgumentError):  # the cell was edited since, and what was kept no longer fits
            asked.answer(_given[question])
    _show(asked)
    return asked


def forget() -> None:
    """Forget the answers to all guesses of this notebook, so that each `guess` asks again.

    >>> forget()
    """
    _given.clear()
    if file := _file():
        file.unlink(missing_ok=True)


def _form(unit: str | None, options: Sequence[str] | None, ranking: Sequence[str] | None) -> Form:
    given = [name for name, value in (("unit", unit), ("options", options), ("ranking", ranking)) if value is not None]
    if len(given) != 1:
        raise ArgumentError("guess", "unit, options, ranking", ", ".join(given) or None, "exactly one of the three")
    if unit is not None:
        return Quantity(unit)
    items = tuple(options or ranking or ())
    if len(items) < 2 or len(set(items)) != len(items):
        raise ArgumentError("guess", given[0], list(items), "two or more different items")
    return Choice(items) if options else Ranking(items)


def _show(asked: Guess) -> None:
    """The form in a notebook; a line of text anywhere else."""
    if staged(asked):
        return
    if in_notebook() and not static():
        from IPython.display import display

        display(form(asked))  # type: ignore[no-untyped-call]
    elif asked.value is not None:
        print(f"Your guess: {asked.form.show(asked.value)}")
    else:
        print(f"{asked.question}\nNot answered yet.")


# ---------------------------------------------------------------------------------------------------------------------
# The form that `guess` shows in a notebook: a text box, radio buttons, or a button for each item of an order.

GIVE, CHANGE = "This is my guess", "Change my guess"
ORDER = "Press them in your order; once more takes one back:"
UNITS = {"s": "a number and its unit, such as 25 µs (or 25 us)", "x": "a factor, such as 3x", "": "a number"}


def form(asked: Guess) -> widgets.VBox:
    """The widget: the question, the field, a button, and a line that says what happened.

    What does not fit is explained in that line and stays in the field, to be mended.
    """
    field, read = _field(asked)
    button = widgets.Button(description=GIVE, button_style="primary", layout={"width": "max-content"})
    status = widgets.HTML()
    question = widgets.HTML(f"<b style='font-size:105%'>{escape(asked.question)}</b>")

    def submit(*_: object) -> None:
        given = read()
        try:
            asked.answer(given)
        except ArgumentError as unfit:
            title = f"You wrote {given}." if given and isinstance(given, str) else "Not answered yet."
            status.value = message_html("wrong", title, [f"Expected {unfit.expected}."])
        else:
            button.focus()  # the field, which may have had it, is disabled now

    def open_to(change: bool) -> None:
        for widget in getattr(field, "children", (field,)):
            widget.disabled = not change
        button.description, button.button_style = (GIVE, "primary") if change else (CHANGE, "")

    def done(answered: Guess) -> None:
        open_to(False)
        assert answered.value is not None
        said = answered.form.show(answered.value)
        first = [f"At first: {answered.first}. Run a comparison again that still shows it."]
        status.value = message_html("open", f"Your guess: {said}", first if answered.first != said else ())

    button.on_click(lambda _: submit() if button.description == GIVE else open_to(True))
    if isinstance(field, widgets.Text):
        field.on_msg(lambda _, content, __: submit() if content.get("event") == "submit" else None)
    asked.on_answer(done)
    return widgets.VBox([question, field, button, status], layout={"max_width": "48em", "margin": "4px 0"})


def _field(asked: Guess) -> tuple[Any, Callable[[], object]]:
    """The input, and a function that reads it."""
    if isinstance(asked.form, Choice):
        radio = widgets.RadioButtons(options=asked.form.options, value=asked.value, layout={"width": "max-content"})
        return radio, lambda: "" if radio.value is None else radio.value
    if isinstance(asked.form, Ranking):
        return _order(asked.form.items, asked.value)
    unit = getattr(asked.form, "unit", "")
    placeholder = UNITS.get(unit, f"a number in {unit}")
    start = "" if asked.value is None else asked.form.show(asked.value)
    text = widgets.Text(value=start, placeholder=placeholder, layout={"width": "24em"})
    return text, lambda: text.value


def _order(items: tuple[str, ...], answer: Any) -> tuple[Any, Callable[[], object]]:
    """A button for each item, to be pressed one after the other; pressed again, an item is taken out of the order."""
    order = list(answer or ())
    buttons = [widgets.Button(tooltip=item, layout={"width": "max-content"}) for item in items]

    def press(pressed: Any = None) -> None:
        if pressed:
            (order.remove if pressed.tooltip in order else order.append)(pressed.tooltip)
        for item, each in zip(items, buttons, strict=True):
            each.description = f"{order.index(item) + 1}. {item}" if item in order else item

    for each in buttons:
        each.on_click(press)
    press()
    return widgets.HBox([widgets.Label(ORDER), *buttons], layout={"flex_flow": "row wrap"}), lambda: order
