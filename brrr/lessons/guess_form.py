"""The form that `guess` shows in a notebook: a text box, radio buttons, or one drop-down list for each place."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as widgets

from brrr.errors import ArgumentError
from brrr.lessons.answers import Choice, Ranking
from brrr.lessons.display import message_html
from brrr.lessons.guessing import Guess

UNITS = {"s": "a number and its unit, as 25 µs (or 25 us)", "x": "a factor, as 3x", "": "a number"}


def form(asked: Guess) -> widgets.VBox:
    """The widget: the question, the field, a button, and a line that says what happened.

    What does not fit is explained in that line and stays in the field, to be mended.
    """
    field, read = _field(asked)
    button = widgets.Button(description="This is my guess", button_style="primary", layout={"width": "max-content"})
    status = widgets.HTML()
    question = widgets.HTML(f"<b style='font-size:105%'>{escape(asked.question)}</b>")

    def submit(*_: object) -> None:
        try:
            asked.answer(read())
        except ArgumentError as unfit:
            status.value = message_html("wrong", "Nearly.", [f"Expected {unfit.expected}."])

    def done(answered: Guess) -> None:
        _disable(field)
        button.layout.display = "none"
        assert answered.value is not None
        status.value = message_html("open", f"Your guess: {answered.form.show(answered.value)}")

    button.on_click(submit)
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
        return _places(asked.form.items, asked.value)
    unit = getattr(asked.form, "unit", "")
    placeholder = UNITS.get(unit, f"a number in {unit}")
    start = "" if asked.value is None else asked.form.show(asked.value)
    text = widgets.Text(value=start, placeholder=placeholder, layout={"width": "24em"})
    return text, lambda: text.value


def _places(items: tuple[str, ...], answer: Any) -> tuple[Any, Callable[[], object]]:
    """One drop-down list for each place; a chosen item may be changed until the button is pressed."""
    blank = "choose ..."
    lists = []
    for place in range(len(items)):
        value = answer[place] if answer else blank
        name = f"place {place + 1}"
        lists.append(widgets.Dropdown(options=[blank, *items], value=value, description=name, layout={"width": "24em"}))
    return widgets.VBox(lists), lambda: [choice.value for choice in lists if choice.value != blank]


def _disable(field: Any) -> None:
    for widget in getattr(field, "children", (field,)):
        widget.disabled = True
