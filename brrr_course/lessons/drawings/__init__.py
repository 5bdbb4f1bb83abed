"""`drawing`: a lesson's drawings with sliders, by their names. What they show is computed, not measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from brrr.core.errors import ArgumentError
from brrr.core.measurement import Value
from brrr_course.lessons import registered
from brrr_course.nouns.source import Source
from brrr_course.sources import source as source_named
from brrr_course.view.display import Lock, Shown, caption_html
from brrr_course.view.figure import Data

if TYPE_CHECKING:
    from brrr.drawing.style import Picture


@dataclass(frozen=True)
class LessonDrawing:
    """A drawing of a module in this folder, found by that: `make` makes its sliders, picture and badge of a source.

    With a `figure` it moves as explorers do: the data of all places, its sliders in the order of those of `make`.
    """

    name: str
    make: Callable[[Source], Made]
    figure: Callable[[Source], Data] | None = None


def drawings() -> dict[str, LessonDrawing]:
    """All drawings by name."""
    return registered(LessonDrawing, "drawings")


def drawing(name: str, /, *, unlock: Lock | None = None, source: Source | str | None = None, **at: Value) -> Drawing:
    """Show one of the lessons' drawings, with its sliders.

    >>> drawing("strassen-flow", step=12).settings["step"]
    12

    Most drawings are calculated, not measured; the badge says which.

    Parameters
    ----------
    name : str
        The drawing.
    unlock : Guess, optional
        The drawing stays covered until this guess is given.
    source : str or Source, optional
        Where the measurements come from, as for `explore`; for drawings that show measurements.
    **at
        Where the sliders start, by name.

    Returns
    -------
    Drawing
        It shows itself in a notebook.

    Raises
    ------
    ArgumentError
        If a drawing, slider or value does not exist.
    """
    there = drawings()
    if name not in there:
        raise ArgumentError("drawing", "name", name, f"one of {', '.join(there)}")
    chosen = source_named(source) if source is None or isinstance(source, str) else source
    dials, draw, badge = there[name].make(chosen)
    figure = there[name].figure
    return Drawing(dials, draw, at, badge=badge, unlock=unlock, figure=figure and partial(figure, chosen))


# ---------------------------------------------------------------------------------------------------------------------
# A drawing with sliders: a picture that is computed, not measured, and drawn anew at each step.

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

Made = tuple[Sequence[Dial], Draw, str]


class Drawing(Shown):
    """A picture over sliders; it shows itself as the last expression of a cell.

    `text` is the line in front of the picture, `settings` where the sliders stand, `panel` all widgets.
    """

    def __init__(
        self, dials: Sequence[Dial], draw: Draw, at: Mapping[str, Value], *, badge: str = "",
        unlock: Lock | None = None, figure: Callable[[], Data] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(unlock)
        self.dials, self.badge, self._figure = tuple(dials), badge, figure
        self._draw = draw
        self._kept: dict[tuple[Value, ...], Picture] = {}
        self.settings: Settings = {dial.name: dial.values[0] if dial.start is None else dial.start for dial in dials}
        for name, value in at.items():
            self.settings[name] = self._dial(name).nearest(value)

    @property
    def figure(self) -> Data | None:
        """What `view/drawn/scene.js` draws, where this drawing is data: it stands where the sliders do."""
        if self._figure is None:
            return None
        made = self._figure()
        for slider, dial in zip(made["sliders"], self.dials, strict=True):
            slider["at"] = dial.values.index(self.settings[dial.name])
        return made

    def everywhere(self) -> Iterator[tuple[str, Picture]]:
        """The text line and the picture at every place of the sliders, the last of which moves first."""
        for values in product(*(dial.values for dial in self.dials)):
            settings = {dial.name: value for dial, value in zip(self.dials, values, strict=True)}
            drawn = self._draw(settings)
            yield f"At {self._place(settings)}: {drawn.alt}", drawn

    def _text(self) -> str:
        """Where the sliders stand, then what the picture shows."""
        return f"At {self._place(self.settings)}: {self._now.alt}"

    def _picture(self) -> Picture:
        return replace(self._now, alt=self.text)

    def _outputs(self) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        yield from super()._outputs()
        if self.badge:
            yield {"text/plain": self.badge, "text/html": caption_html(self.badge)}, {}

    def _make_panel(self) -> Any:
        if figure := self.figure:
            from brrr_course.view.panel import FigurePanel

            return FigurePanel(figure)
        from brrr_course.view.widgets import PicturePanel  # it loads matplotlib

        options = [[(dial.reading(value), value) for value in dial.values] for dial in self.dials]
        dials = [(each.name, each.title, named) for each, named in zip(self.dials, options, strict=True)]
        return PicturePanel(dials, self.settings, self.badge, self.picture)

    def set(self, **values: Value) -> Drawing:
        """Move sliders, each to the value nearest to the one given."""
        for name, value in values.items():
            self.settings[name] = self._dial(name).nearest(value)
            if name in self.sliders:
                self.sliders[name].value = self.settings[name]
        return self

    @property
    def _now(self) -> Picture:
        key = tuple(self.settings.values())
        if key not in self._kept:
            self._kept[key] = self._draw(self.settings)
        return self._kept[key]

    def _place(self, settings: Mapping[str, Value]) -> str:
        return ", ".join(f"{dial.title} {dial.reading(settings[dial.name])}" for dial in self.dials)

    def _dial(self, name: str) -> Dial:
        found = next((dial for dial in self.dials if dial.name == name), None)
        if found is None:
            names = ", ".join(dial.name for dial in self.dials)
            raise ArgumentError("drawing", "name", name, f"one of the sliders {names}")
        return found
