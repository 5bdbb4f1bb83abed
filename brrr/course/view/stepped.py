"""A drawing with sliders: a picture that is computed, not measured, and drawn anew at each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from brrr.core.errors import ArgumentError
from brrr.core.values import Value
from brrr.course.view import explorer
from brrr.course.view.display import COVERED, Covered, Lock, static
from brrr.course.view.panel import CSS, FULL, Named, html, live_region

if TYPE_CHECKING:
    from brrr.drawing.style import Picture

Settings = dict[str, Value]


@dataclass(frozen=True)
class Dial:
    """One slider of a drawing: its name, its title, its values, how each reads, and where it starts.

    >>> Dial("level", "levels", (0, 1, 2)).reading(2)
    '2'
    """

    name: str
    title: str
    values: tuple[Value, ...]
    readings: tuple[str, ...] = ()
    start: Value | None = None

    def reading(self, value: Value) -> str:
        """A value as the slider shows it."""
        from brrr.drawing.style import readable

        return self.readings[self.values.index(value)] if self.readings else readable(value)

    def nearest(self, value: Value) -> Value:
        """The dial's value closest to this one; ArgumentError for a word that it does not have."""
        if value in self.values:
            return value
        if isinstance(value, str) or any(isinstance(each, str) for each in self.values):
            raise ArgumentError("drawing", self.name, value, f"one of {', '.join(map(str, self.values))}")
        return min(self.values, key=lambda each: abs(float(each) - float(value)))


Draw = Callable[[Mapping[str, Value]], "Picture"]
"""From where the sliders stand to the picture; its `alt` is the text line, what stands behind a blank line left out."""


class Drawing(Covered):
    """A picture over sliders; it shows itself as the last expression of a cell.

    `text` is the line in front of the picture, `settings` where the sliders stand, `panel` all widgets.
    """

    def __init__(
        self, dials: Sequence[Dial], draw: Draw, at: Mapping[str, Value], *, badge: str = "", unlock: Lock | None = None
    ) -> None:
        super().__init__(unlock)
        self.dials, self.badge = tuple(dials), badge
        self._draw = draw
        self._kept: dict[tuple[Value, ...], Picture] = {}
        self.settings: Settings = {dial.name: dial.values[0] if dial.start is None else dial.start for dial in dials}
        for name, value in at.items():
            self.settings[name] = self._dial(name).nearest(value)
        explorer.sweepable.add(self)  # looked up now: a notebook's test puts a set of its own there

    @property
    def text(self) -> str:
        """The text line: where the sliders stand, then what the picture shows; while covered, only the request."""
        return COVERED if self.covered else f"At {self._place}: {self._now.alt}"

    @property
    def sliders(self) -> dict[str, Any]:
        """The sliders by name."""
        return dict(self.panel.sliders)

    @property
    def panel(self) -> Any:
        """The widgets, made when first asked for."""
        if self._panel is None:
            self._panel = DrawingPanel(self)
        return self._panel

    def move(self, name: str, value: Value) -> None:
        """Take over where a slider stands."""
        self.settings[name] = value

    def set(self, **values: Value) -> Drawing:
        """Move sliders, each to the value nearest to the one given."""
        for name, value in values.items():
            dial = self._dial(name)
            self.sliders[name].value = dial.nearest(value)
        return self

    def sweep(self) -> None:
        """Move every slider to both ends and back, and raise what a callback raised."""
        self.panel.sweep()

    def picture(self) -> Picture:
        """The picture with its alternative text; ArgumentError while covered."""
        from brrr.drawing.style import Picture

        if self.covered:
            raise ArgumentError("Drawing.picture", "unlock", "unanswered guess", "an answered one")
        return Picture(self._now.png, self.text, self._now.width)

    @property
    def _now(self) -> Picture:
        key = tuple(self.settings.values())
        if key not in self._kept:
            self._kept[key] = self._draw(self.settings)
        return self._kept[key]

    @property
    def _place(self) -> str:
        return ", ".join(f"{dial.title} {dial.reading(self.settings[dial.name])}" for dial in self.dials)

    def _dial(self, name: str) -> Dial:
        found = next((dial for dial in self.dials if dial.name == name), None)
        if found is None:
            names = ", ".join(dial.name for dial in self.dials)
            raise ArgumentError("drawing", "name", name, f"one of the sliders {names}")
        return found

    def __repr__(self) -> str:
        return self.text

    def _ipython_display_(self) -> None:
        if static():
            explorer._display({"text/plain": self.text, "text/markdown": self.text})
            if not self.covered:
                explorer._display(*self.picture()._repr_mimebundle_())
        else:
            explorer._display({**dict(self._shown()._repr_mimebundle_()), "text/plain": self.text})


# ---------------------------------------------------------------------------------------------------------------------
# The widgets of a drawing: its sliders, its text line and its picture.


class DrawingPanel:
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
