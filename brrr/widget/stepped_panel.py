"""The widgets of a drawing: its sliders, its text line and its picture.

This module imports ipywidgets; a `Drawing` loads it when there is something to show.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from brrr.widget.panel_parts import CSS, FULL, Named, html, live_region

if TYPE_CHECKING:
    from brrr.widget.stepped import Dial, Drawing


class Panel:
    """The widgets over a `Drawing`; every change of one ends in `refresh`.

    `failures` keeps what a callback raised without meaning to, for a test to raise again: Jupyter only logs it.
    """

    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        self.failures: list[BaseException] = []
        self.text = html("brrr-text")
        self.image = Named(format="png", layout={**FULL, "object_fit": "contain"})
        self.image.add_class("brrr-figure")
        self.sliders = {dial.name: self._slider(dial) for dial in drawing.dials}
        badge = html("brrr-badge")
        badge.value = f"<span class='brrr-chip'>{escape(drawing.badge)}</span>" if drawing.badge else ""
        badge.layout.display = "block" if drawing.badge else "none"
        style = widgets.HTML(CSS, layout={"display": "none"})
        self.root = widgets.VBox([style, badge, *self.sliders.values(), self.text, self.image])
        self.root.add_class("brrr-explorer")
        self.refresh()

    def _slider(self, dial: Dial) -> Any:
        made = widgets.SelectionSlider(
            options=[(dial.reading(value), value) for value in dial.values], value=self.drawing.settings[dial.name],
            description=dial.title, style={"description_width": "initial"}, layout=dict(FULL),
        )  # fmt: skip
        made.observe(self._guarded(lambda change: self._on_slider(dial.name, change["new"])), "value")
        return made

    def _guarded(self, react: Callable[[Any], object]) -> Callable[[Any], None]:
        """A callback that keeps what it raises and says so in the text line, instead of falling silent."""

        def call(event: Any) -> None:
            try:
                react(event)
            except Exception as error:
                self.failures.append(error)
                self.text.value = live_region(escape(f"{type(error).__name__}: {error}"))

        return call

    def _on_slider(self, name: str, value: Any) -> None:
        self.drawing.move(name, value)
        self.refresh()

    def sweep(self) -> None:
        """Every slider to both ends and back; raises what a callback raised."""
        for slider in self.sliders.values():
            before = slider.value
            for end in (slider.options[0][1], slider.options[-1][1], before):
                slider.value = end
        if self.failures:
            raise self.failures[0]

    def refresh(self) -> None:
        """The picture first, for it is what the eye waits for, then the text line."""
        picture = self.drawing.picture()
        self.image.value, self.image.tooltip = picture.png, picture.alt
        self.text.value = live_region(escape(picture.alt))
