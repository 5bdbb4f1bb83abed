"""The widgets of `timeline`: variants to choose from, a slider, the text line, the picture, and the button to trace.

This module imports ipywidgets; `brrr.timeline` loads it when there is something to show.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as widgets

from brrr.core.values import Value
from brrr.course.view.panel import CSS, FULL, Named, button, html, live_region
from brrr.course.view.timeline_reel import Reel
from brrr.drawing import style as plots


class Panel:
    """The widgets over a `Reel`; every change of one ends in `refresh`.

    `failures` keeps what a callback raised without meaning to, for a test to raise again: Jupyter only logs it.
    """

    def __init__(self, reel: Reel) -> None:
        self.reel = reel
        self.failures: list[BaseException] = []
        self._quiet = False
        self.badge, self.text = html("brrr-badge"), html("brrr-text")
        self.image = Named(format="png", layout={**FULL, "object_fit": "contain"})
        self.image.add_class("brrr-figure")
        self.variants = self._make_variants()
        self.slider = self._make_slider()
        self.trace = button("Trace this point", "run this point under the profiler, and draw what happened", "primary")
        self.trace.on_click(self._guarded(lambda _: self._trace()))
        style = widgets.HTML(CSS, layout={"display": "none"})
        parts = [style, self.badge, self.variants, self.slider, self.text, self.image, self.trace]
        self.root = widgets.VBox(parts)
        self.root.add_class("brrr-explorer")
        self.refresh()

    def _make_variants(self) -> Any:
        label = self.reel.experiment.variant
        made = widgets.Dropdown(
            options=[(label(name).label, name) for name in self.reel.variants], description="variant",
            style={"description_width": "initial"}, layout={"width": "max-content"},
        )  # fmt: skip
        made.layout.display = "flex" if len(self.reel.variants) > 1 else "none"
        made.observe(self._guarded(lambda change: self._on_variant(change["new"])), "value")
        return made

    def _make_slider(self) -> Any:
        title = self.reel.axis.title if self.reel.axis else ""
        made = widgets.SelectionSlider(
            options=self._options(), description=title.split(" (")[0], tooltip=title,
            style={"description_width": "initial"}, layout=dict(FULL),
        )  # fmt: skip
        made.value = self._value
        made.observe(self._guarded(lambda change: self._on_value(change["new"])), "value")
        return made

    def _options(self) -> list[tuple[str, Value]]:
        return [(plots.readable(value), value) for value in self._values]

    @property
    def _values(self) -> list[Value]:
        """What the slider can take; one empty text where nothing varies, since a slider must take something."""
        values = self.reel.values if self.reel.variants else ()
        return [value for value in values if value is not None] or [""]

    @property
    def _value(self) -> Value:
        return "" if self.reel.value is None else self.reel.value

    # -- reacting --------------------------------------------------------------------------------------------------

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

    def _on_variant(self, variant: str) -> None:
        self.reel.choose(variant)
        self._quiet = True
        try:
            self.slider.options = self._options()
            self.slider.value = self._value
        finally:
            self._quiet = False
        self.refresh()

    def _on_value(self, value: Value) -> None:
        if self.reel.axis is not None:
            self.reel.move(value)
        self.refresh()

    def _trace(self) -> None:
        self.trace.disabled = True
        try:
            self.reel.trace()
        finally:
            self.trace.disabled = False
        self.refresh()

    def go(self, value: Value) -> None:
        """Move the slider to the value nearest to this one."""
        self.reel.move(value)
        self.slider.value = self._value
        self.refresh()

    def sweep(self) -> None:
        """Show every variant at both ends of its slider, and what was shown before; raise what a callback raised."""
        before = (self.variants.value, self.slider.value)
        for variant in self.reel.variants:
            self.variants.value = variant
            for value in (self._values[0], self._values[-1]):
                self.slider.value = value
        if self.reel.variants:
            self.variants.value, self.slider.value = before
        if self.failures:
            raise self.failures[0]

    def refresh(self) -> None:
        """The picture first, for it is what the eye waits for, then the text line, the badge and the button."""
        png, found = self.reel.png(), self.reel.timeline
        if png:
            self.image.value, self.image.tooltip = png, self.reel.alt
        self.image.layout.display = "block" if png else "none"
        self.text.value = live_region(escape(self.reel.text))
        badge = found.badge if found else self.reel.badge
        self.badge.value = f"<span class='brrr-chip'>{escape(str(badge))}</span>" if badge else ""
        self.slider.layout.display = "flex" if self.reel.axis else "none"
        live = self.reel.source.live and bool(self.reel.variants)
        self.trace.layout.display = "block" if live and found is None else "none"
