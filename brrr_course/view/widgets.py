"""What panels are built of (their style, sliders, text line and cover), and the panel of a drawing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from html import escape
from typing import Any

import ipywidgets as widgets
from traitlets import Unicode

from brrr.core.measurement import Value
from brrr.drawing import style as plots

CSS = f"""<style>
.brrr-explorer {{ max-width: {plots.WIDTH + 24}px; }}
.brrr-explorer .widget-inline-hbox .widget-label, .brrr-explorer .widget-label {{ color: inherit; }}
.brrr-badge .brrr-chip {{ border: 1px solid currentColor; border-radius: 999px; padding: 1px 10px; font-size: 85%; }}
.brrr-said {{ line-height: 1.5; min-height: 3em; max-width: {plots.WIDTH}px; white-space: normal; font-size: 110%; }}
.brrr-explorer .brrr-long .widget-readout {{ max-width: none; min-width: 27em; }}
.brrr-figure {{ background: {plots.PAPER}; border-radius: 8px; height: auto !important; max-width: 100%;
  overflow: clip !important;
  outline: 1px solid rgba(128, 128, 128, .35); outline-offset: -1px; }}
{plots.dark(".brrr-figure")}
.brrr-explorer .widget-toggle-buttons {{ flex-flow: row nowrap; align-items: center; width: max-content; }}
.brrr-cover {{ border: 1px dashed currentColor; border-radius: 8px; padding: 2.2em 1em; text-align: center;
  opacity: .8; max-width: {plots.WIDTH}px; }}
</style>"""

FULL = {"width": "100%", "max_width": f"{plots.WIDTH}px"}
READING = 18  # letters for which a slider's read-out has room as ipywidgets makes it


class NamedImage(widgets.Image):  # type: ignore[misc]  # ipywidgets is untyped
    """An image whose tooltip is its name for a screen reader (an Image has no alternative text of its own).

    The front end reads `description` to place a tooltip, and an Image without one fails there.
    """

    description = Unicode("").tag(sync=True)


def cover(text: str = "Give your guess above to uncover.") -> Any:
    """What stands in an explorer's place until the guess is given, and while it measures then: no number, no line."""
    return widgets.VBox([widgets.HTML(f"{CSS}<div class='brrr-cover' role='status'>{text}</div>")])


class Panel:
    """Widgets with one text line; every change of one ends in `refresh`.

    `failures` keeps what a callback raised without meaning to, for a test to raise again: Jupyter only logs it;
    `experiment` is what the sliders' axes are of, None for a drawing.
    """

    experiment: Any = None

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.sliders: dict[str, Any] = {}
        self.text = html("brrr-text")
        self._quiet = False

    def refresh(self) -> None:
        """Show what is chosen now."""
        raise NotImplementedError

    def renew(self) -> None:
        """Show what is there now, where more was measured, or another guess given."""

    def lead(self, other: "Panel") -> None:
        """From now on its sliders move the other's along the same axis of one experiment, as near as those can."""
        same = self.experiment is other.experiment is not None
        for name in self.sliders.keys() & other.sliders.keys() if same else ():
            self.sliders[name].observe(self._guarded(partial(other._follow, name)), "value")

    def _follow(self, name: str, change: Any) -> None:
        one, lead, axis = self.sliders[name], change["owner"], self.experiment.axis(name)
        here, there = ([value for _, value in each.options] for each in (one, lead))
        if axis.nearest(one.value, there) != lead.value:  # else it follows this one, and stands as near as it can
            one.value = axis.nearest(lead.value, here)

    def _build(self, *parts: Any) -> None:
        """Put the parts under each other, as `root`."""
        self.root = widgets.VBox([widgets.HTML(CSS, layout={"display": "none"}), *parts])
        self.root.add_class("brrr-explorer")

    def _slider(
        self, title: str, options: Sequence[tuple[str, Value]], value: Value, react: Callable[[Any], object]
    ) -> Any:
        """A slider over named values, a switch between two; `react` takes the new one."""
        same = {"options": options, "value": value, "description": title.split(" (")[0]}
        style = {"description_width": "initial"}
        if len(options) == 2:
            return self._watched(widgets.ToggleButtons(**same, style={**style, "button_width": "max-content"}), react)
        made = widgets.SelectionSlider(**same, tooltip=title, style=style, layout=dict(FULL))
        if max(len(reading) for reading, _ in options) > READING:
            made.add_class("brrr-long")
        return self._watched(made, react)

    def _choice(
        self, title: str, options: Sequence[tuple[str, str]], react: Callable[[Any], object], **more: Any
    ) -> Any:
        """A list to choose from; `react` takes the new choice."""
        made = widgets.Dropdown(options=options, description=title, style={"description_width": "initial"},
                                layout={"width": "max-content"}, **more)  # fmt: skip
        return self._watched(made, react)

    def _watched(self, made: Any, react: Callable[[Any], object]) -> Any:
        """The widget, whose new values `react` takes."""
        made.observe(self._guarded(lambda change: react(change["new"])), "value")
        return made

    def _guarded(self, react: Callable[[Any], object]) -> Callable[[Any], None]:
        """A callback that keeps what it raises and says so in the text line, instead of falling silent."""

        def call(event: Any) -> None:
            if self._quiet:
                return
            try:
                react(event)
            except Exception as error:
                self.failures.append(error)
                self.text.value = live_region(escape(f"{type(error).__name__}: {error}"))

        return call

    @contextmanager
    def _silently(self) -> Iterator[None]:
        """Change widgets without a callback."""
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    def sweep(self) -> None:
        """Every slider to both ends and back; raises what a callback raised."""
        for slider in self.sliders.values():
            before = slider.value
            for end in (slider.options[0][1], slider.options[-1][1], before):
                slider.value = end
        if self.failures:
            raise self.failures[0]


Dials = Sequence[tuple[str, str, Sequence[tuple[str, Value]]]]
"""For each slider its name, its title, and its values with how they read."""


class PicturePanel(Panel):
    """The widgets over a picture drawn anew at each step: sliders change `settings`, then `picture` is asked."""

    def __init__(
        self, dials: Dials, settings: dict[str, Value], badge: str, picture: Callable[[], plots.Picture]
    ) -> None:
        super().__init__()
        self._settings, self._picture = settings, picture
        self.sliders = {name: self._dial(name, title, options) for name, title, options in dials}
        self.image = NamedImage(format="png", layout={**FULL, "object_fit": "contain"})
        self.image.add_class("brrr-figure")
        chip = html("brrr-badge")
        chip.value = f"<span class='brrr-chip'>{escape(badge)}</span>" if badge else ""
        chip.layout.display = "block" if badge else "none"
        self._build(chip, *self.sliders.values(), self.text, self.image)
        self.refresh()

    def _dial(self, name: str, title: str, options: Sequence[tuple[str, Value]]) -> Any:
        def turn(value: Value) -> None:
            self._settings[name] = value
            self.refresh()

        return self._slider(title, options, self._settings[name], turn)

    def refresh(self) -> None:
        """The picture first, for it is what the eye waits for, then the text line."""
        picture = self._picture()
        self.image.value, self.image.tooltip = picture.png, picture.alt
        self.text.value = live_region(escape(picture.alt))


def live_region(html: str) -> str:
    return f"<div class='brrr-said' role='status' aria-live='polite'>{html}</div>"


def html(css_class: str) -> Any:
    made = widgets.HTML("")
    made.add_class(css_class)
    return made


def button(name: str, tooltip: str, style: str = "") -> Any:
    return widgets.Button(description=name, tooltip=tooltip, button_style=style, layout={"width": "max-content"})
